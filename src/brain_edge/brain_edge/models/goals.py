# SPDX-License-Identifier: Apache-2.0
"""Performance of a brain: its goals, and how each ends; reflexes meanwhile; which regions live, and with which weights.

It hears what every brain says anyway: ``goal/status``, ``brain/trace`` and ``brain/heartbeat``.
"""
from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple

from brain_runtime.contract import heartbeat
from brain_runtime.interfaces import GoalStatus, Heartbeat, Trace
from brain_wire import Node, Subscription, messages
from brain_wire.qos import LATCHED, STREAM
from brain_wire.rate_limited_log import RateLimitedLog

TIMEOUT = 120.0     # s after which a goal that has not ended counts as one that was not reached
SILENT = 5.0        # s without a heartbeat after which a region does not answer any more
STUCK = 5.0         # s that a step may take
FIRST = 3.0         # s in which each region is heard for the first time
SURE = 1.0          # s after a change of weights in which a heartbeat may still be from before
REST = 0.3          # s in which messages are left to gather: a thread that wakes for each of 150 a second costs a robot
BUSY = 0.05         # s that they are taken as they come
TRACES = 250        # that gather: 5 s
REGIONS = 256       # that are kept
STATUS = "brain_interfaces/msg/GoalStatus"
TRACE = "brain_interfaces/msg/Trace"

PURSUED = (GoalStatus.STATE_SEARCHING, GoalStatus.STATE_APPROACHING, GoalStatus.STATE_WAITING)
OUTCOMES = {GoalStatus.STATE_REACHED: "reached", GoalStatus.STATE_NOT_FOUND: "not_found",
            GoalStatus.STATE_WRONG: "wrong", GoalStatus.STATE_NOT_UNDERSTOOD: "not_understood"}

limited_log = RateLimitedLog(logging.getLogger(__name__))


class Beat(NamedTuple):
    """The newest heartbeat of a region: when it was received (steady s), and what it says."""

    received: float
    epoch: int
    state: int
    weights: str
    stuck: bool
    reason: str


@dataclass
class _Goal:
    """The newest goal."""

    ident: int
    began: float
    weights: dict[str, str] = field(default_factory=dict)
    reflexes: int = 0
    pursued: bool = True
    told: bool = False      # how it ended, or that it takes too long


class _Rests:
    """Has a subscription's thread rest between whiles, and take what has gathered then."""

    def __init__(self) -> None:
        self._woke = -math.inf

    def __call__(self, payload: object, received: float) -> bool:
        if time.monotonic() - self._woke > BUSY:
            time.sleep(REST)
            self._woke = time.monotonic()
        return False


class GoalWatch:
    """Listens to one brain.

    Args:
        node: of ours, in the brain's namespace.
        told: called with each goal that has ended, as :data:`brain_edge.state.forms.GOAL` has it.
        now: steady time (s).
        begun: called when a goal is pursued, so that :meth:`look` is called soon.
    """

    def __init__(self, node: Node, told: Callable[[dict[str, Any]], None],
                 now: Callable[[], float] = time.monotonic, begun: Callable[[], None] = lambda: None) -> None:
        self._told, self._now, self._begun = told, now, begun
        self._began = now()
        self._lock = threading.RLock()
        self._goal: _Goal | None = None
        self._beats: dict[str, Beat] = {}
        self._action: int | None = None     # of the newest trace
        self._changed: dict[str, float] = {}
        self._beat = node.subscription(heartbeat.PORT.topic, heartbeat.TYPE, STREAM, by_publisher=True,
                                       at_once=_Rests())
        self._node = node
        self._trace: Subscription | None = None     # only while a goal is pursued: there are 50 a second
        self._status = node.subscription("goal/status", STATUS, LATCHED.with_depth(10), arrived=self._take_status)

    def _decoded(self, subscription: Any, type_name: str) -> list[tuple[float, Any]]:
        found = []
        for arrival in subscription.take():
            try:
                found.append((arrival.received, messages.decode(arrival.data, type_name)))
            except messages.MessageError as problem:
                limited_log(type_name, f"a {type_name} of the brain cannot be read: {problem}")
        return found

    def _take_status(self) -> None:
        for _, status in self._decoded(self._status, STATUS):
            self.status(status)

    def _take_traces(self) -> None:
        """Counts the reflexes since the last time for the goal that is pursued."""
        if self._trace is None or self._goal is None or not self._goal.pursued:
            return
        for _, trace in self._decoded(self._trace, TRACE):
            # a reflex lasts for many commands, and counts once
            if trace.action == Trace.ACTION_REFLEX != self._action:
                self._goal.reflexes += 1
            self._action = trace.action

    def status(self, status: Any) -> None:
        """Takes a status in."""
        with self._lock:
            self._take_traces()
            goal, state, ident = self._goal, int(status.state), int(status.goal_id)
            if goal is None or goal.ident != ident:
                if state not in PURSUED and goal is None:
                    # it ended before anybody listened
                    self._goal = _Goal(ident, self._now(), pursued=False, told=True)
                    return
                goal = self._goal = _Goal(ident, self._now(), self.weights())
            if state in PURSUED:
                goal.pursued = True
                if self._trace is None:
                    self._begun()
                return
            goal.pursued = False
            if state in OUTCOMES:
                self._end(goal, OUTCOMES[state])

    def _end(self, goal: _Goal, outcome: str) -> None:
        if goal.told:
            return
        goal.told = True
        now = self.weights()    # of a region whose weights were changed meanwhile, nothing follows
        self._told({"outcome": outcome, "reflexes": min(goal.reflexes, 100_000),
                    "seconds": min(round(self._now() - goal.began, 2), 1e6),
                    "weights": {name: value for name, value in goal.weights.items() if now.get(name) == value}})

    def look(self) -> None:
        """Takes heartbeats in, and sees whether a goal takes too long. To be called again and again."""
        with self._lock:
            self._take_beats()
            self._tune()
            self._take_traces()
            goal = self._goal
            if goal is not None and goal.pursued and self._now() - goal.began > TIMEOUT:
                self._end(goal, "timeout")

    def _tune(self) -> None:
        pursued = self._goal is not None and self._goal.pursued
        if pursued and self._trace is None:
            self._trace = self._node.subscription("brain/trace", TRACE, STREAM.with_depth(TRACES), at_once=_Rests())
        elif not pursued and self._trace is not None:
            self._node.let_go(self._trace)
            self._trace = None

    def _take_beats(self) -> None:
        for received, beat in self._decoded(self._beat, heartbeat.TYPE):
            name = beat.name.rpartition("/")[2]
            if name not in self._beats and len(self._beats) >= REGIONS:
                continue
            known = self._beats.get(name)
            if known is not None and known.epoch > beat.epoch and received - known.received < SILENT:
                continue    # of the process before
            self._beats[name] = Beat(received, int(beat.epoch), int(beat.state), str(beat.weights),
                                     bool(beat.stepping) and float(beat.step_age) > STUCK, str(beat.reason))

    def weights(self) -> dict[str, str]:
        """Returns the weights that regions compute with: the first digits of their files' digests, by region."""
        with self._lock:
            self._take_beats()
            now = self._now()
            return {name: beat.weights for name, beat in self._beats.items()
                    if beat.weights and now - beat.received < SILENT
                    and beat.received > self._changed.get(name, -math.inf) + SURE}

    def changed(self, region: str) -> None:
        """The weights of a region were changed just now: nothing follows from the goal that is being pursued."""
        with self._lock:
            self._changed[region] = self._now()
            if self._goal is not None:
                self._goal.weights.pop(region, None)

    def pursuing(self) -> bool:
        """Tells whether a goal is being pursued, or that is not known yet."""
        with self._lock:
            if self._goal is not None and self._goal.pursued:
                return True
            return self._goal is None and self._now() - self._began < 2.0

    def heard(self, region: str) -> bool:
        """Tells whether a region was heard, or there was time enough for it."""
        return bool(self.epoch(region)) or self._now() - self._began > FIRST

    def epoch(self, region: str) -> int:
        """Of the region's process; 0 where none was heard."""
        with self._lock:
            self._take_beats()
            return self._beats[region].epoch if region in self._beats else 0

    def epochs(self) -> dict[str, int]:
        """Of the processes of all regions that were heard."""
        with self._lock:
            self._take_beats()
            return {name: beat.epoch for name, beat in self._beats.items()}

    def ill(self, region: str, epoch: int) -> str:
        """Returns what is wrong with a region whose process had that epoch; empty where nothing is, or nobody knows."""
        with self._lock:
            self._take_beats()
            beat = self._beats.get(region)
            if beat is None or not epoch:
                return ""
            others = max((other.received for name, other in self._beats.items() if name != region), default=-math.inf)
            silent = self._now() - beat.received
            if beat.epoch != epoch:
                return "it ended, and was started again"
            if beat.state == Heartbeat.STATE_ERROR:
                return f"it failed: {beat.reason}"
            # where nobody is heard, it is the wire that is gone
            if silent > SILENT and (others > beat.received + SILENT / 2 or not len(self._beats) > 1):
                return f"it has said nothing for {silent:.0f} s"
            return "a step of it does not end" if beat.stuck else ""
