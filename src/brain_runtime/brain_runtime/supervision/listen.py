# SPDX-License-Identifier: Apache-2.0
"""Hears how a brain is: heartbeats, traces and liveliness tokens, from anywhere on its wire."""
from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Callable

from brain_runtime.contract import heartbeat
from brain_runtime.contract.constants import heartbeat_state
from brain_runtime.contract.inbox import outlived
from brain_runtime.interfaces import Trace
from brain_wire import messages
from brain_wire import Node, Watch
from brain_wire.observers import guarded
from brain_wire.qos import STREAM
from brain_wire.wakeup import Signal

TRACE = "brain_interfaces/msg/Trace"
MOVED = Trace.ACTION_PASSED, Trace.ACTION_LIMITED, Trace.ACTION_REFLEX     # motor's command had a say
GONE = 1.0          # s without a heartbeat and without a token, after which a region counts as gone
SILENT = 1.5        # s without a heartbeat, after which it counts as silent though its token is there
LATENCIES = 2000    # traces that are kept
MOST = 256          # regions that are kept; a peer that renames itself with every heartbeat must not grow us
PROCESSES = 16      # of each, that are kept


@dataclass
class Seen:
    """A region as it was last heard of.

    Attributes:
        beat: its newest heartbeat.
        heard: steady time of it (s).
        token: its liveliness token is there.
        processes: process ids under which it has been heard.
    """

    beat: Any
    heard: float
    token: bool = True
    processes: list[tuple[str, int]] = field(default_factory=list)

    def state(self, now: float) -> str:
        """``active`` and so on as the region says, ``silent`` or ``gone`` where it says nothing."""
        age = now - self.heard
        if age > GONE and not self.token:
            return "gone"
        if age > SILENT:
            return "silent"
        return heartbeat_state(self.beat.state)


class Latency:
    """From the camera to cmd_vel: for each picture, the time until the first command that it had influence on."""

    def __init__(self) -> None:
        self._first: deque[tuple[tuple[int, int], float]] = deque(maxlen=LATENCIES)
        self._newest: tuple[int, int] = (-1, 0)

    def add(self, trace: Any) -> None:
        """Takes in a trace; those of commands that were not motor's, or that saw no camera, do not count."""
        if trace.action not in MOVED or not math.isfinite(trace.latency):
            return
        stamps = [(o.stamp.sec, o.stamp.nanosec) for o in trace.origins if "image" in o.source]
        if not stamps or max(stamps) <= self._newest:
            return
        self._newest = max(stamps)
        self._first.append((self._newest, float(trace.latency)))

    def report(self) -> dict[str, float | int | None]:
        """``n`` pictures, and p50 and p95 of the latency (s; None without any)."""
        values = sorted(v for _, v in self._first)
        pick = lambda q: values[min(len(values) - 1, int(q * len(values)))] if values else None  # noqa: E731
        return {"n": len(values), "p50": pick(0.5), "p95": pick(0.95)}


class Ear:
    """Listens to one brain through a node. It does nothing by itself: call :meth:`listen`.

    Args:
        node: its namespace is the brain's.
        on_beat: told of each heartbeat, those of a process that another took over from too.
        on_token: told of each node's coming and going, by fully qualified name.
        on_link: told when the link to the router goes and comes.
        on_trace: told of each trace.
    """

    def __init__(self, node: Node, *, on_beat: Callable[[Any], None] | None = None,
                 on_token: Callable[[str, bool], None] | None = None,
                 on_link: Callable[[bool], None] | None = None,
                 on_trace: Callable[[Any], None] | None = None) -> None:
        self.regions: dict[str, Seen] = {}
        self.latency = Latency()
        self.trace: Any | None = None
        self.broken = 0
        # one that fails costs what it was told, not what was heard with it
        self._on_beat, self._on_token, self._on_trace = (
            callback and guarded(callback, f"what hears {what}")
            for callback, what in ((on_beat, "heartbeats"), (on_token, "tokens"), (on_trace, "traces")))
        on_link = on_link and guarded(on_link, "what hears of the link")
        self._prefix = node.namespace.rstrip("/") + "/"
        self._signal = Signal()
        self._beats = node.subscription(heartbeat.PORT.topic, heartbeat.TYPE, STREAM, wake=self._signal,
                                        by_publisher=True)
        self._traces = node.subscription("brain/trace", TRACE, STREAM, wake=self._signal)
        self._watch = Watch(node.session, node.domain, on_node=self._take_token, on_link=on_link,
                            warn=lambda text: None)

    def listen(self, seconds: float, until: Callable[[Ear], bool] = lambda ear: False) -> bool:
        """Takes in what is heard within ``seconds`` or until ``until(self)`` holds; whether it does."""
        end = time.monotonic() + seconds
        while True:
            self._take()
            if until(self):
                return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._signal.wait(min(left, 0.05))

    def _take(self) -> None:
        for arrival in self._beats.take():
            beat = self._decode(arrival, heartbeat.TYPE)
            if beat is not None:
                self._take_beat(beat, arrival.received)
        for arrival in self._traces.take():
            trace = self._decode(arrival, TRACE)
            if trace is not None:
                self.trace = trace
                self.latency.add(trace)
                if self._on_trace is not None:
                    self._on_trace(trace)
        self._watch.poll()

    def _decode(self, arrival: Any, type_name: str) -> Any | None:
        try:
            return messages.decode(arrival.data, type_name)
        except messages.MessageError:
            self.broken += 1
            return None

    def _take_beat(self, beat: Any, received: float) -> None:
        seen = self.regions.get(beat.name)
        if seen is None and len(self.regions) >= MOST:
            del self.regions[min(self.regions, key=lambda name: self.regions[name].heard)]
        if seen is None:
            seen = self.regions[beat.name] = Seen(beat, received)
        if not outlived(beat, seen.beat, seen.heard, received):
            seen.beat, seen.heard, seen.token = beat, received, True
        process = (beat.hostname, beat.pid)
        if process not in seen.processes and len(seen.processes) < PROCESSES:
            seen.processes.append(process)
        if self._on_beat is not None:
            self._on_beat(beat)

    def _take_token(self, name: str, alive: bool) -> None:
        if name in self.regions:
            self.regions[name].token = alive
        if self._on_token is not None:
            self._on_token(name, alive)

    @property
    def linked(self) -> bool:
        """True while there is a router at the other end."""
        return self._watch.linked

    def nodes(self) -> list[str]:
        """Fully qualified names of the nodes in the brain's namespace that have a token."""
        return [n for n in self._watch.nodes() if n.startswith(self._prefix)]

    def close(self) -> None:
        """Stops watching; the subscriptions end with the node."""
        self._watch.close()
