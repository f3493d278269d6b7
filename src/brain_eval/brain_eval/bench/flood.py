# SPDX-License-Identifier: Apache-2.0
"""One-way throughput: from a region that publishes in each step to one that counts, and the same without a host.

A message counts when a step of the other region has seen it: of what comes faster than that, the newest stays, as
the quality of service of features says.
"""
from __future__ import annotations

import json
import threading
import time
from typing import Any, Sequence

import numpy as np

from brain_eval.bench.asked import ORDER, TYPE, Asked, wait_for
from brain_runtime import FEATURE, In, LATCHED, Out, Region

FLOODING = {"flood": "brain_eval.bench.flood:Flood", "count": "brain_eval.bench.flood:Count"}
QUIET = 0.4             # s without a message, after which none is on its way any more
ANSWER = 60.0           # s for what was counted
BARE_FLOOD, BARE_COUNT = "0/bench/flood/bare/bare", "0/bench/count/bare/bare"


class Flood(Region):
    """Publishes in each step while it is told to on bench/flow: JSON with ``id``, ``size`` (bytes) and ``seconds``."""

    rate = 20_000.0     # more than any host steps

    flow = In("bench/flow", ORDER, FEATURE, trigger=True, device=True)
    flood = Out("bench/flood", TYPE, FEATURE)
    sent = Out("bench/sent", ORDER, LATCHED)

    def configure(self, parameters):
        super().configure(parameters)
        self._until, self._sent, self._order = 0.0, 0, None

    def step(self, inbox, state, dt, rng):
        if inbox.new("flow"):
            self._order = json.loads(inbox.get("flow").data)
            self._message = self.flood(data=np.full(self._order["size"], 120, np.uint8))
            self._sent, self._until = 0, time.monotonic() + self._order["seconds"]
        if self._order is None:
            return {}, state
        if time.monotonic() < self._until:
            self._sent += 1
            return {"flood": self._message}, state
        told, self._order = {**self._order, "sent": self._sent}, None
        return {"sent": self.sent(data=json.dumps(told))}, state


class Count(Region):
    """Counts what it hears, and tells on bench/counted once all was sent and it is quiet."""

    rate = 5.0

    heard = In("bench/flood", TYPE, FEATURE, trigger=True)
    sent = In("bench/sent", ORDER, LATCHED, trigger=True)
    counted = Out("bench/counted", ORDER, LATCHED)

    def configure(self, parameters):
        super().configure(parameters)
        self._tally, self._told = Tally(), None

    def step(self, inbox, state, dt, rng):
        if inbox.new("heard"):
            self._tally.note()
        if inbox.new("sent"):
            self._told = json.loads(inbox.get("sent").data)
        if self._told is None or self._tally.silence < QUIET:
            return {}, state
        told, self._told = {**self._told, **self._tally.result()}, None
        return {"counted": self.counted(data=json.dumps(told))}, state


class Tally:
    """Counts messages, with the times of the first and the last."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._n, self._first, self._last = 0, 0.0, 0.0

    def note(self) -> None:
        """A message has come."""
        self._last = time.monotonic()
        if self._n == 0:
            self._first = self._last
        self._n += 1

    @property
    def silence(self) -> float:
        """s since the last message, or since the count began."""
        return time.monotonic() - (self._last or self._begin)

    def result(self) -> dict[str, Any]:
        """``n`` and ``took`` (s from the first to the last); it begins anew."""
        told = {"n": self._n, "took": self._last - self._first}
        self.__init__()     # type: ignore[misc]
        return told


class RegionFlow(Asked):
    """Tells a :class:`Flood` to publish, and hears what a :class:`Count` has counted."""

    @classmethod
    def of(cls, node: Any) -> RegionFlow:
        """From a node outside of the brain, of :mod:`brain_wire`."""
        return cls(node.publisher("bench/flow", ORDER, FEATURE), node.subscription("bench/counted", ORDER, LATCHED))

    def flow(self, size: int, seconds: float, patience: float = ANSWER) -> dict[str, Any]:
        """Measures one-way throughput for so many ``seconds``: ``sent``, ``n`` that came, and ``took`` (s)."""
        return {"sent": 0, "n": 0, "took": 0.0, **self.ask(patience, size=size, seconds=seconds)}


def region_flows(side: Any, sizes: Sequence[int], seconds: float) -> list[dict[str, Any]]:
    """Measures one-way throughput to an end that counts, for each size. Raises TimeoutError."""
    wait_for(lambda: side.flow(64, 0.05, 2.0)["n"] > 0, "what counts")
    return [side.flow(size, seconds) for size in sizes]


class BareFlow:
    """Puts messages as fast as it can, waiting where the link is full, and asks the other end what came."""

    def __init__(self, session: Any) -> None:
        import zenoh

        self._publisher = session.declare_publisher(BARE_FLOOD, congestion_control=zenoh.CongestionControl.BLOCK)
        self._answers: list[Any] = []
        self._answered = threading.Event()
        self._keep = session.declare_subscriber(BARE_COUNT, self._told)

    def _told(self, sample: Any) -> None:
        self._answers.append(json.loads(sample.payload.to_bytes()))
        self._answered.set()

    def flow(self, size: int, seconds: float, patience: float = ANSWER) -> dict[str, Any]:
        """As :meth:`RegionFlow.flow`."""
        payload, sent, until = bytes(size), 0, time.monotonic() + seconds
        while time.monotonic() < until:
            self._publisher.put(payload)
            sent += 1
        self._answered.clear()
        self._publisher.put(b"end")     # it is reliable, and in order
        if not self._answered.wait(patience):
            return {"sent": sent, "n": 0, "took": 0.0}
        return {"sent": sent, **self._answers.pop()}


class BareCount:
    """The other end of :class:`BareFlow`."""

    def __init__(self, session: Any) -> None:
        self._tally = Tally()
        self._publisher = session.declare_publisher(BARE_COUNT)
        self._keep = session.declare_subscriber(BARE_FLOOD, self._heard)

    def _heard(self, sample: Any) -> None:
        if len(sample.payload) == 3:
            self._publisher.put(json.dumps(self._tally.result()).encode())
        else:
            self._tally.note()
