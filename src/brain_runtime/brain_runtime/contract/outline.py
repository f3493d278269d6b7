# SPDX-License-Identifier: Apache-2.0
"""Parts of the robot that stand in its own scans (posts, cables, the housing), as angles and ranges to be left out.

What returns from one direction in nearly all scans, and from within the robot's outline, is of the robot: at once where
it lies well inside, and a little beyond (:data:`MARGIN`) once the robot has turned by a full turn.
"""
from __future__ import annotations

import math
from typing import Iterable

import numpy as np

from brain_runtime.contract.azimuth import wrap

BINS = 360              # directions that are told apart
INSIDE = 0.02           # m by which a return may lie inside the outline and still be of what is beside it
MARGIN = 0.03           # m beyond the robot's radius within which what turns with it is its own
ALWAYS = 0.8            # share of scans in which that returns
ASIDE = 0.05            # rad to each side that are left out with it
TURN = math.tau - 0.1   # rad


def bins_of(angles: np.ndarray, count: int = BINS) -> np.ndarray:
    """Bin of each angle (rad), of ``count`` that begin at half a turn to the right."""
    return np.floor((np.asarray(angles) + math.pi) * (count / math.tau)).astype(int) % count


def stay(scans: Iterable[tuple[np.ndarray, np.ndarray, float]], within: float) -> tuple[np.ndarray, np.ndarray]:
    """Finds the directions in which something returns from within ``within`` (m) of the base in nearly all scans.

    Args:
        scans: of each, where its returns are from the base (angles, rad; distances, m) and the angle between two beams.

    Returns:
        Angles (rad) and distances (m) of those directions, float[m] each: the farthest that came from there.
    """
    times, farthest, count = np.zeros(BINS), np.zeros(BINS), 0
    for angles, distances, spacing in scans:
        count += 1
        near = distances < within
        farther = math.ceil(spacing / 2 / (math.tau / BINS))    # bins on each side that a beam stands for
        at = (bins_of(angles[near])[:, None] + np.arange(-farther, farther + 1)) % BINS
        reach = np.zeros(BINS)
        np.maximum.at(reach, at, distances[near][:, None])
        times += reach > 0.0
        farthest = np.maximum(farthest, reach)
    found = np.flatnonzero(times >= max(ALWAYS * count, 1))
    return (found + 0.5) * (math.tau / BINS) - math.pi, farthest[found]


def parts(angles: np.ndarray, distances: np.ndarray, stays: np.ndarray, within: float = math.inf) -> list[float]:
    """Value of ``scan_own`` that takes what returns from some directions for the robot's own.

    Args:
        angles, distances: of returns from the base (rad, m).
        stays: the directions, bool[n], which begin at half a turn to the right.
        within: m from the base that is left out at most.

    Returns:
        For each part an angle, one farther to the left (rad) and a distance (m), with a little room.
    """
    own: list[float] = []
    count = len(stays)
    begins = np.flatnonzero(stays & ~np.roll(stays, 1))
    for begin in begins if len(begins) else [0]:
        length = next((k for k in range(1, count) if not stays[(begin + k) % count]), count)
        at = (bins_of(angles, count) - begin) % count < length
        if at.any():
            middle = (begin + length / 2) * math.tau / count - math.pi
            off = wrap(angles[at] - middle)
            own += [float(wrap(middle + off.min() - ASIDE)), float(wrap(middle + off.max() + ASIDE)),
                    min(float(distances[at].max()) + MARGIN, within)]
    return own


def in_words(own: Iterable[float]) -> str:
    """Values of ``scan_own`` as a profile has them."""
    return "[" + ", ".join(f"{value:.2f}" for value in own) + "]"
