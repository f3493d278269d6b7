# SPDX-License-Identifier: Apache-2.0
"""Backoff: how long to wait before something that failed is tried again."""
from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Growing wait.

    Attributes:
        first: after the first failure in a row (s).
        most: the longest (s).
        healthy: what went well for so long (s) ends the row.
        drawn: share of the wait that is drawn, so that not all who failed together come again together (0 to 1).
    """

    first: float = 0.2
    most: float = 10.0
    healthy: float = 10.0
    drawn: float = 0.0

    def delay(self, failures: int) -> float:
        """Wait (s) after so many failures in a row (at least 1)."""
        wait = min(self.most, self.first * 2.0 ** min(failures - 1, 30))
        return wait * (1.0 - random.uniform(0.0, self.drawn)) if self.drawn else wait
