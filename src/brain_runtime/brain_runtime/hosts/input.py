# SPDX-License-Identifier: Apache-2.0
"""Inlet: an input that is heard, from what the wire brought to the region's inbox."""
from __future__ import annotations

import time
from collections import deque
from typing import Any, Callable, NamedTuple

from brain_runtime.hosts.edges import Edge
from brain_runtime.hosts.host import Arrived, Subscription
from brain_runtime.contract.inbox import Slot
from brain_runtime.contract.ports import In
from brain_wire.latency import Hop
from brain_wire.messages import MessageError


class Input:
    """Takes in what has arrived at a port. All but the making is done by who has the region's turn.

    Args:
        name: of the port.
        port: as the configured region has it.
        slot: of the region's inbox.
        decode: makes a message from an arrival's data; raises MessageError.
        complain: told of an arrival that cannot be decoded, and why.

    Attributes:
        triggers: a message makes the region step.
        alone: and it need not be sorted with others before.
        subscription: what gives what waits; None where the port is not heard (any more).
    """

    __slots__ = ("_all", "_complain", "alone", "decode", "name", "port", "slot", "subscription", "triggers")

    def __init__(self, name: str, port: In, slot: Slot, decode: Callable[[Any], Any],
                 complain: Callable[[Input, Arrived, str], None]) -> None:
        self.name, self.port = name, port
        self.triggers = port.trigger
        self.alone = port.trigger and not port.key
        self.subscription: Subscription | None = None
        self.slot, self.decode, self._complain = slot, decode, complain
        self._all = bool(port.key or port.every)

    def take(self) -> None:
        """Takes in what waits: all of it where the port asks for that, else the newest message that is not broken."""
        subscription = self.subscription
        if subscription is None:
            return
        waiting = subscription.take()
        if self._all:
            for arrival in waiting:
                self.offer(arrival)
            return
        while waiting and not self.offer(waiting.pop()):
            pass
        for older in waiting:
            if older.hop is not None:
                older.hop.passed += 1

    def offer(self, arrival: Arrived) -> bool:
        """Takes in one arrival; False where it is broken."""
        try:
            message = self.decode(arrival.data)
        except MessageError as error:
            self._complain(self, arrival, str(error))
            return False
        if self.slot.offer(message, arrival.received) and arrival.hop is not None:
            arrival.hop.passed += 1     # counted with the publisher of the newer one
        return True


class Incoming(NamedTuple):
    """A message as it came, for hosts whose wire has no such thing; see :class:`brain_runtime.hosts.host.Arrived`."""

    data: Any
    received: float
    hop: Hop | None = None


class Ring:
    """The newest messages of a topic until they are taken, for wires that keep none. A :class:`.host.Subscription`.

    Args:
        topic: full name.
        depth: messages that are kept.
        close: ends the subscription.
        edges: tells how messages come, where that is known, see :meth:`.host.Subscription.edges`.
    """

    def __init__(self, topic: str, depth: int, close: Callable[[], None],
                 edges: Callable[[float], list[Edge]] = lambda now: []) -> None:
        self.topic = topic
        self._close, self._edges = close, edges
        self._waiting: deque[Incoming] = deque(maxlen=depth)

    def keep(self, arrival: Incoming) -> None:
        """Keeps a message until it is taken."""
        waiting = self._waiting
        oldest = waiting.popleft() if len(waiting) == waiting.maxlen else None  # only this thread makes it longer
        if oldest is not None and oldest.hop is not None:
            oldest.hop.full += 1
        waiting.append(arrival)

    def take(self) -> list[Incoming]:
        """See :class:`.host.Subscription`."""
        taken, waiting = [], self._waiting
        while waiting:
            taken.append(waiting.popleft())
        return taken

    def sender(self, arrival: Incoming) -> str:
        """Not known."""
        return ""

    def edges(self, now: float) -> list[Edge]:
        """See :class:`.host.Subscription`."""
        return self._edges(now)

    def close(self) -> None:
        """See :class:`.host.Subscription`."""
        self._close()
        self._waiting.clear()


def received(data: bytes) -> Incoming:
    """Wraps data that has just been received, with the time (s, steady)."""
    return Incoming(data, time.monotonic())
