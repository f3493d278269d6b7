# SPDX-License-Identifier: Apache-2.0
"""Vision on a loaded machine: the control that shows what it costs when pictures are few and told of late."""
from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from brain_regions.vision import Vision

AGE = 0.4       # s from the picture to what is told of it
EVERY = 4       # pictures, of which one is looked at


class LateVision(Vision):
    """The spiking vision, which tells of every fourth picture :data:`AGE` s after it was taken, with its stamp."""

    baselines, ablations = {}, {}

    objects = replace(Vision.objects, stamp_from=None)

    def configure(self, parameters) -> None:
        """Loads the weights."""
        super().configure(parameters)
        self._waiting: deque[tuple[float, Any]] = deque()
        self._pictures = 0

    def step(self, inbox, state, dt, rng):
        """Looks at a picture, and tells of one that was taken before."""
        outbox, state = super().step(inbox, state, dt, rng)
        told = outbox.pop("objects", None)
        if told is not None:
            told.header.stamp = inbox.get("image").header.stamp
            self._pictures += 1
            if self._pictures % EVERY == 0:
                self._waiting.append((inbox.now + AGE, told))
        if self._waiting and inbox.now >= self._waiting[0][0] - 1e-6:
            outbox["objects"] = self._waiting.popleft()[1]
        return outbox, state
