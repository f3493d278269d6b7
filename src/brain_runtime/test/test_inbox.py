# SPDX-License-Identifier: Apache-2.0
"""Slots and the inbox: what is kept, for how long, and what counts as new."""
from types import SimpleNamespace

import pytest

from brain_runtime import FEATURE, In
from brain_runtime.contract.inbox import GoalSlot, Inbox, Slot, make_slot
from brain_runtime.contract.port_codecs import Carried

TYPE = "brain_interfaces/msg/SensorFeatures"
MAX_KEPT, FORGET_AFTER, OUTLIVED = 64, 30.0, 1.0


def said(source, number=0):
    return SimpleNamespace(source=source, number=number)


def slot_and_inbox(**kind):
    slot = make_slot(In("a", TYPE, FEATURE, **kind))
    return slot, Inbox({"a": slot}, 10.0)


def test_a_port_without_a_message():
    for kind in ({}, {"key": "source"}, {"every": True}):
        _, inbox = slot_and_inbox(**kind)
        assert inbox.get("a") is None and inbox.each("a") == []
        assert not inbox.new("a") and inbox.age("a") == float("inf") and inbox.message("a") is None
    assert inbox.get("other") is None and inbox.each("other") == [] and not inbox.new("other")
    assert inbox.age("other") == float("inf") and inbox.message("other") is None and inbox.goals("other") == []
    assert (Inbox({}).now, Inbox({}).stamp, Inbox({}, 3.0, 4.0).stamp) == (0.0, 0.0, 4.0)


@pytest.mark.parametrize("kind", [{}, {"key": "source"}, {"every": True}, {"key": "source", "epoch": "number"}])
def test_what_is_cleared_is_as_if_nothing_had_come(kind):
    slot, inbox = slot_and_inbox(**kind)
    for _ in range(2):
        assert (slot.offer(said("x"), 9.0), slot.offer(said("x"), 9.0)) == (False, not kind.get("every"))
        assert inbox.new("a") and len(inbox.each("a")) == (2 if kind.get("every") else 1)
        slot.clear()
        assert inbox.get("a") is None and inbox.each("a") == [] and not inbox.new("a")
        assert inbox.age("a") == float("inf")


def test_of_a_port_with_a_codec_the_value_is_given_and_the_message_on_demand():
    for kind in ({}, {"every": True}):
        slot, inbox = slot_and_inbox(**kind)
        slot.offer(Carried("the message", "the value"), 9.0)
        assert (inbox.get("a"), inbox.message("a")) == ("the value", "the message")
        assert [tuple(received) for received in inbox.each("a")] == [("the value", 1.0, True)]


def test_goals_stay_until_they_end():
    slot = GoalSlot()
    inbox = Inbox({"seek": slot}, 10.0)
    for name, stage in ((b"1", "a"), (b"2", "b"), (b"1", "c")):
        assert slot.offer(SimpleNamespace(id=name, stage=stage), 1.0) is False
    assert [goal.stage for goal in inbox.goals("seek")] == ["c", "b"] and inbox.new("seek")
    assert [(received.age, received.new) for received in inbox.each("seek")] == [(0.0, True)] * 2
    slot.seen()
    assert [received.new for received in slot.each()] == [False] * 2
    slot.ended(b"1"), slot.ended(b"never")
    assert [goal.stage for goal in inbox.goals("seek")] == ["b"]
    assert Slot().forget(99.0) is None


def test_the_newest_counts_with_its_age():
    slot, inbox = slot_and_inbox()
    slot.offer("old", 8.0)
    slot.offer("new", 9.5)
    assert (inbox.get("a"), inbox.age("a"), inbox.new("a")) == ("new", 0.5, True)
    assert inbox.get("a", within=0.4) is None and inbox.each("a", 0.4) == []
    assert inbox.get("a", within=0.5) == "new" and len(inbox.each("a", 0.5)) == 1
    slot.seen()
    assert (inbox.get("a"), inbox.new("a")) == ("new", False) and [r.new for r in inbox.each("a")] == [False]


def test_every_message_since_the_last_step_and_then_the_newest():
    slot, inbox = slot_and_inbox(every=True)
    for number in range(3):
        slot.offer(number, 9.0 + 0.1 * number)
    assert [r.message for r in inbox.each("a")] == [0, 1, 2] and all(r.new for r in inbox.each("a"))
    assert [(r.message, round(r.age, 6)) for r in inbox.each("a", 0.95)] == [(1, 0.9), (2, 0.8)]
    for _ in range(2):
        slot.seen()
        assert [(r.message, r.new) for r in inbox.each("a")] == [(2, False)] and inbox.get("a") == 2
    slot.offer(3, 9.9)
    assert [(r.message, r.new) for r in inbox.each("a")] == [(3, True)]
    slot.seen()
    unseen = [slot.offer(number, 10.0) for number in range(MAX_KEPT + 5)]
    assert unseen == [False] * MAX_KEPT + [True] * 5    # the oldest gives way
    assert [r.message for r in inbox.each("a")] == list(range(5, MAX_KEPT + 5)) and inbox.get("a") == MAX_KEPT + 4


def test_the_newest_of_each_publisher_in_the_order_of_names():
    slot, inbox = slot_and_inbox(key="source")
    for source, number in (("b", 1), ("a", 2), ("b", 3)):
        slot.offer(said(source, number), 9.0)
    assert [(r.message.source, r.message.number) for r in inbox.each("a")] == [("a", 2), ("b", 3)]
    slot.seen()
    slot.offer(said("a", 4), 9.5)
    assert [(r.message.source, r.new) for r in inbox.each("a")] == [("a", True), ("b", False)]
    assert [(r.message.source, r.age) for r in inbox.each("a", 0.5)] == [("a", 0.5)]
    for number in range(2 * MAX_KEPT):
        slot.offer(said(f"peer {number:03}"), 9.6 + number * 1e-3)
    # Who has been silent longest gives way.
    assert [r.message.source for r in inbox.each("a")] == [f"peer {n:03}" for n in range(MAX_KEPT, 2 * MAX_KEPT)]
    slot.offer(said("peer 064"), 9.8)
    slot.offer(said("another"), 9.9)
    assert {r.message.source for r in inbox.each("a")} == {"another", "peer 064", *(
        f"peer {n:03}" for n in range(MAX_KEPT + 2, 2 * MAX_KEPT))}


def test_of_two_publishers_of_one_name_the_later_start_counts_until_it_is_silent():
    slot, inbox = slot_and_inbox(key="source", epoch="epoch")

    def offer(epoch, now, source="motor"):
        slot.seen()
        slot.offer(SimpleNamespace(source=source, epoch=epoch), now)
        return slot.new, {r.message.source: r.message.epoch for r in inbox.each("a")}

    assert offer(5, 1.0) == (True, {"motor": 5})
    assert offer(6, 1.1) == (True, {"motor": 6})
    assert offer(5, 1.2) == (False, {"motor": 6})      # it woke up; nothing is new, so that nothing is triggered
    assert offer(5, 1.2, "pfc") == (True, {"motor": 6, "pfc": 5})
    assert offer(6, 2.0) == (True, {"motor": 6, "pfc": 5})
    assert offer(5, 2.0 + OUTLIVED) == (False, {"motor": 6, "pfc": 5})
    assert offer(5, 2.01 + OUTLIVED) == (True, {"motor": 5, "pfc": 5})
    assert offer(0, 2.1 + OUTLIVED) == (False, {"motor": 5, "pfc": 5})


def test_starts_are_told_apart_of_publishers_with_a_key_only():
    with pytest.raises(ValueError, match="topic a names the field 'epoch' of starts, but no key"):
        In("a", TYPE, FEATURE, epoch="epoch")


def test_a_silent_publisher_is_forgotten_and_with_the_last_one_what_was_new():
    slot, inbox = slot_and_inbox(key="source")
    slot.offer(said("a"), 0.0)
    slot.offer(said("b"), 20.0)
    slot.forget(FORGET_AFTER)
    assert [r.message.source for r in inbox.each("a")] == ["a", "b"]
    slot.forget(FORGET_AFTER + 1.0)
    assert [r.message.source for r in inbox.each("a")] == ["b"] and inbox.new("a")
    assert (inbox.get("a").source, inbox.age("a")) == ("b", -10.0)
    slot.forget(FORGET_AFTER + 21.0)
    assert inbox.each("a") == [] and inbox.get("a") is None and not inbox.new("a")
