# SPDX-License-Identifier: Apache-2.0
"""Trainers of ranks that may die: what the training was before the step is kept in memory until the step is done.

With dp every rank has all of it: weights, the optimizer's state, the learning rate's schedule, the curriculum, losses.
It is kept as a checkpoint has it, and taken up by the code that takes up a checkpoint. With zero=1 a dead rank takes
its part of the optimizer's state along, so nothing is kept, and the newest checkpoint is what is gone back to.
"""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor

from brain_training import generators
from brain_training.checkpoint_folder import load
from brain_training.parallel.data import DataParallelTrainer
from brain_training.parallel.group import Ranks
from brain_training.parallel.how import How
from brain_training.parallel.zero import SharedOptimizerTrainer
from brain_training.task import Task


@dataclass(frozen=True)
class Kept:
    """A training between two steps.

    Attributes:
        step: how many are done.
        tensors: what a checkpoint has of them, copied.
        values: the rest of it, as JSON.
        drawn: states of this process's own generators; of another process's training nothing.
    """

    step: int
    tensors: dict[str, Tensor]
    values: str
    drawn: dict[str, Tensor] = field(default_factory=dict)


def handed(kept: Kept | None, ranks: Ranks, source: int) -> Kept:
    """Broadcasts what one rank keeps to all ranks; all of them call it.

    Args:
        kept: by this rank; None: nothing, and it is not ``source``.
        ranks: that tell each other.
        source: which of them hands its own on.
    """
    own = ranks.rank == source
    assert kept is not None or not own
    values = ranks.told(kept.values.encode() if own and kept else None, source)
    tensors = ranks.told(to_bytes({name: value.contiguous() for name, value in kept.tensors.items()})
                         if own and kept else None, source)
    if own and kept is not None:
        return kept
    return Kept(int(json.loads(values)["step"]), from_bytes(tensors), values.decode())


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in tensors.items()}


class _Alone(DataParallelTrainer):
    """Rank 0 writes checkpoints by itself, as one process does: a second group of all ranks would have to be mended."""

    parted = False

    def loaded(self, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        """See :class:`.costed.Costed`; each rank reads by itself."""
        return load(folder, self.room)


class KeepingTrainer(_Alone):
    """Of dp."""

    _kept: Kept | None = None
    _course: tuple[Any, dict[str, Tensor], dict[str, Any]] | None = None    # with the task's mark of it

    def advance(self) -> float:
        """See :class:`brain_training.trainer.Trainer`; keeps what was before."""
        self._kept = self._copied()
        return super().advance()

    def _copied(self) -> Kept:
        mark = self.task.mark()
        if self._course is None or mark is None or self._course[0] != mark:
            tensors, values = self.task.state()
            self._course = mark, _copies(tensors), json.loads(json.dumps(values))
        tensors, values = self.state(self._course[1:])
        own = {name: value for name, value in tensors.items() if not name.startswith("task.")}
        return Kept(self.step, {**tensors, **_copies(own)}, json.dumps(values), generators.states())

    def stands(self) -> Kept:
        """Returns the state after the last step that was done, whatever ended the step that is under way."""
        between = self._kept is None or self._kept.step != self.step
        return self._copied() if between or self._kept is None else self._kept

    def back(self, kept: Kept) -> None:
        """Goes on from what was kept, here or by another rank."""
        self.take_up(kept.tensors, json.loads(kept.values))
        generators.restore(kept.drawn)


class SharedOptimizerOnDisk(_Alone, SharedOptimizerTrainer):
    """Of zero=1."""


def make(task: Task, seed: int, *, ranks: Ranks, how: How, **more: Any) -> DataParallelTrainer:
    """The trainer of a plan with ``dp``, or ``zero=1``, whose ranks may die."""
    cls = SharedOptimizerOnDisk if how.plan is not None and how.plan.zero else KeepingTrainer
    return cls(task, seed, ranks=ranks, how=how, **more)
