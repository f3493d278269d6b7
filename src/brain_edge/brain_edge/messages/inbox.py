# SPDX-License-Identifier: Apache-2.0
"""The inbox: applies each message once and in order.

What applying a message changes in the database, and that it was applied, are one transaction. So a kill at any moment
leaves either both or neither, and what is delivered again is known.
"""
from __future__ import annotations

import logging
import sqlite3
from typing import Any, Callable, Iterable, Mapping, NamedTuple

from brain_edge.messages.envelope import WHY, Entry, Portion, Position
from brain_edge.messages.outbox import Diverged
from brain_edge.schema import FormProblem
from brain_wire.rate_limited_log import RateLimitedLog

KEPT = 1000     # refused messages that are remembered
STREAMS = 16    # of a peer; an acknowledgement has room for no more

limited_log = RateLimitedLog(logging.getLogger(__name__))


class Refused(ValueError):
    """A message that cannot be applied, now or ever: it is put aside with the reason, and the next one is applied."""


class Message(NamedTuple):
    """Message that has arrived.

    Attributes:
        peer: who has sent it.
        stream, seq: its place.
        kind, body: what it is; plain values.
    """

    peer: str
    stream: str
    seq: int
    kind: str
    body: Mapping[str, Any]


# Changes the database, and nothing else, by the connection that it is given; raises Refused.
Apply = Callable[[sqlite3.Connection, Message], None]


def places(db: sqlite3.Connection, peer: str) -> dict[str, Position]:
    """The newest message of each stream of a peer that is applied."""
    return {stream: Position(seq, ident) for stream, seq, ident in db.execute(
        "SELECT stream, applied, applied_id FROM incoming WHERE peer = ?", (peer,))}


def receive(db: sqlite3.Connection, peer: str, portions: Iterable[Portion], apply: Apply
            ) -> list[tuple[str, int, str]]:
    """Applies what was not applied yet, in order; returns what was refused: stream, number and reason.

    Args:
        db: within a transaction, which ends before the sender is answered.

    Raises:
        Diverged: a message that was applied has another name now.
        FormProblem: it names more streams than there can be; nothing of the transaction may be kept.
        sqlite3.Error: the database cannot be written; nothing of the transaction may be kept.
    """
    known, refused = places(db, peer), []
    for portion in portions:
        before = place = known.get(portion.stream, Position())
        _same(peer, portion.stream, portion.after, place)
        for entry in portion.entries:
            if entry.to <= place.seq:
                _same(peer, portion.stream, Position(entry.to, entry.id), place)
                continue
            if entry.seq > place.seq + 1:
                break   # what lies between has not come: the sender is told how far we are
            if entry.gone is None:
                why = _apply(db, peer, portion.stream, entry, apply)
                if why is not None:
                    refused.append((portion.stream, entry.seq, why))
            place = Position(entry.to, entry.id)
        if place != before:
            if portion.stream not in known and len(known) >= STREAMS:
                raise FormProblem(f"it names more than {STREAMS} streams")
            known[portion.stream] = place
            db.execute("INSERT OR REPLACE INTO incoming VALUES (?, ?, ?, ?)",
                       (peer, portion.stream, place.seq, place.id))
    if refused:
        db.execute("DELETE FROM refused WHERE number <= (SELECT MAX(number) FROM refused) - ?", (KEPT,))
    return refused


def _same(peer: str, stream: str, told: Position, place: Position) -> None:
    if told.seq == place.seq and told.id != place.id:
        raise Diverged(f"message {told.seq} of the stream {stream} of {peer} is another than the one that was applied: "
                       f"the database of {peer} was restored from an older state, or a copy of it runs elsewhere")


def _apply(db: sqlite3.Connection, peer: str, stream: str, entry: Entry, apply: Apply) -> str | None:
    """Applies one message wholly or not at all; returns why not, or None."""
    db.execute("SAVEPOINT message")
    try:
        apply(db, Message(peer, stream, entry.seq, entry.kind, entry.body))
    except Refused as problem:
        why = str(problem)
    except (sqlite3.OperationalError, sqlite3.InternalError):
        raise   # the disk is full, or fails: that is not the message's fault
    except sqlite3.DatabaseError as error:
        if not isinstance(error, (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)):
            raise
        why = f"it does not fit the database ({error})"
    except Exception as error:  # whatever one message does, the next is applied
        limited_log(f"apply {entry.kind}", f"a message of the kind {entry.kind} from {peer} could not be applied",
                    trace=True)
        why = f"it could not be applied: {type(error).__name__}: {error}"
    else:
        db.execute("RELEASE message")
        return None
    db.execute("ROLLBACK TO message")
    db.execute("RELEASE message")
    db.execute("INSERT INTO refused (peer, stream, seq, kind, why) VALUES (?, ?, ?, ?, ?)",
               (peer, stream, entry.seq, entry.kind, why[:WHY]))
    return why[:WHY]
