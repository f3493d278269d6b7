# SPDX-License-Identifier: Apache-2.0
"""How fast: what one peer may hand in, how fast is sent on a thin link, and how long is waited after a failure."""
from __future__ import annotations

import random
import time
from typing import Callable

FIRST, LONGEST = 0.05, 5.0      # s between attempts


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


def pause(failures: int) -> float:
    """Seconds to wait after so many failures in a row (at least 1); drawn, so that not all of a fleet come at once."""
    return min(LONGEST, FIRST * 2.0 ** min(failures - 1, 20)) * random.uniform(0.5, 1.0)
