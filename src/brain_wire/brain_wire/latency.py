# SPDX-License-Identifier: Apache-2.0
"""Hops: how long the messages of each publisher take to a subscription, and how many never come.

Made from what every message of a ROS 2 node brings along: its publisher's id, its number among that publisher's
messages, and the time at which it was published. Anybody can write anything there. So only so many publishers are told
apart, what is counted cannot overflow, and times that cannot be are told as such.

The quantiles are exact for the last :data:`RECENT` messages of a publisher. As an estimate for all that it sends, the
rank is uncertain by 0.9 % (95 %): what is called p99 lies between its p98.1 and its p99.9; of fewer than 100 messages
it is the largest.
"""
from __future__ import annotations

import math
import threading
import time
from array import array
from collections import deque
from typing import Any, NamedTuple

from brain_wire.attachment import GID_SIZE, LAYOUT

MOST = 64               # publishers that are told apart on one subscription
SILENT = 10.0           # s without a message, after which a publisher's place may be taken where there is no other
RECENT = 512            # messages of a publisher whose latencies are kept, 8 bytes each; a power of two
BEHIND = 64             # numbers behind the newest, of which it is known whether they have come
JUMP = 1_000_000        # numbers left out at once, from which on nothing is taken for lost: the count began anew
LONGEST = 10_000_000_000    # ns; no message is on its way for longer: the two clocks differ
LATER = 32              # messages that wait to be noted, at most
DOUBTED = 0.01          # share of the latest messages with times that cannot be, above which no latency is told
_ALL = (1 << BEHIND) - 1
_NEVER = -1             # stands for a time that cannot be
_NONE = -2              # the newest number before the first; those that come are not negative


class Passage(NamedTuple):
    """Statistics of the messages from one publisher to a subscription.

    Attributes:
        gid: of the publisher, 16 bytes; fewer where the middleware has shorter ones or tells none.
        messages: that came, without those that came again.
        lost: that were published and did not come; None where it cannot be known.
        overwritten: that came, and gave way to newer ones before anybody looked at them.
        restarts: times its count began anew.
        p50, p99: of the time from publishing to receipt (s); NaN where none is known.
        clocks_differ: the times cannot be: they are negative or longer than :data:`LONGEST`.
        silence: s since the last message.
    """

    gid: bytes
    messages: int
    lost: int | None
    overwritten: int
    restarts: int
    p50: float
    p99: float
    clocks_differ: bool
    silence: float


class Hop:
    """Record of one publisher's messages. :meth:`note` is for the thread that receives, and for no other.

    Args:
        gid: of the publisher.
        opened: when the subscription was made (ns since the epoch).
        replays: messages from before that may be told once more, since the topic is latched.

    Attributes:
        passed: messages that had come and gave way, counted by the thread that takes them.
    """

    __slots__ = ("_filled", "_newest", "_next", "_opened", "_replays", "_seen", "_stamp", "_took", "again", "full",
                 "gid", "heard", "lost", "messages", "passed", "restarts")

    def __init__(self, gid: bytes, opened: int = 0, replays: int = 0) -> None:
        self.gid = gid
        self.messages = self.lost = self.full = self.passed = self.restarts = self.again = 0
        self.heard = -math.inf
        self._opened, self._replays = opened, replays
        self._newest = _NONE
        self._stamp = 0
        self._seen = _ALL       # bit n: number newest - n has come, or is not waited for
        self._took = array("q", bytes(8 * RECENT))
        self._next = self._filled = 0

    def note(self, number: int | None, stamp: int, now: int, waited: bool) -> None:
        """Notes a message.

        Args:
            number: of it among its publisher's; None where it is not known.
            stamp: when it was published (ns since the epoch, by the publisher's clock).
            now: when it was received, by ours.
            waited: it was there before we asked for it. Then others may have given way to it at our end: numbers left
                out before it count as overwritten, and else as lost on the way.
        """
        if number == self._newest + 1 and self._seen == _ALL:   # as nearly always
            self._newest, self._stamp = number, stamp
        elif number is not None and not self._follow(number, stamp, waited):
            return
        self.messages += 1
        if self._replays and stamp < self._opened:
            self._replays -= 1      # it tells what was, and not how long a message takes
            return
        took, place = now - stamp, self._next
        self._took[place] = took if 0 <= took <= LONGEST else _NEVER
        self._next = place + 1 & RECENT - 1
        if self._filled < RECENT:
            self._filled += 1

    def _follow(self, number: int, stamp: int, waited: bool) -> bool:
        """Keeps account of the numbers; False for a message that has come before."""
        if self._newest != _NONE:
            step = number - self._newest
            if step == 1:
                if self._seen != _ALL:
                    self._seen = (self._seen << 1 | 1) & _ALL
            elif 1 < step <= JUMP:
                if waited:
                    self.full += step - 1
                else:
                    self.lost += step - 1
                self._seen = (self._seen << step | 1) & _ALL if step < BEHIND else 1
            elif step > JUMP or stamp > self._stamp or (number <= 1 and step <= -BEHIND):
                self.restarts += 1      # one that is late only was published before the newest
                self._seen = _ALL
            else:
                return self._late(-step)
        self._newest, self._stamp = number, stamp
        return True

    def _late(self, behind: int) -> bool:
        if behind >= BEHIND or self._seen >> behind & 1:
            self.again += 1
            return False
        self._seen |= 1 << behind
        if self.lost:
            self.lost -= 1
        elif self.full:
            self.full -= 1
        return True

    def passage(self, now: float) -> Passage:
        """Computes the statistics so far, from any thread; ``now`` is the steady time (s)."""
        filled = self._filled
        took = sorted(self._took[:filled])
        doubted = sum(1 for value in took if value == _NEVER) if took and took[0] == _NEVER else 0
        differ = doubted > DOUBTED * filled
        took = [] if differ else took[doubted:]
        pick = lambda q: 1e-9 * took[min(len(took) - 1, int(q * len(took)))] if took else math.nan  # noqa: E731
        return Passage(self.gid, self.messages, None if self._newest == _NONE else self.lost, self.full + self.passed,
                       self.restarts, pick(0.5), pick(0.99), differ, now - self.heard)

    def latest(self) -> list[int]:
        """Times from publishing to receipt of the latest messages (ns), those that cannot be left out; sorted."""
        return sorted(took for took in self._took[:self._filled] if took != _NEVER)


class Hops:
    """Records of all publishers of a subscription.

    Args:
        replays: messages that each may tell once more from before the subscription was made: the depth of a latched
            topic, else 0.

    Attributes:
        unsigned: messages that came without a sound attachment.
        untold: messages of publishers for which there was no room.
    """

    def __init__(self, replays: int = 0) -> None:
        self.unsigned = self.untold = 0
        self._replays = replays
        self._opened = time.time_ns()
        self._hops: dict[bytes, Hop] = {}
        self._next_room = -math.inf
        self._later: deque[tuple[bytes | None, float, int]] = deque()
        self._lock = threading.Lock()

    def note_later(self, attachment: Any, received: float, came: int) -> None:
        """Notes a message that did not wait, as :meth:`note`, before others are noted or anybody asks.

        Some at a time: one alone takes several times as long, since by then the processor's caches are cold.

        Args:
            attachment: what has ``to_bytes`` and a length; None where there was none. It is not kept, since the buffer
                that it came in would be, too.
            received, came: as for :meth:`note`.
        """
        sound = attachment is not None and len(attachment) == LAYOUT.size
        self._later.append((attachment.to_bytes() if sound else None, received, came))
        if len(self._later) >= LATER:
            with self._lock:
                self._catch_up()

    def _catch_up(self) -> None:
        """Notes what waits for it. With the lock, since who asks does it too."""
        later = self._later
        while later:    # only who has the lock takes any out
            attachment, received, came = later.popleft()
            self._note(attachment, received, False, came)

    def note(self, attachment: bytes | None, received: float, waited: bool, came: int) -> Hop | None:
        """Notes a message, in the thread that receives. See :meth:`Hop.note`.

        Args:
            attachment: the bytes that came with it, None where there were none or too many.
            received: steady time of receipt (s).
            came: time of receipt by the clock that stamps are of (ns since the epoch).

        Returns:
            What is noted of its publisher, or None where nothing is.
        """
        with self._lock:
            self._catch_up()
            return self._note(attachment, received, waited, came)

    def _note(self, attachment: bytes | None, received: float, waited: bool, came: int) -> Hop | None:
        if attachment is None or len(attachment) != LAYOUT.size:
            self.unsigned += 1
            return None
        number, stamp, size, gid = LAYOUT.unpack(attachment)
        if size != GID_SIZE or number < 0:
            self.unsigned += 1
            return None
        hop = self._hops.get(gid) or self._add(gid, received)
        if hop is not None:
            hop.heard = received
            hop.note(number, stamp, came, waited)
        return hop

    def noted(self, gid: bytes, number: int | None, stamp: int, received: float, waited: bool) -> Hop | None:
        """As :meth:`note`, where the parts of an attachment are at hand and are sound."""
        hop = self._hops.get(gid) or self._add(gid, received)
        if hop is not None:
            hop.heard = received
            hop.note(number, stamp, time.time_ns(), waited)
        return hop

    def _add(self, gid: bytes, received: float) -> Hop | None:
        hops = self._hops
        if len(hops) >= MOST:
            # Nobody who is heard gives way: else a flood of new ids would leave nothing known of anybody.
            oldest = min(hops.values(), key=lambda h: h.heard) if received >= self._next_room else None
            if oldest is None or received - oldest.heard < SILENT:
                if oldest is not None:
                    self._next_room = received + 1.0
                self.untold += 1
                return None
            del hops[oldest.gid]
        hop = hops[gid] = Hop(gid, self._opened, self._replays)
        return hop

    def of(self, gid: bytes) -> Hop | None:
        """Returns the record of one publisher; None where there is none."""
        with self._lock:
            self._catch_up()
        return self._hops.get(gid)

    def passages(self, now: float) -> list[Passage]:
        """Computes the statistics of each publisher; from any thread. ``now`` is the steady time (s)."""
        with self._lock:
            self._catch_up()
        return [hop.passage(now) for hop in list(self._hops.values())]
