# SPDX-License-Identifier: Apache-2.0
"""SpikingJelly's data parallel training beside ours: the same layers, pictures and ranks, each in its environment."""
from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

from brain_regions.vision.network import HEIGHT, INPUTS, LAYERS, WIDTH
from experiments.other_libraries import NotThere, environment
from experiments.processes import NO_PATHS
from experiments.training_runs import Failed, found_by

WORKER = Path(__file__).with_name("training_beside_worker.py")
BATCH, MICRO_STEPS, STEPS = 8, 10, 8


def order_of(maker: str) -> dict[str, Any]:
    """Builds the order of one side's training: vision's layers, as they ship."""
    return {"maker": maker, "batch": BATCH, "micro_steps": MICRO_STEPS, "steps": STEPS,
            "shape": [INPUTS, HEIGHT, WIDTH],
            "layers": [[y.inputs, y.outputs, y.kernel, y.stride, y.padding, y.dilation] for y in LAYERS]}


def measure(rounds: int = 3) -> dict[str, Any]:
    """Both sides in turn, by one process and by two ranks.

    Returns:
        ``theirs`` and ``ours``: steps of two ranks for one of one process (medians of ``rounds``); ``ratio``: time of a
        step of ours for one of theirs, by one process; ``version`` of SpikingJelly; or ``why`` it cannot be measured.

    Raises:
        Failed: a training failed.
    """
    try:
        python = str(environment("spikingjelly"))
    except NotThere as error:
        return {"why": str(error)}
    gains: dict[str, list[float]] = {"theirs": [], "ours": []}
    ratios, version = [], ""
    for _ in range(rounds):
        alone = {}
        for maker, interpreter in (("theirs", python), ("ours", sys.executable)):
            one, two = (found_by(f"{maker} by {ranks or 1} ranks", [str(WORKER)], order_of(maker), ranks, interpreter,
                                 None if maker == "ours" else NO_PATHS) for ranks in (0, 2))
            gains[maker].append(one["step_s"] / two["step_s"])
            alone[maker], version = one, one["version"] or version
        if alone["theirs"]["weights"] != alone["ours"]["weights"]:
            raise Failed(f"SpikingJelly's network has {alone['theirs']['weights']} weights and ours "
                         f"{alone['ours']['weights']}: they are not the same shape")
        ratios.append(alone["ours"]["step_s"] / alone["theirs"]["step_s"])
    return {"version": version, "rounds": rounds, "weights": alone["ours"]["weights"],
            **{maker: statistics.median(each) for maker, each in gains.items()}, "ratio": statistics.median(ratios)}
