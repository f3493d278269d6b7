# SPDX-License-Identifier: Apache-2.0
"""The federated experiment at its smallest: a real fleet over Zenoh, beside one training, and the picture of it."""
import pytest

from experiments.federated import COLORS, Course, Federated, Ground, central, fleet, means, rows, shipped


@pytest.mark.extended
def test_a_fleet_of_six_trains_over_zenoh_and_is_examined_as_others_are():
    course = Course(robots=6, rooms=1, clips=2, rounds=2, steps=1, batch=1, held=1, way=2)
    ground = Ground.of(course, lambda text: None)
    assert [len(clips.images) for clips in ground.clips] == 6 * [2]
    start = ground.examined(shipped())
    assert len(start["robots"]) == 6 and start["f1"] == ground.examined(shipped())["f1"]
    whole = central(course, ground)
    learned = fleet(course, ground, "FedAdam", {"eta": 0.001}, guard="FedMedian", every=1)
    assert whole["steps"] == learned["steps"] == 9
    assert [one["round"] for one in learned["rounds"]] == [1, 2]
    assert (learned["guard"], learned["liar"], learned["robot"]) == ("FedMedian", "nobody", None)
    without = fleet(course, ground, "FedAdam", {"eta": 0.001}, liar="away", robot=2, every=1)
    assert without["robot"] == 3 and all(3 in one["missing"] for one in without["rounds"])
    lied = fleet(course, ground, "FedAdam", {"eta": 0.001}, liar="scaled", robot=2, every=1)
    assert lied["robot"] == 3 and not any(3 in one["missing"] for one in lied["rounds"]) and lied["f1"] != learned["f1"]


def test_each_robot_lies_once_in_four_seeds():
    assert [Course(seed=seed).singled() for seed in range(11, 15)] == [[3, 7], [0, 4], [1, 5], [2, 6]]
    assert sorted(robot for seed in range(4) for robot in Course(seed=seed).singled()) == list(range(8))
    assert Course(robots=1).singled() == [0] and Course(robots=3, seed=5).singled() == [0, 1]


def test_thirty_percent_are_missing():
    course = Course()
    away = [course.missing(number) for number in range(100)]
    assert {len(one) for one in away} == {2, 3} and sum(map(len, away)) == 240
    assert {robot for one in away for robot in one} == set(range(8)) and away == [course.missing(k) for k in range(100)]


def run(seed, f1, guarded):
    def examined(f1):
        return {"f1": f1, "robots": [f1, f1], "steps": 3}

    return {"course": {"robots": 2, "seed": seed}, "start": examined(0.5), "central": examined(0.7),
            "best_alone": {**examined(0.6), "robot": 2},
            "fleet": {**examined(f1), "rounds": [{**examined(0.7), "round": 1}]},
            "strategies": rows([{"liar": liar, "strategy": "FedAdam", "guard": guard, "robot": robot,
                                 "f1": f1 if liar == "nobody" else guarded + 0.01 * robot if guard == "Krum" else 0.1}
                                for liar in COLORS for guard in ("Krum", "none")
                                for robot in ([None] if liar == "nobody" else [1, 2])])}


def test_runs_of_several_seeds_are_means_and_what_is_claimed_is_of_the_means():
    found = means([run(2, 0.8, 0.7), run(3, 0.6, 0.68)])
    assert found["seeds"] == [2, 3] and found["fleet"] == {
        "steps": 3, "f1": pytest.approx(0.7), "robots": pytest.approx([0.7, 0.7])}
    assert found["strategies"][0] == {
        "liar": "nobody", "strategy": "FedAdam", "guard": "Krum", "f1": pytest.approx(0.7), "lost": 0.0,
        "lost_least": 0.0, "lost_most": 0.0, "lost_by_robot": {"0": 0.0}}
    assert found["strategies"][-2] == {
        "liar": "scaled", "strategy": "FedAdam", "guard": "Krum", "f1": pytest.approx(0.705),
        "lost": pytest.approx(-0.005), "lost_least": pytest.approx(-0.1), "lost_most": pytest.approx(0.09),
        "lost_by_robot": {"1": pytest.approx(0.0), "2": pytest.approx(-0.01)}}
    assert found["within"] == {"central": True, "best alone": True, "flipped": True, "scaled": True}
    worse = means([run(2, 0.59, 0.5)])
    assert worse["within"] == {"central": False, "best alone": False, "flipped": False, "scaled": False}


def test_what_came_out_is_drawn(tmp_path):
    found = means([run(2, 0.8, 0.6)])
    Federated().draw(tmp_path / "federated.png", found)
    header = (tmp_path / "federated.png").read_bytes()[:24]
    assert header.startswith(b"\x89PNG") and int.from_bytes(header[16:20], "big") > 700
