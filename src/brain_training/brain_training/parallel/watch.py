# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of a training on this machine, and watches them: all end with the first, or some may die.

::

    the command ── its store: by it the ranks meet, and survivors write down who goes on, see :mod:`.surviving`
                ├─ rank 0
                ├─ rank 1
                └─ rank 2
"""
from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from brain_collectives import torch_store
from brain_runtime.run.ending import left_by_signals
from brain_runtime.run.processes import Processes, by_number
from brain_runtime.run.workload import GRACE, NEVER, Workload
from brain_training.parallel.ranks import LOST, REPORT, backend_of, causes, command, gpu, reports, why
from brain_training.parallel.surviving import MET, decision, fence
from brain_training.task import TrainingError
from brain_wire.temporary_folder import TemporaryFolder

if TYPE_CHECKING:
    from brain_training.settings import Settings

LOOK = 0.05         # s between looks
CAUSE = 3.0         # s in which ranks that end too may show which was the first
STOP = 10.0         # s that others have to end when it is over


def training(name: str, out: Path | None, settings: Settings) -> dict[str, Any]:
    """Runs a training by ranks that are started here; see :func:`brain_training.runs.train`, and :func:`launch`.

    Raises:
        PlanError: there is no GPU for each rank.
        TrainingError: see :func:`launch`.
    """
    plan = settings.how.plan
    assert plan is not None
    if settings.device.startswith("cuda"):
        gpu(backend_of(settings), plan.world - 1)     # before any rank is started
    return launch(plan.world, command(name, out, settings), settings.threads or 1, settings.how.survive)


def launch(ranks: int, argv: list[str], threads: int = 1, survive: bool = True) -> dict[str, Any]:
    """Starts ranks on this machine, and waits for them. They end with this process.

    Args:
        ranks: how many.
        argv: of each, without the interpreter.
        threads: of each, where the environment says nothing.
        survive: others go on where one dies; else all end with it.

    Returns:
        What the first of those that are left told, see :func:`.ranks.tell`.

    Raises:
        TrainingError: it failed; says what the first rank said that knew why, or which was killed.
    """
    with TemporaryFolder("training") as folder, left_by_signals():
        report, store = Path(folder) / "report", torch_store.serve()
        shared = {REPORT: str(report), "MASTER_ADDR": torch_store.HERE, "MASTER_PORT": str(store.port),
                  "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "TORCHELASTIC_USE_AGENT_STORE": "True",
                  "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))}
        with Processes([Workload(f"rank {rank}", (sys.executable, *argv), {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                                 restart=NEVER, grace=0.0 if survive else GRACE) for rank in range(ranks)],
                       environment=shared) as children:     # what survivors left stands still
            statuses = _Watch(children, ranks, store, report).run() if survive else _all(children, ranks, report)
        for path in reports(report).values() if survive or not any(statuses.values()) else ():
            told = json.loads(path.read_text(encoding="utf-8"))
            if "error" not in told:
                return dict(told)
        raise TrainingError(why(report, ranks, statuses))


def _all(children: Processes, ranks: int, report: Path) -> dict[int, int]:
    """Waits until all ranks have ended, or one has not in good order; the statuses of those that have."""
    children.wait(None, lambda found: len(found) == ranks or any(found.values()))
    if any(children.statuses().values()):       # those that only lost another one may be the first to end
        children.wait(CAUSE, lambda found: bool(causes(report)) or not {*found.values()} <= {0, LOST})
    return by_number(children.statuses())


class _Watch:
    """Waits for ranks, tells of those that end, and ends those that others went on without.

    Args:
        children: the ranks.
        count: how many.
        store: in which they write down who goes on.
        report: what they tell goes to files of this name, with endings.
    """

    def __init__(self, children: Processes, count: int, store: dist.TCPStore, report: Path) -> None:
        self._children, self._count, self._store, self._report = children, count, store, report
        self._members, self._epoch = list(range(count)), 0
        self._statuses: dict[int, int] = {}

    def run(self) -> dict[int, int]:
        """Watches until it is over; the statuses of those that have ended by themselves."""
        ends: float | None = None
        while len(self._statuses) < self._count:
            for rank, status in by_number(self._children.statuses()).items():
                if rank not in self._statuses:
                    self._statuses[rank] = status
                    self._tell(rank, status)
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
            seen = len(self._statuses)
            self._children.wait(LOOK, lambda found, seen=seen: len(found) > seen)
        return self._statuses

    def _fence(self) -> None:
        """Ends those that could still write: the first that is left writes from now on, and others before it did."""
        for rank in range(self._members[0]):
            name = f"rank {rank}"
            if name not in self._children.statuses():
                self._children.kill(name)
                self._children.wait(None, lambda found, name=name: name in found)
                self._statuses[rank] = self._children.statuses()[name]
                print(f"rank {rank} stood still for too long, and was ended: rank {self._members[0]} writes in its "
                      f"place", file=sys.stderr, flush=True)

    def _tell(self, rank: int, status: int) -> None:
        """Tells why a rank has ended, where the others go on."""
        if status < 0:
            hint = ", as the kernel does where memory runs out" if -status == signal.SIGKILL else ""
            print(f"rank {rank} of {self._count} was killed by {signal.Signals(-status).name}{hint}",
                  file=sys.stderr, flush=True)
        elif status == LOST and rank not in self._members:
            with suppress(OSError, ValueError, KeyError):
                told = json.loads(reports(self._report)[rank].read_text(encoding="utf-8"))
                print(f"rank {rank}: {told['error']}", file=sys.stderr, flush=True)
