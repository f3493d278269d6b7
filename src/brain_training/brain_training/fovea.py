# SPDX-License-Identifier: Apache-2.0
"""The task of the fovea, and of its ANN baseline: what is in the middle of a glance, and where."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from brain_regions.vision import weights
from brain_regions.vision.decode import Vote, named
from brain_regions.vision.fovea import LAYERS, STEPS, Fovea, Glance, closely
from brain_regions.vision.network import OBJECT
from brain_training.definitions.vision import SpikingVision, tensors
from brain_training.fovea_data import GLANCES, KINDS, GlanceRecipe, Taken, held_out
from brain_training.task import Progress, stream
from brain_training.vision import FALSE, PURPOSES, VisionTask, mirrored, order_of
from brain_training.vision_data import UNSURE, Labels
from brain_training.vision_score import Tally

SEEDS = {"threshold": 120_000, "report": 220_000}   # first ones of val
HELD_OUT, QUICK = 400, 8        # pictures of each kind
SHIFTS = np.arange(-4.0, 4.01, 0.25)    # of the logit of an object, of which the best is taken


class FoveaTask(VisionTask):
    """Looking again. A sample is one glance."""

    name = "fovea"
    longest = False
    layers = LAYERS
    full = GlanceRecipe(rooms=2500, clips_per_room=6, frames=GLANCES, scenes=30_000, epochs=8, batch=128, by_rates=0.5,
                        half=True)
    tiny = GlanceRecipe(rooms=4, clips_per_room=2, frames=GLANCES, scenes=6, epochs=1, batch=16)

    @classmethod
    def files(cls) -> dict[str, Path]:
        """The weight files that ship."""
        return {"spiking": weights.FOVEA, "ann": weights.FOVEA_ANN}

    @classmethod
    def recorded(cls, bags: Any, *, quick: bool) -> Any:
        """Raises ValueError: no recording tells where to look."""
        raise ValueError("the fovea is trained on the simulator's data alone, and takes no --bags; vision does")

    @property
    def _clips(self) -> int:
        return GLANCES * super()._clips

    def sample(self, seed: int, index: int) -> tuple[np.ndarray, np.ndarray, np.float32]:
        """A glance uint8 [1, SIDE, SIDE, 3] with its brightness, and targets [1, 1, 6, 1]."""
        epoch, place = divmod(index, self._clips)
        clip, glance = divmod(int(order_of(seed, epoch, self._clips)[place]), GLANCES)
        clips = self._at(seed).take(clip)
        images, target = clips.images[[glance]], targets(Labels(*(part[[glance]] for part in clips.labels)))
        rng = stream("fovea sample", seed, index)
        if rng.random() < 0.5:
            images, target = mirrored(images, target)
        return images, target, np.float32(0.85 + 0.3 * rng.random())

    def _begin(self, network: SpikingVision, batch: int, rng: np.random.Generator) -> tuple[dict[str, Any], int]:
        return network.rest(batch), STEPS

    def score(self, network: nn.Module, tell: Progress) -> dict[str, Any]:
        """Figures of :meth:`Tally.report` of vision with the fovea, by cameras of robots' resolutions and mountings.

        In rooms, in sceneries (``scenes_``) and in those with no thing (``bare_``); ``without`` it in the same
        pictures. The threshold is that of vision; the readout's bias for an object is changed so that it is the
        best: the highest F1 in other rooms and sceneries, with at most :data:`FALSE` false in a bare one.
        """
        path = weights.SHIPPED if self.spiking else weights.ANN
        threshold = weights.threshold(path, weights.load(path, ann=not self.spiking))
        looked: dict[str, dict[str, list[Looked]]] = {purpose: {} for purpose in PURPOSES}
        fovea = Fovea.of(tensors(network.folded()), ann=not self.spiking)
        for purpose in PURPOSES:
            for kind in KINDS:
                number = QUICK if self.quick else HELD_OUT
                looked[purpose][kind] = pictures = []
                for taken in held_out(kind, number, split="val", first_seed=SEEDS[purpose],
                                      ann=not self.spiking):
                    pictures.append(Looked(taken, fovea))
                    tell(f"{kind} ({purpose})", len(pictures), number, "")

        def worth(shift: float) -> float:
            tallies = {kind: tally(pictures, shift) for kind, pictures in looked["threshold"].items()}
            loud = tallies["bare"].report(threshold)["false_a_picture"] > FALSE
            return (tallies["rooms"] + tallies["scenes"]).at(threshold).f1 - loud

        shift = float(max(SHIFTS, key=worth))
        with torch.no_grad():
            network.readout.bias[OBJECT] += shift

        def figures(by: float | None) -> dict[str, Any]:
            return {("" if kind == "rooms" else f"{kind}_") + key: value for kind, pictures in looked["report"].items()
                    for key, value in tally(pictures, by).report(threshold).items()
                    if key not in ("threshold", "by_kind") and (kind != "bare" or key == "false_a_picture")}

        return {"threshold": threshold, "shift": shift, **figures(shift), "without": figures(None)}


class Looked:
    """A picture that a fovea looks at; answers are kept."""

    def __init__(self, taken: Taken, fovea: Fovea) -> None:
        self.taken, self._fovea = taken, fovea
        self._answers: dict[Glance, np.ndarray] = {}

    def votes(self, shift: float | None) -> list[Vote]:
        """Objects that are found with ``shift`` added to the logit of an object; None: without the fovea."""
        if shift is None:
            return self.taken.found

        def ask(glance: Glance) -> np.ndarray:
            if glance not in self._answers:
                self._answers[glance] = self._fovea.answer(self.taken.show(glance))[0]
            answer = self._answers[glance].copy()
            answer[OBJECT] += shift
            return answer

        return closely(self.taken.found, ask)[0]


def targets(labels: Labels) -> np.ndarray:
    """Labels of glances as the loss wants them; see :func:`brain_training.vision.targets`."""
    return np.stack([labels.color, labels.shape, labels.bearing, labels.distance, labels.width,
                     labels.color != UNSURE], -2).astype(np.float32)


def tally(pictures: list[Looked], shift: float | None) -> Tally:
    """Tallies what is found in pictures; see :meth:`Looked.votes`."""
    found = Tally()
    for one in pictures:
        found.add(named(one.votes(shift), one.taken.height), one.taken.objects)
    return found
