# SPDX-License-Identifier: Apache-2.0
"""Records of a runner: manifests, how far each job is, and events; all that a killed runner needs to go on."""
from __future__ import annotations

import json
import secrets
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brain_cloud.jobs.manifests import Manifest
from brain_edge.state.events import now
from brain_edge.store import Store

MEMBER = "jobs"
EVENTS = 5000       # kept
MIGRATIONS = ((
    "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), boot TEXT NOT NULL, since REAL NOT NULL, "
    "elapsed REAL NOT NULL)",
    # uses: what a job refers to, as it was when it was applied. status and state are NULL for what is no job
    "CREATE TABLE objects (kind TEXT, name TEXT, uid TEXT NOT NULL, generation INTEGER NOT NULL, "
    "created TEXT NOT NULL, number INTEGER NOT NULL, manifest TEXT NOT NULL, uses TEXT NOT NULL, status TEXT, "
    "state TEXT, PRIMARY KEY (kind, name)) WITHOUT ROWID",
    "CREATE TABLE events (number INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, kind TEXT NOT NULL, "
    "name TEXT NOT NULL, text TEXT NOT NULL)",
),)


@dataclass
class Record:
    """An object as it is kept.

    Attributes:
        manifest: of it.
        uid: drawn when it was made: another of the same name has another.
        generation: counts changes of its spec.
        created: date, for people.
        number: order in which objects were made.
        uses: manifests that it refers to.
        status: as Kubernetes would show it.
        state: what the runner needs to go on.
    """

    manifest: Manifest
    uid: str
    generation: int
    created: str
    number: int
    uses: list[Manifest]
    status: dict[str, Any]
    state: dict[str, Any]


class Records:
    """Opens what is kept in a folder.

    Args:
        folder: made where it is missing.

    Raises:
        StoreProblem: another runner has it, or it cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder, MEMBER, MIGRATIONS)
        self.folder = Path(folder)
        self._kept: dict[str, tuple[str, str]] = {}     # what was written last, by uid

    def all(self) -> list[Record]:
        """All objects, in the order in which they were made."""
        rows = self.store.read("SELECT kind, name, uid, generation, created, number, manifest, uses, status, state "
                               "FROM objects ORDER BY number")
        return [Record(Manifest(row[0], row[1], json.loads(row[6])), row[2], row[3], row[4], row[5], [
            Manifest(one["kind"], one["name"], one["value"]) for one in json.loads(row[7])],
            json.loads(row[8] or "{}"), json.loads(row[9] or "{}")) for row in rows]

    def put(self, db: sqlite3.Connection, manifest: Manifest, uses: list[Manifest]) -> bool:
        """Keeps a manifest, within a transaction; whether it is another than before."""
        text = json.dumps(manifest.value, sort_keys=True)
        told = json.dumps([{"kind": one.kind, "name": one.name, "value": one.value} for one in uses])
        row = db.execute("SELECT manifest FROM objects WHERE kind = ? AND name = ?",
                         (manifest.kind, manifest.name)).fetchone()
        if row is not None and row[0] == text:
            return False
        if row is not None:
            spec = json.loads(row[0]).get("spec") != manifest.value.get("spec")
            db.execute("UPDATE objects SET generation = generation + ?, manifest = ?, uses = ? WHERE kind = ? AND name "
                       "= ?", (int(spec), text, told, manifest.kind, manifest.name))
            return True
        uid = secrets.token_hex(6)
        (number,) = db.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM objects").fetchone()
        db.execute("INSERT INTO objects VALUES (?, ?, ?, 1, ?, ?, ?, ?, NULL, NULL)",
                   (manifest.kind, manifest.name, uid, now(), number, text, told))
        return True

    def delete(self, db: sqlite3.Connection, kind: str, name: str) -> bool:
        """Keeps an object no more, within a transaction; whether there was one."""
        return db.execute("DELETE FROM objects WHERE kind = ? AND name = ?", (kind, name)).rowcount > 0

    def keep(self, record: Record) -> None:
        """Writes a job's status and state down, where they are others than before. Raises StoreProblem."""
        told = json.dumps(record.status), json.dumps(record.state)
        if self._kept.get(record.uid) == told:
            return
        with self.store.change() as db:
            db.execute("UPDATE objects SET status = ?, state = ? WHERE uid = ?", (*told, record.uid))
            self.store.elapsed.keep(db)
        self._kept[record.uid] = told

    def forget(self, uid: str) -> None:
        """A job is gone."""
        self._kept.pop(uid, None)

    def event(self, manifest: Manifest, text: str) -> None:
        """Writes down what happened, for people. Raises StoreProblem."""
        with self.store.change() as db:
            number = db.execute("INSERT INTO events (at, kind, name, text) VALUES (?, ?, ?, ?)",
                                (now(), manifest.kind, manifest.name, text[:1000])).lastrowid or 0
            if number % 100 == 0:
                db.execute("DELETE FROM events WHERE number <= ?", (number - EVENTS,))

    def events(self, kind: str, name: str) -> list[dict[str, Any]]:
        """Reads the events of an object, oldest first."""
        rows = self.store.read("SELECT number, at, text FROM events WHERE kind = ? AND name = ? ORDER BY number",
                               (kind, name))
        return [dict(zip(("number", "at", "text"), row)) for row in rows]

    def close(self) -> None:
        """Closes the file."""
        self.store.close()
