# SPDX-License-Identifier: Apache-2.0
"""Signal: wakes a thread that waits for something to do."""
from __future__ import annotations

import math
import threading


class Signal:
    """Wakes one waiting thread; several ``set`` before a ``wait`` count once. Cheaper than ``threading.Event``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wakes the waiting thread, or the next that waits."""
        if self._lock.locked():
            try:
                self._lock.release()
            except RuntimeError:
                return  # another thread has set it in between, which is as good

    def wait(self, timeout: float = math.inf) -> bool:
        """Waits up to ``timeout`` s; whether it was set."""
        if timeout <= 0:
            return self._lock.acquire(blocking=False)
        return self._lock.acquire(timeout=min(timeout, threading.TIMEOUT_MAX))
