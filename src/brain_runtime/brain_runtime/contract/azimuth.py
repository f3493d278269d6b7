# SPDX-License-Identifier: Apache-2.0
"""Directions round the robot as messages have them: the 36 bins of SensorFeatures, and numbers from outside."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

BINS = 36
WIDTH = 2 * math.pi / BINS                      # rad
CENTERS = ((np.arange(BINS) * WIDTH + math.pi) % (2 * math.pi) - math.pi).astype(np.float32)
SIN, COS = np.sin(CENTERS), np.cos(CENTERS)
LARGEST = 1e9                                   # of numbers from outside: a float32 holds them, and their squares


def sound(*values: float) -> bool:
    """Checks that numbers from outside can be calculated with and passed on: finite, and not beyond all measure.

    What is finite in 64 bits may still be too large for the 32 bits of most fields.
    """
    return all(abs(value) <= LARGEST for value in values)     # of NaN and infinity, nothing is less


def wrap(angle: Any) -> Any:
    """Angle, or array of angles, in -pi..pi (rad)."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


def sound_map(values: Any) -> np.ndarray:
    """A hazard or novelty map as received: NaN read as 0, cut to 0..1. float32[36]."""
    values = np.asarray(values, dtype=np.float32)
    if not values.any():  # most are empty
        return values
    return np.clip(np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)


def sound_values(values: Any, headings: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values of headings as received, in HeadingValues.

    Returns:
        Values (m), minus infinity where none is told or it is no sound number; and the headings (rad), a bin's middle
        where what was told does not lie in the bin. float32[36] each.
    """
    values, headings = np.asarray(values, np.float32), np.asarray(headings, np.float32)
    values = np.where(np.abs(values) <= LARGEST, values, np.float32(-np.inf))       # of NaN, nothing is less
    apart = wrap(np.where(np.abs(headings) <= LARGEST, headings, CENTERS) - CENTERS)
    inside = np.abs(apart) <= WIDTH / 2 + 1e-3
    return values, (CENTERS + np.where(inside, apart, 0.0)).astype(np.float32)


def yaw_of(orientation: Any) -> float:
    """Yaw (rad) of a quaternion message."""
    q = orientation
    return math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y * q.y + q.z * q.z))
