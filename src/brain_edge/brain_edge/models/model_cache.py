# SPDX-License-Identifier: Apache-2.0
"""The cache: models on a robot's disk, within a quota. What is in use, or was before that, is never let go of."""
from __future__ import annotations

from pathlib import Path
from typing import Iterable

from brain_edge.blobs.store import Blobs, NoRoom
from brain_edge.models.model_file import OWN, SUFFIX
from brain_edge.store import Store

QUOTA = 2 * 10**9       # bytes
RESERVE = 64 * 10**6    # bytes of the disk that are left free


class ModelCache:
    """Models of a robot.

    Args:
        store: its database; the files are in ``models`` beside it.
        quota: bytes that they may take.

    Attributes:
        blobs: their files.
    """

    def __init__(self, store: Store, quota: int = QUOTA) -> None:
        self._store = store
        self.blobs = Blobs(store.path.parent / "models", SUFFIX, quota, RESERVE)

    def path(self, digest: str) -> Path | None:
        """The file of a model that is whole, and was checked; None where there is none."""
        if not self._store.read("SELECT 1 FROM shelf WHERE digest = ?", (digest,)):
            return None
        return self.blobs.path(digest)

    def signer(self, digest: str) -> str:
        """Returns who has signed a model that is there; empty: nobody."""
        rows = self._store.read("SELECT signer FROM shelf WHERE digest = ?", (digest,))
        return rows[0][0] if rows else ""

    def take(self, digest: str, region: str, size: int, signer: str) -> None:
        """Puts a model on the cache whose file is whole. Raises StoreProblem."""
        with self._store.change() as db:
            db.execute("INSERT OR REPLACE INTO shelf SELECT ?, ?, ?, ?, COALESCE(MAX(used), 0) + 1 FROM shelf",
                       (digest, region, size, signer))

    def used(self, digest: str) -> None:
        """A model is put to use: it is let go of later than those that were used before. Raises StoreProblem."""
        with self._store.change() as db:
            db.execute("UPDATE shelf SET used = (SELECT MAX(used) + 1 FROM shelf) WHERE digest = ?", (digest,))

    def lose(self, digest: str) -> None:
        """Lets go of a file that is not what it was. Raises StoreProblem."""
        with self._store.change() as db:
            db.execute("DELETE FROM shelf WHERE digest = ?", (digest,))
        self.blobs.forget(digest)

    def make_room(self, digest: str, size: int, wanted: Iterable[str]) -> None:
        """Makes room for a model, by letting go of those that were used longest ago.

        Args:
            wanted: digests that are wanted; they stay, as those stay that regions have, or had before.

        Raises:
            NoRoom: what must stay leaves too little. StoreProblem.
        """
        oldest = [row[0] for row in self._store.read("SELECT digest FROM shelf ORDER BY used")]
        over, lacking = self.blobs.make_room(digest, size, {*wanted, *self._in_use()}, oldest)
        if gone := [(one,) for one in oldest if self.blobs.path(one) is None]:
            with self._store.change() as db:
                db.executemany("DELETE FROM shelf WHERE digest = ?", gone)
        if over:
            raise NoRoom(f"model {digest[:19]} has {size} bytes, and with those that regions have or had it would be "
                         f"more than the {self.blobs.quota} that models may take; give `brain edge` more with "
                         f"--models-mb")
        if lacking:
            raise NoRoom(f"of model {digest[:19]} {size - self.blobs.have(digest)} bytes are missing, and the disk of "
                         f"{self.blobs.folder} has {self.blobs.free()} left; make room there")

    def _in_use(self) -> set[str]:
        return {digest for row in self._store.read("SELECT digest, before FROM loaded") for digest in row
                if digest != OWN}
