# SPDX-License-Identifier: Apache-2.0
"""Training with parameter servers by ``--parallel ps=2``: servers and workers are processes of this machine."""
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from torch import nn

from brain_training.parallel.how import How
from brain_training.parallel.plan import SERVERS, PlanError
from brain_training.parameter_server import together
from brain_training.task import Progress, Task

FEWEST = 2      # workers, where the plan has no dp


def folder_of(checkpoint: Path) -> Path:
    """Returns the folder of the servers' state of a training, beside where its checkpoint would be."""
    return checkpoint.with_suffix(SERVERS)


class Served:
    """Trains one network with servers; has what :func:`brain_training.runs.train_networks` takes of a trainer.

    Args:
        task, seed: what is trained.
        how: the plan: ``ps`` servers and ``dp`` workers, at least two; and the mode.
        checkpoint: beside which the servers keep their state.
        log, progress: see :class:`brain_training.trainer.Trainer`.

    Attributes:
        losses: of each step.

    Raises:
        PlanError: torchrun has started this process.
    """

    def __init__(self, task: Task, seed: int, *, how: How, checkpoint: Path, log: Path | None = None,
                 progress: Progress | None = None, **_: Any) -> None:
        assert how.plan is not None
        if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
            raise PlanError(f"--parallel {how.plan} starts its servers and workers by itself; run it without torchrun, "
                            f"or `brain parameter-server` and `brain parameter-worker` on several machines")
        self._task, self._seed, self._how = task, seed, how
        self._folder, self._log, self._progress, self._resume = folder_of(checkpoint), log, progress, False
        self.workers = max(how.plan.dp, FEWEST)
        self.losses: list[float] = []
        self._told: dict[str, Any] = {}

    def resume(self) -> None:
        """Goes on with what the servers have kept."""
        self._resume = True

    def run(self) -> nn.Module:
        """Trains to the end; see :func:`brain_training.parameter_server.together.train_with_servers`."""
        assert self._how.plan is not None
        begin = time.monotonic()
        found = together.train_with_servers(
            self._task, self._seed, servers=self._how.plan.ps, workers=self.workers, mode=self._how.mode,
            folder=self._folder, resume=self._resume, keep=self._how.keep, log=self._log, progress=self._progress)
        self.losses = found.losses
        took = time.monotonic() - begin
        self._told = {"servers": self._how.plan.ps, "workers": self.workers, "mode": self._how.mode,
                      "steps_per_s": len(found.losses) / took, "sent": found.sent, "restarts": found.restarts,
                      "refused": found.refused}
        return found.network

    def report(self) -> dict[str, Any]:
        """Returns the costs, for JSON; ``sent``: B of gradients that workers have pushed."""
        return self._told


def line(which: str, told: dict[str, Any]) -> str:
    """One line of a :meth:`Served.report` for people."""
    return (f"{which} by {told['servers']} parameter servers and {told['workers']} workers ({told['mode']}): "
            f"{told['steps_per_s']:.2f} steps/s with the start; workers have pushed {told['sent'] / 1e6:.1f} MB; "
            f"{told['restarts']} processes were started again, {told['refused']} pushes were too old")
