# SPDX-License-Identifier: Apache-2.0
"""Outcomes of robots' goals, in the cloud: the newest of each robot are kept."""
from __future__ import annotations

import json
import sqlite3
from typing import Any, Mapping

KEPT = 1000     # of a robot


def write(db: sqlite3.Connection, robot: str, body: Mapping[str, Any]) -> None:
    """Writes down how a goal ended, within a transaction.

    Args:
        body: as :data:`brain_edge.state.forms.GOAL` has it.
    """
    number = db.execute("INSERT INTO goals (robot, outcome, reflexes, seconds, weights) VALUES (?, ?, ?, ?, ?)",
                        (robot, body["outcome"], body["reflexes"], body["seconds"], json.dumps(body["weights"]))
                        ).lastrowid or 0
    if number % 20 == 0:
        db.execute("DELETE FROM goals WHERE robot = ? AND number <= (SELECT number FROM goals WHERE robot = ? ORDER BY "
                   "number DESC LIMIT 1 OFFSET ?)", (robot, robot, KEPT))
