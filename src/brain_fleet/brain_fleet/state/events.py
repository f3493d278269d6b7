# SPDX-License-Identifier: Apache-2.0
"""Events: what happened, and who ordered it, for people; the newest are kept."""
from __future__ import annotations

import sqlite3
from datetime import datetime, timezone

KEPT = 20_000   # of what people ordered, and as many of all else: no robot can talk an order out of the log


def now() -> str:
    """The date by this machine's clock (UTC), for people only: nothing is computed from it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def write(db: sqlite3.Connection, robot: str, person: str, text: str, at: str | None = None) -> None:
    """Writes an event down, within a transaction.

    Args:
        robot: that it is about, or that tells of it; empty: the cloud.
        person: who ordered it; empty: nobody.
        at: when, by the clock of who tells of it; None: now.
    """
    number = db.execute("INSERT INTO events (at, robot, person, text) VALUES (?, ?, ?, ?)",
                        (at or now(), robot, person, text[:1000])).lastrowid or 0
    if number % 100 == 0:
        for which in ("person = ''", "person != ''"):
            db.execute(f"DELETE FROM events WHERE {which} AND number <= (SELECT number FROM events WHERE {which} "
                       f"ORDER BY number DESC LIMIT 1 OFFSET ?)", (KEPT,))
