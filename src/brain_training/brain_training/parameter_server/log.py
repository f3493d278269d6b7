# SPDX-License-Identifier: Apache-2.0
"""The log of a server: what was acknowledged since the last checkpoint, each record on the disk before the answer.

A record is two lengths (of a message, and of the bytes that follow it), a CRC-32 of them, one of all that, then message
and bytes.
Of a record that was being written when the process was killed nothing had been acknowledged: it is cut off.
"""
from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any, Iterator

from brain_training.checkpoint import CheckpointError
from brain_training.parameter_server.messages import LogRecord

MAGIC = b"brain parameter log 2\n"
HEAD = struct.Struct("<IIII")   # length of the message, of the bytes behind it, CRC-32 of both, CRC-32 of these and all


def _sum_of_lengths(message: int, data: int) -> int:
    return zlib.crc32(struct.pack("<II", message, data))


def _sum(message: bytes, data: Any) -> int:
    return zlib.crc32(data, zlib.crc32(message, zlib.crc32(struct.pack("<II", len(message), len(data)))))


def sync_folder(folder: Path) -> None:
    """Puts names of new and replaced files on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Log:
    """A log that is written.

    Args:
        path: of a file that is made, or of one that :func:`replay` has read.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._end = os.fstat(self._file).st_size
        if self._end < len(MAGIC):
            try:
                os.ftruncate(self._file, 0)
                self._end = 0
                self._write(MAGIC)
                os.fsync(self._file)
                sync_folder(path.parent)
            except OSError as error:
                os.close(self._file)
                raise OSError(f"cannot write {path} ({error.strerror or error}); make room, or name another folder"
                              ) from error

    @property
    def size(self) -> int:
        """Bytes."""
        return self._end

    def add(self, record: Any, data: bytes | bytearray = b"", *, sync: bool = True) -> None:
        """Writes a record, whole or not at all.

        Args:
            record: a ``LogRecord``.
            data: bytes behind it.
            sync: it is on the disk when this returns; else a killed process leaves it, a lost machine does not.

        Raises:
            OSError: it cannot be written, as where the disk is full; the log is as before.
        """
        message, before = record.SerializeToString(), self._end
        try:
            self._write(HEAD.pack(len(message), len(data), _sum_of_lengths(len(message), len(data)),
                                  _sum(message, data)) + message)
            self._write(data)
            if sync:
                os.fsync(self._file)
        except OSError:
            self._end = before
            os.ftruncate(self._file, before)
            raise

    def _write(self, data: Any) -> None:
        view = memoryview(data)
        while view:
            count = os.pwrite(self._file, view, self._end)
            self._end += count
            view = view[count:]

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def replay(path: Path) -> Iterator[tuple[Any, bytes]]:
    """Records of a log and the bytes behind each; a torn end is cut off.

    Raises:
        CheckpointError: it is damaged elsewhere, or no log.
        OSError: it cannot be read.
    """
    with path.open("rb+") as file:
        size = os.fstat(file.fileno()).st_size
        if file.read(len(MAGIC)) != MAGIC:
            if size <= len(MAGIC):
                return      # killed while it was made
            raise CheckpointError(f"{path} is no log of this version; remove its folder, or name another with --folder")
        at, number = len(MAGIC), 0
        while at < size:
            head = file.read(HEAD.size)
            lengths = HEAD.unpack(head) if len(head) == HEAD.size else (size, 0, _sum_of_lengths(size, 0), 0)
            right = _sum_of_lengths(*lengths[:2]) == lengths[2]     # else nobody knows where the record ends
            end = at + HEAD.size + (lengths[0] + lengths[1] if right else 0)
            if right and end <= size:
                message, data = file.read(lengths[0]), file.read(lengths[1])
                if _sum(message, data) == lengths[3]:
                    yield LogRecord.FromString(message), data
                    at, number = end, number + 1
                    continue
            if end < size or not right:
                raise CheckpointError(f"{path} is damaged: record {number} at byte {at} does not have its checksum, "
                                      f"and {size - end} bytes of acknowledged records lie behind it; bring the folder "
                                      f"back from a copy, or begin anew in another one")
            file.truncate(at)
            os.fsync(file.fileno())
            return
