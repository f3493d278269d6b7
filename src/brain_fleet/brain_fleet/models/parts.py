# SPDX-License-Identifier: Apache-2.0
"""A file that comes in pieces: kept beside its place until it is whole, and put there in one go.

What has come stays through a cut and a kill, and is gone on from. A file is in its place only when all of it is on the
disk and has the digest that it is named by: so there is never half of one.
"""
from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

from brain_fleet.models.model_file import SUFFIX, ModelProblem, name_of
from brain_wire import private
from brain_wire.safe_text import quoted

PIECE = 128 * 1024      # bytes: some seconds on a link of 20 kB/s
PART = ".part"


class NoRoom(ModelProblem):
    """The disk is full, or a file may not be kept; says which. Nothing was lost, and it can be tried again."""


class Parts:
    """Files of one folder, by digest.

    Args:
        folder: made where it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hashed: dict[str, tuple[int, Any]] = {}   # how far, and the hash, so that a file is not read again

    def path(self, digest: str) -> Path | None:
        """A file that is whole; None where there is none."""
        path = self._path(digest)
        return path if path.is_file() else None

    def _path(self, digest: str, suffix: str = SUFFIX) -> Path:
        return self.folder / f"{name_of(digest)}{suffix}"

    def have(self, digest: str) -> int:
        """Bytes of a file that have come."""
        for suffix in (SUFFIX, PART):
            try:
                return self._path(digest, suffix).stat().st_size
            except FileNotFoundError:
                continue
        return 0

    def put(self, digest: str, offset: int, data: bytes) -> int:
        """Takes a piece where it is the next one; returns how many bytes have come.

        Raises:
            NoRoom: the disk is full, or fails.
        """
        have = self.have(digest)
        if self.path(digest) is not None or offset != have:
            return have
        try:
            private.folder(self.folder)
            with open(self._path(digest, PART), "ab", opener=private.opener) as file:
                file.write(data)
        except OSError as error:
            raise _full(self.folder, error) from error
        at, hasher = self._hashed.get(digest, (0, hashlib.sha256()))
        if at == have:
            hasher.update(data)
            self._hashed[digest] = have + len(data), hasher
        return have + len(data)

    def finish(self, digest: str, size: int) -> Path | None:
        """Puts a file in its place once all of it has come; None where some is missing.

        Raises:
            ModelProblem: it is not what its digest says; what had come is let go of.
            NoRoom: the disk is full, or fails.
        """
        path, part = self._path(digest), self._path(digest, PART)
        if path.is_file():
            return path
        have = self.have(digest)
        if have < size:
            return None
        try:
            if have != size or self._digest(digest, part) != digest:
                self.forget(digest)
                raise ModelProblem(f"what came as model {quoted(digest[:19])} is something else ({have} bytes): it is "
                                   f"let go of")
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(part, path)
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)    # its name is to be on the disk too
            finally:
                os.close(folder)
        except OSError as error:
            raise _full(self.folder, error) from error
        self._hashed.pop(digest, None)
        return path

    def _digest(self, digest: str, part: Path) -> str:
        at, hasher = self._hashed.get(digest, (0, hashlib.sha256()))
        if at != part.stat().st_size:       # some of it came before this process
            with part.open("rb") as file:
                hasher = hashlib.file_digest(file, "sha256")
        return "sha256:" + hasher.hexdigest()

    def forget(self, digest: str) -> None:
        """Lets go of a file, and of what has come of it."""
        for suffix in (SUFFIX, PART):
            self._path(digest, suffix).unlink(missing_ok=True)
        self._hashed.pop(digest, None)


def _full(folder: Path, error: OSError) -> NoRoom:
    why = error.strerror or str(error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "make room on that disk" if full else "look at that disk"
    return NoRoom(f"cannot write in {folder} ({why}): {remedy}; what came before is kept")
