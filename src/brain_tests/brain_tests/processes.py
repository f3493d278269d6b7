# SPDX-License-Identifier: Apache-2.0
"""State of processes as the kernel tells it, for tests that kill some and look what is left."""
from __future__ import annotations

from pathlib import Path


def gone(process: int) -> bool:
    """Tells whether a process has ended, whether or not its parent has asked for its status."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def command(process: int) -> list[str]:
    """Words of a process's command line; none where it has ended, which it may at any moment."""
    try:
        line = Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return line.decode(errors="replace").split("\0")[:-1]


def children(process: int) -> list[int]:
    """Processes that a process has started, and that were there when it was asked."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue    # a thread that has ended; its children have another now
    return found


def workers(parent: int) -> list[int]:
    """Processes that Python's multiprocessing started for a process, without those that only keep its books."""
    return [child for child in children(parent) if any("spawn_main" in word for word in command(child))]
