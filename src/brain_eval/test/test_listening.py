# SPDX-License-Identifier: Apache-2.0
"""What is made of what is heard: latency, states, blame; and the keyboard on a real terminal."""
import os
import pty

import pytest

from brain_eval.blame import blame
from brain_eval.keyboard import Keyboard
from brain_observe import show
from brain_runtime.supervision import speaker
from brain_runtime.interfaces import GoalStatus
from brain_runtime.supervision.listen import Latency, Seen
from brain_runtime.run.workload import Event
from brain_wire import messages


def trace(picture, latency, action=0):
    origin = messages.make("brain_interfaces/msg/Origin", source="camera/image_raw",
                           stamp=messages.time_message(picture))
    return messages.make("brain_interfaces/msg/Trace", origins=[origin], latency=latency, action=action)


def test_only_the_first_command_of_a_picture_counts():
    latency = Latency()
    for picture, seconds in ((1.0, 0.02), (1.0, 0.04), (1.05, 0.03), (1.0, 0.06), (1.10, 0.05)):
        latency.add(trace(picture, seconds))
    assert latency.report() == {"n": 3, "p50": pytest.approx(0.03), "p95": pytest.approx(0.05)}


def test_commands_that_are_not_motors_do_not_count():
    latency = Latency()
    for action in (3, 4, 5):
        latency.add(trace(1.0 + action, 0.5, action))
    latency.add(trace(9.0, float("nan")))
    assert latency.report() == {"n": 0, "p50": None, "p95": None}


def test_states_of_a_region_by_what_is_heard():
    beat = messages.make("brain_interfaces/msg/Heartbeat", state=2)
    seen = Seen(beat, heard=100.0)
    assert seen.state(100.2) == "active"
    assert seen.state(102.0) == "silent"
    seen.token = False
    assert seen.state(100.2) == "active" and seen.state(101.2) == "gone"


def status(text, state, reason=""):
    return messages.make("brain_interfaces/msg/GoalStatus", text=text, state=state, reason=reason)


TEXT = "go to the red ball"


@pytest.mark.parametrize(("heard", "verdict", "action", "events", "part", "why"), [
    (None, None, 0, [], "language", "did not take the sentence up"),
    (status("other", GoalStatus.STATE_SEARCHING), None, 0, [], "language", "did not take"),
    (status(TEXT, GoalStatus.STATE_NOT_UNDERSTOOD, "no color"), None, 0, [], "language", "no color"),
    (status(TEXT, GoalStatus.STATE_SEARCHING), None, 0, [], "pfc", "not found in time"),
    (status(TEXT, GoalStatus.STATE_APPROACHING), None, 0, [], "motor", "did not get there"),
    (status(TEXT, GoalStatus.STATE_SEARCHING), None, 3, [], "brainstem", "does not let the robot move"),
    (status(TEXT, GoalStatus.STATE_REACHED), None, 0, [], "pfc", "referee does not"),
    (status(TEXT, GoalStatus.STATE_WRONG, "something else: blue box"), None, 0, [], "pfc", "blue box"),
    (status(TEXT, GoalStatus.STATE_REACHED), {"outcome": "wrong_object", "reason": "stopped at a"}, 0, [],
     "vision", "stopped at a"),
    (status(TEXT, GoalStatus.STATE_APPROACHING), {"outcome": "contact", "reason": "touched b"}, 0, [],
     "motor", "touched b"),
    (None, None, 3, [Event(0.0, "place", "ended", "killed by SIGSEGV")], "place", "SIGSEGV"),
])
def test_blame(heard, verdict, action, events, part, why):
    found = blame(TEXT, heard, verdict, messages.make("brain_interfaces/msg/Trace", action=action), events,
                  lambda name: f"logs/{name}.log")
    assert found.part == part and why in found.why
    assert str(found).endswith(f"see logs/{part}.log")


def test_words_for_what_is_seen():
    assert show.thing(1, 1) == "red ball" and show.thing(0, 2) == "box"
    assert show.place(0.5, 2.0) == "2.0 m 29 deg left"
    assert show.place(float("nan"), 1.0) == "somewhere"


def test_long_sentences_are_compared_as_they_are_clipped():
    long = "\u8d64\u3044\u7389" * 100
    assert len(speaker.clipped(long).encode()) <= 256 and long.startswith(speaker.clipped(long))


def test_the_keyboard_takes_digits_as_keys_and_words_as_lines():
    master, slave = pty.openpty()
    try:
        with os.fdopen(slave, "r+b", buffering=0) as terminal, Keyboard(terminal) as keyboard:
            assert keyboard.poll() == []
            os.write(master, "3go to b".encode())
            assert keyboard.poll() == ["3"] and keyboard.line == "go to b"
            os.write(master, b"\x7fthe 2nd\r")
            assert keyboard.poll() == ["go to the 2nd\n"] and keyboard.line == ""
            japanese = "\u9752\u3044\u7bb1".encode()
            os.write(master, japanese[:4])      # in the middle of a character
            keyboard.poll()
            os.write(master, japanese[4:] + b"\n")
            assert keyboard.poll() == ["\u9752\u3044\u7bb1\n"]
            os.write(master, b"\x1b[A")         # an arrow
            assert keyboard.poll() == [] and not keyboard.ended
            os.write(master, b"\x04")
            keyboard.poll()
            assert keyboard.ended
    finally:
        os.close(master)
