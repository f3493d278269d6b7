# SPDX-License-Identifier: Apache-2.0
"""Signal: wakes a thread that waits for something to do."""
from __future__ import annotations

import math
import threading
import time

# s after which a waiting thread looks again. A signal that comes after the interpreter looked for one and before the
# kernel sleeps wakes nobody, and its handler, which sets a flag, runs when the thread wakes.
LOOK = 1.0


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


class Flag:
    """Like ``threading.Event`` for one thread that waits, but it may be set in a signal handler at any moment.

    An Event takes a lock of its own to be set. Where the handler interrupts its thread while that has the lock, it
    would wait for itself.
    """

    def __init__(self) -> None:
        self._signal = Signal()
        self._is_set = False

    def set(self) -> None:
        """Sets it, for good."""
        self._is_set = True
        self._signal.set()

    def is_set(self) -> bool:
        """Tells whether it was set."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is set, at most ``timeout`` s; whether it is."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self._is_set:
            left = end - time.monotonic()
            self._signal.wait(min(left, LOOK))
            if left <= LOOK:
                break
        return self._is_set
