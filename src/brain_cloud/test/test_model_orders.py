# SPDX-License-Identifier: Apache-2.0
"""Orders of models reach a region that runs: when they may, with what it refuses, and when it fails with one."""
from __future__ import annotations

import signal
from contextlib import closing
import sqlite3

import pytest

from brain_edge.models.goals import GoalWatch
from brain_edge.models.model_file import OWN
from brain_regions.motor import weights
from brain_runtime.interfaces import GoalStatus
from brain_wire import Node, messages, open_session
from brain_wire.qos import STREAM

from model_stage import at, big_model, make_model, motor, mouth, order, report, router, verb


@pytest.fixture
def brain(fleet):
    fleet.brain_router()
    motor(fleet)
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    return fleet


@pytest.mark.slow
def test_a_model_is_loaded_when_no_goal_is_pursued_kept_through_restarts_and_refused_by_the_region(
        brain, tmp_path, until, request):
    fleet, own = brain, weights.load().digest
    first, second = (make_model(tmp_path / f"{n}.safetensors", n) for n in (1, 2))
    unfit = big_model(tmp_path / "unfit.safetensors", 100)
    for name in ("1", "2", "unfit"):
        assert verb("models", "add", tmp_path / f"{name}.safetensors", *at(fleet))[0] == 0
    computing = request.getfixturevalue("computing")
    until(lambda: computing() == own, lambda: fleet.said("motor"))
    with mouth(fleet) as brain_says:
        brain_says.begin()
        until(lambda: fleet.said("robot1"))
        order(fleet, first, when="now")
        until(lambda: computing() == first[7:23], lambda: (report(fleet), fleet.said("robot1")))
        order(fleet, second)
        until(lambda: "a goal is being pursued" in report(fleet).get("why", ""), lambda: report(fleet))
        assert computing() == first[7:23]
        brain_says.end()
        until(lambda: computing() == second[7:23], lambda: report(fleet))
        until(lambda: report(fleet)["state"] == "applied", lambda: report(fleet))
        assert "not signed: this fleet has no keys" in report(fleet)["why"]
        # How the goal ended is told; nothing follows from it for a region whose weights were changed meanwhile.

        def goals():
            with closing(sqlite3.connect(f"file:{fleet.database('cloud')}/fleet.db?mode=ro", uri=True)) as db:
                return db.execute("SELECT outcome, weights FROM goals").fetchall()
        assert until(goals) == [("reached", "{}")]
        # One that does not fit is refused by the region, which goes on with what it has.
        order(fleet, unfit)
        told = until(lambda: (one := report(fleet))["state"] == "refused" and one, lambda: report(fleet))
        assert told["why"].startswith("motor keeps the weights that it has: weight file")
        assert "does not fit" in told["why"]
        assert computing() == second[7:23]
        order(fleet, second)
        until(lambda: report(fleet)["state"] == "applied", lambda: report(fleet))
        # After a crash that is not the model's (long after it was loaded, here by another edge), the region has it
        # again, also while a goal is pursued.
        brain_says.begin()
        fleet.end("robot1")
        fleet.end("cloud")
        fleet.edge()
        fleet.end("motor")
        motor(fleet)
        until(lambda: computing() == second[7:23], lambda: fleet.said("robot1"))
        # Its own again.
        fleet.cloud()
        order(fleet, OWN, when="now")
        until(lambda: computing() == own, lambda: report(fleet))


@pytest.mark.slow
def test_a_region_that_ends_soon_after_it_was_given_a_model_gets_back_what_it_had(brain, tmp_path, until, request):
    fleet = brain
    first, second = (make_model(tmp_path / f"{n}.safetensors", n) for n in (1, 2))
    for name in "12":
        assert verb("models", "add", tmp_path / f"{name}.safetensors", *at(fleet))[0] == 0
    computing = request.getfixturevalue("computing")
    order(fleet, first)
    until(lambda: computing() == first[7:23], lambda: (report(fleet), fleet.said("robot1")))
    order(fleet, second)
    until(lambda: report(fleet)["state"] == "applied" and computing() == second[7:23], lambda: report(fleet))
    fleet.end("motor", signal.SIGKILL)
    told = until(lambda: (one := report(fleet))["state"] == "refused" and one, lambda: report(fleet))
    assert "motor failed with model" in told["why"] and "it has said nothing for" in told["why"]
    fleet.end("cloud")                      # the robot needs nobody for it
    motor(fleet)
    until(lambda: computing() == first[7:23], lambda: (computing(), fleet.said("robot1")))
    fleet.cloud()
    # Not again by itself, and not by another edge; but when it is ordered anew.
    fleet.end("robot1")
    fleet.edge()
    fleet.until_robot(state="connected")
    assert computing() == first[7:23]
    order(fleet, second, when="now")
    until(lambda: computing() == second[7:23], lambda: (report(fleet), fleet.said("robot1")))
    fleet.end("motor", signal.SIGKILL)
    motor(fleet)
    told = until(lambda: (one := report(fleet))["state"] == "refused" and one, lambda: report(fleet))
    assert "it ended, and was started again; it gets back what it had before" in told["why"]
    until(lambda: computing() == first[7:23], lambda: (computing(), fleet.said("robot1")))


def test_goals_are_counted_as_they_ended_and_nothing_is_counted_twice(fleet, until):
    told, now = [], [0.0]
    fleet.brain_router()
    with open_session(router(fleet)[0], patience=60.0) as session, Node(session, "watch", "/", 3) as node:
        watch = GoalWatch(node, told.append, lambda: now[0])

        def say(state: str, goal: int) -> None:
            watch.status(messages.make("brain_interfaces/msg/GoalStatus", goal_id=goal,
                                       state=getattr(GoalStatus, f"STATE_{state}")))

        assert watch.pursuing()     # nobody has been heard yet
        say("REACHED", 1)           # before anybody listened
        assert not watch.pursuing() and told == []
        for state in ("SEARCHING", "APPROACHING", "REACHED", "REACHED", "APPROACHING", "REACHED"):
            say(state, 2)
        say("SEARCHING", 3)
        assert watch.pursuing()
        say("SEARCHING", 4)         # another goal was given
        say("STOPPED", 4)
        assert not watch.pursuing()
        say("NOT_UNDERSTOOD", 5)
        say("WAITING", 6)
        now[0] += 121.0
        watch.look()
        watch.look()
        say("REACHED", 6)           # too late
        assert [one["outcome"] for one in told] == ["reached", "not_understood", "timeout"]
        assert told[-1]["seconds"] == 121.0
        # Reflexes are counted from one to the next, while a goal is pursued.
        say("SEARCHING", 7)
        watch.look()
        with open_session(router(fleet)[0], patience=60.0) as other, Node(other, "brainstem", "/", 3) as speaker:
            trace = speaker.publisher("brain/trace", "brain_interfaces/msg/Trace", STREAM)
            until(lambda: trace.heard)
            for action in (0, 2, 2, 2, 0, 1, 2, 2, 0):
                trace.publish(messages.make("brain_interfaces/msg/Trace", action=action))
            until(lambda: watch.look() or watch._goal.reflexes == 2, lambda: watch._goal)
        say("NOT_FOUND", 7)
        assert (told[-1]["outcome"], told[-1]["reflexes"]) == ("not_found", 2)
