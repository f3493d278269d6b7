# SPDX-License-Identifier: Apache-2.0
"""Reads a database beside the process that has it: what a robot knows, with its cloud or without."""
from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any, Iterator, Sequence

from brain_edge.migrations import MIGRATIONS
from brain_edge.store import FILE, StoreProblem
from brain_edge.uptime_clock import UptimeClock


class Reading:
    """A database, read only.

    Args:
        folder: of an edge or a cloud.

    Attributes:
        member: whose it is.

    Raises:
        FileNotFoundError: there is none.
        StoreProblem: it cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._path = Path(folder) / FILE
        if not self._path.is_file():
            raise FileNotFoundError(f"there is no {self._path}; name the folder of the edge, or of the cloud, with "
                                    f"--folder")
        try:
            self._db = sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True, timeout=5.0)
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version != len(MIGRATIONS):
                raise StoreProblem(f"{self._path} is of version {version}, and this software reads version "
                                   f"{len(MIGRATIONS)}; start `brain edge` of this version once")
            (self.member,) = self._db.execute("SELECT value FROM about WHERE key = 'member'").fetchone()
        except (sqlite3.Error, TypeError, ValueError) as error:
            raise StoreProblem(f"{self._path} cannot be read ({error})") from error

    @contextlib.contextmanager
    def moment(self) -> Iterator[None]:
        """Reads from a snapshot: what is read within is of one moment, though others write. Raises StoreProblem."""
        self.rows("BEGIN")
        try:
            yield
        finally:
            self.rows("ROLLBACK")

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query. Raises StoreProblem."""
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StoreProblem(f"{self._path} cannot be read ({error})") from error

    def status(self) -> dict[str, Any]:
        """Reads what the robot knows: what is wanted, how that is done, what waits, and how long it has been alone (s).

        Raises:
            StoreProblem: it cannot be read.
        """
        try:
            return self._status()
        except (sqlite3.Error, ValueError) as error:
            raise StoreProblem(f"{self._path} cannot be read ({error})") from error

    def _status(self) -> dict[str, Any]:
        read = self._db.execute
        since = read("SELECT value FROM about WHERE key = 'alone_since'").fetchone()
        alone = None if since is None else max(0.0, UptimeClock(self._db).now() - float(since[0]))
        peer = read("SELECT epoch, apart FROM peers WHERE name = 'cloud'").fetchone() or (None, None)
        version = read("SELECT COALESCE(MAX(last), 0) FROM versions WHERE robot = ?", (self.member,)).fetchone()[0]
        resources = []
        for kind, name, number, told, status in read(
                "SELECT desired.kind, desired.name, desired.version, reported.version, reported.status FROM desired "
                "LEFT JOIN reported USING (robot, kind, name) WHERE robot = ? ORDER BY 1, 2", (self.member,)):
            status = json.loads(status) if status is not None and told == number else {"state": "ordered"}
            resources.append({"kind": kind, "name": name, "version": number, **status})
        (waiting,) = read("SELECT COALESCE(SUM(waiting), 0) FROM outgoing").fetchone()
        return {"robot": self.member, "joined": peer[0] is not None, "apart": peer[1], "alone_s": alone,
                "version": version, "waiting": waiting, "resources": resources}

    def close(self) -> None:
        """Closes it."""
        self._db.close()

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
