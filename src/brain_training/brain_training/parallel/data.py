# SPDX-License-Identifier: Apache-2.0
"""Data parallel: each rank makes a part of every batch, and gradients are summed (DistributedDataParallel).

Sums, and no means: a loss is that of the whole batch on every rank, see :mod:`brain_training.whole`.
"""
from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ContextManager, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from brain_training.parallel.costed import Costed
from brain_training.parallel.cost import Cost, held
from brain_training.parallel.disk import OnDisk
from brain_training.parallel.group import Ranks
from brain_training.parallel.how import How
from brain_training.parallel.mesh import Mesh
from brain_training.parallel.plan import Plan, PlanError
from brain_training.parallel.together import bounds, cut_alike
from brain_training.parallel.whole_loss import WholeLoss
from brain_training.task import Lost, Task
from brain_training.trainer import Trainer


class DataParallelTrainer(Costed):
    """Trains with other ranks.

    With ``how.exact`` the weights have the bits of :class:`.shards.ShardsTrainer` with as many shards, whatever the
    backend is, and on the CPU without where there are two ranks.

    Args:
        task, seed, more: see :class:`Trainer`. Only rank 0 writes a log.
        ranks: that have parts of a batch.
        how: the plan, and what belongs to it.
        mesh: the groups of all forms, where there are several, or where some of the ranks share out.

    Raises:
        PlanError: a batch is smaller than the ranks.
    """

    def __init__(self, task: Task, seed: int, *, ranks: Ranks, how: How, mesh: Mesh | None = None, **more: Any
                 ) -> None:
        self.mesh = mesh
        self._sizes: list[int] = []
        task.whole = ranks
        if how.clip is not None:
            task.clip = how.clip
        super().__init__(task, seed, ranks=ranks, how=how, **more)
        plan, batch = how.plan or Plan(dp=ranks.size), len(task.indices(seed, 0))
        if how.batch not in (None, batch):
            raise PlanError(f"the batch of {how.deepspeed} has {how.batch} samples, and a step of {task.name} has "
                            f"{batch}: that is the task's recipe; leave train_batch_size out")
        note = plan.check_batch(batch, how.accumulate, how.micros)
        self.notes = (note,) if note else ()
        self._disk = None if how.offload_folder is None else OnDisk(
            getattr(self.optimizer, "optim", self.optimizer), how.offload_folder)

    def cost(self) -> Cost:
        """See :class:`Costed`; what is on a disk is no memory that is held, and is told beside."""
        if self._disk is not None:
            self.notes = (*self.notes, f"{self._disk.bytes / 1e6:.2f} MB of the optimizer of rank {self.ranks.rank} "
                                       f"were in {self.how.offload_folder}")
        return super().cost()

    def about(self) -> dict[str, Any]:
        """See :class:`Trainer`."""
        return {**super().about(), **({} if self.how.clip is None else {"clip": str(self.how.clip)})}

    # -- a step ----------------------------------------------------------------------------------------------------

    def wrapped(self, network: nn.Module) -> nn.Module:
        """DistributedDataParallel around the loss."""
        self.task.together(network)
        model = DistributedDataParallel(WholeLoss(self.task, network), process_group=self.ranks.group,
                                        forward_sync_buffers=False, gradient_as_bucket_view=True)
        model.register_comm_hook(None, self.ranks.hook(self.how.compress == "bf16"))
        return model

    def syncing(self, last: bool) -> ContextManager[Any]:
        """Within it, gradients are passed back; summed over ranks only for the last part of an accumulation."""
        return nullcontext() if last else self._model.no_sync()

    def passed(self, indices: Sequence[int]) -> Lost:
        """The own part of the batch, in as many parts as are accumulated."""
        size, seed, step = self.ranks.size, self.seed, self.step
        if len(indices) < size:     # the rest of a curriculum: each makes all of it, and rank 0's gradients count
            self._sizes = []
            with self.ranks.apart():
                lost = self._model(self.batch(indices), seed, step, len(indices))
                (lost.value * float(self.ranks.rank == 0)).backward()
            return Lost(lost.value.detach(), lost.hard)
        own = self._parted(indices)
        times = min(self.how.accumulate, min(self._sizes))
        within = bounds(len(own), times)
        value, hard = torch.zeros((), device=self.device), []
        for number in range(times):
            part = own[within[number]:within[number + 1]]
            share = sum(bounds(its, times)[number + 1] - bounds(its, times)[number] for its in self._sizes
                        ) / len(indices)
            with self.syncing(number == times - 1):
                lost = self._model(self.batch(part), seed, step, len(part))
                (lost.value if times == 1 else lost.value * share).backward()
            value = lost.value.detach() if times == 1 else value + share * lost.value.detach()
            hard.append(lost.hard)
        return Lost(value, None if hard[0] is None else torch.cat(hard))

    def cut(self) -> float:
        """With ``exact`` at the same bits, wherever a gradient lies."""
        return cut_alike(self.network.parameters(), self.task.clip) if self.how.exact else super().cut()

    def _parted(self, indices: Sequence[int]) -> Sequence[int]:
        """Those that this rank makes; keeps how many each has."""
        ends = bounds(len(indices), self.ranks.size)
        self._sizes = [b - a for a, b in zip(ends, ends[1:])]
        return self.ranks.part(indices)

    def gathered(self, lost: Lost) -> Lost:
        """The loss is that of all already; how hard samples were is gathered."""
        if self._held is None:
            self._held = held(self.network, self.optimizer)
        if lost.hard is None or not self._sizes:
            return lost
        padded = lost.hard.new_zeros(max(self._sizes))
        padded[:len(lost.hard)] = lost.hard
        parts = self.ranks.gather(padded)
        return Lost(lost.value, torch.cat([part[:size] for part, size in zip(parts, self._sizes)]))

    def whose(self) -> str:
        """Names the ranks whose samples made a loss or gradient that is no number."""
        wrong = ", ".join(map(str, self.ranks.wrong()))
        return f", by what rank {wrong} of {self.ranks.size} made of its samples" if wrong else ""

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def weights(self) -> Mapping[str, Tensor]:
        """Whole tensors of the network."""
        return self.network.state_dict()

    def states(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        """See :class:`Trainer`."""
        return self.weights(), self.optimizer.state_dict()


def make(task: Task, seed: int, *, ranks: Ranks, how: How, **more: Any) -> Trainer:
    """The trainer of a plan with ``dp`` alone."""
    return DataParallelTrainer(task, seed, ranks=ranks, how=how, **more)


def unsplit(task: Task, seed: int, ranks: Ranks, how: How, **more: Any) -> Trainer:
    """The same for a network that a form does not divide: all ranks share the batch."""
    trainer = DataParallelTrainer(task, seed, ranks=ranks, how=replace(how, plan=Plan(dp=ranks.size)), **more)
    trainer.notes = (*trainer.notes, f"{how.plan} does not divide this network, so it was trained by dp={ranks.size}")
    return trainer
