# SPDX-License-Identifier: Apache-2.0
"""Steps of LIF neurons, ours and those of other libraries, each in a process of its own, all on one core in turns.

All get the same charges, leak and threshold, and take the threshold off. The turns alternate within a round, so that a
noisy machine is as noisy for all; a figure is the median over rounds of medians within them.
"""
from __future__ import annotations

import os
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from brain_eval.bench.experiment import Experiment
from brain_wire.temporary_folder import TemporaryFolder
from experiments.other_libraries import NotThere, environment, known
from experiments.processes import NO_PATHS, ReadyPeer

OURS = {"brain_numpy": "ours, NumPy", "brain_torch": "ours, torch"}
SECONDS = 0.06          # of a turn
WORKER = Path(__file__).with_name("neuron_worker.py")


class Case(NamedTuple):
    """Case of neurons that are stepped.

    Attributes:
        what: for a person.
        neurons: how many.
        batch: of how many independent copies.
        steps: micro-steps in one call.
        inputs: neurons before, connected by a dense matrix that is multiplied too; 0: the charges are given.
    """

    what: str
    neurons: int
    batch: int
    steps: int
    inputs: int = 0


CASES = (
    Case("256", 256, 1, 1), Case("256, batch 32", 256, 32, 1), Case("18432", 18432, 1, 1),
    Case("128 -> 256", 256, 1, 1, 128), Case("128 -> 256, batch 32", 256, 32, 1, 128),
    Case("256, 10 steps", 256, 1, 10), Case("256, batch 32, 10 steps", 256, 32, 10),
    Case("18432, 10 steps", 18432, 1, 10),
)


class Worker(ReadyPeer):
    """A process that steps one library's neurons on one core, once it has loaded its library."""

    def __init__(self, maker: str, python: str, core: int, log: Path) -> None:
        paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} if maker in OURS else NO_PATHS
        super().__init__(maker, [python, str(WORKER), maker, str(core)], log, paths, problem=NotThere)

    def turn(self, case: Case, seconds: float) -> dict[str, float]:
        """One measurement. Raises NotThere where the process ended."""
        return self.ask(**case._asdict(), seconds=seconds)


class Neurons(Experiment):
    """Steps of LIF neurons beside those of other libraries, on one core in turns, without gradients.

    Sizes are neurons, or inputs -> neurons of a dense layer; batch: so many copies; steps: micro-steps in one call. The
    libraries are installed the first time, each in an environment of its own; one that cannot be is named and left out.
    Exit status 0 when neither of our kinds (NumPy, torch) is anywhere slower than the fastest of them.
    """

    cpu = True
    quick = {"rounds": 1}

    def measure(self, rounds: Annotated[int, typer.Option(min=1, help="Turns of each library in each case.")] = 7,
                libraries: Annotated[str, typer.Option(help="Which to measure beside, with commas between.")] =
                "norse,snntorch,spikingjelly,sinabs",
                folder: Annotated[Path | None, typer.Option(help="Of their environments. Default: in ~/.cache/brain.")
                                  ] = None) -> dict[str, Any]:
        """Steps all by turns.

        Returns:
            ``cases``, each with what it is, ``us`` (median time of a call by library), ``fastest_other`` (us),
            ``fired`` (share of neurons) and ``ratio`` (time of each of our kinds over that of the fastest other
            library); ``times_faster``: least and most of 1 / ratio; ``left_out``: reasons by library; ``within``:
            whether no ratio is above 1.

        Raises:
            NotThere: not even our own neurons can be stepped.
        """
        left_out: dict[str, str] = {}
        with ExitStack() as stack:
            logs = Path(stack.enter_context(TemporaryFolder("bench")))
            core = max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
            workers: dict[str, Worker] = {}
            for maker in (*OURS, *known(libraries)):
                self.status(f"starting {maker}{'' if maker in OURS else '; the first time it is installed'}")
                try:
                    python = sys.executable if maker in OURS else str(environment(maker, folder))
                    workers[maker] = stack.enter_context(Worker(maker, python, core, logs / maker))
                except NotThere as error:
                    if maker in OURS:
                        raise
                    left_out[maker] = str(error)
            found = [self._case(case, workers, rounds) for case in CASES]
        ratios = [ratio for case in found for ratio in case["ratio"].values()]
        return {"rounds": rounds, "cases": found, "left_out": left_out, "within": all(ratio <= 1 for ratio in ratios),
                "times_faster": [1 / max(ratios), 1 / min(ratios)] if ratios else None}

    def _case(self, case: Case, workers: dict[str, Worker], rounds: int) -> dict[str, Any]:
        answers: dict[str, list[dict[str, float]]] = {maker: [] for maker in workers}
        makers = list(workers)
        for number in range(rounds):
            self.status(f"{case.what}: round {number + 1} of {rounds}")
            for maker in makers:
                answers[maker].append(workers[maker].turn(case, SECONDS))
            makers.append(makers.pop(0))    # in each round another one comes first
        times = {maker: statistics.median(a["time"] for a in given) for maker, given in answers.items()}
        others = [time for maker, time in times.items() if maker not in OURS]
        return {**case._asdict(), "us": {maker: 1e6 * time for maker, time in times.items()},
                "fastest_other": 1e6 * min(others) if others else None,
                "fired": {maker: given[0]["fired"] for maker, given in answers.items()},
                "ratio": {maker: times[maker] / min(others) for maker in OURS if others}}
