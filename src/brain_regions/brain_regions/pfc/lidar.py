# SPDX-License-Identifier: Apache-2.0
"""Readings of a scan for the prefrontal cortex: what is near ahead, how far can be seen, where floor is open."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from brain_regions import azimuth
from brain_regions.beams import Beams
from brain_regions.body import Body

ACROSS = np.linspace(-0.08, 0.08, 5)    # rad from the middle of a bin, in which beams are looked for


class Front(NamedTuple):
    """A scan, as it is needed here.

    Attributes:
        nearest: m, from the front edge to the nearest beam's end.
        angles, ranges: of the beams, by angle (rad, m).
    """

    nearest: float
    angles: np.ndarray
    ranges: np.ndarray


def front(scan: Beams, body: Body) -> Front:
    """Reduces a scan to what is seen from the base."""
    angles, ranges = scan.hits()
    nearest = float(np.hypot(ranges * np.cos(angles) - body.radius, ranges * np.sin(angles)).min(initial=9.0))
    order = np.argsort(angles)
    return Front(nearest, angles[order], ranges[order])


def free(seen: Front | None, turned: float) -> np.ndarray | None:
    """Computes how far each bin can be seen through (m), float32[BINS]; None without a scan.

    Args:
        turned: rad to the left that the robot has turned since the bins lay as they are numbered.
    """
    if seen is None or len(seen.angles) < 8:
        return None
    lines = azimuth.wrap(azimuth.CENTERS[:, None] - turned + ACROSS)
    at = np.searchsorted(seen.angles, lines) % len(seen.angles)
    return np.sort(seen.ranges[at], axis=1)[:, len(ACROSS) // 2]     # the median


def open_floor(seen: Front) -> np.ndarray:
    """Open floor as an offer: where it is farthest, and rather ahead than back. float32[BINS]."""
    apart = np.abs(azimuth.wrap(seen.angles[None] - azimuth.CENTERS[:, None]))
    open_ = np.where(apart < 0.5, seen.ranges, 9.0).min(1, initial=9.0)
    return azimuth.bump(float(azimuth.CENTERS[int(np.argmax(
        np.minimum(open_, 2.5) + 0.3 * np.cos(azimuth.CENTERS)))]))
