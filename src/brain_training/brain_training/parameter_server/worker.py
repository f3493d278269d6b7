# SPDX-License-Identifier: Apache-2.0
"""The trainer of a worker: it computes gradients, and the servers do the rest."""
from __future__ import annotations

import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Mapping, Sequence

import torch
from torch import Tensor, nn

from brain_training.parallel.whole_loss import WholeLoss
from brain_training.parameter_server import tensors as wire
from brain_training.parameter_server.client import Servers
from brain_training.parameter_server.messages import Report
from brain_training.parameter_server.mode import Mode
from brain_training.parameter_server.shard import about
from brain_training.parameter_server.shares import Passed, Served
from brain_training.task import Lost, Progress, Task, TrainingError
from brain_training.trainer import LATELY, LOGGED, Trainer

TRIES = 1000        # gradients of one step, each of newer parameters


class ServedTrainer(Trainer):
    """Trains one network together with other workers.

    In mode sync it does what a rank of data parallel does: it makes its part of a step's samples, takes sums over the
    whole batch where the loss asks for them (:mod:`.shares`), and what all learn about samples is gathered: all workers
    know the same curriculum. In other modes each step is one worker's, which knows of the others' samples a little
    later.

    A worker holds nothing that is lost with it: one that comes later takes its place, with the same bits in mode sync.

    Args:
        task: what is learned.
        seed: of weights, samples and order.
        servers: all of them; a place is taken there.
        keep: share of each gradient's elements that is sent, the largest by amount; what is left is added to the next
            gradient (error feedback). 1: all.
        identity: of this worker, see :meth:`.client.Servers.join`.
        device, log, progress: as of :class:`brain_training.trainer.Trainer`.

    Attributes:
        sent: bytes of gradients.
        refused: how many pushes were too old.

    Raises:
        TrainingError: a server refuses this worker.
        ValueError: ``keep`` is no share.
    """

    def __init__(self, task: Task, seed: int, servers: Servers, *, keep: float = 1.0, identity: str | None = None,
                 device: str | torch.device = "cpu", log: Path | None = None, progress: Progress | None = None) -> None:
        if not 0 < keep <= 1:
            raise ValueError(f"{keep} is no share of a gradient's elements; it must be above 0 and at most 1")
        servers.check(about(task, seed))
        self.servers, self.mode, self._keep = servers, Mode.of(servers.mode), keep
        self._whole = Served(servers.share, servers.workers)
        if self.mode.together:
            task.whole = self._whole
        super().__init__(task, seed, device=device, log=log, progress=progress)
        self._weights = dict(self.network.named_parameters())
        self._buffers = dict(self.network.named_buffers())
        self._residual: dict[str, Tensor] = {}
        self._versions: list[int] = []
        self._reports: list[Any] = []
        self._own: set[int] = set()
        self._shared: Any = None
        self.sent = self.refused = 0
        servers.join(about(task, seed), self.steps, identity)
        self.rank, self._whole.member = servers.member.rank, servers.member

    def run(self) -> nn.Module:
        """Trains until no step is left; returns the network on the CPU, in modes other than sync as it was last pulled.

        Raises:
            TrainingError: a loss is not a number, or a server refuses something or is gone for too long.
        """
        since = time.monotonic()
        self._catch_up()
        while self._more():
            norm = self.advance()
            lately = self.losses[-LATELY:]
            if self._log and self.rank == 0 and (self.step % LOGGED == 0 or self.step == self.steps):
                self._note(norm, time.monotonic() - since)
                since = time.monotonic()
            self._tell(self.task.which, self.step, self.steps, f"loss {sum(lately) / len(lately):.3f}")
        self._pull(0)
        self.servers.leave()
        return self.network.cpu()

    def _waits(self, why: str) -> None:
        self._tell(f"waiting ({self.task.which})", self.step, self.steps, why)

    # -- what servers have -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def _pull(self, version: int) -> list[Any]:
        """Takes all servers' parameters when they have reached a version; returns what workers have reported since."""
        like = {**self._weights, **self._buffers}
        pulled, reports = self.servers.pull(version, len(self._reports), like, self._waits)
        for one in pulled:
            for name, value in one.tensors.items():
                like[name].copy_(value)
        self._versions = [int(one.header.version) for one in pulled]
        self.rate = pulled[0].header.rate
        self._reports += reports
        return reports

    def _catch_up(self) -> None:
        """Comes to where the training is: weights, and the curriculum as all others have it."""
        if not self.mode.together:
            self._restore_curriculum(0)
            return
        versions = [one.version for one in self.servers.registrations]
        newest = max(versions)
        behind = [number for number, version in enumerate(versions) if version < newest]
        if behind:      # those who knew the norm are gone, and the others have it still
            self.servers.apply(newest - 1, self.servers.registrations[versions.index(newest)].last_norm, behind)
        self._pull(newest)
        while len(set(self._versions)) > 1:     # meanwhile others have gone on with what was pushed from this place
            self._pull(max(self._versions))
        self._restore_curriculum(self._versions[0])
        self.step = self._versions[0]

    def _restore_curriculum(self, step: int) -> None:
        """Goes through the steps before ``step`` as those who were there did, without their gradients."""
        begin = 0
        if any(one.has_curriculum for one in self.servers.registrations):
            begin, tensors, values = self.servers.pull_curriculum()
            self.task.restore(tensors, values)
            self._shared = values
        self.losses = [self._loss_of(done) for done in range(min(begin, step))]
        for done in range(begin, step):
            if done > begin or self._shared is None:
                self.task.begin(self.seed, done, self.network, self._tell)
            indices = list(self.task.indices(self.seed, done))
            self.task.end(self.network, indices, self._together(done, indices))
            self.losses.append(self._loss_of(done))

    def _share_curriculum(self, step: int) -> None:
        """Leaves the curriculum with server 0 where it has come to another part, which its values tell.

        What changes in between follows from the reports.
        """
        if self.rank != 0:
            return
        tensors, values = self.task.state()
        if (tensors or values) and values != self._shared:
            self.servers.push_curriculum(step, tensors, values)
            self._shared = values

    # -- a step ----------------------------------------------------------------------------------------------------

    def _more(self) -> bool:
        if self.mode.together:
            return self.step < self.steps
        taken = self.servers.take(self._waits)
        if taken is None:
            return False
        self.step = taken
        return True

    def advance(self) -> float:
        """One step; returns the norm of the gradients before they were cut."""
        return self._advance_together() if self.mode.together else self._advance_alone()

    def wrapped(self, network: nn.Module) -> nn.Module:
        """In mode sync the loss of the whole batch."""
        if not self.mode.together:
            return network
        self.task.together(network)
        return WholeLoss(self.task, network)

    def whose(self) -> str:
        """Names the workers whose samples made a loss or gradient that is no number."""
        if not self.mode.together:
            return f" at worker {self.rank}"
        wrong = ", ".join(map(str, self._whole.wrong()))
        return f", by what worker {wrong} of {self.servers.workers} made of its samples" if wrong else ""

    def passed(self, indices: Sequence[int]) -> Lost:
        """Takes the loss and passes it back: of the own part of the samples in mode sync, else of all."""
        if not len(indices):
            raise TrainingError(f"step {self.step} of {self.task.name} ({self.task.which}) has no samples: its data "
                                f"are empty")
        if not self.mode.together:
            return super().passed(indices)
        with self._whole.within(self.step, self._waits):
            if len(indices) < self.servers.workers:     # each makes all of it, and worker 0's gradients count
                with self._whole.apart():
                    lost = self._model(self.batch(indices), self.seed, self.step, len(indices))
                    (lost.value * float(self._whole.rank == 0)).backward()
            else:
                own = self._whole.part(indices)
                lost = self._model(self.batch(own), self.seed, self.step, len(own))
                lost.value.backward()
        return Lost(lost.value.detach(), lost.hard)

    def _computed(self, indices: Sequence[int]) -> tuple[Lost, dict[str, Tensor], dict[str, Tensor]]:
        """Loss, gradients, and the buffers that have changed."""
        before = {name: value.clone() for name, value in self._buffers.items()}
        self.optimizer.zero_grad()
        lost = self.passed(indices)
        if not math.isfinite(lost.value.item()):
            raise TrainingError(f"the loss of {self.task.name} ({self.task.which}) is {lost.value.item()} after "
                                f"{self.step} steps{self.whose()}; lower the learning rate of its recipe")
        gradients = {name: value.grad for name, value in self._weights.items() if value.grad is not None}
        changed = {name: value for name, value in self._buffers.items() if not torch.equal(value, before[name])}
        return lost, gradients, changed

    def _report(self, step: int, lost: Lost) -> Any:
        return Report(step=step, rank=self.rank, loss=lost.value.item(),
                      hard=[] if lost.hard is None else lost.hard.tolist())

    def _advance_together(self) -> float:
        task, step = self.task, self.step
        task.begin(self.seed, step, self.network, self._tell)
        indices = list(task.indices(self.seed, step))
        self._share_curriculum(step)
        with suppress(Passed):      # by who had this place before
            lost, gradients, changed = self._computed(indices)
            sparse, gradients, residual = self._sparse(gradients)
            stale, sent = self.servers.push(step, self._versions, gradients, changed if self.rank == 0 else {},
                                            self._report(step, lost), sparse=sparse)
            if stale:
                raise TrainingError("; ".join(stale.values()))
            self.sent, self._residual = self.sent + sent, residual

        def waits(why: str) -> None:
            self._waits(why)
            self._whole.remind()    # server 0 may have been started again, and others may wait for what was shared

        dtype = next(iter(self._weights.values())).dtype
        norm = self.servers.finish(step, list(self._weights), dtype, waits)
        self._pull(step + 1)
        task.end(self.network, indices, self._together(step, indices))
        self.losses.append(self._loss_of(step))
        self.step += 1
        return norm

    def _of_step(self, step: int) -> list[Any]:
        """Returns workers' reports of a step of mode sync, by rank."""
        count = self.servers.workers
        found = self._reports[step * count:(step + 1) * count]
        if [(one.step, one.rank) for one in found] != [(step, rank) for rank in range(count)]:
            raise TrainingError(f"server 0 does not have the reports of all workers of step {step}; its folder is of "
                                f"another training")
        return found

    def _loss_of(self, step: int) -> float:
        return float(self._of_step(step)[0].loss)       # all have that of the whole batch

    def _together(self, step: int, indices: Sequence[int]) -> Lost:
        """Joins the losses and hardness of all workers for a step, in the order of its samples."""
        told = self._of_step(step)
        if len(indices) < len(told):
            told = told[:1]         # each made all of it
        hard = [value for one in told for value in one.hard]
        # a report that tells of another number of samples is no reason to end the training of all
        return Lost(torch.tensor(self._loss_of(step)), torch.tensor(hard) if len(hard) == len(indices) else None)

    def _advance_alone(self) -> float:
        task, step, numbers = self.task, self.step, None
        for _ in range(TRIES):
            self._note_others(self._pull(0))
            task.begin(self.seed, step, self.network, self._tell)
            indices = list(task.indices(self.seed, step))
            self._share_curriculum(step)
            lost, gradients, changed = self._computed(indices)
            sparse, gradients, residual = self._sparse(gradients)
            norm = float(nn.utils.get_total_norm(gradients.values()))
            stale, sent = self.servers.push(step, self._versions, gradients, changed, self._report(step, lost),
                                            norm=norm, sparse=sparse, numbers=numbers)
            self.sent += sent
            if not stale:
                break
            self.refused += len(stale)
            numbers = list(stale)   # the others have it
        else:
            raise TrainingError(f"step {step} was too old {TRIES} times ({'; '.join(stale.values())}); start the "
                                f"servers with a larger bound")
        self._residual = residual
        self._own.add(step)
        task.end(self.network, indices, Lost(lost.value.detach(), lost.hard))
        self.losses.append(lost.value.item())
        return norm

    def _note_others(self, reports: Sequence[Any]) -> None:
        """Tells the curriculum what other workers' samples were like."""
        for one in reports:
            if one.step in self._own or not one.hard:
                continue
            try:
                indices = list(self.task.indices(self.seed, one.step))
            except ValueError:
                continue        # of a part of the curriculum that is over here
            if len(indices) == len(one.hard):
                self.task.end(self.network, indices, Lost(torch.tensor(one.loss), torch.tensor(one.hard)))

    def _sparse(self, gradients: Mapping[str, Tensor]
                ) -> tuple[dict[str, tuple[Tensor, Tensor]], dict[str, Tensor], dict[str, Tensor]]:
        """The largest elements of gradients and what was left before: those, dense, and what is left now."""
        if self._keep == 1:
            return {}, dict(gradients), {}
        sparse, dense, residual = {}, {}, {}
        for name, value in gradients.items():
            whole = value + self._residual[name] if name in self._residual else value
            places, kept = wire.largest(whole, self._keep)
            flat = torch.zeros(whole.numel(), dtype=whole.dtype)
            flat[places.long()] = kept
            sparse[name] = places, kept
            dense[name] = flat.view(whole.shape)
            residual[name] = whole - dense[name]
        return sparse, dense, residual
