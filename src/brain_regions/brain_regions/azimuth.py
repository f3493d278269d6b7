# SPDX-License-Identifier: Apache-2.0
"""Directions round the robot: laser scans and hazard maps as points, directions as populations of neurons.

The bins, and what of numbers from outside can be used, are :mod:`brain_runtime.azimuth`'s, which can be had here too.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from brain_regions.body import DEFAULT, Body
from brain_runtime.azimuth import (BINS, CENTERS, COS, SIN, WIDTH, sound, sound_map, sound_pose, sound_values, wrap,
                                   yaw_of)

__all__ = ["BINS", "BUMP", "CENTERS", "COS", "SIN", "WIDTH", "bump", "direction", "from_base", "hazard_points",
           "hazardous", "scan_points", "sound", "sound_map", "sound_pose", "sound_scan", "sound_values", "wrap",
           "yaw_of"]

_EDGES = CENTERS[:, None] + np.array([-0.35, 0.0, 0.35], np.float32) * WIDTH
_ACROSS = np.stack([np.cos(_EDGES), np.sin(_EDGES)], -1)    # three directions across each bin [36, 3, 2]
_NEAR = (np.arange(BINS)[:, None] + np.arange(-2, 3)) % BINS
_NEAR_SIN, _NEAR_COS = SIN[_NEAR], COS[_NEAR]
_NO_POINTS = np.zeros((0, 2), np.float32)
BUMP = math.radians(12.0)                       # standard deviation of a direction's bump (rad)


def hazardous(message: Any) -> bool:
    """Whether a message's hazard map tells of something solid that is near; a bin that is NaN tells nothing."""
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


def scan_points(scan: Any, body: Body = DEFAULT) -> tuple[np.ndarray, np.ndarray]:
    """Where a LaserScan's beams end, from the base: angles (rad) and distances (m), float32[n] each.

    Beams that hit nothing are left out. One of minus infinity hit something too near to be measured (REP 117): it ends
    at the least range.
    """
    ranges = np.asarray(scan.ranges, dtype=np.float32)
    least = max(scan.range_min, 1e-3)
    ranges = np.where(np.isneginf(ranges), np.float32(least * 1.001), ranges)
    angles = (scan.angle_min + scan.angle_increment * np.arange(len(ranges))).astype(np.float32)
    good = np.isfinite(ranges) & (ranges >= least) & (ranges <= scan.range_max)
    return from_base(angles[good], ranges[good], body)


def from_base(angles: np.ndarray, ranges: np.ndarray, body: Body) -> tuple[np.ndarray, np.ndarray]:
    """Beams as the lidar has them to angles (rad) and distances (m) from the base, float32[n] each.

    Of infinite ones, which have no end to be seen from elsewhere, only the direction is turned.
    """
    if not (body.lidar_x or body.lidar_y or body.lidar_yaw):
        return angles, ranges
    turned = angles + np.float32(body.lidar_yaw)
    ends = np.isfinite(ranges)
    reach = np.where(ends, ranges, np.float32(0.0))
    x, y = body.lidar_x + reach * np.cos(turned), body.lidar_y + reach * np.sin(turned)
    return (np.where(ends, np.arctan2(y, x), wrap(turned)).astype(np.float32),
            np.where(ends, np.hypot(x, y), ranges).astype(np.float32))


def sound_scan(scan: Any) -> bool:
    """Whether a LaserScan can be used: numbers that make sense, and at least 8 beams.

    A scan whose beams all hit nothing is sound (an open field); one of NaN only is not.
    """
    ranges = np.asarray(scan.ranges)
    if len(ranges) < 8 or not sound(scan.angle_min, scan.angle_increment):
        return False
    if scan.angle_increment == 0 or not scan.range_max > scan.range_min >= 0:
        return False
    return not np.isnan(ranges).all()


def hazard_points(hazard: np.ndarray, radius: float) -> np.ndarray:
    """Points float32[n, 2] (m, base_link) that stand for a hazard map, for a robot of ``radius`` (m).

    Each bin with something in it becomes three points across its width.
    """
    bins = np.flatnonzero(hazard > 0.02)
    if not len(bins):
        return _NO_POINTS
    return ((radius + 1.0 - hazard[bins])[:, None, None] * _ACROSS[bins]).reshape(-1, 2)
