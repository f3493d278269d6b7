# SPDX-License-Identifier: Apache-2.0
"""The robot's side of the state: the last that was wanted of it, which it goes by with its cloud or without."""
from __future__ import annotations

import json
import sqlite3
from typing import Any, Mapping, NamedTuple

from brain_edge.enrolment import versions
from brain_edge.messages.inbox import Message, Refused
from brain_edge.messages.outbox import Outbox, OutboxFull
from brain_edge.schema import FormProblem, check
from brain_edge.state import events
from brain_edge.state.forms import DELETE, LIST, LISTED, SET
from brain_edge.store import Store
from brain_security.fleet_keys import CLOUD

REPORTS, EVENTS, GOALS = "reports", "events", "goals"
EVENT_LIFE = 7 * 86400.0    # s that an event, or how a goal ended, may wait for the cloud
_FORMS = {"set": SET, "delete": DELETE, "list": LIST, "listed": LISTED}


class Wanted(NamedTuple):
    """One resource that is wanted of this robot."""

    kind: str
    name: str
    version: int
    spec: Mapping[str, Any]


class DesiredState:
    """Desired state of one robot, and what it reports.

    Args:
        store: its database.
        outbox: has the streams :data:`REPORTS` and :data:`EVENTS`.
    """

    def __init__(self, store: Store, outbox: Outbox) -> None:
        self._store, self._outbox, self._robot = store, outbox, store.member

    def hear(self, db: sqlite3.Connection, message: Message) -> None:
        """Takes in what the cloud wants.

        Raises:
            Refused: it says what this version does not know.
        """
        form, body = _FORMS.get(message.kind), message.body
        if form is None:
            raise Refused(f"this software knows no message of the kind {message.kind}: the cloud's is newer, or older")
        try:
            check(body, form)
        except FormProblem as problem:
            raise Refused(str(problem)) from None
        if message.kind == "list":
            db.execute("INSERT INTO versions (robot, last, list) VALUES (?, 0, ?) ON CONFLICT DO UPDATE SET list = "
                       "excluded.list", (self._robot, body["list"]))
        elif message.kind == "listed":
            self._listed(db, body)
        else:
            self._change(db, message.kind, body)

    def _listed(self, db: sqlite3.Connection, body: Mapping[str, Any]) -> None:
        """Drops what the list did not tell of: it is wanted no more."""
        gone = db.execute("SELECT kind, name FROM desired WHERE robot = ? AND listed != ?",
                          (self._robot, body["list"])).fetchall()
        for kind, name in gone:
            self._drop(db, kind, name)
        db.execute("UPDATE versions SET last = ?, list = '' WHERE robot = ?", (body["version"], self._robot))
        # A cloud that takes a robot in anew knows none of its reports, and its versions may mean something else.
        db.execute("DELETE FROM reported WHERE robot = ?", (self._robot,))

    def _change(self, db: sqlite3.Connection, what: str, body: Mapping[str, Any]) -> None:
        row = db.execute("SELECT last, list FROM versions WHERE robot = ?", (self._robot,)).fetchone()
        last, listing = row or (0, "")
        if body["version"] <= last and not listing:
            return      # it is older than what is held
        if what == "delete":
            self._drop(db, body["kind"], body["name"])
        else:
            db.execute("INSERT OR REPLACE INTO desired VALUES (?, ?, ?, ?, ?, ?)",
                       (self._robot, body["kind"], body["name"], body["version"],
                        json.dumps(body["spec"], sort_keys=True), listing))
        if not listing:
            db.execute("INSERT INTO versions (robot, last) VALUES (?, ?) ON CONFLICT DO UPDATE SET last = "
                       "excluded.last", (self._robot, body["version"]))

    def _drop(self, db: sqlite3.Connection, kind: str, name: str) -> None:
        for table in ("desired", "reported"):
            db.execute(f"DELETE FROM {table} WHERE robot = ? AND kind = ? AND name = ?", (self._robot, kind, name))

    def wanted(self) -> list[Wanted]:
        """All that is wanted, in the order in which it was ordered."""
        return [Wanted(kind, name, version, json.loads(spec)) for kind, name, version, spec in self._store.read(
            "SELECT kind, name, version, spec FROM desired WHERE robot = ? ORDER BY version", (self._robot,))]

    def reported(self, wanted: Wanted) -> dict[str, Any] | None:
        """Returns what was reported last of a resource, of this version of it; None: nothing."""
        found = self._store.read("SELECT status FROM reported WHERE robot = ? AND kind = ? AND name = ? AND version = "
                                 "?", (self._robot, *wanted[:3]))
        return json.loads(found[0][0]) if found else None

    def version(self) -> int:
        """The newest version that is held."""
        found = self._store.read("SELECT last FROM versions WHERE robot = ?", (self._robot,))
        return found[0][0] if found else 0

    def report(self, wanted: Wanted, status: Mapping[str, Any]) -> bool:
        """Reports how a resource is done, where that is news; whether it was."""
        text = json.dumps(status, sort_keys=True)
        with self._store.change() as db:
            # it may be wanted no more by now, or otherwise
            if db.execute("SELECT 1 FROM desired WHERE robot = ? AND kind = ? AND name = ? AND version = ?",
                          (self._robot, wanted.kind, wanted.name, wanted.version)).fetchone() is None:
                return False
            row = db.execute("SELECT version, status FROM reported WHERE robot = ? AND kind = ? AND name = ?",
                             (self._robot, wanted.kind, wanted.name)).fetchone()
            if row == (wanted.version, text):
                return False
            db.execute("INSERT OR REPLACE INTO reported VALUES (?, ?, ?, ?, ?)",
                       (self._robot, wanted.kind, wanted.name, wanted.version, text))
            self._tell(db, wanted.kind, wanted.name, wanted.version, status)
        return True

    def _tell(self, db: sqlite3.Connection, kind: str, name: str, version: int, status: Mapping[str, Any]) -> None:
        self._outbox.put(db, CLOUD, REPORTS, "report", {"kind": kind, "name": name, "version": version,
                                                        "status": status}, subject=f"{kind}/{name}")

    def goal(self, body: Mapping[str, Any]) -> None:
        """Tells how a goal ended; where too many wait for the cloud already, it is not told. Raises StoreProblem."""
        with self._store.change() as db:
            try:
                self._outbox.put(db, CLOUD, GOALS, "goal", body, lives=EVENT_LIFE)
            except OutboxFull:
                return      # the next will be

    def tell_versions(self, db: sqlite3.Connection, software: str, again: bool = False) -> bool:
        """Tells the cloud what this version knows, where that is news, or ``again``; whether it did."""
        knows = versions.own(software)
        text = json.dumps(knows, sort_keys=True)
        if not again and db.execute("SELECT value FROM about WHERE key = ?", (versions.KNOWS,)).fetchone() == (text,):
            return False
        try:
            self._outbox.put(db, CLOUD, REPORTS, versions.KNOWS, knows, subject=versions.KNOWS)
        except OutboxFull:
            return False    # it is told when there is room
        db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (versions.KNOWS, text))
        return True

    def event(self, text: str) -> None:
        """Tells people that something happened; where too many wait for the cloud already, it is not told."""
        with self._store.change() as db:
            self.event_within(db, text)

    def event_within(self, db: sqlite3.Connection, text: str) -> None:
        """The same, within a transaction."""
        events.write(db, self._robot, text)
        try:
            self._outbox.put(db, CLOUD, EVENTS, "event", {"at": events.now(), "text": text[:1000]}, lives=EVENT_LIFE)
        except OutboxFull:
            return      # it is written down here, and who looks for it finds it
