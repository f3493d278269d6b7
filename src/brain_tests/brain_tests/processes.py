# SPDX-License-Identifier: Apache-2.0
"""What the kernel tells of processes, for tests that kill some and look what is left."""
from __future__ import annotations

from pathlib import Path


def gone(process: int) -> bool:
    """Whether a process has ended, whether or not its parent has asked for its status."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def workers(parent: int) -> list[int]:
    """Processes that Python's multiprocessing started for a process, without those that only keep its books."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            started_by = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if started_by == parent and "spawn_main" in command:
            found.append(int(folder.name))
    return found
