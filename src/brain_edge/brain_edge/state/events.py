# SPDX-License-Identifier: Apache-2.0
"""Events: what happened, for people; the newest are kept."""
from __future__ import annotations

import sqlite3
from datetime import datetime, timezone

KEPT = 20_000   # of what nobody ordered; what people did is kept apart: no robot can talk an order out of the log


def now() -> str:
    """The date by this machine's clock (UTC), for people only: nothing is computed from it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def write(db: sqlite3.Connection, robot: str, text: str, at: str | None = None, *, person: str = "") -> int:
    """Writes an event down, within a transaction; returns its number.

    Args:
        robot: that it is about, or that tells of it; empty: the cloud.
        at: when, by the clock of who tells of it; None: now.
        person: who ordered it, which the audit log of the cloud says; empty: nobody.
    """
    number = db.execute("INSERT INTO events (at, robot, person, text) VALUES (?, ?, ?, ?)",
                        (at or now(), robot, person, text[:1000])).lastrowid or 0
    if number % 100 == 0:
        db.execute("DELETE FROM events WHERE person = '' AND number <= (SELECT number FROM events WHERE person = '' "
                   "ORDER BY number DESC LIMIT 1 OFFSET ?)", (KEPT,))
    return number
