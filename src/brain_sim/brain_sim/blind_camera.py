# SPDX-License-Identifier: Apache-2.0
"""The simulated camera with its lens cap on: the control that shows what is reached without seeing."""
from __future__ import annotations

import numpy as np

from brain_sim.camera_region import Camera


class BlindCamera(Camera):
    """A camera whose pictures are black."""

    ablations = {}

    def step(self, inbox, state, dt, rng):
        outbox, state = super().step(inbox, state, dt, rng)
        for message in outbox.values():
            if hasattr(message, "encoding"):  # the image, not the camera_info
                message.data = np.zeros_like(message.data)
        return outbox, state
