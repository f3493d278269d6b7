# SPDX-License-Identifier: Apache-2.0
"""The experiment of hard clips at its smallest: a robot drives in an odd room, and each training is examined alike."""
from dataclasses import replace

import numpy as np
import pytest

from brain_training.incremental.chooser import Chosen
from experiments.incremental import (ARMS, QUICK, Driven, Picture, Plan, at_random, of_windows, one_seed,
                                     summary)


@pytest.mark.extended
def test_a_robot_drives_and_all_trainings_are_examined_in_the_same_rooms():
    found = one_seed(replace(Plan(seed=10), **QUICK))
    assert found["arms"].keys() == {"start", *ARMS}
    assert {len(arm["odd"]) for arm in found["arms"].values()} == {1}
    assert {len(arm["plain"]) for arm in found["arms"].values()} == {2}
    about = found["about"]
    assert about["clips"] == sum(about["by_rule"].values()) > 0 and about["driven"] > 1.0
    assert 0 < about["pictures"]["random"] <= 6 * about["clips"]


def test_random_windows_are_as_many_and_as_long():
    pictures = [Picture(0.05 * k, 0, (0.0, 0.0, 0.0), np.zeros(1)) for k in range(400)]
    driven = Driven(pictures, [], [], 0)
    chosen = [Chosen("unsure", 1.0, 2.0, 0.5), Chosen("wrong", 3.0, 5.0, 1.0)] * 20
    found = at_random(driven, chosen, np.random.default_rng(0))
    assert [end - begin for begin, end in found] == pytest.approx([1.0, 2.0] * 20)
    assert np.ptp([begin for begin, _ in found]) > 10.0
    assert [round(one.at, 2) for one in of_windows(driven, [(1.0, 2.0)], 3)] == [1.15, 1.5, 1.85]
    assert [round(one.at, 2) for one in of_windows(driven, [(1.0, 2.0)], 1)] == [1.5]
    assert of_windows(driven, [(50.0, 60.0)], 3) == []


def test_what_came_out_is_put_beside_random():
    def arm(right):
        return {"odd": [[right, 1, 10 - right]] * 3, "plain": [[9, 1, 1]] * 2}

    seeds = [{"arms": {name: arm(right) for name, right in zip(("start", *ARMS), (2, 6, 4, 8, 5, 5, 6))}}] * 2
    rows = summary(seeds)
    assert rows["rules"]["odd_gain"]["low"] > 0.0 > rows["start"]["odd_gain"]["high"]
    none = {"gain": 0.0, "low": 0.0, "high": 0.0}
    assert rows["random, one of each"]["odd_gain"] == rows["random"]["odd_gain"] == none
    assert len(rows["all"]["odd_seeds"]) == 2
