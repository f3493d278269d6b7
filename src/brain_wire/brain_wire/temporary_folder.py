# SPDX-License-Identifier: Apache-2.0
"""Temporary folders that go with their process, however it ends: what a killed one left goes when the next is made."""
from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Iterator

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)      # file systems without them, as some of NFS


class TemporaryFolder(tempfile.TemporaryDirectory):
    """A :class:`tempfile.TemporaryDirectory` that is locked while its process lives.

    Args:
        kind: of folder, which is in its name. Those of this kind that a process of this user has left are removed.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, kind: str) -> None:
        clear(kind)
        self._lock: weakref.finalize | None = None
        while True:
            # releases before this lock none, and name theirs otherwise
            super().__init__(prefix=f"brain-{kind}.", ignore_cleanup_errors=True)
            try:
                self._lock = weakref.finalize(self, os.close, _locked(Path(self.name)))
                if Path(self.name).is_dir():
                    return
            except (BlockingIOError, FileNotFoundError):    # who clears was quicker
                pass
            except OSError as error:
                if error.errno in NO_LOCKS:     # nobody else can lock it either, so it stays
                    return
                self.cleanup()
                raise
            self.cleanup()

    def cleanup(self) -> None:
        """Removes the folder, with all that is in it."""
        super().cleanup()
        if self._lock is not None:
            self._lock()


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
