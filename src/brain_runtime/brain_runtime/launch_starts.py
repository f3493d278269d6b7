# SPDX-License-Identifier: Apache-2.0
"""Counts how often a launch started a process again: launch does so without telling the process."""
from __future__ import annotations

import hashlib
import logging
import os
import shutil
from pathlib import Path
from typing import Sequence

from brain_runtime.launch_watch import VARIABLE, lives

MOST = 10**9    # what a heartbeat can tell, and more than anybody waits for

log = logging.getLogger(__name__)


def folder() -> Path:
    """Where the counts are: of this user alone, and gone after the machine's next start."""
    import tempfile

    return Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"brain-launch-{os.getuid()}"


def restarts(argv: Sequence[str]) -> int:
    """How often the launch that the environment names has started this command line before; counts this start.

    Args:
        argv: of this process.

    Returns:
        0 where no launch started it, or where nothing can be kept.
    """
    launch = os.environ.get(VARIABLE, "")
    if not launch:
        return 0
    here = folder()
    path = here / launch.replace(":", "-") / hashlib.sha256("\0".join(argv).encode("utf-8", "replace")).hexdigest()[:32]
    try:
        here.mkdir(mode=0o700, exist_ok=True)
        if here.is_symlink() or here.stat().st_uid != os.getuid():
            raise PermissionError(f"{here} is somebody else's")
        _forget(here, launch)
        path.parent.mkdir(exist_ok=True)
        text = path.read_text(encoding="ascii") if path.exists() else ""
        before = min(int(text), MOST) if text.isdecimal() and len(text) < 12 else 0
        path.write_text(str(before + 1), encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        log.warning("restarts are not counted: %s", error)
        return 0
    return before


def _forget(here: Path, launch: str) -> None:
    """Removes the counts of launches that are gone."""
    for other in here.iterdir():
        name = other.name.replace("-", ":")
        try:
            gone = name != launch and not lives(name)
        except ValueError:
            continue    # nothing of ours
        if gone:
            shutil.rmtree(other, ignore_errors=True)
