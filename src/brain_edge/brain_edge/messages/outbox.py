# SPDX-License-Identifier: Apache-2.0
"""The outbox: messages that were accepted and are not acknowledged yet, on disk, in order, by peer and stream.

Whoever puts a message in does so within a transaction of its own, so a message and the change that it tells of are
accepted together or not at all.
"""
from __future__ import annotations

import secrets
import sqlite3
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, NamedTuple

from brain_edge.messages.envelope import BATCH, MOST, Entry, Portion, Position, body_text, gone_in_one
from brain_edge.store import Store

EXPIRED, REPLACED = "expired", "replaced"
UNTIDY = 1000       # messages that were let go of, after which the outbox is tidied


class OutboxFull(RuntimeError):
    """There is no room for one more message; says of whom, and the remedy. Nothing was put in."""


class Diverged(RuntimeError):
    """Two ends do not have the same history: one of them went back to an older database, or there is a copy of it."""


class Stream(NamedTuple):
    """Messages that keep their order.

    Attributes:
        name: small letters, digits and _.
        priority: those with a lower one are delivered first.
        share: of the outbox that it may fill, so that what is less important leaves room for what is more.
    """

    name: str
    priority: int
    share: float = 1.0


@dataclass(frozen=True)
class Limits:
    """Limits of what may wait for one peer: messages, and bytes of their bodies."""

    messages: int = 100_000
    bytes: int = 256 * 2**20


class Outbox:
    """Queue of messages that wait to be delivered.

    Args:
        store: where it is kept.
        streams: that there are.
        limits: for each peer.

    Attributes:
        delivered: messages that the last :meth:`acknowledge` let go of, without those that were not needed any more.
    """

    def __init__(self, store: Store, streams: Iterable[Stream], limits: Limits = Limits()) -> None:
        self._store, self._limits = store, limits
        self._streams = {stream.name: stream for stream in sorted(streams, key=lambda one: one.priority)}
        self.delivered = 0
        self._gone = UNTIDY + 1     # it is not known how much a process before this one let go of

    def put(self, db: sqlite3.Connection, peer: str, stream: str, kind: str, body: Mapping[str, Any], *,
            lives: float | None = None, subject: str | None = None) -> int:
        """Accepts a message; returns its number in the stream. Once the transaction has ended, it will arrive.

        Args:
            db: within :meth:`Store.change`.
            peer: who is to have it.
            stream, kind, body: of it; a body is an object of plain values.
            lives: s after which it is of no use any more, and is not delivered; counted here, by
                :class:`brain_edge.uptime_clock.Elapsed`.
            subject: what it is about: an older message about that which was not delivered yet need not be any more.

        Raises:
            OutboxFull: see there.
            FormProblem: the body is too large, or is no plain JSON.
        """
        share, text = self._streams[stream].share, body_text(body)
        if subject is not None:
            self._let_go(db, "peer = ? AND stream = ? AND subject = ?", (peer, stream, subject), REPLACED)
        count, size = db.execute("SELECT COALESCE(SUM(waiting), 0), COALESCE(SUM(bytes), 0) FROM outgoing "
                                 "WHERE peer = ?", (peer,)).fetchone()
        if count + 1 > share * self._limits.messages or size + len(text) > share * self._limits.bytes:
            raise OutboxFull(f"the outbox for {peer} is full ({count} messages, {size} bytes wait; stream {stream} may "
                             f"fill {share:.0%} of it): the message is refused; send it again when {peer} has been "
                             f"reached")
        (seq,) = db.execute(
            "INSERT INTO outgoing (peer, stream, last, waiting, bytes) VALUES (?, ?, 1, 1, ?) ON CONFLICT DO UPDATE "
            "SET last = last + 1, waiting = waiting + 1, bytes = bytes + excluded.bytes RETURNING last",
            (peer, stream, len(text))).fetchone()
        expires = None if lives is None else self._store.elapsed.now() + lives
        db.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?)",
                   (peer, stream, seq, secrets.token_hex(8), kind, text, expires, subject))
        return seq

    def expire(self, db: sqlite3.Connection) -> int:
        """Lets go of what has waited too long; returns how many. Cheap where there is nothing."""
        return self._let_go(db, "expires <= ?", (self._store.elapsed.now(),), EXPIRED)

    def overdue(self) -> bool:
        """Tells whether :meth:`expire` has anything to do."""
        return bool(self._store.read("SELECT 1 FROM outbox WHERE expires <= ? AND body IS NOT NULL LIMIT 1",
                                     (self._store.elapsed.now(),)))

    def _let_go(self, db: sqlite3.Connection, which: str, values: tuple[Any, ...], why: str) -> int:
        """Messages keep their place, since none may be missing, but have no body any more."""
        found = db.execute(f"SELECT peer, stream, COUNT(*), SUM(LENGTH(body)) FROM outbox WHERE {which} AND body IS "
                           f"NOT NULL GROUP BY peer, stream", values).fetchall()
        if not found:
            return 0
        db.execute(f"UPDATE outbox SET body = NULL, gone = ? WHERE {which} AND body IS NOT NULL", (why, *values))
        db.executemany("UPDATE outgoing SET waiting = waiting - ?, bytes = bytes - ? WHERE peer = ? AND stream = ?",
                       [(count, size, peer, stream) for peer, stream, count, size in found])
        done = sum(count for _, _, count, _ in found)
        self._gone += done
        return done

    def take(self, peer: str, ahead: Mapping[str, Position] = {}, most: int = MOST, room: int = BATCH
             ) -> list[Portion]:
        """Returns what to deliver next, the more important streams first; while there is room, something of each other.

        Args:
            peer: who is to have it.
            ahead: what is acknowledged further than the disk knows, since it is full.
            most, room: messages, and bytes of their bodies. One message always has room.
        """
        places = {stream: (last, Position(acked, acked_id)) for stream, last, acked, acked_id in self._store.read(
            "SELECT stream, last, acked, acked_id FROM outgoing WHERE peer = ? AND last > acked", (peer,))}
        waiting = []
        for name in self._streams:
            if name in places:
                last, after = places[name]
                after = max(after, ahead.get(name, after), key=lambda place: place.seq)
                if after.seq < last:
                    waiting.append((name, after))
        found = []
        for number, (name, after) in enumerate(waiting):
            others = len(waiting) - number - 1
            rows = self._rows(peer, name, after.seq, max(1, most - others), room)
            most -= len(rows)
            room -= sum(len(entry.body or "") for entry in rows)
            found.append(Portion(name, after, gone_in_one(rows)))
            if room <= 0 or most <= 0:
                break
        return found

    def _rows(self, peer: str, stream: str, after: int, most: int, room: int) -> list[Entry]:
        found: list[Entry] = []
        for seq, ident, kind, body, gone in self._store.read(
                "SELECT seq, id, kind, body, gone FROM outbox WHERE peer = ? AND stream = ? AND seq > ? ORDER BY seq "
                "LIMIT ?", (peer, stream, after, most)):
            room -= len(body or "")
            if room < 0 and found:
                break
            # what lies between was let go of too, and tidied away
            found.append(Entry(found[-1].to + 1 if found else after + 1, seq, ident, kind, body, gone))
        return found

    def acknowledge(self, db: sqlite3.Connection, peer: str, applied: Mapping[str, Position]) -> int:
        """Lets go of what a peer has applied; returns how many messages.

        Args:
            applied: by stream, complete: a stream that is not there, nothing of it is applied.

        Raises:
            Diverged: that cannot be, if both ends are what they were.
        """
        rows = {stream: (last, acked, acked_id) for stream, last, acked, acked_id in db.execute(
            "SELECT stream, last, acked, acked_id FROM outgoing WHERE peer = ?", (peer,))}
        done = self.delivered = 0
        for stream in {*rows, *applied}:
            last, acked, acked_id = rows.get(stream, (0, 0, ""))
            place = applied.get(stream, Position())
            if place == Position(acked, acked_id):
                continue
            if place.seq < acked:
                raise Diverged(f"{peer} has applied messages of the stream {stream} up to {place.seq}, but had "
                               f"acknowledged {acked}: its database was lost, or restored from an older state")
            if place.seq > last or place.id != _id_of(db, peer, stream, place, acked, acked_id):
                raise Diverged(f"{peer} has applied message {place.seq} of the stream {stream}, which the database of "
                               f"{self._store.member} does not know: that was restored from an older state, or a copy "
                               f"of it runs elsewhere")
            count, size = db.execute(
                "SELECT COUNT(body), COALESCE(SUM(LENGTH(body)), 0) FROM outbox WHERE peer = ? AND stream = ? AND "
                "seq <= ?", (peer, stream, place.seq)).fetchone()
            db.execute("DELETE FROM outbox WHERE peer = ? AND stream = ? AND seq <= ?", (peer, stream, place.seq))
            db.execute("UPDATE outgoing SET acked = ?, acked_id = ?, waiting = waiting - ?, bytes = bytes - ? "
                       "WHERE peer = ? AND stream = ?", (place.seq, place.id, count, size, peer, stream))
            done += place.seq - acked
            self.delivered += count
        return done

    def begin_anew(self, db: sqlite3.Connection, peer: str, keep: bool) -> int:
        """Numbers what waits from 1 on, for a new epoch; returns how many messages are let go of instead.

        Args:
            keep: what waits, but for what the peer may have applied already.
        """
        dropped = 0
        for stream, doubt in db.execute("SELECT stream, doubt FROM outgoing WHERE peer = ?", (peer,)).fetchall():
            rows = db.execute("SELECT id, kind, body, expires, subject FROM outbox WHERE peer = ? AND stream = ? AND "
                              "seq > ? AND body IS NOT NULL ORDER BY seq", (peer, stream, doubt)).fetchall()
            (waiting,) = db.execute("SELECT waiting FROM outgoing WHERE peer = ? AND stream = ?",
                                    (peer, stream)).fetchone()
            rows = rows if keep else []
            dropped += waiting - len(rows)
            db.execute("DELETE FROM outbox WHERE peer = ? AND stream = ?", (peer, stream))
            db.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?)", [
                (peer, stream, number, ident, kind, body, expires, subject)
                for number, (ident, kind, body, expires, subject) in enumerate(rows, 1)])
            db.execute("UPDATE outgoing SET last = ?, acked = 0, acked_id = '', waiting = ?, bytes = ?, doubt = 0 "
                       "WHERE peer = ? AND stream = ?",
                       (len(rows), len(rows), sum(len(row[2]) for row in rows), peer, stream))
        return dropped

    def tidy(self, db: sqlite3.Connection) -> None:
        """Forgets places without a message, but the last of each run, which stands for them."""
        db.execute("DELETE FROM outbox AS one WHERE body IS NULL AND EXISTS (SELECT 1 FROM outbox AS next WHERE "
                   "next.peer = one.peer AND next.stream = one.stream AND next.seq = one.seq + 1 AND next.body IS "
                   "NULL)")
        self._gone = 0

    def untidy(self) -> bool:
        """Tells whether so much was let go of that :meth:`tidy` is worth reading the whole outbox."""
        return self._gone > UNTIDY

    def waiting(self, peer: str) -> int:
        """Returns the number of messages that wait for a peer."""
        return self._store.read("SELECT COALESCE(SUM(waiting), 0) FROM outgoing WHERE peer = ?", (peer,))[0][0]


def _id_of(db: sqlite3.Connection, peer: str, stream: str, place: Position, acked: int, acked_id: str) -> str:
    if place.seq == acked:
        return acked_id
    row = db.execute("SELECT id FROM outbox WHERE peer = ? AND stream = ? AND seq = ?",
                     (peer, stream, place.seq)).fetchone()
    return place.id if row is None else row[0]      # None: it was on its way when it was tidied away
