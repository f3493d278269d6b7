# SPDX-License-Identifier: Apache-2.0
"""The registry: the models that a cloud has, each with its card, its evaluation and its signature."""
from __future__ import annotations

import sqlite3
from typing import Any, Mapping

from brain_cloud import audit
from brain_cloud.blobs.serving import Collection
from brain_edge.blobs.store import Blobs, NoRoom
from brain_edge.models.model_file import LARGEST, SUFFIX, ModelProblem, check_model
from brain_edge.models.model_signature import read_statement
from brain_edge.state import events
from brain_edge.store import Store
from brain_wire.safe_text import quoted

MOST = 10_000       # models
WAITING = 20        # that have begun to come, and are not whole
_COLUMNS = ("digest", "region", "size", "signer", "added", "person", "card", "evaluation")


class Registry(Collection):
    """Models of a cloud, which robots are given.

    Args:
        store: its database; the files are in ``models`` beside it.
        authority: of the fleet, PEM; None: it has no keys, and models are not signed.
    """

    def __init__(self, store: Store, authority: bytes | None = None) -> None:
        self._store, self._authority = store, authority
        self._blobs = Blobs(store.path.parent / "models", SUFFIX)

    def put(self, digest: str, offset: int, data: bytes) -> int:
        """Takes a piece of a file; returns how many bytes have come.

        Raises:
            ModelProblem: too many have begun to come, or this one is too large. NoRoom.
        """
        have = self._blobs.have(digest)
        if have + len(data) > LARGEST:
            raise ModelProblem(f"a model has at most {LARGEST} bytes")
        if not have and data and len(self._blobs.coming()) >= WAITING:
            raise ModelProblem(f"{WAITING} models have begun to come, and are not whole: finish them, or delete their "
                               f"files in {self._blobs.folder}")
        return self._blobs.write(digest, offset, data)

    def add(self, record: Any, person: str) -> Mapping[str, Any]:
        """Takes a model in whose file has come; returns its statement.

        Raises:
            ModelProblem: it is torn, nobody vouches for it, or some of it is missing. NoRoom. StoreProblem.
        """
        stated, signer = read_statement(record, self._authority)
        digest = stated["digest"]
        path = self._blobs.finish(digest, stated["size"])
        if path is None:
            raise ModelProblem(f"of model {digest[:19]} {self._blobs.have(digest)} of {stated['size']} bytes have come")
        try:
            check_model(path)
        except ModelProblem:
            if not self.known(digest):
                self._blobs.forget(digest)
            raise
        except OSError as error:
            raise NoRoom(f"cannot read {path}: {error.strerror or error}") from error
        with self._store.change() as db:
            if db.execute("SELECT COUNT(*) FROM models").fetchone()[0] >= MOST:
                raise ModelProblem(f"there are {MOST} models already")
            new = db.execute("INSERT OR IGNORE INTO models VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (
                digest, stated["region"], stated["size"], signer, events.now(), person, record["card"],
                record["evaluation"], record["statement"], record["signature"], record["certificate"])).rowcount
            (region,) = db.execute("SELECT region FROM models WHERE digest = ?", (digest,)).fetchone()
            if region != stated["region"]:
                raise ModelProblem(f"model {digest[:19]} is there already, for {region}; a file is one region's")
            if not new:     # another card, or another signature
                db.execute("UPDATE models SET signer = ?, card = ?, evaluation = ?, statement = ?, signature = ?, "
                           "certificate = ? WHERE digest = ?", (signer, record["card"], record["evaluation"],
                                                                record["statement"], record["signature"],
                                                                record["certificate"], digest))
            audit.write(db, "", person, f"{'added' if new else 'described'} model {digest[:19]} for {region}"
                        + (f", signed by {signer}" if signer else ", not signed"))
        return stated

    def remove(self, db: sqlite3.Connection, digest: str, region: str, person: str) -> None:
        """Removes a model and its file. After a kill in between it is there without one, and can be removed again."""
        db.execute("DELETE FROM models WHERE digest = ?", (digest,))
        audit.write(db, "", person, f"removed model {digest[:19]} for {region}")
        try:
            self._blobs.forget(digest)
        except OSError as error:
            raise ModelProblem(f"the file of model {digest[:19]} cannot be removed: {error.strerror or error}"
                               ) from None

    def known(self, digest: str) -> bool:
        """Tells whether there is that model."""
        return bool(self._store.read("SELECT 1 FROM models WHERE digest = ?", (digest,)))

    def find(self, db: sqlite3.Connection, text: str) -> tuple[str, str]:
        """Digest and region of the model that begins so.

        Args:
            text: a digest, or the first digits of one, with ``sha256:`` or without.

        Raises:
            ModelProblem: there is none, or more than one.
        """
        plain = text.removeprefix("sha256:")
        if not plain or not plain.isalnum() or not plain.isascii():
            raise ModelProblem(f"{quoted(text)} is no digest; see `brain fleet models`")
        found = db.execute("SELECT digest, region FROM models WHERE digest >= ? AND digest < ? ORDER BY digest LIMIT 2",
                           (f"sha256:{plain}", f"sha256:{plain}g")).fetchall()
        if len(found) != 1:
            raise ModelProblem(f"there is no model {quoted(text)}; see `brain fleet models`, and add one with `brain "
                               f"fleet models add FILE`" if not found else
                               f"several models begin with {quoted(text)}; give more digits")
        return found[0]

    def models(self) -> list[dict[str, Any]]:
        """All models, the newest last; without their cards."""
        return [dict(zip(_COLUMNS[:6], row)) for row in self._store.read(
            f"SELECT {', '.join(_COLUMNS[:6])} FROM models ORDER BY added, digest")]

    def model(self, text: str) -> dict[str, Any]:
        """One model, with its card and its evaluation. Raises ModelProblem."""
        with self._store.change() as db:
            digest, _ = self.find(db, text)
            row = db.execute(f"SELECT {', '.join(_COLUMNS)} FROM models WHERE digest = ?", (digest,)).fetchone()
        return dict(zip(_COLUMNS, row))

    def about(self, robot: str, digest: str) -> dict[str, str]:
        """Returns the record of a model, for a robot. Raises ModelProblem where there is none."""
        rows = self._store.read("SELECT statement, signature, certificate, card, evaluation FROM models WHERE digest = "
                                "?", (digest,))
        if not rows:
            raise ModelProblem(f"the cloud has no model {quoted(digest[:19])}; add it with `brain fleet models add "
                               f"FILE`")
        return dict(zip(("statement", "signature", "certificate", "card", "evaluation"), rows[0]))

    def piece(self, robot: str, digest: str, offset: int) -> bytes:
        """Bytes of a model from ``offset`` on.

        Raises:
            ModelProblem: there is no such model, or its file is gone.
        """
        self.about(robot, digest)
        try:
            return self._blobs.read(digest, offset)
        except OSError as error:
            raise ModelProblem(f"the cloud has lost the file of model {digest[:19]}; add it again") from error
