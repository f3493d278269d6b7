# SPDX-License-Identifier: Apache-2.0
"""SpikingJelly's data parallel training beside ours: the same layers, pictures and ranks, each in its environment."""
from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from brain_runtime.run import end_with_parent
from experiments.other_libraries import NotThere, environment
from experiments.training_runs import PATIENCE, Failed

WORKER = Path(__file__).with_name("training_beside_worker.py")
BATCH, MICRO_STEPS, STEPS = 8, 10, 8


def order_of(maker: str) -> dict[str, Any]:
    """Builds the order of one side's training: vision's layers, as they ship."""
    from brain_regions.vision.network import HEIGHT, LAYERS, TOP, WIDTH

    return {"maker": maker, "batch": BATCH, "micro_steps": MICRO_STEPS, "steps": STEPS,
            "shape": [3, HEIGHT - TOP, WIDTH],
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
            one, two = (_run(interpreter, maker, ranks) for ranks in (1, 2))
            gains[maker].append(one["step_s"] / two["step_s"])
            alone[maker], version = one, one["version"] or version
        if alone["theirs"]["weights"] != alone["ours"]["weights"]:
            raise Failed(f"SpikingJelly's network has {alone['theirs']['weights']} weights and ours "
                         f"{alone['ours']['weights']}: they are not the same shape")
        ratios.append(alone["ours"]["step_s"] / alone["theirs"]["step_s"])
    return {"version": version, "rounds": rounds, "weights": alone["ours"]["weights"],
            **{maker: statistics.median(each) for maker, each in gains.items()}, "ratio": statistics.median(ratios)}


def _run(python: str, maker: str, ranks: int) -> dict[str, Any]:
    starts = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    given = {**os.environ, "OMP_NUM_THREADS": "1"}
    if maker == "ours":
        given["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    else:
        given.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory(prefix="brain-bench-") as folder:
        out = Path(folder) / "found.json"
        try:
            done = subprocess.run([sys.executable, "-I", "-S", end_with_parent.__file__, str(os.getpid()), python,
                                   *starts, str(WORKER), json.dumps(order_of(maker)), str(out)], env=given,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed(f"{maker} by {ranks} ranks did not end within {PATIENCE:g} s") from None
        if not out.exists():
            raise Failed(f"{maker} by {ranks} ranks failed: {(done.stdout.strip().splitlines() or ['no word'])[-1]}")
        return dict(json.loads(out.read_text(encoding="utf-8")))
