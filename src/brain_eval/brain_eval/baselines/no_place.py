# SPDX-License-Identifier: Apache-2.0
"""Place that says nothing: the control that shows what it is worth to remember which floor was looked at."""
from __future__ import annotations

from brain_regions.place import Place


class NoPlace(Place):
    """Hears all and says nothing, so that a search has no map, and the way to a target is its direction."""

    baselines, ablations = {}, {}

    def step(self, inbox, state, dt, rng):
        """Nothing."""
        return {}, state
