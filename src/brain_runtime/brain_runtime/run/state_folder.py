# SPDX-License-Identifier: Apache-2.0
"""Usability of a folder for snapshots: checked before anything runs, not at the first snapshot."""
from __future__ import annotations

import errno
import os
from pathlib import Path

from brain_wire import private

# A disk that is full, or fails, is no reason for a robot to be without its region; the snapshots say it.
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


class StateFolderProblem(ValueError):
    """A folder that can hold no snapshots; names it and the remedy."""


def usable(folder: Path) -> Path:
    """The folder, made where it was missing.

    Raises:
        StateFolderProblem: it cannot be made or written to.
    """
    try:
        private.folder(folder)
        import tempfile  # a process without snapshots starts without it

        handle, probe = tempfile.mkstemp(prefix=".probe-", dir=folder)
        os.close(handle)
        os.unlink(probe)
    except (OSError, ValueError) as error:      # ValueError: a zero byte in the name
        if getattr(error, "errno", None) not in PASSING:
            raise StateFolderProblem(f"no snapshot can be kept in {folder} ({getattr(error, 'strerror', None) or error}"
                                     f"); name a folder that can be written to, or none") from error
    return folder
