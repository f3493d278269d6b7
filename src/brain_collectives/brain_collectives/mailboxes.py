# SPDX-License-Identifier: Apache-2.0
"""Mailbox of one group: messages that have arrived and wait for their call, by its number, step and source.

Zenoh's thread puts messages in, the thread that makes a call takes them out. A message may arrive before its call is
made here, and again after its call has ended (when it was sent twice because a link was lost); then it is dropped.
"""
from __future__ import annotations

import threading
import time
from typing import Any, Iterable

from brain_collectives.errors import CollectiveError
from brain_collectives.header import Header
from brain_wire.wakeup import Signal

REMEMBERED = 4096       # own calls that a message which comes late is still compared with
AHEAD = 1 << 16         # messages of one rank that may be kept out of their order, point to point
NO_PAYLOAD = b""

Key = tuple[int, int]   # step within the call, source in the default group


class Receive:
    """A receive that was posted, until its message is there.

    Attributes:
        source: rank in the default group from which it wants a message; None: any of the group.
        tag: which the message has.
        sender: rank in the default group from which it came.
        header, payload: of what came.
    """

    def __init__(self, source: int | None, tag: int) -> None:
        self.source = source
        self.tag = tag
        self.sender = -1
        self.header: Header | None = None
        self.payload: Any = NO_PAYLOAD
        self._signal = threading.Event()

    def fits(self, header: Header) -> bool:
        """Tells whether a message is one that it waits for."""
        return self.tag == header.phase and self.source in (None, header.source)

    def deliver(self, header: Header, payload: Any) -> None:
        """Gives it its message."""
        self.sender, self.payload, self.header = header.source, payload, header
        self._signal.set()

    def wake(self) -> None:
        """Lets who waits look whether the group has failed."""
        self._signal.set()

    def wait(self, timeout: float) -> bool:
        """Waits up to ``timeout`` s; whether it has its message."""
        if self.header is None:
            self._signal.wait(max(timeout, 0.0))
            if self.header is None:
                self._signal.clear()
        return self.header is not None


class Mailbox:
    """Messages of one group.

    Args:
        members: ranks in the default group, in the order of the group's own ranks.

    Attributes:
        failure: why no call of this group can be done any more; None: it can.
        left: ranks that will send nothing more, since their process has closed the group or ended well.
        ended: number of the last call that is over; -1: none is.
    """

    def __init__(self, members: tuple[int, ...]) -> None:
        self.members = members
        self.failure: CollectiveError | None = None
        self.left: set[int] = set()
        self._lock = threading.Lock()
        self._calls: dict[int, bytes] = {}
        self._arrived: dict[int, dict[Key, tuple[Header, Any]]] = {}
        self.ended = -1
        self._signal = Signal()
        self._wanted: tuple[int, set[Key]] | None = None
        self._posted: list[Receive] = []
        self._unexpected: list[tuple[Header, Any]] = []
        self._next: dict[int, int] = {}
        self._ahead: dict[int, dict[int, tuple[Header, Any]]] = {}

    # Collectives

    def begin(self, sequence: int, call: bytes) -> list[Header]:
        """Says what this rank calls; headers of what has arrived of it and is of another call."""
        with self._lock:
            self._calls[sequence] = call
            self._calls.pop(sequence - REMEMBERED, None)
            return [header for header, _ in self._arrived.get(sequence, {}).values() if header.call != call]

    def call_of(self, sequence: int) -> bytes | None:
        """Returns this rank's call of number ``sequence``; None: nothing yet, or that is long ago."""
        return self._calls.get(sequence)

    def put(self, header: Header, payload: Any) -> bool:
        """Keeps a message of a collective. False: this rank makes another call under that number."""
        with self._lock:
            own = self._calls.get(header.sequence)
            if own is not None and own != header.call:
                return False
            if header.sequence <= self.ended:
                return True
            key = (header.phase, header.source)
            self._arrived.setdefault(header.sequence, {}).setdefault(key, (header, payload))
            if self._wanted is not None and self._wanted[0] == header.sequence:
                self._wanted[1].discard(key)
                if not self._wanted[1]:
                    self._signal.set()
        return True

    def wait(self, sequence: int, keys: Iterable[Key], until: float) -> set[Key]:
        """Waits until all messages ``keys`` of a call have arrived; those that have not by ``until``.

        Args:
            until: on the steady clock (s).

        Raises:
            CollectiveError: the group has failed, and what is waited for is not there.
        """
        keys = list(keys)
        while True:
            with self._lock:
                left = set(self.left)   # before what is there: all that a rank sent came before it left
                there = self._arrived.get(sequence, {})
                missing = {key for key in keys if key not in there}
                if not missing:
                    self._wanted = None
                    return missing
                if self.failure is not None:
                    raise self.failure.with_traceback(None)
                self._wanted = (sequence, set(missing))
            remaining = until - time.monotonic()
            if remaining <= 0 or any(source in left for _, source in missing):
                return missing
            self._signal.wait(remaining)

    def waits_for(self, sequence: int, key: Key) -> bool:
        """Tells whether a call waits for a message just now."""
        with self._lock:
            return self._wanted is not None and self._wanted[0] == sequence and key in self._wanted[1]

    def take(self, sequence: int, key: Key) -> Any:
        """The payload of a message that has arrived."""
        with self._lock:
            return self._arrived[sequence].pop(key)[1]

    def end(self, sequence: int) -> None:
        """Forgets what has arrived for a call that is over."""
        with self._lock:
            self.ended = max(self.ended, sequence)
            self._wanted = None
            self._arrived.pop(sequence, None)

    # Point to point

    def point(self, header: Header, payload: Any) -> int | None:
        """Keeps a message that was sent point to point; the number of one that is missing before it, if one is."""
        with self._lock:
            source, number = header.source, header.sequence
            due = self._next.get(source, 0)
            if number < due:
                return None
            if number > due:
                ahead = self._ahead.setdefault(source, {})
                if len(ahead) < AHEAD:
                    ahead[number] = (header, payload)
                return due
            self._deliver(header, payload)
            due += 1
            ahead = self._ahead.get(source, {})
            while due in ahead:
                self._deliver(*ahead.pop(due))
                due += 1
            self._next[source] = due
            return due if ahead else None

    def next_point(self, source: int) -> int:
        """Number of the next message from a rank, point to point."""
        return self._next.get(source, 0)

    def _deliver(self, header: Header, payload: Any) -> None:
        for receive in self._posted:
            if receive.fits(header):
                self._posted.remove(receive)
                receive.deliver(header, payload)
                return
        self._unexpected.append((header, payload))

    def post(self, receive: Receive) -> None:
        """Adds a receive; messages go to receives in the order in which both came."""
        with self._lock:
            for position, (header, payload) in enumerate(self._unexpected):
                if receive.fits(header):
                    del self._unexpected[position]
                    receive.deliver(header, payload)
                    return
            self._posted.append(receive)

    def withdraw(self, receive: Receive) -> None:
        """Takes back a receive, whose waiting has ended without a message."""
        with self._lock:
            if receive in self._posted:
                self._posted.remove(receive)

    # Ends

    def fail(self, failure: CollectiveError) -> None:
        """Ends all waiting with an error, now and later; the first error stays."""
        with self._lock:
            if self.failure is None:
                self.failure = failure
        self.wake()

    def leave(self, rank: int) -> None:
        """Notes that a rank will send nothing more."""
        self.left.add(rank)
        self.wake()

    def wake(self) -> None:
        """Lets all that wait look again."""
        self._signal.set()
        with self._lock:
            posted = list(self._posted)
        for receive in posted:
            receive.wake()
