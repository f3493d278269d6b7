# SPDX-License-Identifier: Apache-2.0
"""Model of a link in one direction: latency, jitter, bandwidth, and segments that TCP has to send again.

The time that a piece of ``n`` bytes takes::

    sent    = max(now, sent of the piece before) + 8 n / bandwidth
    arrives = max(sent + delay + repairs, arrival of the piece before)

``delay`` is drawn: within ``jitter`` of the median in 98 of 100 cases, else beyond it, so that 1 of 100 is later than
the 99th percentile. Of the segments that the piece needs each is lost with probability ``loss``; a lost one comes after
TCP's timeout, twice that when it is lost again, and so on. Pieces never overtake each other, as within one connection:
what follows a lost segment waits for it.

Not modelled: faster repair where much is under way (fast retransmit, tail loss probes), and that TCP sends less after a
loss. Real TCP is quicker than this at rates of megabytes a second, and no quicker at a robot's few small messages.
"""
from __future__ import annotations

import random
from dataclasses import dataclass

SEGMENT = 1448          # bytes of one TCP segment on Ethernet
LEAST_TIMEOUT = 0.2     # s beyond a round trip after which Linux sends a segment again, at least
LOST_AGAIN = 6          # times that one segment is lost at most: a longer outage is a cut, and is planned for as one
USUAL = 0.98            # share of pieces whose delay is within the jitter


@dataclass(frozen=True)
class Way:
    """One direction of a link.

    Attributes:
        p50, p99: of the time that a small piece takes (s).
        jitter: how far the delay usually is from its median, at most (s).
        loss: share of the segments that are lost.
        bandwidth: bits a second.
    """

    p50: float
    p99: float
    jitter: float
    loss: float
    bandwidth: float

    @property
    def timeout(self) -> float:
        """After what time a lost segment is sent again (s)."""
        return 2 * self.p50 + LEAST_TIMEOUT

    def hit(self, size: float) -> float:
        """Probability that a message of so many bytes loses a segment."""
        return 1.0 - (1.0 - self.loss) ** segments(size)

    def usual(self, size: float) -> float:
        """Median time of a message of so many bytes, alone on the link and without a loss (s)."""
        return self.p50 + 8 * size / self.bandwidth

    def worst(self, size: float) -> float:
        """The 99th percentile of that (s), with one repair where more than one message in a hundred needs one."""
        return self.p99 + 8 * size / self.bandwidth + (self.timeout if self.hit(size) > 0.01 else 0.0)


def segments(size: float) -> int:
    """Into how many segments so many bytes are divided."""
    return max(1, -(-int(size) // SEGMENT))


class Channel:
    """Tells of each piece when it arrives; see the module.

    Args:
        way: what the link is like in this direction.
        seed: of what is drawn.

    Attributes:
        repairs: segments that were lost so far, each time counted.
    """

    def __init__(self, way: Way, seed: int) -> None:
        self._way, self._random = way, random.Random(seed)
        self._sent = self._arrived = float("-inf")
        self.repairs = 0

    def arrival(self, now: float, size: int) -> float:
        """Computes when a piece of so many bytes arrives that is handed over now (s, of the same clock)."""
        way = self._way
        self._sent = max(now, self._sent) + 8 * size / way.bandwidth
        self._arrived = max(self._sent + self._delay() + self._repair(size), self._arrived)
        return self._arrived

    def _delay(self) -> float:
        way, draw = self._way, self._random
        if draw.random() < USUAL:
            return max(0.0, way.p50 + draw.uniform(-way.jitter, way.jitter))
        least = way.p50 + way.jitter
        return draw.uniform(least, max(least, 2 * way.p99 - least))     # half of them are beyond the 99th percentile

    def _repair(self, size: int) -> float:
        longest = 0.0
        if self._way.loss:
            for _ in range(segments(size)):
                wait, again = 0.0, self._way.timeout
                for _ in range(LOST_AGAIN):
                    if self._random.random() >= self._way.loss:
                        break
                    self.repairs += 1
                    wait, again = wait + again, 2 * again
                longest = max(longest, wait)
        return longest
