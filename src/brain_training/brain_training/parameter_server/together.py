# SPDX-License-Identifier: Apache-2.0
"""A training with parameter servers on this machine: servers and workers are processes that end with this one.

What dies is started again: a server with its folder, a worker in its place.
"""
from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import tempfile
from contextlib import ExitStack
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Callable, NamedTuple

import torch
from torch import nn

from brain_runtime.run.end_with_parent import die_with
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

RESTARTS = 100          # of processes that were killed
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


def _server(plan: Plan, number: int, address: str, news: Connection, parent: int) -> None:
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)    # of the terminal; this one's parent ends it
    torch.set_num_threads(1)

    async def run() -> None:
        until = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, until.set)
        task = plan.make()
        with blamed(task, lambda: "before the first step"):
            shard = Shard(task, plan.seed, number, plan.servers, plan.workers, Mode.of(plan.mode))
        await serve(shard, address, plan.folder, lambda port: news.send(("port", port)), every=plan.every, until=until,
                    stay=True, keys=read_keys(SERVER, plan.secure, serves=True), lease=plan.lease)

    _told(lambda: asyncio.run(run()), news)


def _worker(plan: Plan, number: int, addresses: list[str], news: Connection, parent: int) -> None:
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(plan.threads)

    def run() -> None:
        servers, task, trainer = Servers(addresses, read_keys(WORKER, plan.secure)), plan.make(), None
        with blamed(task, lambda: when(trainer)):
            trainer = ServedTrainer(task, plan.seed, servers, keep=plan.keep, identity=f"worker {number}", log=plan.log,
                                    progress=lambda *what: news.send(("told", what)))
            trainer.run()
        news.send(("done", (trainer.sent, trainer.refused)))
        servers.close()

    _told(run, news)


def _told(run: Callable[[], None], news: Connection) -> None:
    try:
        run()
    except TOLD as error:
        news.send(("failed", str(error)))
        raise SystemExit(1) from None


class _Child:
    """A process, and what it says."""

    def __init__(self, work: Callable[..., None], *args: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.news, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=work, args=(*args, theirs, os.getpid()))
        self.process.start()
        theirs.close()
        self.told: tuple[str, Any] | None = None

    def heard(self) -> list[tuple[str, Any]]:
        """News since the last time."""
        found = []
        try:
            while self.news.poll():
                found.append(self.news.recv())
        except (EOFError, OSError):     # killed, maybe in the middle of a word
            self.process.join()
        return found

    def end(self) -> None:
        """Ends it."""
        self.process.terminate()
        self.process.join(5.0)
        if self.process.exitcode is None:
            self.process.kill()
        self.process.join()
        self.news.close()


class Together:
    """The processes of a training with servers; see :func:`train_with_servers`.

    Args:
        plan: for all of them.
        progress: told what worker 0 does, or all where each step is one worker's.
        workers: started here; None: as many as there are places.

    Attributes:
        servers, workers: processes by their numbers.
        restarts: of killed ones.
    """

    def __init__(self, plan: Plan, progress: Progress, workers: int | None = None) -> None:
        self._plan, self._progress, self.restarts = plan, progress, 0
        self.servers: list[_Child] = []
        self.workers: list[_Child] = []
        self.addresses: list[str] = []
        self.done: dict[int, tuple[int, int]] = {}
        try:
            for number in range(plan.servers):
                self.servers.append(_Child(_server, plan, number, "localhost:0" if plan.secure else "127.0.0.1:0"))
            for number, server in enumerate(self.servers):
                self.addresses.append(f"{'localhost' if plan.secure else '127.0.0.1'}:{self._port(number, server)}")
            for number in range(plan.workers if workers is None else workers):
                self.workers.append(_Child(_worker, plan, number, self.addresses))
        except BaseException:
            self.end()
            raise

    @staticmethod
    def _port(number: int, server: _Child) -> int:
        try:
            what, told = server.news.recv()
        except EOFError:
            server.process.join()
            raise TrainingError(f"parameter server {number} ended with {server.process.exitcode} before it listened"
                                ) from None
        if what == "failed":
            raise TrainingError(told)
        return int(told)

    def watch(self) -> None:
        """Until all workers are done: passes on their news, and starts again what was killed.

        Raises:
            TrainingError: one failed.
        """
        while len(self.done) < len(self.workers):
            everyone = [*self.servers, *self.workers]
            wait([child.process.sentinel for child in everyone if child.process.exitcode is None]
                 + [child.news for child in everyone if not child.news.closed and child.process.exitcode is None], 0.5)
            for number, server in enumerate(self.servers):
                over = server.process.exitcode
                self._check(server.heard())
                if over is not None:
                    self._count(f"parameter server {number}", over)
                    server.news.close()
                    self.servers[number] = _Child(_server, self._plan, number, self.addresses[number])
            for number, worker in enumerate(self.workers):
                if number in self.done:
                    continue
                over = worker.process.exitcode
                for what, told in self._check(worker.heard()):
                    if what == "told":
                        if number == 0 or not self._plan.mode == "sync":
                            self._progress(*told)
                    elif what == "done":
                        self.done[number] = told
                if over is not None and number not in self.done:
                    self._count(f"worker {number}", over)
                    worker.news.close()
                    self.workers[number] = _Child(_worker, self._plan, number, self.addresses)

    @staticmethod
    def _check(news: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        for what, told in news:
            if what == "failed":
                raise TrainingError(told)
        return news

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
        """Ends all processes."""
        for child in (*self.workers, *self.servers):
            child.end()


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
            folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="brain-servers-")))
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
