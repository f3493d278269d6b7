# SPDX-License-Identifier: Apache-2.0
"""The federated experiment at its smallest: a real fleet over Zenoh, beside one training, and the picture of it."""
import pytest

from brain_bench.bench_federated import lines
from brain_bench.federated_picture import COLORS, draw
from brain_bench.federated_course import Course, Ground, central, fleet, shipped


@pytest.mark.slow
def test_a_fleet_of_four_trains_over_zenoh_and_is_examined_as_others_are():
    course = Course(robots=4, rooms=1, clips=2, rounds=2, steps=1, batch=1, held=1, way=2)
    ground = Ground.of(course, lambda text: None)
    assert [len(clips.images) for clips in ground.clips] == [2, 2, 2, 2]
    start = ground.examined(shipped())
    assert len(start["robots"]) == 4 and start["f1"] == ground.examined(shipped())["f1"]
    whole = central(course, ground)
    together = fleet(course, ground, "FedMedian", {}, every=1)
    assert whole["steps"] == together["steps"] == 6
    assert [one["round"] for one in together["rounds"]] == [1, 2] and together["liar"] == "nobody"


def test_thirty_percent_are_missing():
    course = Course()
    away = [course.missing(number) for number in range(100)]
    assert {len(one) for one in away} == {2, 3} and sum(map(len, away)) == 240
    assert {robot for one in away for robot in one} == set(range(8)) and away == [course.missing(k) for k in range(100)]


def test_what_came_out_is_drawn_and_told(tmp_path):
    def examined(f1):
        return {"f1": f1, "robots": [f1, f1], "steps": 3}

    found = {"course": {"robots": 2}, "start": examined(0.5), "central": examined(0.7), "best_alone": {
        **examined(0.6), "robot": 2}, "fleet": {**examined(0.8), "rounds": [{**examined(0.7), "round": 1}]},
        "strategies": [{"liar": liar, "strategy": "Krum", "f1": 0.5} for liar in COLORS]}
    draw(tmp_path / "federated.png", found)
    header = (tmp_path / "federated.png").read_bytes()[:24]
    assert header.startswith(b"\x89PNG") and int.from_bytes(header[16:20], "big") > 700
    told = lines(found)
    assert "best robot alone, robot 2: 0.600 (by robot 0.60, 0.60)" in told
    assert told[-1] == "liar of 2: scaled, Krum: 0.500"
