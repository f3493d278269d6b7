# SPDX-License-Identifier: Apache-2.0
"""Mounting and scale of the lidar, checked on the way: what its scans show must move as odometry says that it does.

A lidar that is turned on its mounting, hangs upside down, or tells its ranges in another unit is sound in itself: the
robot looks where it does not drive, or meets the wall before it. What the scan before showed is moved by odometry, once
as the profile has the lidar and once for each other mounting and scale; the one that meets what is seen now is right.
Where none does, again and again, scan and odometry have nothing to do with each other: one of them is noise, comes late
or stays the same. In rooms as they are nine of ten returns are met, with people about eight. Of sound scans no other
mounting explains more than the profile's does by more than 0.17 (36 beams; in whole episodes 0.03).
"""
from __future__ import annotations

import math

import numpy as np

from brain_regions.azimuth import wrap
from brain_regions.beams import Beams
from brain_regions.past import Pose, since

MOVED = math.radians(20.0), 0.25    # rad or m between two scans that are compared
TOO_FAR = math.radians(60.0), 0.7   # they show other things
LEAST, MOST = 30, 2000  # returns that are compared
NEAR = 0.1, 0.04        # m and share of its range: so near a return is what was expected
FITS, MORE = 0.7, 0.1   # share of the returns that another mounting explains, and by how much more than the profile's
TIMES, SURE = 2, 0.6    # in a row, and how much more in all of these
PLAIN = 0.4, 0.15       # so much more counts at each scan from so many m on: after two moves the robot is at the wall
WELL = 0.85             # share that the profile's explains well enough, as in a corridor, where all fit
POOR, OFTEN = 0.5, 3    # share that nothing explains, and times in a row: a scan may come a little late
MOUNTINGS = ((1, 0.0, 1.0), (-1, 0.0, 1.0), (1, math.pi, 1.0), (1, math.pi / 2, 1.0), (1, -math.pi / 2, 1.0),
             *((1, 0.0, scale) for scale in (0.25, 0.5, 1.5, 2.0, 3.0, 4.0)))   # side up, rad to the left, scale
NOTHING = ("the scan does not change as odometry says that the robot moves: does the lidar measure or repeat itself, "
           "do both come in time, and does odometry turn by as much as the robot?")


class Mounting:
    """Compares scans while the robot moves.

    Attributes:
        fault: how the lidar seems to be mounted or scaled, or what else is wrong, for a person; empty where scans move
            as odometry and the profile say.
    """

    def __init__(self) -> None:
        self.fault = ""
        self._before: tuple[np.ndarray, np.ndarray, Pose] | None = None
        self._found = "", 0, 0.0    # what seems to be wrong, how often in a row, and by how much more that fitted

    def take(self, seen: Beams, pose: Pose | None) -> str:
        """Takes in the next scan.

        Args:
            seen: its beams.
            pose: where the robot is by odometry; None: not known.

        Returns:
            :attr:`fault`.
        """
        angles, distances = seen.hits()
        if pose is None or len(angles) < LEAST:
            self._before = None
            return self.fault
        if self._before is None:
            self._before = angles, distances, pose
            return self.fault
        *before, then = self._before
        ahead, left, turned = since(then, pose)
        way = math.hypot(ahead, left)
        moved = abs(turned) >= MOVED[0] or way >= MOVED[1]
        if not moved and way < PLAIN[1]:
            return self.fault
        if moved:
            self._before = angles, distances, pose
        if abs(turned) > TOO_FAR[0] or way > TOO_FAR[1]:
            return self.fault
        order = np.argsort(wrap(angles))
        now = wrap(angles)[order], distances[order]
        apart = 1.5 * seen.spacing
        fits = [_fit(*before, *now, apart, _as_mounted(ahead, left, turned, *how)) for how in MOUNTINGS]
        if fits[0] is None:
            return self.fault
        found = [fit or 0.0 for fit in fits]
        best = int(np.argmax(found))
        more = found[best] - found[0]
        if more >= PLAIN[0] and MOUNTINGS[best][2] == 1.0:     # wheels may slip once
            self._seems(_said(*MOUNTINGS[best]), 1, more)
            return self.fault
        if not moved:
            return self.fault
        # after a scan that nothing explains, a turn that shows nothing does not make up for it: so are ranges that are
        # the same on all sides. By itself it is no fault: so is the middle of a round room
        same = abs(turned) >= MOVED[0] and found[0] - (_fit(*before, *now, apart, (0.0, 0.0, 0.0)) or 0.0) < MORE
        if found[best] < POOR or same and self._found[0] == NOTHING:
            self._seems(NOTHING, OFTEN)
        elif best and found[best] >= FITS and more >= MORE and found[0] < WELL:
            self._seems(_said(*MOUNTINGS[best]), TIMES, more)
        elif found[0] >= FITS:
            self._found, self.fault = ("", 0, 0.0), ""
        return self.fault

    def _seems(self, wrong: str, often: int, more: float = SURE) -> None:
        """Something seems to be wrong; it is told once that was so often enough in a row, and sure enough."""
        _, times, sure = self._found if self._found[0] == wrong else (wrong, 0, 0.0)
        self._found = wrong, times + 1, sure + more
        if times + 1 >= often and sure + more >= SURE:
            self.fault = wrong


def _as_mounted(ahead: float, left: float, turned: float, side: int, yaw: float, scale: float) -> Pose:
    """The robot's motion (m, m, rad) as seen by a lidar that is mounted or scaled otherwise than the profile says."""
    cos, sin = scale * math.cos(yaw), scale * math.sin(yaw)
    return cos * ahead + sin * left, side * (cos * left - sin * ahead), side * turned


def _fit(then_angles: np.ndarray, then_distances: np.ndarray, angles: np.ndarray, distances: np.ndarray,
         apart: float, motion: Pose) -> float | None:
    """Share of the returns of before that are where a motion puts them now; None where too few can be compared."""
    some = slice(None, None, 1 + len(then_angles) // MOST)
    then_angles, then_distances = then_angles[some], then_distances[some]
    x, y = then_distances * np.cos(then_angles) - motion[0], then_distances * np.sin(then_angles) - motion[1]
    wanted, reach = wrap(np.arctan2(y, x) - motion[2]), np.hypot(x, y)
    at = np.searchsorted(angles, wanted) % len(angles)
    off = np.stack([np.abs(wrap(angles[at - k] - wanted)) for k in (0, 1)])
    nearest = at - off.argmin(0)
    both = off.min(0) <= apart
    met = np.abs(distances[nearest] - reach) < np.maximum(NEAR[0], NEAR[1] * reach)
    return float(met[both].mean()) if np.count_nonzero(both) >= LEAST else None


def _said(side: int, yaw: float, scale: float) -> str:
    if scale != 1.0:
        return (f"the scan moves much {'farther' if scale > 1.0 else 'less'} than odometry says: are the lidar's "
                "ranges in meters, does odometry have the right wheel radius, or do the wheels slip?")
    if side < 0:
        return ("the scan turns the other way than odometry: is the lidar upside down (lidar_roll: 3.1416 in the "
                "profile, or its frame, its driver's setting, or a negative angle_increment), or is odometry mirrored?")
    return (f"the scan moves as if the lidar were turned by {math.degrees(yaw):.0f} degrees more to the left than it "
            f"is said to be; add {yaw:.4f} to lidar_yaw in the robot's profile, or to the lidar's frame where that is "
            f"believed, unless it is odometry that tells the way so")
