# SPDX-License-Identifier: Apache-2.0
"""Vision that mistakes things for others: the control that shows what it is worth to integrate looks over time."""
from __future__ import annotations

from brain_regions.vision import Vision
from brain_runtime.contract.sights import COLORS, SHAPES

_COLORS, _SHAPES = len(COLORS) - 1, len(SHAPES) - 1     # without the unknown ones
MISTAKEN = 0.3      # share of the objects in each look, independent of the look before


class ConfusedVision(Vision):
    """The spiking vision, where each look takes some objects for ones of another color and shape, by chance."""

    baselines, ablations = {}, {}

    def step(self, inbox, state, dt, rng):
        """Looks at a picture, and then mistakes some of what it saw."""
        outbox, state = super().step(inbox, state, dt, rng)
        for seen in outbox["objects"].objects if "objects" in outbox else ():
            if rng.random() < MISTAKEN and seen.color and seen.shape:
                right = (seen.color - 1) * _SHAPES + seen.shape - 1
                wrong = (right + int(rng.integers(1, _COLORS * _SHAPES))) % (_COLORS * _SHAPES)
                seen.color, seen.shape = wrong // _SHAPES + 1, wrong % _SHAPES + 1
        return outbox, state
