# SPDX-License-Identifier: Apache-2.0
"""Folders of runs: made so that no two brains share one, locked while a brain runs, and pruned but for those locked."""
from __future__ import annotations

import fcntl
import re
import shutil
from datetime import datetime
from pathlib import Path
from typing import IO

from brain_wire import private
from brain_wire.temporary_folder import NO_LOCKS

LOCK = ".lock"
KEPT = 20           # runs whose logs are kept, where no folder was named
_STAMP = re.compile(r"\d{8}-\d{6}(-\d+)?")


class FolderTaken(OSError):
    """A brain that runs uses the folder."""


class Claim:
    """A folder that is this process's until :meth:`release`, or its end, however it ends.

    The kernel lets go of the lock with the process, and those that it starts do not inherit it.

    Args:
        folder: made if it is not there.

    Raises:
        FolderTaken: another process has claimed it.
        OSError: it cannot be made or written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        private.folder(folder)
        self._file: IO | None = open(folder / LOCK, "ab")   # noqa: SIM115 - lives as long as the claim
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise FolderTaken(f"a brain that is running uses {folder}; end it, or name another folder") from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                self.release()
                raise

    def release(self) -> None:
        """Gives the folder back; what is in it stays."""
        if self._file is not None:
            self._file.close()
            self._file = None


def new_run(runs: Path, kept: int | None = None) -> Claim:
    """Makes and claims a folder for a run that is called by the time, below ``runs``.

    Args:
        runs: folder of all runs; made if it is not there.
        kept: how many older ones are left, those that are claimed not counted among what may go; None: all.

    Raises:
        OSError: it cannot be made.
    """
    private.folder(runs)
    with open(runs / LOCK, "ab") as turn:
        _wait_for(turn)     # between making a folder and claiming it nobody else may prune
        if kept is not None:
            _prune(runs, kept)
        stamp, number = datetime.now().strftime("%Y%m%d-%H%M%S"), 1
        while True:
            folder = runs / (stamp if number == 1 else f"{stamp}-{number}")
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:     # another began in the same second
                number += 1
                continue
            return Claim(folder)


def _wait_for(turn: IO) -> None:
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def _prune(runs: Path, kept: int) -> None:
    """Deletes all but the newest runs; leaves alone what is claimed, what cannot be asked, and what is no run."""
    found = sorted((p for p in runs.iterdir() if _STAMP.fullmatch(p.name) and p.is_dir() and not p.is_symlink()),
                   key=_age)
    for folder in found[:max(0, len(found) - kept)]:
        try:
            with open(folder / LOCK, "ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def _age(folder: Path) -> tuple[str, int]:
    day, second, *more = folder.name.split("-")
    return f"{day}-{second}", int(more[0]) if more else 1
