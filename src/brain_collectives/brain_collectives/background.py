# SPDX-License-Identifier: Apache-2.0
"""Threads that do what was called asynchronously, and how they end before the interpreter does.

The interpreter ends a daemon thread wherever it next asks for the GIL. Where that is within torch's C++ code, which
must not be left so, the process ends by ``abort()`` ("terminate called without an active exception").
"""
from __future__ import annotations

import threading
import time
from typing import Callable

PATIENCE = 10.0     # s that all of them get together; they are daemons, since one may be in a call that never returns

_running: dict[threading.Thread, Callable[[], None] | None] = {}
_lock = threading.Lock()


def start(target: Callable[[], object], name: str, end: Callable[[], None] | None = None) -> threading.Thread:
    """Starts a thread that the interpreter's end waits for.

    Args:
        target: what it does.
        name: of the thread.
        end: asks it to end; None: it ends when its group is closed.
    """
    def run() -> None:
        try:
            target()
        finally:
            with _lock:
                _running.pop(thread, None)

    thread = threading.Thread(target=run, name=f"brain_collectives {name}", daemon=True)
    with _lock:
        _running[thread] = end
    thread.start()
    return thread


def ask_to_end() -> None:
    """Asks all threads to end, once what they have begun has ended."""
    with _lock:
        ends = [end for end in _running.values() if end is not None]
    for end in ends:
        end()


def wait_for_end(patience: float = PATIENCE) -> None:
    """Waits until all threads have ended, ``patience`` s at most."""
    until = time.monotonic() + patience
    with _lock:
        threads = list(_running)
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
