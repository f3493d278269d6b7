# SPDX-License-Identifier: Apache-2.0
"""Seldom: warnings about what others can bring about as often as they like, so that no log grows by their will."""
from __future__ import annotations

import logging
import math
import threading
import time

EVERY = 5.0     # s between two warnings about the same thing
KINDS = 64      # things that are told apart


class RateLimitedLog:
    """A log that warns of each thing at most once in a while, and says how often it was silent.

    Args:
        log: where the warnings go.
        every: s between two about the same thing.
    """

    def __init__(self, log: logging.Logger, every: float = EVERY) -> None:
        self._log, self._every = log, every
        self._told: dict[str, tuple[float, int]] = {}   # by thing: when it was told last, and how often not since
        self._lock = threading.Lock()

    def __call__(self, about: str, text: str, *, trace: bool = False, level: int = logging.WARNING) -> None:
        """Warns, from any thread.

        Args:
            about: what it is about; what has the same ``about`` is told once in a while.
            text: the warning.
            trace: with the exception that is being handled.
            level: of the log.
        """
        now = time.monotonic()
        with self._lock:
            if about not in self._told and len(self._told) >= KINDS:
                about = ""
            last, silent = self._told.get(about, (-math.inf, 0))
            if now - last < self._every:
                self._told[about] = last, silent + 1
                return
            self._told[about] = now, 0
        self._log.log(level, "%s%s", text, f" ({silent} more like it)" if silent else "", exc_info=trace)
