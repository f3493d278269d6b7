# SPDX-License-Identifier: Apache-2.0
"""The room that `brain up` and `brain demo` open, and a sentence that fits the room that stands there."""
from __future__ import annotations

import json
import threading
import time
from enum import Enum
from typing import Any

SPLIT, SEED = "val", 5
SENTENCES = (("go to the red ball", "go to the red ball", ("red", "ball")),
             ("\u9752\u3044\u7bb1\u3078\u884c\u3063\u3066", "go to the blue box", ("blue", "box")))
"""What the demo says, in English what it means, and what is to be found."""

LIKED = ("red", "ball")
SAID = ("goal/text", "sim/said")
"""Topics on which a sentence is said: to the brain, and to the judge of a simulated world.

The world does not hear ``goal/text``: who says something once and goes, as ``ros2 topic pub --once`` does, waits for
one who hears it, and that must be the brain.
"""


class Split(str, Enum):
    """Part of the world's rooms and sentences."""

    train = "train"
    val = "val"
    test = "test"


def demo(split: str = SPLIT, seed: int = SEED) -> dict[str, Any]:
    """Makes the request of the demo on sim/episode: a room with what the demo asks for, and what is to be judged."""
    return {"split": split, "seed": seed,
            "goals": [{"text": text, "target": list(kind)} for text, _, kind in SENTENCES]}


def example(supervised: Any, seconds: float, stop: threading.Event) -> str:
    """Returns a sentence for a :class:`SupervisedBrain`, or nothing where that is not known.

    A simulated world tells on sim/world what stands in it: nobody is told to ask for what is not there. It is asked on
    the wire, so that the simulator need not be installed here. Nobody tells of a real room.

    Args:
        seconds: that the world gets to tell it.
    """
    from brain_wire import messages
    from brain_wire.qos import LATCHED

    worlds = supervised.node.subscription("sim/world", "std_msgs/msg/String", LATCHED)
    try:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not stop.is_set():
            supervised.round()
            for arrival in worlds.take():
                words = sentence(messages.decode(arrival.data, "std_msgs/msg/String").data)
                if words:
                    return words
    except messages.MessageError:
        return ""   # not the world of brain_sim: its messages can be read
    finally:
        supervised.node.let_go(worlds)
    return ""


def sentence(world: str) -> str:
    """A sentence that asks for something in a room, from sim/world's JSON; empty where it tells of nothing."""
    try:
        room = json.loads(world)["room"]
        there = [(str(o["color"]), str(o["shape"])) for o in room["objects"]]
        there = [kind for kind in there if "".join(kind).isascii() and "".join(kind).isalpha()]
        best = [kind for kind in (LIKED, tuple(room.get("target") or ())) if kind in there] or there
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    return f"go to the {' '.join(best[0])}" if best else ""
