# SPDX-License-Identifier: Apache-2.0
"""Costs of processes and of the machine, as the kernel tells them: core time, memory, descriptors, connections."""
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Sequence

ESTABLISHED = "01"      # of a connection, as the kernel's tables have it


def core_time(process: int) -> float | None:
    """Core time of a process so far (s), of all its threads, those that have ended too; None: it has ended."""
    try:
        return time.clock_gettime(~process << 3 | 2)    # the clock of a process, see clock_getcpuclockid(3)
    except OSError:
        return None


class Scheduled:
    """Core time and waiting time of a process so far.

    Args:
        process: its id.

    Attributes:
        ran: core time of all its threads (s).
        waited: for each thread that lives, the time it waited for a core while it could have run (s).

    Raises:
        OSError: the kernel does not tell, or the process has ended.
    """

    def __init__(self, process: int) -> None:
        self.ran = core_time(process) or 0.0
        self.waited: dict[str, float] = {}
        for task in Path(f"/proc/{process}/task").iterdir():
            try:
                self.waited[task.name] = 1e-9 * int((task / "schedstat").read_text(encoding="ascii").split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue    # a thread that has just ended

    def since(self, before: Scheduled) -> tuple[float, float]:
        """Core time and time waiting for a core (s) since then; what threads waited that have ended is not known."""
        return self.ran - before.ran, sum(w - before.waited.get(name, 0.0) for name, w in self.waited.items())


def pss(process: int, kind: str = "Pss") -> int:
    """A process's share of the memory that it has, some of it together with others (bytes); ``Rss``: all of it."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{kind}:"))


def of_process(process: int) -> dict[str, int]:
    """Resident memory (bytes), descriptors and threads of a process."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    return {"rss": 1024 * int(status["VmRSS"].split()[0]), "threads": int(status["Threads"]),
            "descriptors": len(os.listdir(f"/proc/{process}/fd"))}


def descriptors(process: int) -> list[str]:
    """Links of the descriptors that a process has open."""
    links = []
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            links.append(os.readlink(entry))
        except FileNotFoundError:   # closed meanwhile
            continue
    return links


def internet(process: int) -> set[str]:
    """Established TCP connections of a process's network, as links of its descriptors name them."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            words = line.split()
            if words[3] == ESTABLISHED:
                found.add(f"socket:[{words[9]}]")
    return found


def family(processes: Sequence[int]) -> list[int]:
    """Processes with all that descend from them."""
    found, left = [], list(processes)
    while left:
        pid = left.pop()
        found.append(pid)
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                left += map(int, (task / "children").read_text(encoding="ascii").split())
        except (FileNotFoundError, ProcessLookupError):
            continue    # it has ended meanwhile
    return found


def available() -> int:
    """Memory that is free for whoever asks (bytes)."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


def cores() -> tuple[int, int]:
    """Ticks of all cores that were spent on something, and all ticks."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def others(before: Sequence[int], after: Sequence[int]) -> float:
    """Cores that were busy between two looks of :func:`cores`."""
    return (after[0] - before[0]) / max(1, after[1] - before[1]) * (os.cpu_count() or 1)
