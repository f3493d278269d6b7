# SPDX-License-Identifier: Apache-2.0
"""Starts ranks of which some may die, and watches them: torchrun's agent would end all with the first.

::

    the command ── its store: by it the ranks meet, and write down who goes on, see :mod:`.surviving`
                ├─ rank 0
                ├─ rank 1
                └─ rank 2
"""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch.distributed as dist

from brain_runtime.hosts import torch_store
from brain_runtime.run import end_with_parent
from brain_training.parallel.ranks import LOST, REPORT, causes, reports, why
from brain_training.parallel.surviving import MET, decision, fence
from brain_training.task import TrainingError

LOOK = 0.05         # s between looks
STOP = 10.0         # s that others have to end when it is over


def launch(ranks: int, argv: list[str]) -> dict[str, Any]:
    """Starts ranks on this machine, and waits for them. They end with this process.

    Args:
        ranks: how many.
        argv: of each, without the interpreter.

    Returns:
        What the first of those that are left told, see :meth:`.surviving.Survivors.finished`.

    Raises:
        TrainingError: it failed; says what the first rank said that knew why, or which was killed.
    """
    with tempfile.TemporaryDirectory(prefix="brain-training-") as folder:
        report = Path(folder) / "report"
        store = torch_store.serve()
        shared = {**os.environ, REPORT: str(report), "MASTER_ADDR": torch_store.HERE, "MASTER_PORT": str(store.port),
                  "WORLD_SIZE": str(ranks), "TORCHELASTIC_USE_AGENT_STORE": "True"}
        line = [sys.executable, "-I", "-S", end_with_parent.__file__, str(os.getpid()), sys.executable, *argv]
        children: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(ranks):
                children.append(subprocess.Popen(line, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
            statuses = _Watch(children, store, report).run()
        finally:
            for child in children:
                child.kill()
                child.wait()
        for path in reports(report).values():
            told = json.loads(path.read_text(encoding="utf-8"))
            if "found" in told:
                return dict(told["found"])
        raise TrainingError(why(report, ranks, statuses))


class _Watch:
    """Waits for ranks, tells of those that end, and ends those that others went on without.

    Args:
        children: the ranks.
        store: in which they write down who goes on.
        report: what they tell goes to files of this name, with endings.
    """

    def __init__(self, children: list[subprocess.Popen[bytes]], store: dist.TCPStore, report: Path) -> None:
        self._children, self._store, self._report = children, store, report
        self._members, self._epoch = list(range(len(children))), 0
        self._statuses: dict[int, int] = {}

    def run(self) -> dict[int, int]:
        """Watches until it is over; the statuses of those that have ended by themselves."""
        ends: float | None = None
        while len(self._statuses) < len(self._children):
            for rank, child in enumerate(self._children):
                if rank not in self._statuses and child.poll() is not None:
                    self._statuses[rank] = child.returncode
                    self._tell(rank, child.returncode)
            while self._store.check([decision(self._epoch + 1)]):
                self._epoch += 1
                self._members = json.loads(self._store.get(decision(self._epoch)))
                self._fence()
                self._store.set(fence(self._epoch), "1")
            if set(self._members) <= self._statuses.keys():
                break       # what is left stands still
            if self._statuses and not self._store.check([MET]):
                break       # the others would wait for it
            if ends is None and (0 in self._statuses.values() or causes(self._report)):
                ends = time.monotonic() + STOP
            if ends is not None and time.monotonic() >= ends:
                break
            time.sleep(LOOK)
        return self._statuses

    def _fence(self) -> None:
        """Ends those that could still write: the first that is left writes from now on, and others before it did."""
        for rank, child in enumerate(self._children[:self._members[0]]):
            if child.poll() is None:
                child.kill()
                self._statuses[rank] = child.wait()
                print(f"rank {rank} stood still for too long, and was ended: rank {self._members[0]} writes in its "
                      f"place", file=sys.stderr, flush=True)

    def _tell(self, rank: int, status: int) -> None:
        """Tells why a rank has ended, where the others go on."""
        if status < 0:
            hint = ", as the kernel does where memory runs out" if -status == signal.SIGKILL else ""
            print(f"rank {rank} of {len(self._children)} was killed by {signal.Signals(-status).name}{hint}",
                  file=sys.stderr, flush=True)
        elif status == LOST and rank not in self._members:
            with suppress(OSError, ValueError, KeyError):
                told = json.loads(reports(self._report)[rank].read_text(encoding="utf-8"))
                print(f"rank {rank}: {told['error']}", file=sys.stderr, flush=True)
