# SPDX-License-Identifier: Apache-2.0
"""`brain bench weights`: the figures that each weight file carries, put side by side.

A training measures its network on what it was not trained on, and writes that into the weight file (``held_out``). So
these figures belong to the weights that ship, and reading them takes no training.
"""
from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from brain_eval.bench.experiment import Experiment
from brain_regions.vision.weights import FOVEA, FOVEA_ANN
from brain_runtime.contract.declared import named
from brain_runtime.graph import SIM_WORLD, graphs

SIDES = ("spiking", "baseline")
LISTS = {"trained phrasings": "fresh sentences of the training's rules",
         "suite's split train": "phrasings of the suite's `train`, which may be trained",
         "suite's split val": "of its `val`, of which not one was trained, but what contains it, or is near, was",
         "suite's split test": "of its `test`, likewise",
         "suite's split val kept apart": "of its `val`: nothing near one was trained",
         "suite's split test kept apart": "of its `test`: nothing near one was trained",
         "own suite kept apart": "what a goal cannot hold, and no order: nothing near a phrasing was trained",
         "list by hand": "lists by hand, by which the rules were chosen",
         "list by strangers": "lists by outside writers, whose failures were looked at",
         "list by outside writers": "lists by outside writers, whose failures were looked at",
         "list by others": "blind lists by outside writers",
         "list by blind outside writers": "blind lists by outside writers"}
"""What the files call a list, older ones too, and what it is."""


def files() -> dict[str, dict[str, Path]]:
    """Weight files of trained regions of the shipped graph, of vision's fovea, and of baselines without spikes."""
    found = {}
    for spec in graphs.load(graphs.DEFAULT, SIM_WORLD).regions:
        region = spec.load()
        if region.weights is not None:
            baseline = named(region.baselines["ann"], f"the baseline of {spec.name}")
            found[spec.name] = {"spiking": region.weights.path(), "baseline": baseline.weights.path()}
    return {**found, "fovea": {"spiking": FOVEA, "baseline": FOVEA_ANN}}


def read(path: Path) -> dict[str, Any]:
    """Name, size (bytes), hash, recipe and held-out figures of a weight file.

    Raises:
        ValueError: it is no weight file; names it.
    """
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata()
        return {"file": path.name, "bytes": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest()[:16],
                "training": json.loads(metadata["training"]), "held_out": json.loads(metadata["held_out"])}
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no weight file ({error}); train it anew with `brain train`") from error


def by_list(shares: dict[str, dict[str, dict[str, float]]]) -> list[dict[str, Any]]:
    """Shares of sentences, by side and ``list, what is to be done with them, language``, as a row for each list."""
    rows: dict[str, dict[str, Any]] = {}
    for side in SIDES:
        for name, share in shares[side].items():
            what, language = name.rsplit(", ", 1)
            kind, _, to_do = what.partition(", ")
            row = rows.setdefault(what, {"sentences": f"{LISTS.get(kind, kind)}: {to_do}"})
            row[language] = {**row.get(language, {"of": share["of"]}), side: share["right"]}
    return list(rows.values())


class Weights(Experiment):
    """Held-out figures that the weight files carry, which their training measured: spiking, and without spikes."""

    problems = (ValueError,)

    def measure(self) -> dict[str, Any]:
        """Reads all files: by region what :func:`read` finds, ``spiking`` and ``baseline``, and ``bytes`` of them all.

        Figures of sentences are told by list as well (``lists``), errors of bearing in degrees.
        """
        found: dict[str, Any] = {region: {side: read(path) for side, path in sides.items()}
                                 for region, sides in files().items()}
        for sides in found.values():
            held = {side: told["held_out"] for side, told in sides.items()}
            if "held_out" in held["spiking"]:
                sides["lists"] = by_list({side: figures["held_out"] for side, figures in held.items()})
            for figures in held.values():
                for name in [name for name in figures if name.startswith("twin")]:
                    del figures[name]       # another measurement of what is beside it
                for name in [name for name in figures if name.startswith("bearing_")]:
                    figures[f"{name}_degrees"] = math.degrees(figures[name])
        return {**found, "bytes": sum(told[side]["bytes"] for told in found.values() for side in SIDES)}
