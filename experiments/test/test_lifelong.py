# SPDX-License-Identifier: Apache-2.0
"""The lifelong experiment at its smallest: all learners, the library's own allocation, and the picture of it."""
import numpy as np
import pytest
import torch

from brain_training.lifelong.learners import Steps
from experiments.lifelong import (LEARNERS, NAMES, OTHERS, SITES, Course, Lifelong, ground, run, seen_windows,
                                  summary)


@pytest.fixture(autouse=True)
def one_thread():
    """As the experiment has it: two that wait for each other on a busy machine take minutes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.extended
def test_two_sites_are_learned_by_all_and_examined_as_they_should_be(tmp_path):
    course = Course(how=Steps(steps=2, batch=2, samples=2), rooms=5, threshold=1, report=2, sites=2, seed=3)
    one = run(course)
    assert set(one["learners"]) == set(LEARNERS) == set(NAMES)
    for found in one["learners"].values():
        assert [len(row) for row in found["matrix"]] == [1, 2]
        assert found["backward"] == pytest.approx(found["matrix"][1][0] - found["matrix"][0][0])
    firsts = {kind: found["matrix"][0] for kind, found in one["learners"].items()}
    assert firsts["naive"] == firsts["ewc"] == firsts["replay"]     # they differ from the second site on
    assert firsts["library"] == firsts["told"]                      # with one task there is nothing to choose
    assert [row["site"] for row in one["allocation"]] == [*list(SITES)[:2], *OTHERS]
    assert all(row["right"] + row["other"] + row["unknown"] == row["windows"] == 2 for row in one["allocation"])
    both = summary(course, [one, one])
    assert [row["windows"] for row in both["allocation"]] == [4] * 5 and both["sites"] == list(SITES)[:2]
    naive = both["learners"][0]
    assert naive["forgetting"] == pytest.approx(one["learners"]["naive"]["forgetting"]) and naive["learner"] == "naive"
    Lifelong().draw(tmp_path / "lifelong.png", both)
    header = (tmp_path / "lifelong.png").read_bytes()[:24]
    assert header.startswith(b"\x89PNG") and int.from_bytes(header[16:20], "big") > 1000


def test_pictures_are_those_of_the_seed_and_rooms_to_learn_in_are_no_others():
    course = Course(rooms=1, threshold=1, report=1, sites=1)
    (first, strange), (again, _), (other, _) = (ground(Course(**{**vars(course), "seed": seed})) for seed in (0, 0, 1))
    one, same, another = (places["office"] for places in (first, again, other))
    assert np.array_equal(one.train.images, same.train.images)
    assert not np.array_equal(one.train.images, another.train.images)
    assert len(one.train.images) == len(one.report.images) == 8 and one.report.images.shape[1] == 2
    assert not np.array_equal(one.threshold.images, one.report.images)
    assert all(len(seen) == 1 for seen in (*strange.values(), seen_windows(one.train)))
    # as far apart as four can be
    assert sorted(look.hue % 1.0 for look in SITES.values()) == [0.0, 0.25, 0.5, 0.75]
