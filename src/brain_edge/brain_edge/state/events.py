# SPDX-License-Identifier: Apache-2.0
"""Events: what happened, and who ordered it, for people; the newest are kept."""
from __future__ import annotations

import sqlite3
from datetime import datetime, timezone
from typing import Any, Mapping

from brain_edge import audit

KEPT = 20_000   # of what nobody ordered; what people did is kept apart: no robot can talk an order out of the log


def now() -> str:
    """The date by this machine's clock (UTC), for people only: nothing is computed from it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def write(db: sqlite3.Connection, robot: str, person: str, text: str, at: str | None = None,
          what: Mapping[str, Any] | None = None) -> None:
    """Writes an event down, within a transaction. What a person ordered is an entry of the audit log.

    Args:
        robot: that it is about, or that tells of it; empty: the cloud.
        person: who ordered it; empty: nobody.
        what: an order says, for the audit log.
        at: when, by the clock of who tells of it; None: now.
    """
    number = db.execute("INSERT INTO events (at, robot, person, text) VALUES (?, ?, ?, ?)",
                        (at or now(), robot, person, text[:1000])).lastrowid or 0
    if person:
        audit.enter(db, number, what)
    if number % 100 == 0:
        db.execute("DELETE FROM events WHERE person = '' AND number <= (SELECT number FROM events WHERE person = '' "
                   "ORDER BY number DESC LIMIT 1 OFFSET ?)", (KEPT,))
        audit.rotate(db)
