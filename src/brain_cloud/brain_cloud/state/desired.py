# SPDX-License-Identifier: Apache-2.0
"""The cloud's side of the state: what is wanted of each robot, by version, and what each has reported.

Each change of what is wanted of a robot gets the next version of that robot, and goes into its outbox in the same
transaction. So a robot that was cut off gets what it missed and nothing else; where several changes of one resource
waited, it gets the newest. A robot that is taken in, or taken in anew, is told all that is wanted, as a list: what is
not in it is wanted no more.
"""
from __future__ import annotations

import json
import secrets
import sqlite3
from typing import Any, Iterable, Mapping

from brain_cloud import audit
from brain_cloud.enrolment import versions
from brain_edge.enrolment.versions import FORM, KNOWS
from brain_edge.messages.inbox import Message, Refused
from brain_edge.messages.outbox import Outbox, Stream
from brain_edge.schema import FormProblem, check
from brain_edge.state import events
from brain_edge.state.forms import EVENT, GOAL, REPORT
from brain_edge.state.manifests import ALL, Resource

STREAM = "desired"
FROM_CLOUD = (Stream(STREAM, 0),)     # of messages to a robot
SET, DELETE, LIST, LISTED = "set", "delete", "list", "listed"
GOALS = 1000        # outcomes that are kept of a robot, the newest


class Desired:
    """Desired state of all robots, in the cloud.

    Args:
        outbox: has the stream :data:`STREAM`.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def apply(self, db: sqlite3.Connection, resource: Resource, person: str) -> list[str]:
        """Wants a resource, or another spec of it; returns the robots for which that is news.

        Raises:
            OutboxFull: of one robot; then nothing must be kept of the transaction.
        """
        robots = json.dumps(ALL if resource.robots is None else list(resource.robots))
        db.execute("INSERT OR REPLACE INTO resources VALUES (?, ?, ?, ?)",
                   (resource.kind, resource.name, robots, json.dumps(resource.spec, sort_keys=True)))
        wanted = set(self._robots(db) if resource.robots is None else resource.robots)
        had = {robot for (robot,) in db.execute("SELECT robot FROM desired WHERE kind = ? AND name = ?",
                                                (resource.kind, resource.name))}
        changed = [robot for robot in sorted(wanted)
                   if self._set(db, robot, resource.kind, resource.name, resource.spec)]
        changed += [robot for robot in sorted(had - wanted) if self._delete(db, robot, resource.kind, resource.name)]
        if changed:
            audit.write(db, "", person, f"ordered {resource.kind} {resource.name} for {', '.join(changed)}",
                        what={"do": "apply", "kind": resource.kind, "name": resource.name, "spec": resource.spec})
        return changed

    def delete(self, db: sqlite3.Connection, kind: str, name: str, person: str) -> list[str] | None:
        """Wants a resource no more; returns the robots that had it, None where there is no such resource."""
        if not db.execute("DELETE FROM resources WHERE kind = ? AND name = ?", (kind, name)).rowcount:
            return None
        robots = [robot for (robot,) in db.execute(
            "SELECT robot FROM desired WHERE kind = ? AND name = ? ORDER BY robot", (kind, name)).fetchall()]
        for robot in robots:
            self._delete(db, robot, kind, name)
        audit.write(db, "", person, f"took {kind} {name} back" + (f" from {', '.join(robots)}" if robots else ""),
                    what={"do": "delete", "kind": kind, "name": name})
        return robots

    def joined(self, db: sqlite3.Connection, robot: str) -> None:
        """Tells a robot all that is wanted of it, since it has been taken in, or is taken in anew."""
        for kind, name, robots, spec in db.execute("SELECT kind, name, robots, spec FROM resources").fetchall():
            found = json.loads(robots)
            if found == ALL or robot in found:
                self._keep(db, robot, kind, name, json.loads(spec))
        ident = secrets.token_hex(8)
        rows = db.execute("SELECT kind, name, version, spec FROM desired WHERE robot = ? ORDER BY version",
                          (robot,)).fetchall()
        version = self._version(db, robot)
        self._put(db, robot, LIST, {"list": ident, "count": len(rows)})
        for kind, name, number, spec in rows:
            self._put(db, robot, SET, {"kind": kind, "name": name, "version": number, "spec": json.loads(spec)})
        self._put(db, robot, LISTED, {"list": ident, "version": version})

    def _robots(self, db: sqlite3.Connection) -> Iterable[str]:
        return [name for (name,) in db.execute("SELECT name FROM peers WHERE epoch IS NOT NULL")]

    def _version(self, db: sqlite3.Connection, robot: str) -> int:
        row = db.execute("SELECT last FROM versions WHERE robot = ?", (robot,)).fetchone()
        return 0 if row is None else row[0]

    def _next(self, db: sqlite3.Connection, robot: str) -> int:
        (version,) = db.execute("INSERT INTO versions (robot, last) VALUES (?, 1) ON CONFLICT DO UPDATE SET last = "
                                "last + 1 RETURNING last", (robot,)).fetchone()
        return version

    def _keep(self, db: sqlite3.Connection, robot: str, kind: str, name: str, spec: Mapping[str, Any]) -> int | None:
        """Its version, where it is another spec than before."""
        text = json.dumps(spec, sort_keys=True)
        row = db.execute("SELECT spec FROM desired WHERE robot = ? AND kind = ? AND name = ?",
                         (robot, kind, name)).fetchone()
        if row is not None and row[0] == text:
            return None
        version = self._next(db, robot)
        db.execute("INSERT OR REPLACE INTO desired (robot, kind, name, version, spec) VALUES (?, ?, ?, ?, ?)",
                   (robot, kind, name, version, text))
        return version

    def _set(self, db: sqlite3.Connection, robot: str, kind: str, name: str, spec: Mapping[str, Any]) -> bool:
        version = self._keep(db, robot, kind, name, spec)
        if version is None:
            return False
        self._tell(db, robot, SET, {"kind": kind, "name": name, "version": version, "spec": spec})
        return True

    def _delete(self, db: sqlite3.Connection, robot: str, kind: str, name: str) -> bool:
        db.execute("DELETE FROM desired WHERE robot = ? AND kind = ? AND name = ?", (robot, kind, name))
        db.execute("DELETE FROM reported WHERE robot = ? AND kind = ? AND name = ?", (robot, kind, name))
        self._tell(db, robot, DELETE, {"kind": kind, "name": name, "version": self._next(db, robot)})
        return True

    def _tell(self, db: sqlite3.Connection, robot: str, what: str, body: Mapping[str, Any]) -> None:
        """Tells one that was taken in; another is told all when it comes."""
        if db.execute("SELECT 1 FROM peers WHERE name = ? AND epoch IS NOT NULL", (robot,)).fetchone():
            self._put(db, robot, what, body, subject=f"{body['kind']}/{body['name']}")

    def _put(self, db: sqlite3.Connection, robot: str, what: str, body: Mapping[str, Any],
             subject: str | None = None) -> None:
        self._outbox.put(db, robot, STREAM, what, body, subject=subject)


def hear(db: sqlite3.Connection, message: Message) -> None:
    """Takes in what a robot says of itself: how it does what is wanted, and what has happened.

    Raises:
        Refused: it says what this version does not know.
    """
    try:
        if message.kind == "report":
            body = message.body
            check(body, REPORT)
            if db.execute("SELECT 1 FROM desired WHERE robot = ? AND kind = ? AND name = ?",
                          (message.peer, body["kind"], body["name"])).fetchone() is None:
                return      # it was taken back meanwhile, or never wanted: then nothing is kept of it
            db.execute("INSERT INTO reported VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET version = "
                       "excluded.version, status = excluded.status",
                       (message.peer, body["kind"], body["name"], body["version"], json.dumps(body["status"])))
        elif message.kind == "event":
            check(message.body, EVENT)
            events.write(db, message.peer, message.body["text"], message.body["at"])
        elif message.kind == "goal":
            check(message.body, GOAL)
            _goal_ended(db, message.peer, message.body)
        elif message.kind == KNOWS:
            check(message.body, FORM)
            versions.keep(db, message.peer, message.body)
        else:
            raise Refused(f"this software knows no message of the kind {message.kind}: the robot's is newer, or older")
    except FormProblem as problem:
        raise Refused(str(problem)) from None


def _goal_ended(db: sqlite3.Connection, robot: str, body: Mapping[str, Any]) -> None:
    number = db.execute("INSERT INTO goals (robot, outcome, reflexes, seconds, weights) VALUES (?, ?, ?, ?, ?)",
                        (robot, body["outcome"], body["reflexes"], body["seconds"], json.dumps(body["weights"]))
                        ).lastrowid or 0
    if number % 20 == 0:
        db.execute("DELETE FROM goals WHERE robot = ? AND number <= (SELECT number FROM goals WHERE robot = ? ORDER BY "
                   "number DESC LIMIT 1 OFFSET ?)", (robot, robot, GOALS))
