# SPDX-License-Identifier: Apache-2.0
"""Directions round the robot: hazard maps as points, directions as populations of neurons.

The bins, and what of numbers from outside can be used, are :mod:`brain_runtime.contract.azimuth`'s, which can be had
here too.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from brain_runtime.contract.azimuth import BINS, CENTERS, COS, SIN, WIDTH, sound, sound_map, sound_values, wrap

__all__ = ["BINS", "BUMP", "CENTERS", "COS", "SIN", "WIDTH", "bump", "direction", "hazard_points", "hazardous", "sound",
           "sound_map", "sound_values", "wrap"]

_EDGES = CENTERS[:, None] + np.array([-0.35, 0.0, 0.35], np.float32) * WIDTH
_ACROSS = np.stack([np.cos(_EDGES), np.sin(_EDGES)], -1)    # three directions across each bin [36, 3, 2]
_NEAR = (np.arange(BINS)[:, None] + np.arange(-2, 3)) % BINS
_NEAR_SIN, _NEAR_COS = SIN[_NEAR], COS[_NEAR]
_NO_POINTS = np.zeros((0, 2), np.float32)
BUMP = math.radians(12.0)                       # standard deviation of a direction's bump (rad)


def hazardous(message: Any) -> bool:
    """Tells whether a message's hazard map shows something solid nearby; bins that are NaN count as nothing."""
    return bool((message.hazard > 0).any())


def bump(angle: float, height: float = 1.0) -> np.ndarray:
    """A direction as a population: float32[36], highest at ``angle`` (rad)."""
    return (height * np.exp(-0.5 * (wrap(CENTERS - angle) / BUMP) ** 2)).astype(np.float32)


def direction(population: np.ndarray) -> float:
    """Direction (rad) of the highest peak of float32[36]: its neighborhood's population vector; NaN if all are 0."""
    peak = int(np.argmax(population))
    if not population[peak] > 0:
        return math.nan
    weights = population[_NEAR[peak]]
    return math.atan2(float(np.dot(weights, _NEAR_SIN[peak])), float(np.dot(weights, _NEAR_COS[peak])))


def hazard_points(hazard: np.ndarray, radius: float) -> np.ndarray:
    """Points float32[n, 2] (m, base_link) that stand for a hazard map, for a robot of ``radius`` (m).

    Each bin with something in it becomes three points across its width.
    """
    bins = np.flatnonzero(hazard > 0.02)
    if not len(bins):
        return _NO_POINTS
    return ((radius + 1.0 - hazard[bins])[:, None, None] * _ACROSS[bins]).reshape(-1, 2)
