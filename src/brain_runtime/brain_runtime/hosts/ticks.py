# SPDX-License-Identifier: Apache-2.0
"""A synchronous tick: all regions of a static group go on together, at a rate, and who is late is named."""
from __future__ import annotations

import logging
import time

from brain_runtime.hosts.torch import TorchHost
from brain_wire.rate_limited_log import RateLimitedLog

limited_log = RateLimitedLog(logging.getLogger(__name__))


class Ticks:
    """Waits for the next tick, and for all ranks to have done what the last one asked of them (a barrier).

    Args:
        host: the group, as rank 0 sees it.
        rate: of ticks (Hz).

    Attributes:
        number: of the tick that is on.
        late: by region, in how many ticks it was what took longest when a tick took longer than it should.
    """

    def __init__(self, host: TorchHost, rate: float) -> None:
        self._host, self._period = host, 1.0 / rate
        self.number = 0
        self._begun = self._next = time.monotonic()
        self.late: dict[str, int] = {}

    def meet(self) -> None:
        """Returns when the next tick is to begin everywhere. Ticks that were missed are not made up for.

        Raises:
            GroupError: names the ranks that have not come to it.
        """
        busy = self._host.tick(self.number, max(0.0, self._next - time.monotonic()))
        now = time.monotonic()
        took = now - self._begun
        if now - self._next > self._period and busy:
            slowest = max(busy, key=lambda name: busy[name])
            self.late[slowest] = self.late.get(slowest, 0) + 1
            limited_log(slowest, f"tick {self.number} took {took:.3f} s, not {self._period:.3f}: {slowest} computed "
                                 f"for {busy[slowest]:.3f} s, longer than all others; it was late "
                                 f"{self.late[slowest]} times so far")
        missed = max(0, int((now - self._next) / self._period))
        self._next += (missed + 1) * self._period
        self._begun, self.number = now, self.number + 1
