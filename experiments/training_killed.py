# SPDX-License-Identifier: Apache-2.0
"""Standstill of a training with ``--elastic`` when a rank of it is killed: to the next step, by the clock."""
from __future__ import annotations

import os
import signal
import statistics
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Sequence

from torch import nn

from brain_training.task import Lost, Recipe
from experiments.equal_layers import EqualLayers
from experiments.processes import ENDING, beside
from experiments.training_runs import Failed

STEPS_IN = "BRAIN_BENCH_STEPS"      # what names the folder in which ranks write when they made steps
RANKS = 2
BETWEEN = 3.0       # s of steps between two kills, in which there is a checkpoint, which is written every second
LONGEST = 120.0     # s until the next step, after which the training has failed


class Timed(EqualLayers):
    """Equal layers without an end, whose ranks write down when they have made a step."""

    name = "timed"
    full = Recipe(steps=1_000_000, batch=16, rate=0.001)

    def end(self, network: nn.Module, indices: Sequence[int], lost: Lost) -> None:
        """See :class:`Task`."""
        with (Path(os.environ[STEPS_IN]) / os.environ["RANK"]).open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {time.monotonic()}\n")


def measure(kills: int) -> dict[str, Any]:
    """Kills ranks of one training by ``SIGKILL``, one after another.

    Returns:
        ``seconds`` from each kill to the next step of rank 0, and their ``median``.

    Raises:
        Failed: the training ended, or went no further.
    """
    with tempfile.TemporaryDirectory(prefix="brain-bench-killed-") as name:
        folder, took = Path(name), list[float]()
        command = ["-m", "brain", "train", f"{__name__}:{Timed.__name__}", "--parallel", f"dp={RANKS}",
                   "--elastic", "1:1", "--checkpoint-every", "1", "--out", str(folder / "timed.safetensors")]
        try:
            with beside(*command, environment={STEPS_IN: name, "OMP_NUM_THREADS": "1"},
                        log=folder / "said") as training:
                since = _step_after(folder, 0.0, training)
                for number in range(kills):
                    since = _step_after(folder, since + BETWEEN, training)
                    old, (victim, _) = _steps(folder, 0)[-1][0], _steps(folder, number % RANKS)[-1]
                    begun = time.monotonic()
                    os.kill(victim, signal.SIGKILL)
                    since = _step_after(folder, begun, training, but=old)
                    took.append(since - begun)
        finally:
            _wait(folder)
    return {"seconds": took, "median": statistics.median(took)}


def _wait(folder: Path) -> None:
    """Until the ranks write no more: they end with the command, a moment after it."""
    until = time.monotonic() + ENDING
    for steps in (_steps(folder, rank) for rank in range(RANKS)):
        with suppress(ProcessLookupError):
            while steps and time.monotonic() < until:
                os.kill(steps[-1][0], 0)    # no signal; an error where the process is gone
                time.sleep(0.05)


def _steps(folder: Path, rank: int) -> list[tuple[int, float]]:
    """Process and time (s) of each step of a rank."""
    try:
        whole, _, _ = (folder / str(rank)).read_text(encoding="utf-8").rpartition("\n")     # a line may be half there
    except FileNotFoundError:
        return []
    return [(int(process), float(when)) for process, when in (line.split() for line in whole.splitlines())]


def _step_after(folder: Path, moment: float, training: subprocess.Popen[bytes], but: int = 0) -> float:
    """Time of the first step of rank 0 after a moment, of another process than ``but``; waits for it."""
    until = time.monotonic() + LONGEST
    while True:
        for process, when in _steps(folder, 0):
            if when > moment and process != but:
                return when
        if training.poll() is not None or time.monotonic() > until:
            said = " ".join((folder / "said").read_text(encoding="utf-8", errors="replace").split())
            raise Failed(f"a training with --elastic makes no step: {said[-500:]}")
        time.sleep(0.01)
