# SPDX-License-Identifier: Apache-2.0
"""The weight files of the motor network and of its ANN baseline; see :mod:`brain_regions.weight_files`."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from brain_regions import weight_files
from brain_regions.membranes import MICRO_STEP
from brain_regions.motor import coding, network, senses
from brain_regions.weight_files import Loaded, WeightsError

FORMAT = "1"
SHIPPED = Path(__file__).parent / "weights" / "motor.safetensors"
ANN = Path(__file__).parent / "weights" / "motor_ann.safetensors"
REMEDY = "make new ones with `brain train motor`"

__all__ = ["ANN", "SHIPPED", "WeightsError", "load", "needed", "probe", "save"]


def needed(ann: bool, layers: Sequence[int] = network.LAYERS) -> dict[str, str]:
    """Metadata that a file must have to fit this code; of layers of other sizes what no region takes."""
    n, c, s = network, coding, senses
    pops = [n.LINEAR, n.ANGULAR, *n.STATES]
    meaning = [tuple(layers), [[p.start, p.stop] for p in pops], None if ann else [n.NEURON, n.READOUT], n.FLOOR,
               [[field.tolist() for field in fields]
                for fields in (c.GAPS, c.LEFT, c.AWAY, c.SHARE, c.LINEAR, c.ANGULAR)],
               c.LIMITS, c.FINE.tolist(), c.FINE_WIDTH, s.SIZE, s.REACH, s.SLOW, s.CLOSING, s.NEARER, s.FARTHER,
               s.BESIDE, s.FRONT]
    region = "motor twin" if ann else "motor"   # the name of the ANN baseline in files that there are
    return {"format": FORMAT, "region": region, "h": repr(MICRO_STEP),
            "input": coding.INPUT_SCALING, "network": weight_files.meaning_hash(meaning)}


def probe(tensors: Mapping[str, np.ndarray], ann: bool, layers: Sequence[int] = network.LAYERS) -> np.ndarray:
    """Runs a network at rest on eight made-up situations: its answers, [8, ANSWERS], after 100 ms."""
    rng = np.random.default_rng(0)
    rows = np.zeros((8, senses.SIZE), np.float32)
    rows[:, senses.GAP] = rng.uniform(0.2, 1.5, (8, 36)).clip(max=senses.REACH)
    rows[:, senses.HEADING] = np.linspace(-1.5, 1.5, 8)
    rows[:, senses.SPEED] = rows[:, senses.MODE] = 1.0
    rows[:, [senses.BEARING, senses.DISTANCE, senses.TARGET_GAP]] = np.nan
    rows[:, senses.MAX_LINEAR:senses.SIZE] = 0.5, 1.5, 0.7, 0.18
    currents = coding.encode(rows)
    if ann:
        return network.RatePolicy(tensors, layers).answer(currents)
    policy = network.SpikingPolicy(tensors, layers)
    state = policy.rest(8)
    for _ in range(2):
        state, _ = policy.step(currents, state, 10)
    return state["u"]


def save(path: Path, tensors: Mapping[str, np.ndarray], training: Mapping[str, Any], report: Mapping[str, Any], *,
         ann: bool, layers: Sequence[int] = network.LAYERS) -> None:
    """Writes a weight file; one of layers of other sizes does not fit the region, and says so."""
    weight_files.save(path, needed(ann, layers), tensors, probe(tensors, ann, layers), training, report)


def load(path: Path | None = None, *, ann: bool = False) -> Loaded:
    """Reads a weight file, the shipped one if no other is named.

    Raises:
        WeightsError: it is missing or does not fit.
    """
    path = path or (ANN if ann else SHIPPED)
    return weight_files.load(path, needed(ann), lambda tensors: probe(tensors, ann), REMEDY)
