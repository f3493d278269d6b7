# SPDX-License-Identifier: Apache-2.0
"""The action Seek: every way in which it can end, with the brain's words put into its mouth."""
import math

import pytest

from brain_regions.goals import REPLACED, UNANSWERED, Goals
from brain_runtime import SILENCE
from brain_runtime.hosts.local import LocalHost
from brain_runtime.interfaces import GoalStatus, Seek
from brain_runtime.contract.sights import fits, in_words, thing
from brain_wire.goals import Status
from brain_wire.messages import make

TEXT = "go to the red ball"
SEARCHING, REACHED, NOT_FOUND, WRONG = (
    GoalStatus.STATE_SEARCHING, GoalStatus.STATE_REACHED, GoalStatus.STATE_NOT_FOUND, GoalStatus.STATE_WRONG)
NOT_UNDERSTOOD, STOPPED = GoalStatus.STATE_NOT_UNDERSTOOD, GoalStatus.STATE_STOPPED


class Talk:
    """The region, with a brain that says what it is told to say."""

    def __init__(self, **parameters):
        self.host = LocalHost({"goals": Goals("goals")}, parameters={"goals": parameters})
        self.said = []
        self.host.listen("goal/text", lambda m: self.said.append(m.data))
        self.host.advance(0.1)

    def ask(self, text=TEXT):
        asked = self.host.ask("goals", "seek", text=text)
        self.host.advance(0.3)
        return asked

    def status(self, number, state, text=TEXT, reason="", cause=0):
        self.host.publish("goal/status", make("brain_interfaces/msg/GoalStatus", goal_id=number, state=state, text=text,
                                              reason=reason, cause=cause))
        self.host.advance(0.1)

    def sees(self, *objects, seconds=1.2):
        for _ in range(round(seconds / 0.1)):
            self.host.publish("vision/objects", make("brain_interfaces/msg/DetectedObjects", source="eye", objects=[
                make("brain_interfaces/msg/DetectedObject", color=c, shape=s, bearing=b, distance=d, confidence=0.9)
                for c, s, b, d in objects]))
            self.host.publish("pfc/control", make("brain_interfaces/msg/Control", goal_id=1, target_color=1,
                                                  target_shape=1, distance=0.5, bearing=0.1))
            self.host.advance(0.1)


@pytest.fixture
def talk():
    return Talk()


def test_it_says_the_sentence_tells_how_it_goes_and_that_it_was_reached(talk):
    asked = talk.ask()
    assert talk.said == [TEXT]
    assert asked.feedback[-1].state == GoalStatus.STATE_WAITING and "nobody" in asked.feedback[-1].reason
    talk.status(1, SEARCHING, reason="looking about")
    talk.sees((1, 1, 0.1, 1.0), (3, 2, -0.5, 2.04))
    last = asked.feedback[-1]
    assert (last.state, last.reason) == (1, "looking about")
    assert last.seen == "red ball 1.0 m 6 deg left; blue box 2.0 m 29 deg right"
    assert (float(last.distance), float(last.bearing)) == (0.5, pytest.approx(0.1))
    talk.host.advance(1.0)
    last = asked.feedback[-1]       # of what is told no more nothing is told
    assert last.seen == "nothing" and math.isnan(last.distance) and math.isnan(last.bearing)
    talk.status(1, REACHED, reason="standing in front of it")
    assert (asked.status, asked.result.outcome) == (Status.SUCCEEDED, REACHED) and 1.5 < asked.result.duration < 4.0
    assert asked.result.reason == "standing in front of it"
    assert talk.said == [TEXT, SILENCE]


@pytest.mark.parametrize("state", [NOT_FOUND, NOT_UNDERSTOOD, STOPPED, WRONG])
def test_what_did_not_work_says_why(talk, state):
    asked = talk.ask()
    talk.status(1, state, reason="because", cause=2)
    assert (asked.status, asked.result.outcome, asked.result.reason) == (Status.ABORTED, state, "because")
    assert asked.result.cause == (0 if state == STOPPED else 2)


def test_an_outcome_is_what_the_goals_status_says_or_a_number_that_it_does_not_use():
    def constants(cls, prefix):
        return {name.removeprefix(prefix): value for name, value in vars(cls).items() if name.startswith(prefix)}

    states, outcomes = constants(GoalStatus, "STATE_"), constants(Seek.Result, "OUTCOME_")
    own = {"REPLACED": REPLACED, "UNANSWERED": UNANSWERED}
    assert outcomes == {name: states[name] for name in outcomes.keys() & states.keys()} | own
    assert not set(own.values()) & set(states.values()) and len(outcomes) == 7


def test_an_old_status_is_not_this_goals(talk):
    talk.status(7, REACHED)
    asked = talk.ask()
    talk.status(7, REACHED)
    talk.sees((1, 1, 0.0, 0.5))
    assert asked.result is None
    talk.status(8, SEARCHING)
    talk.sees((1, 1, 0.0, 0.5))
    assert math.isnan(asked.feedback[-1].distance)      # of what pfc heads for, which is another goal's
    talk.status(8, NOT_FOUND)
    assert asked.result.outcome == NOT_FOUND


def test_what_becomes_of_others_sentences_is_not_this_goals(talk):
    asked = talk.ask()
    talk.status(1, STOPPED, text="止まれ")      # before this one was taken up
    talk.status(3, SEARCHING)
    talk.status(2, STOPPED, text="go to the blue box")
    talk.status(3, SEARCHING, text="go to the blue box")    # which has no number of its own
    talk.status(4, SEARCHING, text="stop")      # it does not stand yet
    assert asked.result is None
    talk.status(4, STOPPED, text="stop")
    assert (asked.status, asked.result.outcome) == (Status.ABORTED, STOPPED)


def test_canceled_it_says_stop_and_waits_until_it_stands(talk):
    asked = talk.ask()
    talk.status(1, SEARCHING)
    asked.cancel()
    talk.host.advance(0.5)
    assert talk.said == [TEXT, "stop"] and asked.result is None
    talk.status(2, STOPPED, text="stop")
    assert (asked.status, asked.result.outcome) == (Status.CANCELED, STOPPED)
    assert talk.said == [TEXT, "stop", SILENCE]


def test_canceled_with_nobody_there_it_ends_all_the_same(talk):
    asked = talk.ask()
    asked.cancel()
    talk.host.advance(6.0)
    assert asked.status == Status.CANCELED and "nobody said" in asked.result.reason
    asked = talk.ask()
    asked.cancel()
    talk.host.advance(4.5)
    assert asked.result is None


def test_canceled_before_it_was_taken_up_it_ends_when_the_robot_stands(talk):
    asked = talk.ask()
    asked.cancel()
    talk.host.advance(0.5)
    talk.status(1, SEARCHING, text="go to the blue box")
    assert asked.result is None
    talk.status(2, STOPPED, text="stop")
    assert (asked.status, asked.result.reason) == (Status.CANCELED, "it was told to stop")


def test_somebody_else_who_says_stop_or_something_else_is_told(talk):
    first = talk.ask()
    talk.status(1, SEARCHING)
    talk.status(2, STOPPED, text="止まれ")
    assert (first.status, first.result.outcome) == (Status.ABORTED, STOPPED)
    second = talk.ask()
    talk.status(3, SEARCHING)
    talk.status(4, SEARCHING, text="go to the blue box")
    assert second.result.outcome == REPLACED and "blue box" in second.result.reason


@pytest.mark.parametrize(("number", "verb", "ends"), [
    (1, 3, Status.SUCCEEDED), (1, 1, Status.ABORTED), (2, 3, Status.ABORTED)])
def test_to_be_told_to_stop_is_a_goal_too(talk, number, verb, ends):
    asked = talk.ask("stop")
    talk.host.publish("lang/features", make("brain_interfaces/msg/LanguageFeatures", goal_id=number, verb=verb,
                                            understood=True))
    talk.status(1, STOPPED, text="stop")
    assert (asked.status, asked.result.outcome, asked.result.reason) == (ends, STOPPED, "it stands")


def test_a_newer_goal_takes_the_place_of_an_older(talk):
    first, second = talk.ask(), talk.ask("go to the blue box")
    assert (first.status, first.result.outcome) == (Status.ABORTED, REPLACED) and second.result is None
    assert talk.said == [TEXT, "go to the blue box"]
    talk.status(2, NOT_FOUND, text="go to the blue box")
    assert second.result.outcome == NOT_FOUND


def test_of_two_goals_that_come_at_once_the_first_has_taken_no_time(talk):
    running = talk.ask()
    talk.host.advance(2.0)
    first, second = (talk.host.ask("goals", "seek", text=text) for text in ("go to the blue box", "stop"))
    talk.host.advance(0.3)
    assert running.result.outcome == first.result.outcome == REPLACED and second.result is None
    assert running.result.duration > 2.0 and first.result.duration == 0.0


def test_what_nobody_takes_up_is_said_again_and_then_given_up(talk):
    asked = talk.ask()
    talk.host.advance(11.0)
    assert talk.said == [TEXT] * 3
    talk.host.advance(20.0)
    assert (asked.status, asked.result.outcome) == (Status.ABORTED, UNANSWERED)
    asked = talk.ask()      # it has as long, however late it is
    talk.host.advance(25.0)
    assert asked.result is None
    hasty = Talk(answer_timeout=2.0)
    asked = hasty.ask()
    hasty.host.advance(2.0)
    assert asked.result.outcome == UNANSWERED and "within 2 s" in asked.result.reason


def test_what_is_no_order_is_refused_and_takes_no_goal_up(talk):
    def no_order(number, understood=True):
        talk.host.publish("lang/features", make(
            "brain_interfaces/msg/LanguageFeatures", goal_id=number, verb=1, target_color=1, understood=understood,
            text="exactly", reason="no order"))
        talk.host.advance(0.5)
    asked = talk.ask("exactly")
    no_order(7, False)
    assert asked.result is None     # of that pfc tells
    no_order(7)
    assert (asked.status, asked.result.outcome, asked.result.reason) == (Status.ABORTED, NOT_UNDERSTOOD, "no order")
    assert talk.said == ["exactly", SILENCE]
    first, second = talk.ask(), talk.ask("exactly")
    no_order(7)
    assert first.result.outcome == REPLACED and second.result.outcome == NOT_UNDERSTOOD
    assert talk.said[2:] == [TEXT, "exactly", "stop", SILENCE]      # whose goal it was at, nobody waits for any more


@pytest.mark.parametrize("text", ["", "x" * 5000, "赤" * 300, "a\0b"])
def test_odd_sentences_do_no_harm(talk, text):
    asked = talk.ask(text)
    talk.status(1, NOT_UNDERSTOOD, text=text.encode()[:256].decode("utf-8", "ignore"), reason="what?")
    assert asked.result.outcome == NOT_UNDERSTOOD


def test_sights_in_words():
    assert [thing(1, 1), thing(0, 0), thing(9, 9), thing(0, 2)] == ["red ball", "thing", "? ?", "box"]
    seen = make("brain_interfaces/msg/DetectedObject", color=1, shape=0, bearing=math.nan, distance=math.nan)
    assert in_words([seen]) == "red thing somewhere" and in_words([]) == "nothing"
    assert fits(seen, 1, 2) and fits(seen, 0, 0) and not fits(seen, 2, 0)
