# SPDX-License-Identifier: Apache-2.0
"""Distances of the polar sheet that ``pfc/sheet`` tells of: 14, equally apart in their logarithm, at 36 bearings."""
from __future__ import annotations

import math

RINGS = 14
NEAREST, FARTHEST = 0.30, 8.0                               # m, from the middle of the base
GRAIN = math.log(FARTHEST / NEAREST) / (RINGS - 1)          # of the logarithm of the distance


def ring(distance: float) -> float:
    """Returns the place of a ``distance`` (m) among the sheet's 14 distances, between the neurons: 0 to 13."""
    return min(max(math.log(max(distance, 1e-3) / NEAREST) / GRAIN, 0.0), RINGS - 1.0)
