# SPDX-License-Identifier: Apache-2.0
"""Settings of a training: all that the command line says of it."""
from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from brain_runtime.graph.graphs import DEFAULT
from brain_training.parallel import plan as plans
from brain_training.parallel.how import How
from brain_training.recordings import Bags
from brain_training.task import BASE, NETWORKS, Task
from brain_training.trainer import PERIOD


def check_device(device: str) -> None:
    """Raises ValueError where torch has no such device here."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0]
        raise ValueError(f"there is no device {device!r} here ({why}); use --device cpu") from None


@dataclass(frozen=True)
class Settings:
    """Settings of a training.

    Attributes:
        seed: of weights, data and order.
        quick: a tiny run, whose weights are worth nothing.
        threads: torch's; None: the task's own number, or one where several are trained at once.
        device: torch's.
        checkpoints: folder for the checkpoints; None: that of the weight files.
        resume: go on from the checkpoints that there are.
        period: s between two checkpoints.
        log: file that lines of JSON are added to.
        graph: name or path of the graph whose regions are trained.
        how: by how many processes, and in which form.
        bags: recordings that are trained on; None: the simulator's data alone.
        size: of the networks, of :data:`brain_training.task.SIZES`.
    """

    seed: int = 0
    quick: bool = False
    threads: int | None = None
    device: str = "cpu"
    checkpoints: Path | None = None
    resume: bool = False
    period: float = PERIOD
    log: Path | None = None
    graph: str = DEFAULT
    how: How = How()
    bags: Bags | None = None
    size: str = BASE

    def check(self) -> None:
        """Raises ValueError where the device is not there, or what is asked for does not go together."""
        self.how.check(self.device)
        if self.how.plan is not None:
            plans.maker(self.how.plan)
        if self.how.tensorboard is not None:
            try:
                importlib.import_module("torch.utils.tensorboard")
            except ImportError as error:
                raise ValueError(f"TensorBoard is not installed ({error}); install tensorboard, or write lines of JSON "
                                 f"with --log") from None
        check_device(self.device)

    def task(self, cls: type[Task], which: str = NETWORKS[0]) -> Task:
        """The task of one network. Raises ValueError where the recordings cannot be used, or it has no such size."""
        more: dict[str, Any] = {} if self.bags is None else {"recipe": cls.recorded(self.bags, quick=self.quick)}
        if self.size != BASE:
            if self.size not in cls.sizes:
                raise ValueError(f"the networks of {cls.name} have no size {self.size!r}; give --size "
                                 f"{', '.join(cls.sizes)}")
            more["size"] = self.size
        return cls(which, quick=self.quick, **more)

    def checkpoint(self, file: Path) -> Path:
        """The checkpoint of a weight file's training."""
        return (self.checkpoints or file.parent) / f"{file.stem}.checkpoint"
