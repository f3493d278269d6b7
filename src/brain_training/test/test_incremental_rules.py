# SPDX-License-Identifier: Apache-2.0
"""Rules find what is hard in made-up streams, in whatever order and however torn these are, and never take too much."""
from collections import Counter
from math import inf, nan

import numpy as np
import pytest

from brain_runtime.interfaces import GoalStatus, Trace
from brain_training.incremental.chooser import Chooser
from brain_training.incremental.hearing import OBJECTS, STATUS, TRACE, Hearing
from brain_training.incremental.rules import (ALL, MARGIN, Acted, Looked, Stood, UnknownRule, failed, named, reflex,
                                              unsure, wrong)
from brain_wire.messages import make

SEARCHING, REACHED = GoalStatus.STATE_SEARCHING, GoalStatus.STATE_REACHED
WRONG, NOT_FOUND = GoalStatus.STATE_WRONG, GoalStatus.STATE_NOT_FOUND


def stood(state, goal=1, pursued=1.0):
    return Stood(5.0, goal, state, pursued)


CASES = [
    (unsure, Looked(1.0, (0.6, 0.95), 0.6), None, 1.0),
    (unsure, Looked(1.0, (0.9,), 0.6), None, 0.0),
    (unsure, Looked(1.0, (), 0.6), None, 0.0),
    (unsure, Looked(1.0, (nan, inf, -inf), 0.6), None, 0.0),
    (unsure, Looked(1.0, (0.6,), nan), None, 0.0),
    (unsure, Looked(1.0, (0.59, -5.0, 1e30), 0.6), None, 0.0),
    (unsure, Acted(1.0, True), None, 0.0),
    (reflex, Acted(1.0, True), None, 0.8),
    (reflex, Acted(1.0, True), Acted(0.98, True), 0.0),     # it lasts
    (reflex, Acted(1.0, True), Acted(0.98, False), 0.8),
    (reflex, Acted(1.0, False), Acted(0.98, True), 0.0),
    (wrong, stood(WRONG), stood(SEARCHING), 1.0),
    (wrong, stood(WRONG), stood(WRONG), 0.0),               # said again
    (wrong, stood(WRONG, goal=2), stood(WRONG), 1.0),
    (wrong, stood(REACHED), stood(SEARCHING), 0.0),
    (wrong, stood(255), None, 0.0),
    (failed, stood(NOT_FOUND), stood(SEARCHING), 0.7),
    (failed, stood(SEARCHING, pursued=121.0), stood(SEARCHING, pursued=119.0), 0.7),
    (failed, stood(SEARCHING, pursued=122.0), stood(SEARCHING, pursued=121.0), 0.0),
    (failed, stood(SEARCHING, pursued=nan), None, 0.0),
]


def test_a_rule_finds():
    assert [case for case in CASES if case[0](case[1], case[2]) != case[3]] == []


def test_the_closer_to_the_threshold_the_harder():
    found = [unsure(Looked(0.0, (0.6 + share * MARGIN,), 0.6), None) for share in (0.1, 0.5, 0.9)]
    assert found == sorted(found, reverse=True) and 0.0 < found[-1] < found[0] < 1.0


def test_rules_are_named_and_their_shares_leave_some_for_chance():
    assert sum(rule.share for rule in ALL) == pytest.approx(0.8)
    assert [rule.name for rule in named("unsure, reflex,random")] == ["reflex", "unsure"] and named(None) == ALL
    assert named("random") == ()
    with pytest.raises(UnknownRule, match="no rule 'easy'; there are wrong, reflex, failed, unsure and random"):
        named("easy")


def stream(chooser, events):
    return [one for event in events for one in chooser.hear(event)] + chooser.end()


def test_a_reflex_makes_the_second_before_it_hard():
    chooser = Chooser(most=600, rng=np.random.default_rng(1))
    found = stream(chooser, [Acted(100.0 + 0.02 * k, 60 <= k < 80) for k in range(200)])
    (one,) = [clip for clip in found if clip.rule == "reflex"]
    assert (one.begin, one.end) == (pytest.approx(100.2), pytest.approx(101.7)) and one.hardness == 0.8


def test_what_is_rarer_takes_the_place_of_what_is_found_at_the_same_time():
    found = stream(Chooser(most=600), [Looked(1.0, (0.6,), 0.6), Acted(1.1, True), stood(WRONG)._replace(at=1.2)])
    assert [one.rule for one in found] == ["wrong"]


def test_no_more_than_an_hours_share_whatever_the_clock_does():
    rng = np.random.default_rng(5)
    chooser, at, found, rules = Chooser(most=20, rng=rng), 0.0, [], Counter()
    for k in range(20_000):     # 1000 s of steps; some jump by hours, back and forth
        at += 0.05 if k % 500 else float(rng.uniform(-1e5, 1e5))
        event = (Looked(at, (0.61, nan), 0.6), Acted(at, k % 2 == 0), Stood(at, k, WRONG, 0.0))[k % 3]
        for one in chooser.hear(event):
            assert one.end > one.begin and 0.0 <= one.hardness <= 1.0
            rules[one.rule] += 1
            found.append(one)
    assert 5 < len(found) <= 20 and rules["unsure"] <= 8 and rules["wrong"] <= 3 and rules["reflex"] <= 4
    assert chooser.passed_over["wrong"] > 0
    assert chooser.hear(Looked(nan, (0.6,), 0.6)) == chooser.hear(Acted(inf, True)) == chooser.tick(-inf) == []


def test_some_are_chosen_by_chance_alone():
    chooser = Chooser(rules=(), most=60, rng=np.random.default_rng(2))
    found = [one for k in range(4 * 36_000) for one in chooser.tick(0.1 * k)]     # four hours
    assert {one.rule for one in found} == {"random"} and 20 < len(found) <= 48
    for hour in range(4):
        assert sum(3600 * hour <= one.begin < 3600 * (hour + 1) for one in found) <= 12


def test_messages_of_anyone_are_heard():
    hearing = Hearing(0.6)
    seen = [make("brain_interfaces/msg/DetectedObject", confidence=value) for value in (nan, 0.7, inf)]
    looked = hearing.heard(OBJECTS, 1.0, make("brain_interfaces/msg/DetectedObjects", objects=seen))
    assert looked == Looked(1.0, (pytest.approx(0.7),), 0.6)
    assert hearing.heard(TRACE, 1.0, make("brain_interfaces/msg/Trace", action=Trace.ACTION_REFLEX)).reflex
    assert not hearing.heard(TRACE, 1.0, make("brain_interfaces/msg/Trace", action=99)).reflex
    status = make("brain_interfaces/msg/GoalStatus", goal_id=7, state=SEARCHING)
    assert [hearing.heard(STATUS, at, status).pursued for at in (10.0, 140.0, 3.0, 4.0)] == [0.0, 130.0, 0.0, 1.0]
    assert hearing.heard("odom", 1.0, status) is None
