# SPDX-License-Identifier: Apache-2.0
"""A clip on the disk: one MCAP file, whole or not there, whose name says whose it is and why it was kept.

``hard-ROBOT-DRIVE-NUMBER-RULE-HARDNESS.mcap``: a drive is one recording, or one run of who collects; pictures of one
drive resemble each other, so it is in training or in an examination as a whole. Hardness is in hundredths.
"""
from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from brain_runtime import interfaces
from brain_runtime.command.lacking import lacks
from brain_wire import messages

END = ".mcap"
PART = ".part"
_NAME = re.compile(r"hard-([A-Za-z0-9_.-]{1,64})-([A-Za-z0-9_]{1,40})-(\d{1,9})-([a-z_]{1,20})-(\d{1,3})\.mcap")


class ClipProblem(RuntimeError):
    """A clip, or the folder of clips, cannot be read or written; says which, and the remedy."""


class Name(NamedTuple):
    """Fields of a clip's file name; ``hardness`` is 0 to 1."""

    robot: str
    drive: str
    number: int
    rule: str
    hardness: float

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"hard-{self.robot}-{self.drive}-{self.number:06d}-{self.rule}-{round(100 * self.hardness)}{END}"


def name_of(file: str) -> Name | None:
    """Parses the name of a clip's file; None: the file is no clip."""
    found = _NAME.fullmatch(file)
    if found is None or int(found[5]) > 100:
        return None
    return Name(found[1], found[2], int(found[3]), found[4], int(found[5]) / 100)


class Kept(NamedTuple):
    """A message that is kept: its topic, the ROS type, when it was received (ns), and what it is."""

    topic: str
    kind: str
    at: int
    message: Any


def write(path: Path, kept: Sequence[Kept]) -> None:
    """Writes a clip: after this the file is whole and on the disk, or there is none.

    Args:
        path: of the file, in a folder that is there.
        kept: messages, in the order of their times.

    Raises:
        ClipProblem: it cannot be written.
    """
    try:
        from rosbags.rosbag2 import StoragePlugin, Writer
    except ModuleNotFoundError as error:
        raise ClipProblem(lacks(error.name or "rosbags")) from None
    part = path.with_name(f".{path.stem}{PART}")
    try:
        shutil.rmtree(part, ignore_errors=True)
        with Writer(part, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
            known: dict[str, Any] = {}
            for one in kept:
                if one.topic not in known:
                    known[one.topic] = writer.add_connection(f"/{one.topic}", one.kind, typestore=_types())
                writer.write(known[one.topic], one.at, messages.encode(one.message))
        (file,) = part.glob(f"*{END}")
        for place in (file, part):
            _to_disk(place)
        os.replace(file, path)
        _to_disk(path.parent)
    except OSError as error:
        raise ClipProblem(f"cannot write {path}: {error.strerror or error}; make room on that disk, or take less with "
                          f"--keep") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _to_disk(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@cache
def _types() -> Any:
    """Definitions of the standard types and ours, by which other tools read the file."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    found = get_typestore(Stores.ROS2_KILTED)
    for path in sorted((interfaces.definitions() / "msg").glob("*.msg")):
        found.register(get_types_from_msg(path.read_text(encoding="utf-8"), f"{interfaces.PACKAGE}/msg/{path.stem}"))
    return found


class ClipFolder:
    """The clips of a robot, up to a number of bytes. One process writes them, until it closes the folder.

    Where there are too many, those go that are worth least: their hardness, less what they have aged.

    Args:
        folder: made where it is missing.
        most: bytes.

    Raises:
        ClipProblem: it cannot be made, or written to.
    """

    AGES = 1000.0       # clips until the hardest one is worth as little as a new one that is not hard at all

    def __init__(self, folder: Path, most: float) -> None:
        self._folder, self._most = folder, most
        with contextlib.ExitStack() as undo:
            try:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._lock = undo.enter_context((folder / ".lock").open("w"))
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for part in folder.glob(f".*{PART}"):     # of a process that was killed
                    shutil.rmtree(part, ignore_errors=True)
                self._next = 1 + max((name.number for name, _ in self.clips()), default=-1)
                self._tidy()
            except BlockingIOError:
                raise ClipProblem(f"another process collects into {folder}; name another with --folder") from None
            except OSError as error:
                raise ClipProblem(f"cannot use {folder}: {error.strerror or error}; "
                                  "name another with --folder") from error
            undo.pop_all()

    def close(self) -> None:
        """Lets another process collect into it."""
        self._lock.close()

    def __enter__(self) -> ClipFolder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def clips(self) -> list[tuple[Name, Path]]:
        """Those that are there, in the order in which they were kept. Raises OSError."""
        found = [(name, path) for path in self._folder.iterdir() if (name := name_of(path.name)) and path.is_file()]
        return sorted(found, key=lambda one: one[0].number)

    def add(self, robot: str, drive: str, rule: str, hardness: float, kept: Sequence[Kept]) -> Path:
        """Writes a clip, and lets others go where there are too many. Raises ClipProblem."""
        path = self._folder / Name(robot, drive, self._next, rule, hardness).file
        write(path, kept)
        self._next += 1
        try:
            self._tidy()
        except OSError as error:
            raise ClipProblem(f"cannot make room in {self._folder}: {error.strerror or error}") from error
        return path

    def _tidy(self) -> None:
        there = [(name, path, path.stat().st_size) for name, path in self.clips()]
        size = sum(one[2] for one in there)
        for _, path, its in sorted(there, key=lambda one: (one[0].hardness + one[0].number / self.AGES,
                                                           one[0].number)):
            if size <= self._most:
                break
            path.unlink(missing_ok=True)
            size -= its
