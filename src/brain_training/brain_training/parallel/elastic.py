# SPDX-License-Identifier: Apache-2.0
"""Trainings whose processes may die and come: torchrun's elastic agent, watched by the command.

::

    the command ── store                 agents find each other by it, as by :mod:`.store`
                └─ agent ─┬─ rank 0      each agent starts as many ranks as --parallel has
                          └─ rank 1
    another     ── agent ─── ranks 2, 3  with --store HOST:PORT

Where a rank dies, its agent starts all of its ranks again, and so do the others, whose ranks have lost it; the group
goes on from the newest checkpoint. Where an agent dies, its command starts another one. An agent that comes later, with
``--store``, makes the group larger. Each agent brings ``dp`` times more ranks.
"""
from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.elastic.agent.server import WorkerGroup, WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.rendezvous import RendezvousClosedError, RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

from brain_collectives.torch_private import check_overridden
from brain_collectives import torch_store
from brain_runtime.run import end_with_parent
from brain_runtime.run.ending import left_by_signals
from brain_runtime.run.processes import Processes
from brain_runtime.run.workload import NEVER, Workload
from brain_training.checkpoint import all_of
from brain_training.parallel.ranks import REPORT, causes, reports, why
from brain_training.task import TrainingError
from brain_wire.temporary_folder import TemporaryFolder

CALL = 20               # s that a store has to answer the first call
JOIN = 600              # s that an agent waits for so many as have to be there
LAST_CALL = 3           # s that it waits for more
ALIVE, MISSED = 1, 5    # s between two signs of life of an agent, and how many may be missing
STOP = 3                # s that ranks have to end before they are killed
TRIES = 5               # of a group that makes no checkpoint between
ENDED, CLOSED = 1, 4    # statuses of an agent: a rank said why; the training of the others is over


@dataclass(frozen=True)
class Spec:
    """Settings of an agent.

    Attributes:
        least, most: agents.
        ranks: of this one.
        store: ``HOST:PORT`` of it.
        run: name of the training there.
        argv: of a rank.
        report: what ranks and agent tell goes to files of this name, with endings.
        folders: of the checkpoints; a new one in them is progress.
    """

    least: int
    most: int
    ranks: int
    store: str
    run: str
    argv: list[str]
    report: str
    folders: list[str]


check_overridden("torch.distributed.elastic.agent.server.local_elastic_agent", "LocalElasticAgent")


class Agent(LocalElasticAgent):
    """torchrun's, which starts no ranks again that said why they cannot go on, or that come no further.

    Args:
        told: what it is to do.
        more: as of torch's.
    """

    def __init__(self, told: Spec, **more: Any) -> None:
        super().__init__(**more)
        self._told = told
        self._stood = self._stands()

    def _stands(self) -> list[str]:
        return [str(place) for folder in self._told.folders for place in all_of(Path(folder))[:1]]

    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        report = Path(self._told.report)
        if causes(report):
            raise _Ended
        stands = self._stands()
        if stands != self._stood:
            self._stood, self._remaining_restarts = stands, worker_group.spec.max_restarts
        self._stop_workers(worker_group)
        for path in reports(report).values():
            path.unlink(missing_ok=True)
        at = ", ".join(Path(place).name for place in stands) or "the beginning"
        print(f"the ranks of this agent start again, from {at}", file=sys.stderr, flush=True)
        super()._restart_workers(worker_group)


class _Ended(Exception):
    """A rank said why it cannot go on."""


def agent(told: Spec) -> int:
    """Runs an agent in this process; its status."""
    # c10d's store of the ranks must not be that of the agents: gloo does not come up a second time on it (torch 2.13)
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    os.environ[REPORT] = told.report
    for path in reports(Path(told.report)).values():    # of an agent that was killed
        path.unlink(missing_ok=True)
    near = told.store.rpartition(":")[0] in torch_store.NEAR
    handler = get_rendezvous_handler(RendezvousParameters(
        backend="c10d", endpoint=told.store, run_id=told.run, min_nodes=told.least, max_nodes=told.most,
        local_addr=torch_store.HERE if near else None, is_host=False, join_timeout=JOIN, last_call_timeout=LAST_CALL,
        keep_alive_interval=ALIVE, keep_alive_max_attempt=MISSED))
    argv = ["-I", "-S", end_with_parent.__file__, str(os.getpid()), sys.executable, *told.argv]
    works = Agent(told, spec=WorkerSpec(
        role="rank", local_world_size=told.ranks, entrypoint=sys.executable, args=tuple(argv), rdzv_handler=handler,
        max_restarts=TRIES, monitor_interval=0.1, local_addr=torch_store.HERE if near else None),
        logs_specs=DefaultLogsSpecs(), shutdown_timeout=STOP)
    try:
        result = works.run()
    except _Ended:
        handler.shutdown()      # the others cannot go on, either
        return ENDED
    except RendezvousClosedError:
        return CLOSED
    except SignalException as error:
        return 128 + int(error.sigval)      # the others go on
    if result.is_failed():
        statuses = {rank: failure.exitcode for rank, failure in result.failures.items()}
        Path(f"{told.report}.statuses").write_text(json.dumps(statuses), encoding="utf-8")
        handler.shutdown()
        return ENDED
    handler.shutdown()
    return 0


def first(endpoint: str, run: str) -> bool:
    """Registers the begin of this training at a store, and tells whether no other agent has done so before.

    Raises:
        TrainingError: the store does not answer.
    """
    host, _, port = endpoint.rpartition(":")
    try:
        its = dist.TCPStore(host, int(port), is_master=False, timeout=timedelta(seconds=CALL))
    except (RuntimeError, ValueError) as error:
        raise TrainingError(f"there is no store at {endpoint} ({' '.join(str(error).split()[:12])}); start one with "
                            f"python -m brain_training.parallel.store {port}, or leave --store out") from None
    return its.add(f"begun/{run}", 1) == 1


def launch(least: int, most: int, ranks: int, at: str | None, run: str, argv: list[str], folders: list[Path],
           begin: Any) -> dict[str, Any] | None:
    """Starts a store, where there is none, and an agent, and another one where that is killed, until it is done.

    Args:
        least, most: agents.
        ranks: of each.
        at: ``HOST:PORT`` of a store that is there; None: one is started.
        run: name of the training.
        argv: of a rank.
        folders: of its checkpoints.
        begin: called before anything is started, where nobody else has begun this training.

    Returns:
        What rank 0 told; None: that is another agent's.

    Raises:
        TrainingError: it failed; says why.
    """
    serving = torch_store.serve() if at is None else None
    with TemporaryFolder("training") as temporary:
        report = Path(temporary) / "report"
        if serving is not None:
            at = f"{torch_store.HERE}:{serving.port}"
            print(f"agents on this machine join with --store {at}", file=sys.stderr, flush=True)
        assert at is not None
        if first(at, run):
            begin()
        _watch(Spec(least, most, ranks, at, run, argv, str(report), [str(folder) for folder in folders]))
        path = Path(f"{report}.0")
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def _watch(told: Spec) -> None:
    """Has an agent until it is done."""
    agent = Workload("agent", (sys.executable, "-m", __name__, json.dumps(asdict(told))), restart=NEVER,
                     grace=2 * STOP + 4)
    stood, tries = _newest(told), TRIES
    with left_by_signals(), Processes() as running:
        while True:
            running.start(agent)
            running.wait()
            status = running.statuses()[agent.name]
            if status == 0:
                return
            if status == CLOSED:
                raise TrainingError(f"the training {told.run} at the store {told.store} is over; start another store")
            if status > 0:      # not killed
                report, statuses = Path(told.report), {}
                with suppress(OSError, ValueError):
                    statuses = json.loads(Path(f"{report}.statuses").read_text(encoding="utf-8"))
                raise TrainingError(why(report, told.ranks, {int(rank): its for rank, its in statuses.items()}))
            stands = _newest(told)
            stood, tries = (stands, TRIES) if stands != stood else (stood, tries - 1)
            if not tries:
                raise TrainingError(f"the agent of {told.run} was killed {TRIES} times without a checkpoint between; "
                                    f"go on with --resume")
            print(f"the agent was killed by {signal.Signals(-status).name}; another one starts", file=sys.stderr,
                  flush=True)


def _newest(told: Spec) -> list[Path]:
    return [place for folder in told.folders for place in all_of(Path(folder))[:1]]


if __name__ == "__main__":
    sys.exit(agent(Spec(**json.loads(sys.argv[1]))))
