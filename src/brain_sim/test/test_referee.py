# SPDX-License-Identifier: Apache-2.0
"""The referee, by driving the simulated robot into every outcome."""

import dataclasses
import math

import pytest

from brain_sim import robot
from brain_sim.controls import POLICIES, run_control, summary
from brain_sim.physics import Simulation
from brain_sim.referee import NOT_FOUND, NOT_UNDERSTOOD, Referee
from brain_sim.room import generate_room
from brain_sim.suite import Episode, episodes
from brain_sim.things import RoomObject

RED_BALL, BLUE_BOX = ("red", "ball"), ("blue", "box")


def thing(kind, x, y, index=0) -> RoomObject:
    color, shape = kind
    return RoomObject(f"object_{index}_{color}_{shape}", color, shape, x, y, 0.0, 0.2, 0.4, (0.5, 0.5, 0.5))


def stage(kind="go", objects=(), target=RED_BALL, avoid=None, start=(0.0, 0.0, 0.0), stop_text=""):
    room = dataclasses.replace(generate_room("val", 1), size=(8.0, 8.0), obstacles=(), objects=tuple(objects),
                               start=start, target=target, avoid=avoid, shortest=1.0)
    episode = Episode("t", "val", 1, kind, "go to the red ball", "en", target, avoid, "front", stop_text, 1.0)
    referee = Referee(episode, room)
    sim = Simulation(room, observer=referee.observe)
    referee.said("go to the red ball", 0.0)
    return referee, sim


def drive(sim, referee, v, w, seconds):
    end = sim.time + seconds
    while sim.time < end - 1e-9 and referee.verdict is None:
        sim.command(v, w)
        sim.advance(0.02)


def drive_to(sim, referee, x):
    while sim.x < x and referee.verdict is None:
        drive(sim, referee, 0.4, 0.0, 0.02)


def test_stopping_at_the_target_succeeds_after_one_second():
    referee, sim = stage(objects=[thing(RED_BALL, 2.0, 0.0)])
    drive_to(sim, referee, 1.2)
    drive(sim, referee, 0.0, 0.0, 0.9)
    assert referee.verdict is None
    drive(sim, referee, 0.0, 0.0, 1.0)
    v = referee.verdict
    assert v.outcome == "success" and v.success and v.object == "object_0_red_ball"
    assert v.path == pytest.approx(sim.x, abs=0.01) and v.spl == pytest.approx(1.0 / v.path, abs=0.01)


def test_stopping_out_of_reach_is_nothing():
    referee, sim = stage(objects=[thing(RED_BALL, 2.0, 0.0)])
    # Front at 1.28 m: 0.52 m from the surface at 1.8 m.
    drive_to(sim, referee, 1.01)
    drive(sim, referee, 0.0, 0.0, 3.0)
    assert sim.x + robot.BASE_RADIUS < 1.3 and referee.verdict is None


def test_front_counts_and_not_the_rear():
    referee, sim = stage(objects=[thing(RED_BALL, 2.0, 0.0)], start=(1.3, 0.0, math.pi))
    drive(sim, referee, 0.0, 0.0, 3.0)
    assert referee.verdict is None
    drive(sim, referee, 0.0, 1.2, math.pi / 1.2)
    drive(sim, referee, 0.0, 0.0, 2.0)
    assert referee.verdict.success


def test_another_object_is_the_wrong_one():
    referee, sim = stage(objects=[thing(RED_BALL, 3.0, 2.0), thing(("red", "box"), 2.0, 0.0, 1)])
    drive_to(sim, referee, 1.3)
    drive(sim, referee, 0.0, 0.0, 2.0)
    assert referee.verdict.outcome == "wrong_object" and "red_box" in referee.verdict.object


def test_slow_turning_is_no_standstill():
    referee, sim = stage(objects=[thing(RED_BALL, 2.0, 0.0)], start=(1.3, 0.0, 0.0))
    drive(sim, referee, 0.0, 0.1, 3.0)
    assert referee.verdict is None
    drive(sim, referee, 0.0, -0.1, 1.0)
    drive(sim, referee, 0.0, 0.0, 2.0)
    assert referee.verdict.success


def test_contact_ends_it():
    referee, sim = stage(objects=[thing(RED_BALL, 1.0, 0.0)])
    drive(sim, referee, 0.4, 0.0, 5.0)
    assert referee.verdict.outcome == "contact" and referee.verdict.object == "object_0_red_ball"
    referee, sim = stage(objects=[], start=(3.0, 0.0, 0.0))
    drive(sim, referee, 0.4, 0.0, 5.0)
    assert referee.verdict.outcome == "contact" and referee.verdict.object == "wall_east"


def test_time_is_up_after_a_minute():
    referee, sim = stage(objects=[thing(RED_BALL, 3.0, 3.0)])
    drive(sim, referee, 0.0, 0.0, 61.0)
    assert referee.verdict.outcome == "timeout" and referee.verdict.time == pytest.approx(60.0, abs=0.01)


@pytest.mark.parametrize("side, violated", [(0.90, False), (0.74, True)])
def test_avoided_object_keeps_its_distance(side, violated):
    # Edge to surface when passing: side - 0.2 - 0.18.
    referee, sim = stage("avoid", [thing(RED_BALL, 2.5, 0.0), thing(BLUE_BOX, 1.0, side, 1)], avoid=BLUE_BOX)
    drive_to(sim, referee, 1.75)
    drive(sim, referee, 0.0, 0.0, 2.0)
    v = referee.verdict
    assert v.outcome == ("avoid_violated" if violated else "success")
    if not violated:
        assert v.nearest_avoid == pytest.approx(side - 0.38, abs=0.01)


def test_stop_in_time_and_for_long_enough():
    referee, sim = stage("stop", [thing(RED_BALL, 3.5, 0.0)], stop_text="stop")
    drive(sim, referee, 0.5, 0.0, 2.0)
    referee.said("stop", sim.time)
    told = sim.time
    drive(sim, referee, 0.0, 0.0, 10.0)
    assert referee.verdict.success and sim.time - told == pytest.approx(6.0, abs=0.05)


def test_stop_too_late():
    referee, sim = stage("stop", [thing(RED_BALL, 3.5, 0.0)], stop_text="stop")
    drive(sim, referee, 0.4, 0.0, 2.0)
    referee.said("stop", sim.time)
    drive(sim, referee, 0.4, 0.0, 0.9)
    drive(sim, referee, 0.0, 0.0, 5.0)
    assert referee.verdict.outcome == "not_stopped" and "did not stand" in referee.verdict.reason


def test_moving_on_after_a_stop():
    referee, sim = stage("stop", [thing(RED_BALL, 3.5, 0.0)], stop_text="stop")
    drive(sim, referee, 0.4, 0.0, 1.0)
    referee.said("stop", sim.time)
    drive(sim, referee, 0.0, 0.0, 3.0)
    drive(sim, referee, 0.3, 0.0, 1.0)
    assert referee.verdict.outcome == "not_stopped" and "moved again" in referee.verdict.reason


def test_absent_goal_wants_a_report_and_distance():
    others = [thing(("red", "box"), 2.0, 0.0, 1)]
    referee, sim = stage("absent", others)
    drive(sim, referee, 0.3, 0.0, 1.0)
    drive(sim, referee, 0.0, 0.0, 3.0)
    assert referee.verdict is None
    referee.status(NOT_FOUND, "go to the red ball", 1)
    drive(sim, referee, 0.0, 0.0, 1.0)
    assert referee.verdict.success and referee.verdict.not_found == "looked everywhere"
    referee, sim = stage("absent", others)
    referee.status(NOT_FOUND)
    drive_to(sim, referee, 1.3)
    drive(sim, referee, 0.0, 0.0, 2.0)
    assert referee.verdict.outcome == "wrong_object" and referee.verdict.not_found == "no cause told"


def test_a_status_of_an_older_sentence_does_not_count():
    referee, sim = stage("absent", [])
    referee.status(NOT_FOUND, "go to the green box")
    drive(sim, referee, 0.0, 0.0, 2.0)
    assert referee.verdict is None


def test_words_that_ask_for_nothing():
    referee, sim = stage("nonsense", [], target=None)
    referee.status(NOT_UNDERSTOOD, "go to the red ball")
    drive(sim, referee, 0.0, 0.0, 11.0)
    assert referee.verdict.success and referee.verdict.time == pytest.approx(10.0, abs=0.01)
    referee, sim = stage("nonsense", [], target=None)
    drive(sim, referee, 0.0, 0.0, 11.0)
    assert referee.verdict.outcome == "not_reported"
    referee, sim = stage("nonsense", [], target=None)
    drive(sim, referee, 0.0, 0.3, 1.0)
    assert referee.verdict.outcome == "moved"


def test_nothing_is_judged_before_the_sentence():
    referee, _ = stage("go", [thing(RED_BALL, 1.0, 0.0)])
    fresh = Referee(referee.episode, referee.room)
    fresh.observe(1.0, 0.0, 0.0, 0.0, 0.0, 0.0, "wall_east")
    fresh.said("an older sentence", 1.0)
    fresh.observe(1.002, 0.0, 0.0, 0.0, 0.0, 0.0, "wall_east")
    assert fresh.verdict is None


@pytest.mark.slow
def test_controls_bound_the_suite():
    """The oracle does nearly all, the tour little; in full by `python -m brain_sim.controls`."""
    some = episodes("train", 40, 9)
    oracle = summary([run_control("oracle", e) for e in some])
    tour = summary([run_control("tour", e) for e in some])
    assert oracle["success"] >= 0.95 and oracle["outcomes"].get("contact", 0) == 0 and oracle["spl"] > 0.9
    assert tour["success"] < 0.35 and tour["outcomes"].get("contact", 0) == 0


def test_controls_repeat_to_the_bit():
    e = next(e for e in episodes("val", 20) if e.kind == "avoid")
    assert [run_control(p, e) for p in POLICIES] == [run_control(p, e) for p in POLICIES]
