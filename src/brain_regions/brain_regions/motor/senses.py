# SPDX-License-Identifier: Apache-2.0
"""Input of the motor network: one row of numbers a step, made from messages. All of it may be had for many robots.

Distances are gaps from the robot's edge, so that they mean the same for robots of any size. Whatever tells of
something solid (scan, hazard maps, objects) becomes points round the robot. Those that lie where the target should be
are the target's, and are kept apart from the ring of what is to be kept clear of.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from brain_regions import azimuth

REACH = 1.0             # m from the robot's edge, beyond which nothing is near (as SensorFeatures has it)
SLOW = 0.4              # s, time constant of the memory that new gaps are compared with
CLOSING = 0.3           # m by which a gap shrank, that counts as 1
NEARER, FARTHER, BESIDE = 0.50, 0.40, 0.38  # m round the target's estimated center, within which points are its
FRONT = 0.22            # m to the side of the line to the target's center: the part whose gap is told
LEAST_RADIUS = 0.12     # m, of an object that is told of by a camera alone

GAP = slice(0, 36)              # m by azimuth bin, cut to REACH
SHRUNK = slice(36, 72)          # 0..1, how much the gap shrank lately, the robot's turning taken out
(HEADING, SPEED, MODE, BEARING, DISTANCE, TARGET_GAP, LAST_LINEAR, LAST_ANGULAR, LAST_STATE, MAX_LINEAR, MAX_ANGULAR,
 BRAKING, RADIUS) = range(72, 85)
"""Wanted direction (rad, NaN: none); share of the top speed; Control's mode; target's bearing (rad) and distance (m);
what is left to drive to it (m beyond where to stop), NaN where not known; the last answer (shares of the top speeds,
state); the robot's limits (m/s, rad/s, m/s^2) and radius (m)."""
SIZE = 85


def of_target(angles: np.ndarray, distances: np.ndarray, bearing: Any, distance: Any) -> np.ndarray:
    """Marks the points (rad, m from the base's center) of the target, at ``bearing`` and ``distance`` (NaN: none)."""
    aside = azimuth.wrap(angles - bearing)
    with np.errstate(invalid="ignore"):
        return ((distances > distance - NEARER) & (distances < distance + FARTHER)
                & (np.abs(distances * np.sin(aside)) < BESIDE) & (np.cos(aside) > 0.3))


def target_gap(angles: np.ndarray, distances: np.ndarray, bearing: Any, distance: Any) -> np.ndarray:
    """Least distance (m from the base's center) of the target's points ahead of its center; NaN without any. [...]."""
    front = of_target(angles, distances, bearing, distance)
    front &= np.abs(distances * np.sin(angles - bearing)) < FRONT
    nearest = np.where(front, distances, np.inf).min(-1, initial=np.inf)
    return np.where(np.isfinite(nearest), nearest, np.nan)


def ring(bins: np.ndarray, gaps: np.ndarray) -> np.ndarray:
    """Least gap (m) of each bin, cut to 0..REACH: float32[..., 36] of points float[..., n] in ``bins`` int[..., n]."""
    rows = int(np.prod(gaps.shape[:-1], dtype=int))
    found = np.full(rows * azimuth.BINS, REACH, np.float32)
    at = bins.reshape(rows, -1) + azimuth.BINS * np.arange(rows)[:, None]
    np.minimum.at(found, at.ravel(), gaps.reshape(-1).astype(np.float32))
    return np.maximum(found, np.float32(0)).reshape(*gaps.shape[:-1], azimuth.BINS)


def turned(gaps: np.ndarray, turn: Any) -> np.ndarray:
    """A ring [..., 36] after the robot turned by ``turn`` (rad, [...])."""
    shift = np.asarray(turn, np.float32)[..., None] / np.float32(azimuth.WIDTH)
    whole = np.floor(shift).astype(int)
    part = shift - whole
    at = np.arange(azimuth.BINS) + whole
    low = np.take_along_axis(gaps, at % azimuth.BINS, -1)
    return low + part * (np.take_along_axis(gaps, (at + 1) % azimuth.BINS, -1) - low)


def shrunk(gaps: np.ndarray, slow: np.ndarray, turn: Any, dt: Any) -> tuple[np.ndarray, np.ndarray]:
    """Computes how much gaps shrank (0..1), and the slow memory for the next step; all [..., 36].

    Args:
        gaps: now (m).
        slow: memory of the step before.
        turn: what the robot turned since (rad).
        dt: s since.
    """
    slow = turned(slow, turn)
    found = np.clip((slow - gaps) / CLOSING, 0.0, 1.0).astype(np.float32)
    share = np.asarray(1.0 - np.exp(-np.asarray(dt, np.float32) / SLOW))[..., None]
    return found, (slow + share * (gaps - slow)).astype(np.float32)
