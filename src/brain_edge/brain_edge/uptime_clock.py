# SPDX-License-Identifier: Apache-2.0
"""UptimeClock time of what waits, whatever anybody's clock says.

A robot's calendar may be off by a day, or by fifty years until it has heard of the time. So ages are counted, not
computed from dates: seconds since the machine booted go on through a restart of the process and through sleep, and what
they came to is kept in the database. While the machine was off nothing is counted, since nobody knows how long that
was: what waits then lives longer, never shorter.
"""
from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Callable

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Names the run of this machine; on a system that has no name for it, one that never comes again."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return f"unknown {time.time_ns()}"


def since_boot() -> float:
    """Seconds since the machine booted, those of its sleep too where the system counts them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class UptimeClock:
    """Seconds that a database has lived, which only grow.

    Args:
        db: has the table ``clock``.
        boot, seconds: of the machine: which run of it, and how long that has lasted.
    """

    def __init__(self, db: sqlite3.Connection, boot: str | None = None,
                 seconds: Callable[[], float] = since_boot) -> None:
        self._boot, self._seconds = boot or boot_id(), seconds
        row = db.execute("SELECT boot, since, elapsed FROM clock").fetchone()
        self._since: float = seconds() if row is None else row[1]
        self._base: float = 0.0 if row is None else row[2]
        if row is not None and row[0] != self._boot:    # the machine was off
            self._since = seconds()

    def now(self) -> float:
        """Seconds that are counted so far."""
        return self._base + max(0.0, self._seconds() - self._since)

    def keep(self, db: sqlite3.Connection) -> None:
        """Writes down what is counted; within a transaction."""
        db.execute("INSERT OR REPLACE INTO clock VALUES (1, ?, ?, ?)", (self._boot, self._seconds(), self.now()))
