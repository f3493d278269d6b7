# SPDX-License-Identifier: Apache-2.0
"""One process that does what N ranks do: it works through their parts of a batch one after another.

It is what every form of data parallel is compared with. Each part has a thread, and one of them runs at a time: until
it needs the sum of what all parts have, or is done. So the code of the parts is that of ranks, and only the sums are
made in memory.
"""
from __future__ import annotations

import copy
import threading
from typing import Any, Callable, Sequence

import torch
from torch import Tensor, nn

from brain_training.parallel.pipeline import chain, one_by_one
from brain_training.parallel.plan import PlanError
from brain_training.parallel.together import Together, bounds, cut_alike, in_order
from brain_training.parallel.whole_loss import WholeLoss
from brain_training.task import Lost, Task, stream
from brain_training.trainer import Trainer


class _Stopped(BaseException):
    """Another part has failed; not for anybody to catch."""


class Turns:
    """Functions that run by turns, each until it :meth:`swap` s something with all others, or returns.

    Args:
        works: what is run, one for each part.
    """

    def __init__(self, works: Sequence[Callable[[], Any]]) -> None:
        self._count = len(works)
        self._go = [threading.Semaphore(0) for _ in works]
        self._back = threading.Semaphore(0)
        self._given: list[Any] = [None] * self._count
        self._round: list[Any] = []
        self._found: list[Any] = [None] * self._count
        self._open = set(range(self._count))
        self._failed: BaseException | None = None
        self._threads = [threading.Thread(target=self._run, args=(number, work), daemon=True)
                         for number, work in enumerate(works)]

    def _run(self, number: int, work: Callable[[], Any]) -> None:
        self._go[number].acquire()
        try:
            if self._failed is None:
                self._found[number] = work()
        except _Stopped:
            return
        except BaseException as error:      # told by the thread that began all
            self._failed = self._failed or error
        finally:
            self._open.discard(number)
            self._back.release()

    def swap(self, number: int, given: Any) -> list[Any]:
        """Hands over a part's value, waits for those of all others, and returns all, in the order of parts."""
        self._given[number] = given
        self._back.release()
        self._go[number].acquire()
        if self._failed is not None:
            raise _Stopped
        return self._round

    def run(self) -> list[Any]:
        """Runs all; what they return.

        Raises:
            RuntimeError: some are done, and others still want to swap.
            Exception: what the first raised that failed.
        """
        for thread in self._threads:
            thread.start()
        while self._open:
            before = set(self._open)
            for number in sorted(before):
                self._go[number].release()
                self._back.acquire()
            self._round = list(self._given)     # of this round: who goes on first gives something new
            if self._failed is None and self._open and self._open != before:
                self._failed = RuntimeError("the parts of a batch do not ask for the same sums")
        for thread in self._threads:
            thread.join()
        if self._failed is not None:
            raise self._failed
        return self._found


class Shards(Together):
    """The parts of a batch in one process. Outside of :meth:`run` it is the whole."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self._local = threading.local()
        self._turns: Turns | None = None

    @property
    def _within(self) -> bool:
        return hasattr(self._local, "rank")

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Index of the part that runs, from 0."""
        return getattr(self._local, "rank", 0)

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of parts; 1 outside of :meth:`run`."""
        return self.count if self._within else 1

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """See :class:`Together`."""
        if not self._within or self._turns is None:
            return [tensor]
        return self._turns.swap(self.rank, tensor)

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        """Runs ``work(rank)`` for each part; what they return."""
        threads = torch.get_num_threads()

        def one(rank: int) -> Any:
            self._local.rank = rank
            torch.set_num_threads(threads)
            return work(rank)

        self._turns = Turns([lambda rank=rank: one(rank) for rank in range(self.count)])    # type: ignore[misc]
        return self._turns.run()


class ShardsTrainer(Trainer):
    """The reference of N ranks: one network whose gradients are the sum, in order, of those of N parts.

    Args:
        task, seed, more: see :class:`Trainer`.
        shards: how many parts.
        micros: micro-batches of each part, one after another forward and back, as the stages of a pipeline pass them;
            0: parts are passed as a whole.

    Raises:
        TrainingError: there are micro-batches, and the network is none that a pipeline takes.
    """

    def __init__(self, task: Task, seed: int, *, shards: int, micros: int = 0, **more: Any) -> None:
        # pp trains the baseline, which it does not divide, data parallel: see :func:`.mesh_trainer.make`
        self._shards, self._micros = Shards(shards), micros if task.spiking else 0
        task.whole = self._shards
        super().__init__(task, seed, **more)

    def wrapped(self, network: nn.Module) -> nn.Module:
        """A network for each part: of the same weights, each with gradients and statistics of its own."""
        count, samples = self._shards.count, len(self.task.indices(self.seed, 0))
        if count > samples:     # before there is a network for each
            raise PlanError(f"a step has {samples} samples, too few for --shards {count}; 1 to {samples} fits")
        self._networks = [network, *(copy.deepcopy(network) for _ in range(self._shards.count - 1))]
        for each in self._networks:
            for mine, its in zip(network.parameters(), each.parameters()):
                its.data = mine.data
            self.task.together(each)
        self._losses = [WholeLoss(self.task, each) for each in self._networks]
        self._chains = [chain(self.task, each) for each in self._networks] if self._micros else []
        return network

    def cut(self) -> float:
        """At the same bits as of ranks, wherever a gradient lies."""
        return cut_alike(self.network.parameters(), self.task.clip)

    def passed(self, indices: Sequence[int]) -> Lost:
        """The parts of a batch, one after another; gradients are summed in their order."""
        set_so = {name: value for name, value in vars(self.network).items() if isinstance(value, (bool, int, float))}
        for other in self._networks[1:]:
            other.__dict__.update(set_so)       # by the task, in its begin
            for mine, its in zip(self.network.buffers(), other.buffers()):
                its.copy_(mine)
            other.train(self.network.training)
            other.zero_grad()
        alike = len(indices) < self._shards.count
        ends = bounds(len(indices), self._shards.count)
        sizes = [] if alike else [b - a for a, b in zip(ends, ends[1:])]

        def work(rank: int) -> Lost:
            loss, part = self._losses[rank], indices if alike else self._shards.part(indices)
            if self._micros:
                return self._one_by_one(rank, part, sizes, float(rank == 0 or not alike))
            lost = loss(self.batch(part), self.seed, self.step, len(part))
            (lost.value * float(rank == 0) if alike else lost.value).backward()
            return Lost(lost.value.detach(), lost.hard)

        if alike:
            with self._shards.apart():
                found = self._shards.run(work)[:1]
        else:
            found = self._shards.run(work)
        for mine, *others in zip(*(list(each.parameters()) for each in self._networks)):
            if mine.grad is not None:
                mine.grad = in_order([mine.grad, *(other.grad for other in others)])
        hard = [lost.hard for lost in found if lost.hard is not None]
        return Lost(found[0].value, torch.cat(hard) if hard else None)

    def _one_by_one(self, rank: int, part: Sequence[int], sizes: Sequence[int], counts: float) -> Lost:
        """A part by its micro-batches."""
        of, seed, step = self._chains[rank], self.seed, self.step
        found = one_by_one(of, of.micros(self.batch(part), self._micros, lambda: stream("step", seed, step), sizes))
        if not counts:
            self._networks[rank].zero_grad(set_to_none=False)
        return found

    def whose(self) -> str:
        """Names the shards whose samples made a loss or gradient that is no number."""
        wrong = ", ".join(map(str, self._shards.wrong()))
        return f", by what shard {wrong} of {self._shards.count} made of its samples" if wrong else ""
