# SPDX-License-Identifier: Apache-2.0
"""How long a training with ``--elastic`` stands still when a rank of it is killed: to the next step, by the clock."""
from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Sequence

from torch import nn

from brain_bench.equal_layers import EqualLayers
from brain_bench.training_runs import Failed
from brain_training.task import Lost, Recipe

STEPS_IN = "BRAIN_BENCH_STEPS"      # what names the folder in which ranks write when they made steps
RANKS = 2
BETWEEN = 3.0       # s of steps between two kills, in which there is a checkpoint, which is written every second
ENDING = 30.0       # s
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
        command = [sys.executable, "-m", "brain", "train", f"{__name__}:{Timed.__name__}", "--parallel", f"dp={RANKS}",
                   "--elastic", "1:1", "--checkpoint-every", "1", "--out", str(folder / "timed.safetensors")]
        with (folder / "said").open("w+", encoding="utf-8") as said:
            training = subprocess.Popen(command, env={**os.environ, STEPS_IN: name, "OMP_NUM_THREADS": "1"},
                                        stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            try:
                since = _step_after(folder, 0, 0.0, training, said)
                for number in range(kills):
                    since = _step_after(folder, 0, since + BETWEEN, training, said)
                    victim = int(_newest(folder, number % RANKS)[0])
                    begun = time.monotonic()
                    os.kill(victim, signal.SIGKILL)
                    since = _step_after(folder, 0, begun, training, said, but=int(_newest(folder, 0)[0]))
                    took.append(since - begun)
            finally:
                _end(training, folder)
    return {"seconds": took, "median": statistics.median(took)}


def _end(training: subprocess.Popen[bytes], folder: Path) -> None:
    """Ends the command, and waits until its ranks, which end with it, write no more."""
    training.terminate()
    try:
        training.wait(ENDING)
    except subprocess.TimeoutExpired:
        training.kill()
        training.wait()
    until = time.monotonic() + ENDING
    for newest in (_newest(folder, rank) for rank in range(RANKS)):
        with suppress(ProcessLookupError):
            while newest and time.monotonic() < until:
                os.kill(int(newest[0]), 0)      # nothing; but the process is there
                time.sleep(0.05)


def _newest(folder: Path, rank: int) -> list[str]:
    """Process and time (s) of the newest step of a rank; nothing before its first."""
    try:
        lines = (folder / str(rank)).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return lines[-1].split() if lines else []


def _step_after(folder: Path, rank: int, moment: float, training: subprocess.Popen[bytes], said: Any, but: int = 0
                ) -> float:
    """Time of a step of a rank after a moment, of another process than ``but``."""
    until = time.monotonic() + LONGEST
    while True:
        newest = _newest(folder, rank)
        if len(newest) == 2 and float(newest[1]) > moment and int(newest[0]) != but:
            return _first(folder, rank, moment, but)
        if training.poll() is not None or time.monotonic() > until:
            said.seek(0)
            raise Failed(f"a training with --elastic makes no step: {' '.join(said.read().split())[-500:]}")
        time.sleep(0.01)


def _first(folder: Path, rank: int, moment: float, but: int) -> float:
    steps = (line.split() for line in (folder / str(rank)).read_text(encoding="utf-8").splitlines())
    return next(float(when) for process, when in steps if float(when) > moment and int(process) != but)
