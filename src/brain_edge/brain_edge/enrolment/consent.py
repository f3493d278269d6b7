# SPDX-License-Identifier: Apache-2.0
"""Consent: pictures leave a robot only where its owner has said so, on the robot itself.

The answer is in a file of the robot, and no message of the cloud is ever read by what writes it. Whatever sends
pictures, or recordings that hold some, does it within :meth:`Consent.leaving`, which asks for the answer, counts the
bytes against the day's, and writes a line for each, also for those that did not leave.
"""
from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from brain_edge.state.events import now
from brain_edge.uptime_clock import UptimeClock
from brain_wire.rate_limited_log import RateLimitedLog

FILE = "consent.db"
KINDS = ("pictures", "recordings")
DAY = 86400.0
DAILY = 100 * 10**6     # bytes a day where the owner says nothing else
KEEP = 30.0             # days that the cloud may keep them
LINES = 10_000          # that are kept
PARCEL = 10**6          # bytes of a stream that are counted at once, before they leave
LASTS = 60.0            # s after which a stream's consent is looked up again
REFUSED = 5.0           # s after a refusal in which the owner is not asked again: each is written down

limited_log = RateLimitedLog(logging.getLogger("brain.consent"))

_TABLES = (
    "CREATE TABLE IF NOT EXISTS clock (one INTEGER PRIMARY KEY CHECK (one = 1), boot TEXT NOT NULL, since REAL NOT "
    "NULL, elapsed REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS answers (kind TEXT PRIMARY KEY, allowed INTEGER NOT NULL, daily INTEGER NOT NULL, "
    "keep REAL NOT NULL, at TEXT NOT NULL, by TEXT NOT NULL)",
    # elapsed: by the counted age of this file, since a date may be anything. state: left, refused, broken
    "CREATE TABLE IF NOT EXISTS lines (number INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, elapsed REAL NOT "
    "NULL, kind TEXT NOT NULL, what TEXT NOT NULL, goes TEXT NOT NULL, bytes INTEGER NOT NULL, state TEXT NOT NULL, "
    "why TEXT NOT NULL DEFAULT '')",
)


class NoConsent(RuntimeError):
    """Something may not leave the robot; says why, and who can change that."""


class ConsentProblem(RuntimeError):
    """The owner's answer cannot be read or written, so nothing leaves; names the file."""


class Answer(NamedTuple):
    """Owner's answer about a kind of data: consent, daily quota and retention.

    Attributes:
        allowed: whether it may leave; no, where nothing was said.
        daily: bytes a day.
        keep: days for which whoever gets it may keep it.
        at, by: when it was said, and by whom.
    """

    allowed: bool = False
    daily: int = DAILY
    keep: float = KEEP
    at: str = ""
    by: str = ""


class Consent:
    """The owner's answers. Several processes of the robot may have it at the same time.

    Args:
        folder: of the edge.

    Raises:
        ConsentProblem: see there.
    """

    def __init__(self, folder: Path) -> None:
        self._path = Path(folder) / FILE
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._change() as db:
                for table in _TABLES:
                    db.execute(table)
            os.chmod(self._path, 0o600)
        except OSError as error:
            raise ConsentProblem(f"cannot use {self._path}: {error.strerror or error}") from error

    @contextlib.contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(sqlite3.connect(self._path, isolation_level=None, timeout=10.0)) as db:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
        except sqlite3.Error as error:
            raise ConsentProblem(f"{self._path} cannot be read or written ({error}), so nothing leaves this robot"
                                 ) from error

    def answer(self, kind: str) -> Answer:
        """Returns the owner's answer about a kind of data. Raises ConsentProblem."""
        with self._change() as db:
            return _answer(db, kind)

    def decide(self, kind: str, allowed: bool, *, daily: int | None = None, keep: float | None = None, by: str = ""
               ) -> None:
        """Stores the owner's answer, for ``brain fleet consent`` on the robot; nothing else calls it.

        Raises:
            ValueError: a kind that there is not, or no sound number.
            ConsentProblem: see there.
        """
        _check(kind)
        with self._change() as db:
            before = _answer(db, kind)
            daily, keep = before.daily if daily is None else daily, before.keep if keep is None else keep
            if not 0 <= daily <= 10**13 or not 0.0 < keep <= 3650.0:
                raise ValueError("a day's quota is 0 to 10 000 000 MB, and what is sent is kept for up to 3650 days")
            db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)",
                       (kind, allowed, daily, keep, now(), by))

    @contextlib.contextmanager
    def leaving(self, kind: str, size: int, what: str, goes: str) -> Iterator[Answer]:
        """Within it something leaves the robot; what the owner has said of it.

        The bytes count from before the first has left: where this process is killed, too much is counted, never too
        little.

        Args:
            kind: one of :data:`KINDS`.
            size: bytes.
            what, goes: what it is, and to whom; for the owner.

        Raises:
            NoConsent: it may not. There is a line of that too.
            ValueError: a kind that there is not.
            ConsentProblem: see there.
        """
        _check(kind)
        with self._change() as db:
            elapsed = UptimeClock(db)
            moment = elapsed.now()
            elapsed.keep(db)
            answer = _answer(db, kind)
            (used,) = db.execute("SELECT COALESCE(SUM(bytes), 0) FROM lines WHERE kind = ? AND state != 'refused' AND "
                                 "elapsed > ?", (kind, moment - DAY)).fetchone()
            why = ""
            if not answer.allowed:
                why = f"the owner of this robot has not consented that {kind} leave it; on the robot: `brain fleet " \
                      f"consent --{kind}`"
            elif size < 0 or used + size > answer.daily:
                why = f"{used / 1e6:.1f} MB of {kind} left this robot within a day, and of {answer.daily / 1e6:.1f} " \
                      f"MB not enough is left for {size / 1e6:.1f}; wait, or on the robot: `brain fleet consent " \
                      f"--{kind} --daily MB`"
            number = db.execute("INSERT INTO lines (at, elapsed, kind, what, goes, bytes, state, why) VALUES (?, ?, ?, "
                                "?, ?, ?, ?, ?)", (now(), moment, kind, what[:200], goes[:200], size,
                                                   "refused" if why else "left", why)).lastrowid or 0
            # Those that still count stay, so that nobody makes room by asking often.
            db.execute("DELETE FROM lines WHERE number <= ? AND (state = 'refused' OR elapsed <= ?)",
                       (number - LINES, moment - DAY))
        if why:
            raise NoConsent(why)
        try:
            yield answer
        except BaseException as error:
            with self._change() as db:
                db.execute("UPDATE lines SET state = 'broken', why = ? WHERE number = ?", (str(error)[:500], number))
            raise

    def lines(self, most: int = 20) -> list[dict[str, Any]]:
        """Lists what left the robot and what did not, newest first. Raises ConsentProblem."""
        names = ("at", "kind", "what", "to", "bytes", "state", "why")
        with self._change() as db:
            return [dict(zip(names, row)) for row in db.execute(
                "SELECT at, kind, what, goes, bytes, state, why FROM lines ORDER BY number DESC LIMIT ?", (most,))]


class Parcels:
    """Guard of a stream of small messages: they leave by the owner's consent, counted in parcels before they do.

    Args:
        consent: of the robot's owner.
        kind: one of :data:`KINDS`.
        what, goes: what it is, and to whom; for the owner.
    """

    def __init__(self, consent: Consent, kind: str, what: str, goes: str) -> None:
        self._consent, self._kind, self._what, self._goes = consent, kind, what, goes
        self._left, self._until, self._refused = 0, 0.0, float("-inf")

    def let(self, size: int) -> bool:
        """Counts so many bytes and lets them leave, or refuses that, and logs why now and then."""
        if time.monotonic() < self._refused + REFUSED:
            return False
        if size > self._left or time.monotonic() > self._until:
            try:
                if size > self._left or not self._consent.answer(self._kind).allowed:
                    with self._consent.leaving(self._kind, PARCEL, self._what, self._goes):
                        self._left = PARCEL
                self._until = time.monotonic() + LASTS      # else the rest of the parcel is counted already
            except (NoConsent, ConsentProblem) as problem:
                self._left, self._refused = 0, time.monotonic()
                limited_log(self._what, f"of {self._what} none leaves this robot: {problem}")
                return False
        self._left -= size
        return True


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"there is no kind {ascii(kind)[:40]}; there are {', '.join(KINDS)}")


def _answer(db: sqlite3.Connection, kind: str) -> Answer:
    row = db.execute("SELECT allowed, daily, keep, at, by FROM answers WHERE kind = ?", (kind,)).fetchone()
    return Answer() if row is None else Answer(bool(row[0]), *row[1:])
