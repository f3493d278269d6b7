# SPDX-License-Identifier: Apache-2.0
"""A training with parameter servers on this machine: servers and workers are processes that end with this one.

What dies is started again: a server with its folder, a worker in its place.
"""
from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Callable, NamedTuple

import torch
from torch import nn

from brain_runtime.run.called import Call
from brain_runtime.run.processes import Ended, Processes
from brain_runtime.run.workload import Restart, Workload
from brain_training.blamed import blamed, when
from brain_training.checkpoint import CheckpointError
from brain_training.parameter_server.client import Servers
from brain_training.parameter_server.credentials import SERVER, WORKER, read_keys
from brain_training.parameter_server.durable import EVERY, of_others
from brain_training.parameter_server.mode import Mode
from brain_training.parameter_server.server import LEASE, serve
from brain_training.parameter_server.shard import Shard
from brain_training.parameter_server.worker import ServedTrainer
from brain_training.task import BASE, Progress, Task, TrainingError, sized
from brain_wire.backoff import Backoff
from brain_wire.temporary_folder import TemporaryFolder

RESTARTS = 100          # of processes that were killed
SERVES, WORKS = "parameter server", "worker"
# Started again at once where it was killed; what ends by itself is not, since the next would do the same.
KILLED = Restart(always=False, tries=1, hopeless=frozenset(range(1, 256)), backoff=Backoff(first=0.0))
Tell = Callable[[Any], None]
TOLD = (CheckpointError, OSError, TrainingError, ValueError)


class Served(NamedTuple):
    """Result of a training with servers.

    Attributes:
        network: with the servers' weights, on the CPU.
        losses: of each step; in mode sync that of the whole batch, else in the order in which steps were applied.
        restarts: of servers and workers that were killed.
        sent: bytes of gradients that workers pushed, without those of killed ones.
        refused: pushes that were too old.
    """

    network: nn.Module
    losses: list[float]
    restarts: int
    sent: int
    refused: int


class Plan(NamedTuple):
    """Settings that each process is given; all of it can be pickled.

    Attributes:
        task: class of the task, with its network, whether it is quick, and its recipe.
        secure: folder of credentials; None: as ``BRAIN_SECURITY`` says.
        size: of the network, see :data:`brain_training.task.SIZES`.
    """

    task: tuple[type[Task], str, bool, Any]
    seed: int
    servers: int
    workers: int
    mode: str
    folder: Path
    every: int
    lease: float
    keep: float
    threads: int
    log: Path | None
    secure: Path | None
    size: str = BASE

    def make(self) -> Task:
        """The task anew."""
        cls, which, quick, recipe = self.task
        return cls(which, quick=quick, recipe=recipe, **sized(self.size))


def _server(plan: Plan, number: int, address: str, tell: Tell) -> None:
    torch.set_num_threads(1)

    async def run() -> None:
        until = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, until.set)
        task = plan.make()
        with blamed(task, lambda: "before the first step"):
            shard = Shard(task, plan.seed, number, plan.servers, plan.workers, Mode.of(plan.mode))
        await serve(shard, address, plan.folder, lambda port: tell(("port", port)), every=plan.every, until=until,
                    stay=True, keys=read_keys(SERVER, plan.secure, serves=True), lease=plan.lease)

    _told(lambda: asyncio.run(run()), tell)


def _worker(plan: Plan, number: int, addresses: list[str], tell: Tell) -> None:
    torch.set_num_threads(plan.threads)

    def run() -> None:
        servers, task, trainer = Servers(addresses, read_keys(WORKER, plan.secure)), plan.make(), None
        with blamed(task, lambda: when(trainer)):
            trainer = ServedTrainer(task, plan.seed, servers, keep=plan.keep, identity=f"worker {number}", log=plan.log,
                                    progress=lambda *what: tell(("told", what)))
            trainer.run()
        tell(("done", (trainer.sent, trainer.refused)))
        servers.close()

    _told(run, tell)


def _told(run: Callable[[], None], tell: Tell) -> None:
    try:
        run()
    except TOLD as error:
        tell(("failed", str(error)))
        raise SystemExit(1) from None


class Together:
    """The processes of a training with servers; see :func:`train_with_servers`.

    Args:
        plan: for all of them.
        progress: told what worker 0 does, or all where each step is one worker's.
        workers: started here; None: as many as there are places.

    Attributes:
        processes: all of them.
        addresses: of the servers.
        restarts: of killed ones.
    """

    def __init__(self, plan: Plan, progress: Progress, workers: int | None = None) -> None:
        self._plan, self._progress, self.restarts = plan, progress, 0
        self._workers = plan.workers if workers is None else workers
        host = "localhost" if plan.secure else "127.0.0.1"
        self.addresses = addresses = [f"{host}:0"] * plan.servers
        self.done: dict[int, tuple[int, int]] = {}
        self.processes = Processes([Workload(
            f"{SERVES} {number}", call=Call(_server, lambda number=number: (plan, number, addresses[number])),
            restart=KILLED, stop_order=1) for number in range(plan.servers)], log="parameter servers")
        try:
            while any(address.endswith(":0") for address in addresses):
                number, _, (what, told) = self._next()
                if what == "port":
                    addresses[number] = f"{host}:{told}"
            self.processes.start(*(Workload(
                f"{WORKS} {number}", call=Call(_worker, lambda number=number: (plan, number, addresses)),
                restart=KILLED) for number in range(self._workers)))
        except BaseException:
            self.end()
            raise

    def _next(self) -> tuple[int, bool, tuple[str, Any]]:
        """Waits for news: the number of a server or a worker, which of them it is, what it tells of, and that.

        Raises:
            TrainingError: it failed.
        """
        heard = self.processes.hear()
        assert heard is not None, "it has no end of its waiting"
        name, news = heard
        number, works = int(name.rpartition(" ")[2]), name.startswith(WORKS)
        if isinstance(news, Ended):
            if not (works and number in self.done):
                self._count(name, news.status or 0)
            return number, works, ("ended", None)
        if news[0] == "failed":
            raise TrainingError(news[1])
        return number, works, news

    def watch(self) -> None:
        """Until all workers are done: passes on their news, and tells of what was killed, which starts again.

        Raises:
            TrainingError: one failed.
        """
        while len(self.done) < self._workers:
            number, works, (what, told) = self._next()
            if works and what == "told" and (number == 0 or self._plan.mode != "sync"):
                self._progress(*told)
            elif works and what == "done":
                self.done.setdefault(number, told)

    def _count(self, who: str, status: int) -> None:
        if status >= 0:
            raise TrainingError(f"{who} ended with {status}; what it said stands above")
        self.restarts += 1
        if self.restarts > RESTARTS:
            raise TrainingError(f"{who} was killed, and {RESTARTS} processes before it; something kills them")

    def result(self) -> Served:
        """Weights and losses, as the servers have them."""
        plan, task = self._plan, self._plan.make()
        network = task.built(plan.seed)
        links = Servers(self.addresses, read_keys(WORKER, plan.secure))
        try:
            like = {**dict(network.named_parameters()), **dict(network.named_buffers())}
            pulled, reports = links.pull(0, 0, like)
            with torch.no_grad():
                for one in pulled:
                    for name, value in one.tensors.items():
                        like[name].copy_(value)
        finally:
            links.close()
        each = plan.workers if Mode.of(plan.mode).together else 1
        losses = [one.loss for one in reports[::each]]      # all have the loss of the whole batch
        return Served(network, losses, self.restarts, sum(sent for sent, _ in self.done.values()),
                      sum(refused for _, refused in self.done.values()))

    def end(self) -> None:
        """Ends all processes, the workers before the servers."""
        self.processes.end()


def train_with_servers(task: Task, seed: int, *, servers: int = 2, workers: int = 2, mode: str = "sync",
                       folder: Path | None = None, resume: bool = False, keep: float = 1.0, threads: int = 1,
                       every: int = EVERY, lease: float = LEASE, log: Path | None = None, secure: Path | None = None,
                       progress: Progress | None = None) -> Served:
    """Trains one network with parameter servers and workers that are processes of this machine.

    Args:
        task: what is learned; made anew in each process, so its class must be importable.
        seed: of weights, samples and order.
        servers: which share the parameters by hash.
        workers: which compute gradients.
        mode: ``sync``, ``async``, or ``stale:S``, see :class:`.mode.Mode`.
        folder: of the servers' checkpoints and logs, which are left there; None: one that is removed at the end.
        resume: go on with what the folder holds; else it is removed first.
        keep: share of each gradient that is sent, see :class:`.worker.ServedTrainer`.
        threads: torch's, of each worker; a server has one.
        every: steps between two checkpoints of a server.
        lease: s without a word of a worker after which its place is another's.
        log: file that worker 0 adds lines of JSON to.
        secure: folder of ``brain keys``; None: as ``BRAIN_SECURITY`` says, else nothing is secured.
        progress: told what is done.

    Raises:
        CheckpointError: the folder is of another training, torn, or in use.
        OSError: the folder cannot be written.
        TrainingError: a loss is not a number, or a process failed.
        ValueError: there is no such mode, or a number is below 1.
    """
    Mode.of(mode)
    if servers < 1 or workers < 1:
        raise ValueError(f"{servers} parameter servers and {workers} workers cannot train; there must be one of each")
    if not 0 < keep <= 1:
        raise ValueError(f"{keep} is no share of a gradient's elements; it must be above 0 and at most 1")
    with ExitStack() as closing:
        if folder is None:
            folder = Path(closing.enter_context(TemporaryFolder("servers")))
        elif not resume:
            for old in folder.glob("shard-*-of-*.*"):
                if old.suffix in (".checkpoint", ".log", ".curriculum"):
                    old.unlink()
        elif (other := of_others(folder, servers)) is not None:
            raise CheckpointError(f"{other} was kept by another number of servers, and this training has {servers}; "
                                  f"give ps={other.stem.rpartition('-')[2]}, or train without --resume")
        plan = Plan((type(task), task.which, task.quick, task.recipe), seed, servers, workers, mode, folder, every,
                    lease, keep, threads, log, secure, task.size)
        together = Together(plan, progress or (lambda what, done, of, note: None))
        closing.callback(together.end)
        together.watch()
        return together.result()
