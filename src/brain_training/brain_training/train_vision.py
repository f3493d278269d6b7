# SPDX-License-Identifier: Apache-2.0
"""`brain train vision`: rebuilds the shipped weights from nothing and reports held-out figures beside the twin's."""
from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from brain_regions.vision import weights
from brain_regions.vision.network import AnnTwin, SpikingVision
from brain_training.vision import Progress, Recipe, fit, test_on
from brain_training.vision_data import make_clips, make_ways

QUICK = Recipe(rooms=24, clips_per_room=2, epochs=1)
THRESHOLD_ROOMS = (40, 100_000)     # rooms and first seed of val that thresholds are chosen on
REPORT_ROOMS = (80, 200_000)        # and those that are reported on
WAY = 60                            # pictures of a held-out way: 3 s of driving


def train_vision(out: Path = weights.SHIPPED, twin: Path = weights.TWIN, seed: int = 0, *, quick: bool = False,
                 threads: int = 2, progress: Progress | None = None) -> dict[str, Any]:
    """Trains the spiking network and its ReLU twin on the same clips, chooses each one's threshold, and writes ``out``.

    Args:
        out, twin: weight files of the spiking network and of its twin.
        seed: of weights, order and augmentation; rooms are those of the split ``train`` from seed * 10000 on.
        quick: a tiny run that shows that everything works; its weights are worth nothing.
        threads: torch's; with another number the last bits of the weights differ.
        progress: called with (what, done, of, note).

    Returns:
        Held-out figures of both (see :meth:`Tally.report`), with the time that each part took (s).
    """
    torch.set_num_threads(threads)
    recipe = QUICK if quick else Recipe()
    begin = time.monotonic()
    tell = progress or (lambda what, done, of, note: None)
    clips = make_clips(recipe.rooms, recipe.clips_per_room, recipe.frames, first_seed=seed * 10_000,
                       progress=lambda done, of: tell("pictures", done, of, ""))
    found: dict[str, Any] = {"pictures_s": time.monotonic() - begin}
    networks = {}
    for name, cls in (("spiking", SpikingVision), ("twin", AnnTwin)):
        begin = time.monotonic()
        torch.manual_seed(seed)
        network = cls()
        losses = fit(network, clips, recipe, seed, progress)
        networks[name] = network.folded()
        found[name] = {"losses": losses, "training_s": time.monotonic() - begin}
    rooms = {"threshold": THRESHOLD_ROOMS, "report": REPORT_ROOMS}
    if quick:
        rooms = {name: (4, first) for name, (_, first) in rooms.items()}
    thresholds = {}
    for purpose, (count, first) in rooms.items():
        ways = list(make_ways(count, WAY, split="val", first_seed=first,
                              progress=lambda done, of, purpose=purpose: tell(f"ways ({purpose})", done, of, "")))
        for name, network in networks.items():
            tally = test_on(network, ways)
            if purpose == "threshold":
                thresholds[name] = tally.best_threshold()
            else:
                found[name] |= tally.report(thresholds[name])
    made = {"split": "train", "seed": seed, "recipe": asdict(recipe)}
    weights.save(out, networks["spiking"], made, {**found["spiking"], "twin_f1": found["twin"]["f1"]})
    weights.save(twin, networks["twin"], made, found["twin"])
    return found
