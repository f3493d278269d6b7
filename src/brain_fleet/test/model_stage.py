# SPDX-License-Identifier: Apache-2.0
"""Models of the motor region, which needs no torch, and what a brain says that drives with them."""
from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Iterator

from brain_fleet.models.model_file import digest_of
from brain_regions.motor import weights
from brain_runtime.interfaces import GoalStatus
from brain_wire import Node, messages, open_session
from brain_wire.qos import LATCHED, STREAM

STATUS, TRACE, BEAT = (f"brain_interfaces/msg/{name}" for name in ("GoalStatus", "Trace", "Heartbeat"))


def make_model(path: Path, seed: int) -> str:
    """Writes weights of motor that are a little other ones than those that it comes with; returns their digest."""
    tensors = dict(weights.load().tensors)
    tensors["b0"] = tensors["b0"] + tensors["b0"].dtype.type(1e-3 * seed)
    weights.save(path, tensors, {"seed": seed}, {"success": 0.9}, ann=False)
    return digest_of(path)


class Mouth:
    """Says what a prefrontal cortex and a brainstem say, since these and a world would take minutes."""

    def __init__(self, node: Node) -> None:
        self._status = node.publisher("goal/status", STATUS, LATCHED)
        self._trace = node.publisher("brain/trace", TRACE, STREAM)
        self._goal = 0

    def say(self, state: int, **more: Any) -> None:
        self._status.publish(messages.make(STATUS, goal_id=self._goal, state=state, **more))

    def begin(self) -> None:
        """A new goal is pursued."""
        self._goal += 1
        self.say(GoalStatus.STATE_SEARCHING)

    def end(self, reached: bool = True) -> None:
        """It has ended."""
        self.say(GoalStatus.STATE_REACHED if reached else GoalStatus.STATE_NOT_FOUND)


@contextlib.contextmanager
def mouth(router: str, domain: int) -> Iterator[Mouth]:
    """A node in a brain."""
    with open_session(router, identity="speaker", patience=30.0) as session, Node(session, "speaker", "/", domain) as node:
        yield Mouth(node)
