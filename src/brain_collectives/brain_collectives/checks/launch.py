# SPDX-License-Identifier: Apache-2.0
"""Starts ranks on this machine, hears what they tell, and ends all of them when one dies, freezes or stands still."""
from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Callable

from brain_collectives.checks.rank import Order

SILENCE = 30.0      # s without a sign of life after which a process is frozen
START = 120.0       # s that a rank has at least to import torch and find the others, which many beside it make slow
CAUSE = 1.0         # s in which others that end too may show which was the first
LEAVING = 30.0      # s between the end of a rank's output and of its process
LATELY = 600        # characters of the end of what a rank wrote on standard error
Progress = Callable[[str], None]


class RanksProblem(RuntimeError):
    """The ranks could not do it; names the rank and what happened to it."""


@dataclass
class _Child:
    rank: int
    process: subprocess.Popen
    log: Path
    heard: float = 0.0
    at: str = "its start"
    steps: int = 0
    done: bool = False
    words: str | None = None
    plain: bool = False     # the words say all: it could not even begin
    part: bytes = b""
    found: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"rank {self.rank} (process {self.process.pid})"


class Ranks:
    """Processes of one group on this machine, for the time of a ``with``.

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
        with tempfile.TemporaryDirectory(prefix="brain-collectives-") as folder, selectors.DefaultSelector() as ears:
            try:
                for rank in range(self._ranks):
                    self._children.append(self._start(rank, Path(folder)))
                    ears.register(self._children[-1].process.stdout, selectors.EVENT_READ,    # type: ignore[arg-type]
                                  self._children[-1])
                self._started([child.process.pid for child in self._children])
                self._hear(ears)
            finally:
                for child in self._children:
                    child.process.kill()
                for child in self._children:
                    child.process.wait()
                    for pipe in (child.process.stdin, child.process.stdout):
                        _close(pipe)
        return [child.found for child in self._children]

    def _start(self, rank: int, folder: Path) -> _Child:
        log = folder / f"{rank}.log"
        with log.open("wb") as errors:
            # A session of its own: Ctrl-C is for who started it, and ends it too.
            process = subprocess.Popen(
                [sys.executable, "-m", "brain_collectives.checks.local_rank", str(rank), str(self._ranks)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"})
        child = _Child(rank, process, log, heard=time.monotonic())
        self._say(child, self._order.to_json())
        return child

    def _say(self, child: _Child, line: str) -> None:
        assert child.process.stdin is not None
        try:
            child.process.stdin.write(f"{line}\n".encode())
            child.process.stdin.flush()
        except BrokenPipeError:     # it has ended, which is told where its output ends
            pass

    def _hear(self, ears: selectors.BaseSelector) -> None:
        """Reads until all are done, or one gives a reason to end all."""
        progressed = time.monotonic()
        while not all(child.done for child in self._children):
            for key, _ in ears.select(timeout=0.5):
                child = key.data
                data = os.read(key.fd, 1 << 16)
                child.heard = time.monotonic()
                if not data:
                    ears.unregister(key.fileobj)
                    child.done = self._status(child) == 0
                    if not child.done:
                        raise RanksProblem(self._ended(child, ears))
                    continue
                *lines, child.part = (child.part + data).split(b"\n")
                for line in lines:
                    if self._take(child, json.loads(line)):
                        progressed = child.heard
            self._look(progressed)

    @staticmethod
    def _status(child: _Child) -> int:
        """Exit status of one whose output has ended."""
        try:
            return child.process.wait(LEAVING)
        except subprocess.TimeoutExpired as error:
            raise RanksProblem(f"{child.name} is through, and did not end within {LEAVING:g} s; all ranks were ended"
                               ) from error

    def _take(self, child: _Child, found: dict[str, Any]) -> bool:
        """Keeps what a rank tells; whether it has got further."""
        kind = found["kind"]
        if kind == "store":
            if found["port"] is not None:
                self.torch = found["torch"]
                for other in self._children:
                    self._say(other, json.dumps({"port": found["port"]}))
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
        now, left = time.monotonic(), [child for child in self._children if not child.done]
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

    def _ended(self, first: _Child, ears: selectors.BaseSelector) -> str:
        """Explains why all ranks are ended: one that was killed tells more than those that lost it."""
        ended, until = [first], time.monotonic() + CAUSE
        while ears.get_map() and time.monotonic() < until and not _killed(ended[-1]):
            for key, _ in ears.select(timeout=max(0.0, until - time.monotonic())):
                child, data = key.data, os.read(key.fd, 1 << 16)
                *lines, child.part = (child.part + data).split(b"\n")
                for line in lines:
                    self._take(child, json.loads(line))
                if not data:
                    ears.unregister(key.fileobj)
                    self._status(child)
                    ended.append(child)
        child = next((child for child in ended if _killed(child)), first)
        status = child.process.returncode
        if _killed(child):
            return (f"{child.name} was ended by {signal.Signals(-status).name} in {child.at}; all ranks were ended"
                    f"{self._wrote(child)}")
        if child.words is not None and child.plain:
            return child.words
        if child.words is not None:
            return f"{child.name}: {child.words}; all ranks were ended"
        return f"{child.name} ended with status {status} in {child.at}; all ranks were ended{self._wrote(child)}"

    @staticmethod
    def _wrote(child: _Child) -> str:
        text = " ".join(child.log.read_text(encoding="utf-8", errors="replace").split())[-LATELY:]
        return f"; it wrote: {text}" if text else ""


def _killed(child: _Child) -> bool:
    return (child.process.returncode or 0) < 0


def _close(pipe: IO[bytes] | None) -> None:
    """Closes a pipe, and drops what was not written: who has ended does not read it."""
    try:
        if pipe is not None:
            pipe.close()
    except BrokenPipeError:
        pass
