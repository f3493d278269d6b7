# SPDX-License-Identifier: Apache-2.0
"""Temporary folders that go with their process, however it ends: what a killed one left goes when the next is made."""
from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Iterator


class TemporaryFolder(tempfile.TemporaryDirectory):
    """A :class:`tempfile.TemporaryDirectory` that is locked while its process lives.

    Args:
        kind: of folder, which is in its name. Those of this kind that a process of this user has left are removed.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        clear(kind)
        while True:
            # no name of theirs that lock none
            super().__init__(prefix=f"brain-{kind}.", ignore_cleanup_errors=True)
            with contextlib.suppress(BlockingIOError, FileNotFoundError):   # who clears may be quicker
                locked = _locked(Path(self.name))
                self._unlock = weakref.finalize(self, os.close, locked)
                if Path(self.name).is_dir():
                    return
                self._unlock()
            super().cleanup()

    def cleanup(self) -> None:
        """Removes the folder, with all that is in it."""
        super().cleanup()
        self._unlock()


def clear(kind: str) -> None:
    """Removes the folders of a kind whose processes have ended without removing them; those of this user alone."""
    for folder in _of(kind):
        with contextlib.suppress(OSError):      # it is in use, or another process removes it
            if folder.lstat().st_uid == os.getuid():
                locked = _locked(folder)
                try:
                    shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(locked)


def _of(kind: str) -> Iterator[Path]:
    return Path(tempfile.gettempdir()).glob(f"brain-{kind}.*")


def _locked(folder: Path) -> int:
    """Descriptor by which a folder is locked. Raises BlockingIOError where another process has it, or OSError."""
    found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(found)
        raise
    return found
