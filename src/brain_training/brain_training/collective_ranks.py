# SPDX-License-Identifier: Apache-2.0
"""Starts ranks on this machine, hears what they tell, and ends all of them when one dies, freezes or stands still."""
from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from brain_collectives.checks import local_rank
from brain_collectives.checks.rank import Order
from brain_runtime.run.called import Call
from brain_runtime.run.processes import Ended, Processes, by_number
from brain_runtime.run.workload import NEVER, Workload
from brain_wire.logs import Logs
from brain_wire.observers import complain
from brain_wire.temporary_folder import TemporaryFolder

SILENCE = 30.0      # s without a sign of life after which a process is frozen
START = 120.0       # s that a rank has at least to import torch and find the others, which many beside it make slow
CAUSE = 1.0         # s in which others that end too may show which was the first
LATELY = 600        # characters of the end of what a rank wrote on standard error
Progress = Callable[[str], None]


class RanksProblem(RuntimeError):
    """The ranks could not do it; names the rank and what happened to it."""


@dataclass
class _Child:
    rank: int
    process: int
    heard: float = 0.0
    at: str = "its start"
    steps: int = 0
    status: int | None = None
    words: str | None = None
    plain: bool = False     # the words say all: it could not even begin
    found: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"rank {self.rank} (process {self.process})"


class Ranks:
    """Processes of one group on this machine.

    Args:
        order: what they do.
        ranks: how many.
        silence: s without a sign of life after which one counts as frozen.
        progress: called with what they are at.
        started: called with the processes' ids, by rank.
    """

    def __init__(self, order: Order, ranks: int, silence: float = SILENCE, progress: Progress = lambda what: None,
                 started: Callable[[list[int]], None] = lambda processes: None) -> None:
        self._order, self._ranks, self._silence = order, ranks, silence
        self._progress, self._started = progress, started
        self._children: list[_Child] = []
        self.torch = ""     # its version, as rank 0 tells

    def run(self) -> list[list[dict[str, Any]]]:
        """Runs the ranks, and returns what each found, by rank. No process is left, however this ends.

        Raises:
            RanksProblem: one died, froze, stood still or could not go on.
        """
        with TemporaryFolder("collectives") as folder:
            self._logs, meeting = Logs(Path(folder), complain), str(Path(folder, "meeting"))
            processes = Processes([Workload(
                f"rank{rank}", call=Call(local_rank.run, lambda rank=rank: (rank, self._ranks, self._order, meeting)),
                restart=NEVER) for rank in range(self._ranks)], self._logs)
            try:
                self._children = [_Child(rank, process, time.monotonic())
                                  for rank, process in by_number(processes.pids).items()]
                self._started([child.process for child in self._children])
                self._hear(processes)
            finally:
                processes.end(0.0)
        return [child.found for child in self._children]

    def _hear(self, processes: Processes) -> None:
        """Hears until all are done, or one gives a reason to end all."""
        progressed = time.monotonic()
        while not all(child.status == 0 for child in self._children):
            child, further = self._next(processes, 0.5)
            if child is not None and further:
                progressed = child.heard
            if child is not None and child.status:
                raise RanksProblem(self._ended(child, processes))
            self._look(progressed)

    def _next(self, processes: Processes, seconds: float) -> tuple[_Child | None, bool]:
        """Waits for what one tells, and returns who it was, and whether that one has got further."""
        heard = processes.hear(seconds)
        if heard is None:
            return None, False
        child, found = self._children[int(heard[0].removeprefix("rank"))], heard[1]
        child.heard = time.monotonic()
        if isinstance(found, Ended):
            child.status = found.status
            return child, False
        return child, self._take(child, found)

    def _take(self, child: _Child, found: dict[str, Any]) -> bool:
        """Keeps what a rank tells; whether it has got further."""
        kind = found["kind"]
        if kind == "store":
            self.torch = found["torch"]
        elif kind == "at":
            child.at, child.steps = found["what"], child.steps + 1
            if child.rank == 0:
                self._progress(child.at)
        elif kind == "error":
            child.words, child.plain = found["words"], found["plain"]
        elif kind != "beat":
            child.found.append(found)
        return kind != "beat"

    def _look(self, progressed: float) -> None:
        """Ends all where one has frozen, or nobody gets any further."""
        now, left = time.monotonic(), [child for child in self._children if child.status is None]
        began = all(child.steps for child in left)
        silent = min(left, key=lambda child: child.heard, default=None)
        silence = self._silence if began else max(self._silence, START)
        if silent is not None and now - silent.heard > silence:
            raise RanksProblem(f"{silent.name} has given no sign of life for {silence:g} s, in {silent.at}: "
                               "it is frozen or gets no processor; all ranks were ended")
        patience = self._order.patience if began else max(self._order.patience, START)
        if left and now - progressed > patience:
            fewest = min(child.steps for child in left)
            where = ", ".join(f"{child.name} in {child.at}" for child in left)
            late = ", ".join(child.name for child in left if child.steps == fewest)
            behind = f"; behind: {late}" if any(child.steps > fewest for child in left) else ""
            raise RanksProblem(f"no rank got any further for {patience:g} s: {where}{behind}; all ranks "
                               "were ended; --patience gives them longer")

    def _ended(self, first: _Child, processes: Processes) -> str:
        """Explains why all ranks are ended: one that was killed tells more than those that lost it."""
        ended, until = [first], time.monotonic() + CAUSE
        while len(ended) < self._ranks and time.monotonic() < until and not _killed(ended[-1]):
            child, _ = self._next(processes, max(0.0, until - time.monotonic()))
            if child is not None and child.status is not None:
                ended.append(child)
        child = next((child for child in ended if _killed(child)), first)
        status = child.status or 0
        if _killed(child):
            return (f"{child.name} was ended by {signal.Signals(-status).name} in {child.at}; all ranks were ended"
                    f"{self._wrote(child)}")
        if child.words is not None and child.plain:
            return child.words
        if child.words is not None:
            return f"{child.name}: {child.words}; all ranks were ended"
        return f"{child.name} ended with status {status} in {child.at}; all ranks were ended{self._wrote(child)}"

    def _wrote(self, child: _Child) -> str:
        log = self._logs.path(f"rank{child.rank}").read_text(encoding="utf-8", errors="replace")
        text = " ".join(" ".join(line for line in log.splitlines() if not line.startswith("--- ")).split())[-LATELY:]
        return f"; it wrote: {text}" if text else ""


def _killed(child: _Child) -> bool:
    return (child.status or 0) < 0
