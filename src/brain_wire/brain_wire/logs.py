# SPDX-License-Identifier: Apache-2.0
"""Log files, best effort: a disk that is full or gone must not end who writes them, nor whose output they take."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Callable

from brain_wire import private
from brain_wire.observers import LastingFile

TAIL = 4096     # bytes at the end of a log that are looked through for its last line
LINE = 300      # characters of it that are told


def last_line(path: Path) -> str:
    """Last line of a log, but for those that tell of starts; empty where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = [line.strip() for line in file.read(TAIL).decode("utf-8", "replace").splitlines()]
    except OSError:
        return ""   # there is no line to tell, and nothing that hangs on it
    lines = [line for line in lines if line and not line.startswith("--- ")]
    return lines[-1][:LINE] if lines else ""


class Logs:
    """One folder of logs, a file for each name.

    Args:
        folder: made where it is missing.
        complain: told what cannot be written and why, once for each file until it can be written again.

    Raises:
        OSError: the folder cannot be made.
    """

    errors: int | None = subprocess.STDOUT
    """Standard error of a process, beside :meth:`output`, as :class:`subprocess.Popen` takes it."""

    def __init__(self, folder: Path, complain: Callable[[str], None]) -> None:
        self.folder = private.folder(Path(folder))
        self._complain = complain
        self._failing: set[str] = set()

    def path(self, name: str) -> Path:
        """File of a log."""
        return self.folder / f"{name}.log"

    def file(self, name: str) -> Path | None:
        """File that a process may write to by itself; None: it writes where this one does."""
        return self.path(name)

    def add(self, name: str, text: str) -> None:
        """Appends to a log, if that can be done."""
        try:
            with open(self.path(name), "a", encoding="utf-8", errors="backslashreplace", opener=private.opener) as file:
                file.write(text)
        except OSError as error:
            self._cannot(name, error)
        else:
            self._failing.discard(name)

    def output(self, name: str) -> IO[bytes]:
        """Opens the log for the output of a process, or the null device where the log cannot be opened."""
        try:
            return open(self.path(name), "ab", opener=private.opener)  # noqa: SIM115 - the caller closes it
        except OSError as error:
            self._cannot(name, error)
            return open(os.devnull, "ab")  # noqa: SIM115

    def last_line(self, name: str) -> str:
        """Last line of a log, see :func:`last_line`."""
        return last_line(self.path(name))

    def _cannot(self, name: str, error: OSError) -> None:
        if name not in self._failing:
            self._failing.add(name)
            self._complain(f"cannot write {self.path(name)}: {error.strerror}; what happens goes on without that log")


class Through(Logs):
    """No logs: processes write to this one's standard error."""

    def __init__(self) -> None:
        self._failing = set()

    def file(self, name: str) -> Path | None:
        """None: there are none."""
        return None

    def add(self, name: str, text: str) -> None:
        """Nothing: what is told of processes is told elsewhere too."""

    def output(self, name: str) -> IO[bytes]:
        """This process's own standard error."""
        return open(os.dup(sys.__stderr__.fileno()), "ab")  # type: ignore[union-attr]  # noqa: SIM115

    def last_line(self, name: str) -> str:
        """None is known."""
        return ""


class Inherited(Through):
    """No logs: processes have this one's standard output and standard error."""

    errors = None

    def output(self, name: str) -> IO[bytes]:
        """This process's own standard output."""
        return open(os.dup(1), "ab")  # noqa: SIM115


def survive_full_disk() -> None:
    """From here on what this process prints is lost where it cannot be written, instead of raising in who prints."""
    sys.stdout, sys.stderr = LastingFile(sys.stdout), LastingFile(sys.stderr)
