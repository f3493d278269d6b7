# SPDX-License-Identifier: Apache-2.0
"""Rate limits: of what one peer may hand in, and of what is sent on a thin link."""
from __future__ import annotations

import time
from typing import Callable

from brain_wire.backoff import Backoff

RETRY = Backoff(first=0.05, most=5.0, drawn=0.5)    # of what goes to the cloud


class Bucket:
    """Allows so much a second, and a burst; who takes more waits until that is made up for.

    Args:
        rate: a second; 0: no limit.
        burst: at once.
        now: steady time (s).
    """

    def __init__(self, rate: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._now = rate, burst, now
        self._left, self._at = burst, now()

    def wait(self) -> float:
        """Seconds until something may be taken."""
        if not self._rate:
            return 0.0
        now = self._now()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, -self._left / self._rate)

    def take(self, amount: float) -> None:
        """Takes something, be it more than there is."""
        self.wait()
        self._left -= amount
