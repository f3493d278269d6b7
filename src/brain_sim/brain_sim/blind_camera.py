# SPDX-License-Identifier: Apache-2.0
"""The simulated camera behind frosted glass: the control that shows what is reached without seeing."""
from __future__ import annotations

import numpy as np

from brain_sim.camera_region import Camera


class BlindCamera(Camera):
    """A camera that sees light above and dark below; black pictures would be refused."""

    ablations = {}

    def step(self, inbox, state, dt, rng):
        outbox, state = super().step(inbox, state, dt, rng)
        for message in outbox.values():
            if hasattr(message, "encoding"):  # the image, not the camera_info
                light = np.repeat(np.linspace(180.0, 60.0, message.height), message.step)
                message.data = rng.normal(light, 2.0).astype(np.uint8)
        return outbox, state
