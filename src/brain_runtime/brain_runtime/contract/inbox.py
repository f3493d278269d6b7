# SPDX-License-Identifier: Apache-2.0
"""Inbox: what a region has received, port by port. The hosts put messages in between steps; a step only looks."""
from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple

from brain_runtime.contract.port_codecs import Carried
from brain_runtime.contract.ports import In
from brain_wire.goals import Goal

MAX_KEPT = 64           # messages on one port; a peer that renames itself with every message must not grow us
FORGET_AFTER = 30.0     # s, after which a silent publisher on a keyed port is dropped
OUTLIVED = 1.0          # s without a publisher's message, after which one that began earlier counts again under its key


class Received(NamedTuple):
    """A message in an inbox.

    Attributes:
        message: as decoded; the value in it, where the port has a codec.
        age: s since receipt, on the host's steady clock.
        new: it came since the last step.
    """

    message: Any
    age: float
    new: bool


class Slot:
    """Slot for the messages of one port: keeps the newest message only.

    Attributes:
        message: the newest one, or None.
        time: when it was received (s, host clock); ``-inf`` before the first.
        new: it came since the last step.
    """

    __slots__ = ("message", "new", "time")

    def __init__(self) -> None:
        self.message: Any = None
        self.time = -math.inf
        self.new = False

    def offer(self, message: Any, now: float) -> bool:
        """Puts in a message received at ``now`` (s, host clock); whether one gives way that no step has seen."""
        unseen = self.new
        self.message = message
        self.time = now
        self.new = True
        return unseen

    def each(self, now: float, within: float) -> list[Received]:
        """All that is kept and at most ``within`` s old."""
        age = now - self.time
        return [Received(self.message, age, self.new)] if age <= within and self.message is not None else []

    def seen(self) -> None:
        """A step has looked at everything."""
        self.new = False

    def forget(self, now: float) -> None:
        """Lets go of what is too old to be kept."""

    def clear(self) -> None:
        """Lets go of everything, as if nothing had ever come."""
        self.message, self.time, self.new = None, -math.inf, False


def outlived(message: Any, kept: Any, received: float, now: float, epoch: str = "epoch") -> bool:
    """Tells whether a message is to be ignored: it is of a process that another of its name has taken over from.

    Args:
        message: received at ``now`` (s).
        kept: the one before, received at ``received``.
        epoch: field that grows with each start.
    """
    return bool(getattr(message, epoch) < getattr(kept, epoch) and now - received <= OUTLIVED)


class KeyedSlot(Slot):
    """Slot for the messages of one port: keeps the newest of each publisher, told apart by the field ``key``.

    Where ``epoch`` names a field too, it is the newest message of the publisher that began last.
    """

    __slots__ = ("_entries", "_epoch", "_fresh", "_key")

    def __init__(self, key: str, epoch: str | None = None) -> None:
        super().__init__()
        self._key, self._epoch = key, epoch
        self._entries: dict[str, tuple[Any, float]] = {}
        self._fresh: set[str] = set()

    def offer(self, message: Any, now: float) -> bool:
        entries, key = self._entries, str(getattr(message, self._key))
        if self._epoch is not None and key in entries and outlived(message, *entries[key], now, self._epoch):
            return False
        if key not in entries and len(entries) >= MAX_KEPT:
            self._drop(min(entries, key=lambda k: entries[k][1]))
        entries[key] = message, now
        unseen = key in self._fresh
        self._fresh.add(key)
        super().offer(message, now)
        return unseen

    def each(self, now: float, within: float) -> list[Received]:
        entries = self._entries
        return [Received(entries[key][0], now - entries[key][1], key in self._fresh)
                for key in sorted(entries) if now - entries[key][1] <= within]

    def seen(self) -> None:
        self.new = False
        self._fresh.clear()

    def forget(self, now: float) -> None:
        for key in [key for key, (_, time) in self._entries.items() if now - time > FORGET_AFTER]:
            self._drop(key)
        self.new = bool(self._fresh)
        if not self._entries:
            self.message, self.time = None, -math.inf

    def clear(self) -> None:
        super().clear()
        self._entries.clear()
        self._fresh.clear()

    def _drop(self, key: str) -> None:
        del self._entries[key]
        self._fresh.discard(key)


class EverySlot(Slot):
    """Slot for the messages of one port: keeps every message since the last step, or else the newest."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        super().__init__()
        self._entries: list[tuple[Any, float]] = []

    def offer(self, message: Any, now: float) -> bool:
        full = len(self._entries) >= MAX_KEPT
        if not self.new:
            self._entries.clear()
        elif full:
            del self._entries[0]
        self._entries.append((message, now))
        super().offer(message, now)
        return full

    def seen(self) -> None:
        self.new = False
        del self._entries[:-1]

    def clear(self) -> None:
        super().clear()
        self._entries.clear()

    def each(self, now: float, within: float) -> list[Received]:
        return [Received(message, now - time, self.new) for message, time in self._entries if now - time <= within]


def make_slot(port: In) -> Slot:
    """An empty slot for a port."""
    return KeyedSlot(port.key, port.epoch) if port.key else EverySlot() if port.every else Slot()


class Inbox:
    """The newest message of each port, with its age, as it is in this step. Any may be missing or old: look before use.

    What is to be remembered after the step goes into the state; the inbox itself is the next step's then.

    Args:
        slots: by name of the port.
        now: host clock (s).
        stamp: see :attr:`stamp`.
    """

    __slots__ = ("_slots", "now", "stamp")

    def __init__(self, slots: Mapping[str, Slot], now: float = 0.0, stamp: float = 0.0) -> None:
        self._slots = slots
        self.now = now
        self.stamp = stamp
        """Time of this step as headers tell it (s since the epoch, or simulated); compare it with stamps only."""

    def get(self, port: str, within: float = math.inf) -> Any | None:
        """Newest message of ``port``, or None if there was none within the last ``within`` seconds.

        Where the port has a codec it is the value in that message.
        """
        slot = self._slots.get(port)
        if slot is None or self.now - slot.time > within:
            return None
        message = slot.message
        return message.value if type(message) is Carried else message

    def message(self, port: str) -> Any | None:
        """Newest message of ``port`` as it came, also where the port has a codec: for its header, origins, source."""
        slot = self._slots.get(port)
        return None if slot is None else slot.message.message if type(slot.message) is Carried else slot.message

    def age(self, port: str) -> float:
        """Seconds since the newest message of ``port`` came; ``inf`` if none did."""
        slot = self._slots.get(port)
        return math.inf if slot is None else self.now - slot.time

    def new(self, port: str) -> bool:
        """Tells whether a message of ``port`` came since the last step."""
        slot = self._slots.get(port)
        return slot is not None and slot.new

    def each(self, port: str, within: float = math.inf) -> list[Received]:
        """All messages that a port holds, at most ``within`` s old.

        Of a port that was declared with ``key``: the newest message of every publisher, in the order of their names;
        with ``every``: all since the last step, or else the newest, in the order of receipt.
        """
        slot = self._slots.get(port)
        if slot is None:
            return []
        found = slot.each(self.now, within)
        if found and type(found[0].message) is Carried:
            return [received._replace(message=received.message.value) for received in found]
        return found

    def goals(self, action: str) -> list[Any]:
        """Goals of an action that have not ended yet, oldest first: :class:`brain_wire.goals.Goal`."""
        return [received.message for received in self.each(action)]


class GoalSlot(Slot):
    """The goals of an action that have not ended yet, oldest first."""

    __slots__ = ("goals",)

    def __init__(self) -> None:
        super().__init__()
        self.goals: dict[bytes, Goal] = {}

    def offer(self, message: Goal, now: float) -> bool:
        """Puts in a goal, or one anew that has changed."""
        self.goals[message.id] = message
        super().offer(message, now)
        return False

    def ended(self, goal: bytes) -> None:
        """Forgets a goal."""
        self.goals.pop(goal, None)

    def each(self, now: float = 0.0, within: float = math.inf) -> list[Received]:
        return [Received(goal, 0.0, self.new) for goal in self.goals.values()]
