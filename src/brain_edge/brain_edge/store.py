# SPDX-License-Identifier: Apache-2.0
"""The one file in which an end of a fleet keeps all that must survive: SQLite, one process, one writer at a time.

What belongs together is changed in one transaction, and a transaction that is reported done is on the disk: so a kill
at any moment, a cut of the power included, loses nothing that was accepted.
"""
from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sqlite3
import threading
from pathlib import Path
from typing import Any, Iterator, Sequence

from brain_edge.migrations import MIGRATIONS
from brain_edge.uptime_clock import UptimeClock

FILE = "fleet.db"
LOCK = "lock"
ANEW = ("to begin anew, move it away with all files beside it whose names begin so, start again, and let `brain fleet "
        "accept` take this member in anew")
WAL_PAGES = 1000        # after which SQLite moves what was written to its place
# What a disk says that is full, or that fails: passing, unlike a database that is none.
PASSING = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
           sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM}


class StoreProblem(RuntimeError):
    """The database cannot be used; names the file and the remedy."""


class DiskFull(StoreProblem):
    """Nothing can be written just now. What was accepted before is safe, and nothing of this change was made."""


class Store:
    """A database that is open.

    Args:
        folder: made where it is missing; only its owner may look into it.
        member: whose it is: ``cloud``, or a robot's name.
        migrations: statements that lead to what it holds, by version; None: those of a fleet.

    Attributes:
        path: of the file.
        member: see there.
        incarnation: drawn when the file was made: who has lost it, and made another, has another.
        elapsed: how long it has lived.

    Raises:
        StoreProblem: another process has it, it is another member's, it is of a newer version, or it is none.
    """

    def __init__(self, folder: Path, member: str, migrations: Sequence[Sequence[str]] | None = None) -> None:
        self.path, self.member = Path(folder) / FILE, member
        self._migrations = MIGRATIONS if migrations is None else migrations
        self._mutex = threading.RLock()
        self._lock = _locked(Path(folder))
        with contextlib.ExitStack() as undo:
            undo.callback(self._lock.close)
            try:
                self._db = self._open()
                undo.callback(self._db.close)
                self.incarnation = self._whose()
                self.elapsed = UptimeClock(self._db)
            except sqlite3.Error as error:
                raise self._problem(error) from error
            except OSError as error:
                raise StoreProblem(f"cannot use {folder}: {error.strerror or error}; name a folder that can be written "
                                   f"with --folder") from error
            undo.pop_all()

    def _open(self) -> sqlite3.Connection:
        if not self.path.exists():
            self._make()
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10.0)
        try:
            os.chmod(self.path, 0o600)
            (found,) = db.execute("PRAGMA user_version").fetchone()
            if found <= 0:
                what = f"of version {found}, which no software writes" if self.path.stat().st_size else "empty"
                raise StoreProblem(f"{self.path} is {what}: what it held is lost or damaged. Bring it back from a "
                                   f"copy; or {ANEW}")
            if found > len(self._migrations):
                raise StoreProblem(f"{self.path} is of version {found}, and this software knows versions up to "
                                   f"{len(self._migrations)}: a newer version wrote it; install that again")
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            db.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")
            for version in range(found, len(self._migrations)):
                _migrate(db, version, self._migrations[version])
        except BaseException:
            db.close()
            raise
        return db

    def _make(self) -> None:
        """Makes the file, whole or not at all: one that is there and holds nothing has lost what it held."""
        left = self.path.with_name(f"{FILE}-wal")
        if left.exists():
            raise StoreProblem(f"{self.path} is gone, and {left.name}, which belongs to it, is there: bring both back "
                               f"from a copy, or {ANEW}")
        new = self.path.with_name(f"{FILE}.new")
        for old in self.path.parent.glob(f"{new.name}*"):   # of a process that was killed
            old.unlink()
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as db:
            for version, statements in enumerate(self._migrations):
                _migrate(db, version, statements)
            db.execute("INSERT INTO about VALUES ('member', ?), ('incarnation', ?)",
                       (self.member, secrets.token_hex(8)))
        os.replace(new, self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _whose(self) -> str:
        about = dict(self._db.execute("SELECT key, value FROM about"))
        if not about.keys() >= {"member", "incarnation"}:
            raise StoreProblem(f"{self.path} does not say whose it is: it is damaged. Bring it back from a copy; or "
                               f"{ANEW}")
        if about["member"] != self.member:
            raise StoreProblem(f"{self.path} is the database of {about['member']}, not of {self.member}; name another "
                               f"folder with --folder, or give the name that it has")
        return about["incarnation"]

    @contextlib.contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all that is done in it is on the disk when it ends, or none of it where it raises.

        Raises:
            DiskFull: see there.
            StoreProblem: the file is damaged.
        """
        with self._mutex:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                    self._db.execute("COMMIT")
                except BaseException:
                    if self._db.in_transaction:     # SQLite has undone it itself where the disk is full
                        self._db.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise self._problem(error) from error

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query. Raises StoreProblem."""
        with self._mutex:
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise self._problem(error) from error

    def close(self) -> None:
        """Closes the file; another process may have it then. May be called twice."""
        with self._mutex:
            self._db.close()
            self._lock.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _problem(self, error: sqlite3.Error) -> StoreProblem:
        code = getattr(error, "sqlite_errorcode", 0) & 0xff
        if code in PASSING:
            return DiskFull(f"{self.path} cannot be written ({error}): make room on that disk; what was accepted "
                            f"before is safe")
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return StoreProblem(f"{self.path} is damaged, or no database of a fleet ({error}): {ANEW}")
        return StoreProblem(f"{self.path}: {error}")


def _locked(folder: Path) -> Any:
    """The lock of a folder, held until it is closed or the process ends."""
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
        lock = open(folder / LOCK, "w")  # noqa: SIM115 - it is held
    except OSError as error:
        raise StoreProblem(f"cannot use {folder}: {error.strerror or error}; name a folder that can be written with "
                           f"--folder") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise StoreProblem(f"another process runs with {folder}; end that, or name another folder with --folder"
                           ) from None
    return lock


def _migrate(db: sqlite3.Connection, version: int, statements: Sequence[str]) -> None:
    """One version further, wholly or not at all."""
    db.execute("BEGIN IMMEDIATE")
    try:
        for statement in statements:
            db.execute(statement)
        db.execute(f"PRAGMA user_version={version + 1}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
