# SPDX-License-Identifier: Apache-2.0
"""Store of blobs: files of one folder, named by their digest, within a quota.

A blob that comes in pieces is kept beside its place until all of it is on the disk and has the digest that it is named
by; then it is put there in one go. So what has come stays through a cut and a kill, and there is never half of a blob
under the name of a whole one.
"""
from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any, Iterable, NamedTuple

from brain_wire import private
from brain_wire.safe_text import quoted

PIECE = 128 * 1024      # bytes: some seconds on a link of 20 kB/s
PART = ".part"
PATTERN = "sha256:[0-9a-f]{64}"
SHA256 = "sha256:"


class BlobProblem(ValueError):
    """A blob cannot be had or used; says which, why, and the remedy."""


class NoRoom(BlobProblem):
    """The disk is full, or a blob may not be kept; says which. Nothing was lost, and it can be tried again."""


class Room(NamedTuple):
    """Room that a blob would need and has not: none missing where both are 0.

    Attributes:
        quota: bytes beyond what the store may take.
        disk: bytes beyond what the disk has.
    """

    quota: int
    disk: int


def name_of(digest: str) -> str:
    """Name of the file with that digest. Raises BlobProblem where it is no digest."""
    if not re.fullmatch(PATTERN, digest):
        raise BlobProblem(f"{quoted(digest)} is no digest; one reads sha256: and 64 digits of base 16")
    return digest.removeprefix(SHA256)


def digest_of(path: Path) -> str:
    """Digest of a file's bytes. Raises OSError."""
    with path.open("rb") as file:
        return SHA256 + hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Writes a file, which is on the disk then: whole, or as it was before; its owner's alone. Raises OSError."""
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, mode)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    _rename(temporary, path)


def _rename(old: Path, new: Path) -> None:
    os.replace(old, new)
    folder = os.open(new.parent, os.O_RDONLY)
    try:
        os.fsync(folder)    # its name is to be on the disk too
    finally:
        os.close(folder)


class Blobs:
    """Blobs of one folder. One process writes them.

    Args:
        folder: made with the first blob, for its owner alone.
        suffix: of the files.
        quota: bytes that all of it may take; None: as many as the disk has.
        reserve: bytes of the disk that are left free.
    """

    def __init__(self, folder: Path, suffix: str = ".data", quota: int | None = None, reserve: int = 0) -> None:
        self.folder, self.suffix, self.quota, self.reserve = folder, suffix, quota, reserve
        self._hashed: dict[str, tuple[int, Any]] = {}   # how far, and the hash, so that a file is not read again
        self._sizes: dict[str, int] | None = None       # of all files; None: to be looked at

    def path(self, digest: str) -> Path | None:
        """File of a blob that is whole; None where there is none."""
        path = self._path(digest)
        return path if path.is_file() else None

    def _path(self, digest: str, suffix: str = "") -> Path:
        return self.folder / f"{name_of(digest)}{suffix or self.suffix}"

    def have(self, digest: str) -> int:
        """Bytes of a blob that have come."""
        for suffix in (self.suffix, PART):
            try:
                return self._path(digest, suffix).stat().st_size
            except FileNotFoundError:
                continue
        return 0

    def coming(self) -> list[str]:
        """Digests of blobs that have begun to come, and are not whole; the one that waits longest first."""
        found = []
        for path in self.folder.glob(f"*{PART}"):
            try:
                found.append((path.stat().st_mtime_ns, SHA256 + path.stem))
            except FileNotFoundError:
                continue    # whole meanwhile, or let go of
        return [digest for _, digest in sorted(found) if re.fullmatch(PATTERN, digest)]

    def write(self, digest: str, offset: int, data: bytes) -> int:
        """Takes a piece where it is the next one; returns how many bytes have come.

        Raises:
            NoRoom: the disk is full, or fails; or all would be more than the quota.
        """
        have = self.have(digest)
        if not data or self.path(digest) is not None or offset != have:
            return have
        sizes = self.sizes()
        if self.quota is not None and sum(sizes.values()) + len(data) > self.quota:
            raise NoRoom(f"{self.folder} may take {self.quota} bytes, and would have more")
        try:
            private.folder(self.folder)
            self._sizes = None      # until it is known that all of it was written
            with open(self._path(digest, PART), "ab", opener=_own) as file:
                file.write(data)
            self._sizes = {**sizes, digest: have + len(data)}
        except OSError as error:
            raise _full(self.folder, error) from error
        at, hasher = self._hashed.get(digest, (0, hashlib.sha256()))
        if at == have:
            hasher.update(data)
            self._hashed[digest] = have + len(data), hasher
        return have + len(data)

    def finish(self, digest: str, size: int) -> Path | None:
        """Puts a blob in its place once all of it has come; None where some is missing.

        Raises:
            BlobProblem: it is not what its digest says; what had come is let go of.
            NoRoom: the disk is full, or fails.
        """
        path, part = self._path(digest), self._path(digest, PART)
        if path.is_file():
            return path
        have = self.have(digest)
        if have < size:
            return None
        try:
            if not size:        # nothing comes of one that is empty
                private.folder(self.folder)
                open(part, "ab", opener=_own).close()
            if have != size or self._digest(digest, part) != digest:
                self.forget(digest)
                raise BlobProblem(f"what came as {quoted(digest[:19])} is something else ({have} bytes): it is let go "
                                  f"of")
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            _rename(part, path)
        except OSError as error:
            raise _full(self.folder, error) from error
        self._hashed.pop(digest, None)
        return path

    def _digest(self, digest: str, part: Path) -> str:
        at, hasher = self._hashed.get(digest, (0, hashlib.sha256()))
        # some of it came before this process
        return SHA256 + hasher.hexdigest() if at == part.stat().st_size else digest_of(part)

    def read(self, digest: str, offset: int, most: int = PIECE) -> bytes:
        """Reads a piece of a blob that is whole. Raises OSError where there is none."""
        with self._path(digest).open("rb") as file:
            file.seek(offset)
            return file.read(most)

    def forget(self, digest: str) -> None:
        """Lets go of a blob, and of what has come of it. Raises OSError."""
        for suffix in (self.suffix, PART):
            self._path(digest, suffix).unlink(missing_ok=True)
        self._hashed.pop(digest, None)
        self._sizes = None

    def sizes(self) -> dict[str, int]:
        """Bytes of all blobs, those too that have come in part, by digest."""
        if self._sizes is not None:
            return self._sizes
        found = {}
        for path in self.folder.glob("*"):
            digest = SHA256 + path.stem
            if path.suffix in (self.suffix, PART) and re.fullmatch(PATTERN, digest):
                try:
                    found[digest] = path.stat().st_size
                except FileNotFoundError:
                    continue    # let go of while they are counted
        self._sizes = found
        return found

    def recount(self) -> None:
        """Files may have been deleted by somebody else."""
        self._sizes = None

    def taken(self) -> int:
        """Bytes that all blobs take."""
        return sum(self.sizes().values())

    def missing(self, digest: str, size: int) -> Room:
        """Room that is missing for a blob of so many bytes, of which some may have come."""
        rest = max(0, size - self.have(digest))
        over = 0 if self.quota is None else self.taken() + rest - self.quota
        return Room(max(0, over), max(0, rest + self.reserve - self.free()))

    def make_room(self, digest: str, size: int, keep: Iterable[str], oldest: Iterable[str]) -> Room:
        """Makes room for a blob, by letting go of others; returns what is missing still.

        Args:
            keep: blobs that stay, whatever is missing.
            oldest: blobs in the order in which they may go; before them go those that nobody names.
        """
        order, keep = list(oldest), {digest, *keep}
        for one in [*(self.sizes().keys() - set(order)), *order]:
            if not any(self.missing(digest, size)):
                break
            if one not in keep:
                self.forget(one)
        return self.missing(digest, size)

    def free(self) -> int:
        """Bytes that the disk has left."""
        folder = self.folder
        while not folder.is_dir() and folder != folder.parent:
            folder = folder.parent
        return shutil.disk_usage(folder).free


def _own(name: str, flags: int) -> int:
    """For ``opener`` of :func:`open`: a file of its owner's alone; a link in its place is not followed."""
    return private.opener(name, flags | os.O_NOFOLLOW)


def _full(folder: Path, error: OSError) -> NoRoom:
    why = error.strerror or str(error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "make room on that disk" if full else "look at that disk"
    return NoRoom(f"cannot write in {folder} ({why}): {remedy}; what came before is kept")
