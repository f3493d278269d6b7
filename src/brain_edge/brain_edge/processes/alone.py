# SPDX-License-Identifier: Apache-2.0
"""Time that a robot has been without its cloud. That is no fault: it shows, and nothing else follows from it."""
from __future__ import annotations

import threading
import time
from typing import Callable

from brain_edge.store import Store

AFTER = 15.0        # s without an answer; three deliveries would have come
SINCE = "alone_since"


class Alone:
    """Knows whether the cloud answers. When it stopped is kept, so that it is known after a restart too.

    Args:
        store: the robot's database.
        now: steady time (s).
    """

    def __init__(self, store: Store, now: Callable[[], float] = time.monotonic) -> None:
        self._store, self._now = store, now
        self._lock = threading.Lock()
        self._heard = now()                 # not yet, but it gets a moment
        self._answered = False
        rows = store.read("SELECT value FROM about WHERE key = ?", (SINCE,))
        self._since: float | None = float(rows[0][0]) if rows else None

    def heard(self) -> None:
        """The cloud has answered."""
        with self._lock:
            self._heard, self._answered = self._now(), True

    def look(self) -> str | None:
        """Returns a line, once, when the cloud does not answer any more, or does again; None: nothing is to be told.

        Raises:
            StoreProblem: the database cannot be written.
        """
        with self._lock:
            silent, answered = self._now() - self._heard, self._answered
        if self._since is None and silent > AFTER:
            since = self._store.elapsed.now() - silent
            self._write(since)
            return f"{self._store.member} is without its cloud, and goes on as it was last told"
        if self._since is not None and answered and silent < AFTER:
            lasted = self._store.elapsed.now() - self._since
            self._write(None)
            return f"{self._store.member} has its cloud again, after {duration(lasted)}"
        return None

    def _write(self, since: float | None) -> None:
        with self._store.change() as db:
            if since is None:
                db.execute("DELETE FROM about WHERE key = ?", (SINCE,))
            else:
                db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (SINCE, repr(since)))
                self._store.elapsed.keep(db)
        self._since = since


def duration(seconds: float) -> str:
    """A time as people say it: ``3 h 12 min``."""
    whole = max(0, int(seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
