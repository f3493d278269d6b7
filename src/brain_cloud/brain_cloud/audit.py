# SPDX-License-Identifier: Apache-2.0
"""The audit log: who ordered what, each entry chained to the one before it by its hash.

It is no second log. Of what happened (:mod:`brain_edge.state.events`) the events that a person ordered are its
entries: they are written in the transaction of the order itself, so there is no order without an entry, and none
without an order. What is changed or taken out later no longer fits the chain. Who can write the whole database can
also make a new chain; so the newest hash is told, to be kept elsewhere and compared later.
"""
from __future__ import annotations

import hashlib
import json
import sqlite3
from typing import Any, Callable, Iterable, Mapping, NamedTuple

from brain_edge.migrations import AUDIT_CUT
from brain_edge.state import events

KEPT = 20_000           # entries
WHAT = 4000             # bytes of what an order says, as JSON; of a longer one its hash is kept
CERTIFICATE, UNPROVEN = "certificate", "none"
COLUMNS = ("number", "at", "robot", "person", "proof", "text", "what", "hash")
_HEAD, _PROOF = "audit_head", "audit_proof"
_NOTHING: dict[str, Any] = {"entries": 0, "number": 0, "hash": ""}
Read = Callable[..., list[Any]]     # runs a query: of Store.read, or of a database that is read only


class Verified(NamedTuple):
    """Result of verifying the hash chain of the audit log.

    Attributes:
        entries: that were looked at.
        let_go: older ones, that were let go of for want of room.
        last, hash: number and hash of the newest entry, to be kept elsewhere.
        problem: the first thing that is wrong; None where nothing is.
    """

    entries: int
    let_go: int
    last: int
    hash: str
    problem: str | None


def set_proof(db: sqlite3.Connection, certificates: bool) -> None:
    """Says how it is known from now on who orders: by certificates, or not at all."""
    db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (_PROOF, CERTIFICATE if certificates else UNPROVEN))


def write(db: sqlite3.Connection, robot: str, person: str, text: str, what: Mapping[str, Any] | None = None) -> None:
    """Writes an event down, within a transaction; what a person ordered becomes an entry.

    Args:
        robot: that it is about; empty: the cloud.
        person: who ordered it; empty: nobody.
        what: an order says.
    """
    number = events.write(db, robot, text, person=person)
    if person:
        enter(db, number, what)


def enter(db: sqlite3.Connection, number: int, what: Mapping[str, Any] | None) -> None:
    """Makes an event an entry, in the transaction that writes it.

    Args:
        number: of the event.
        what: the order says, plain values.
    """
    text = "" if what is None else json.dumps(what, sort_keys=True)
    if len(text) > WHAT:
        text = json.dumps({"bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()})
    head = _about(_reader(db), _HEAD)
    (proof,) = db.execute(f"SELECT COALESCE((SELECT value FROM about WHERE key = '{_PROOF}'), ?)",
                          (UNPROVEN,)).fetchone()
    db.execute("UPDATE events SET proof = ?, what = ? WHERE number = ?", (proof, text, number))
    row = db.execute(f"SELECT {', '.join(COLUMNS[:-1])} FROM events WHERE number = ?", (number,)).fetchone()
    made = chained(head["hash"], row)
    db.execute("UPDATE events SET hash = ? WHERE number = ?", (made, number))
    count = head["entries"] + 1
    _note(db, _HEAD, {"entries": count, "number": number, "hash": made})
    if count % 100 == 0:
        rotate(db)


def rotate(db: sqlite3.Connection) -> None:
    """Lets go of the oldest entries where there are more than :data:`KEPT`, and remembers where the chain was cut."""
    row = db.execute("SELECT number, hash FROM events WHERE hash IS NOT NULL ORDER BY number DESC LIMIT 1 OFFSET ?",
                     (KEPT,)).fetchone()
    if row is None:
        return
    before = _about(_reader(db), AUDIT_CUT)
    (more,) = db.execute("SELECT COUNT(*) FROM events WHERE hash IS NOT NULL AND number <= ?", (row[0],)).fetchone()
    _note(db, AUDIT_CUT, {"entries": before["entries"] + more, "number": row[0], "hash": row[1]})
    db.execute("DELETE FROM events WHERE person != '' AND number <= ?", (row[0],))


def chained(before: str, row: Iterable[Any]) -> str:
    """Hash of an entry: of that of the one before it, and of all that stands in it but its own."""
    return hashlib.sha256(json.dumps([before, *row], separators=(",", ":")).encode()).hexdigest()


def page(read: Read, after: int, most: int) -> dict[str, Any]:
    """Some entries, oldest first, with what is to be known of the whole chain.

    Args:
        read: runs a query.
        after: number of the entry that they follow.
        most: of them.
    """
    rows = read(f"SELECT {', '.join(COLUMNS)} FROM events WHERE hash IS NOT NULL AND number > ? ORDER BY number "
                "LIMIT ?", (after, most))
    return {"entries": [dict(zip(COLUMNS, row)) for row in rows], "cut": _about(read, AUDIT_CUT),
            "head": _about(read, _HEAD)}


def entries(read: Read) -> int:
    """Returns the number of entries ever written, including those that were let go of."""
    return int(_about(read, _HEAD)["entries"])


def verify(pages: Iterable[Mapping[str, Any]], expected: tuple[int, str] | None = None) -> Verified:
    """Follows the chain through all pages of a log.

    Args:
        pages: as :func:`page` gives them, each after the last entry of the one before.
        expected: number and hash of an entry that was noted elsewhere.
    """
    cut: Mapping[str, Any] | None = None
    head: Mapping[str, Any] = _NOTHING
    number, known, count, problem = 0, "", 0, None
    met = expected is None
    for one in pages:
        if cut is None:
            cut = one["cut"]
            number, known = cut["number"], cut["hash"]
            met = met or expected == (number, known)
        head = one["head"]
        for entry in one["entries"]:
            made = chained(known, [entry[column] for column in COLUMNS[:-1]])
            if made != entry["hash"] and problem is None:
                problem = (f"entry {entry['number']} does not fit the one before it ({number or 'none'}): it was "
                           f"changed, or something between them was taken out")
            number, known, count = entry["number"], entry["hash"], count + 1
            met = met or expected == (number, known)
    cut = cut or _NOTHING
    if problem is None and (number, known, cut["entries"] + count) != (head["number"], head["hash"], head["entries"]):
        problem = (f"the newest entry is {number or 'none'}, of {cut['entries'] + count}, and the log was written up "
                   f"to {head['number']}, of {head['entries']}: what lies between was taken out")
    if problem is None and not met and expected is not None:
        problem = (f"entry {expected[0]} with the hash {expected[1][:12]}... is not there" + (
            ": it was let go of for want of room" if expected[0] < cut["number"] else
            ": the log is another than the one of which that was noted"))
    return Verified(count, cut["entries"], number, known, problem)


def _reader(db: sqlite3.Connection) -> Read:
    return lambda query, values=(): db.execute(query, values).fetchall()


def _about(read: Read, key: str) -> dict[str, Any]:
    rows = read("SELECT value FROM about WHERE key = ?", (key,))
    try:
        return {**_NOTHING, **json.loads(rows[0][0])} if rows else dict(_NOTHING)
    except (ValueError, TypeError):     # somebody wrote there: orders go on, and no chain fits
        return {**_NOTHING, "hash": "unreadable"}


def _note(db: sqlite3.Connection, key: str, value: Mapping[str, Any]) -> None:
    db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (key, json.dumps(value)))
