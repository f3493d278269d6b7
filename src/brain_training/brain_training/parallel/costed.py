# SPDX-License-Identifier: Apache-2.0
"""Base of the trainers of several ranks: who they are, their checkpoints, and what it costs."""
from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Mapping, Sequence

import torch
from torch import nn

from brain_training import checkpoint as files
from brain_training import generators
from brain_training.checkpoint import CheckpointError
from brain_training.checkpoint_folder import Folder, load
from brain_training.parallel.cost import KINDS, Cost, Held, held
from brain_training.parallel.group import Ranks
from brain_training.parallel.how import How
from brain_training.task import Task
from brain_training.trainer import Trainer
from brain_wire.temporary_folder import TemporaryFolder


class Costed(Trainer):
    """Trains with other ranks, and counts what that takes.

    Where all ranks see the folder of the checkpoints, each writes what it holds, in the background. Where they do not,
    as on machines without a common disk, rank 0 writes the file that one process writes. Either is taken up by any
    form and number of ranks.

    Args:
        task, seed, more: see :class:`Trainer`. Only rank 0 writes a log and tells what is done.
        ranks: that this one trains with.
        how: the plan, and what belongs to it.
        world: all ranks, where ``ranks`` are some of them.

    Attributes:
        notes: what there is to be known beside the cost.
        parted: a rank can write its part of a checkpoint alone.
    """

    parted: ClassVar[bool] = True

    def __init__(self, task: Task, seed: int, *, ranks: Ranks, how: How, world: Ranks | None = None, **more: Any
                 ) -> None:
        self.ranks, self.world, self.how, self.notes = ranks, world or ranks, how, tuple[str, ...]()
        self._held: Held | None = None
        self.number = self.world.rank
        self._folder: Folder | None = None      # None before the first checkpoint
        self._sharded = False
        if self.world.rank:
            more |= {"log": None, "progress": None}
        self._begun, self._first, self._sent = time.monotonic(), 0, 0
        super().__init__(task, seed, **more)

    def run(self) -> nn.Module:
        """See :class:`Trainer`."""
        self._begun, self._first, (self._sent, _) = time.monotonic(), self.step, self.world.sent()
        try:
            network = super().run()
        except BaseException:
            with suppress(Exception):   # the first error is told
                self.written()
            raise
        self.written()
        return network

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def agreed(self, due: bool) -> bool:
        """Returns the decision of rank 0, at all ranks: all of them have to be there."""
        return self.world.agreed(due)

    def save(self) -> None:
        """Begins a checkpoint, and waits for the one before; see :meth:`written`."""
        assert self._path is not None
        if self._folder is None:
            self._folder = Folder(self._path, self.world)
            self._sharded = self.parted and self._folder.shared
        super().save()

    def written(self) -> None:
        """Waits for a checkpoint that is being written.

        Raises:
            CheckpointError: it cannot be, as where a disk is full; at all ranks. The one before is still there.
        """
        if self._folder is not None:
            self._folder.wait()

    def parts(self) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Returns the state that this rank holds, or, where the folder is not shared, the whole."""
        return self.own() if self._sharded else self.states()

    def own(self) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Returns this rank's part of the network and of the optimizer's state; one rank writes what several hold."""
        return self.network.state_dict(), self.optimizer.state_dict()

    def write(self, tensors: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """All ranks their parts, or rank 0 the whole."""
        assert self._folder is not None
        if self._sharded:
            drawn = {f"generators.{self.number}.{name}": value for name, value in generators.states().items()}
            self._folder.save({**tensors, **drawn}, {**values, "shapes": self.shapes()}, self.step)
            return
        failed: Exception | None = None
        if self.world.rank == 0:
            try:
                super().write(tensors, values)
            except CheckpointError as error:
                failed = error
        why = self.world.told(str(failed).encode() if failed else None).decode()
        if why:
            raise CheckpointError(why) from failed

    def shapes(self) -> dict[str, list[int]]:
        """Of tensors of which :meth:`own` gives parts in another shape: that of the whole."""
        return {}

    def read(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Rank 0 says what is the newest. A file it reads, and tells: the others may be on other machines."""
        place = files.newest(self._path) if self._path is not None and self.world.rank == 0 else None
        told = self.world.told(None if place is None else str(place).encode()).decode()
        if not told:
            return None
        self._place = Path(told)
        folder = self.world.agreed(self._place.is_dir())
        if folder:
            return self.loaded(self._place)
        data = self.world.told(self._place.read_bytes() if place is not None else None)
        with TemporaryFolder("checkpoint") as beside:
            path = Path(beside) / "checkpoint"
            path.write_bytes(data)
            try:
                return files.load(path)
            except CheckpointError as error:
                raise CheckpointError(str(error).replace(str(path), str(self._place))) from error

    def loaded(self, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        """Loads this rank's part of a checkpoint of several ranks; all ranks call it."""
        return load(folder, self.room, self.world)

    # -- what it costs ---------------------------------------------------------------------------------------------

    def cost(self) -> Cost:
        """Gathers the costs and savings of the training from all ranks; all of them call it after :meth:`run`."""
        done = max(1, self.step - self._first)
        took = time.monotonic() - self._begun
        sent, counted = self.world.sent()
        own = self._held or held(self.network, self.optimizer)
        if self.device.type == "cuda":
            most = torch.cuda.max_memory_allocated(self.device)
            self.notes = (*self.notes, f"tensors took {most / 1e6:.1f} MB of the GPU of rank {self.number} at most")
        told = torch.tensor([*(getattr(own, kind) for kind in KINDS), (sent - self._sent) // done], dtype=torch.int64)
        rows = [tuple(int(value) for value in part) for part in self.world.gather(told)]
        return Cost(str(self.how.plan), str(self.world.backend), self.world.size,
                    tuple(Held(*row[:3]) for row in rows), self.whole_held([row[2] for row in rows]),
                    tuple(row[3] for row in rows), counted, done / took, self.notes)

    def whole_held(self, optimizers: Sequence[int]) -> Held:
        """Computes what one process would hold, where ranks hold so much of the optimizer's state."""
        size = sum(p.numel() * p.element_size() for p in self.network.parameters())
        return Held(size, size, max(optimizers))
