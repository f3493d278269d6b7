# SPDX-License-Identifier: Apache-2.0
"""Poses of the robot of late: what comes late is seen from where it was taken, not from where the robot is now.

Of the last two seconds only, and so not of a region's state: who comes back after a restart begins anew.
"""
from __future__ import annotations

import bisect
import math
from typing import Any, NamedTuple

from brain_regions import azimuth
from brain_wire import messages

Pose = tuple[float, float, float]
"""x, y and yaw in the odometry's frame (m, m, rad)."""

HORIZON = 2.0       # s that are remembered
SPACING = 0.04      # s between two poses that are kept
GAP = 0.5           # s between two poses, beyond which none between them is guessed
AHEAD = 0.1         # s by which a stamp may be newer than the newest pose: odometry comes at 10 Hz or faster
DISAGREE = 10.0     # s from which on an age tells of two clocks rather than of a delay


class Moment(NamedTuple):
    """Pose of the robot at one time, and what else is kept of that time.

    Attributes:
        stamp: of odometry (s).
        pose: by it.
        kept: whatever was put in beside it.
    """

    stamp: float
    pose: Pose
    kept: Any


class Past:
    """Poses of the last :data:`HORIZON` s, by the stamps of odometry, oldest first."""

    def __init__(self) -> None:
        self._moments: list[Moment] = []

    def clear(self) -> None:
        """Forgets everything: the robot was carried, and no pose leads on to the next."""
        self._moments.clear()

    def put(self, stamp: float, pose: Pose, kept: Any = None) -> None:
        """Takes in a pose; one without a stamp (0) is of no use. One that is older than the newest begins anew."""
        past = self._moments
        if stamp <= 0.0:
            return
        if past and stamp < past[-1].stamp:
            past.clear()
        if past and past[-1].stamp == stamp or len(past) > 1 and past[-1].stamp - past[-2].stamp < SPACING:
            past.pop()
        past.append(Moment(stamp, pose, kept))
        while past[0].stamp < stamp - HORIZON:
            del past[0]

    @property
    def newest(self) -> float:
        """Stamp of the newest pose (s); ``-inf`` without one."""
        return self._moments[-1].stamp if self._moments else -math.inf

    def at(self, stamp: float) -> Pose | None:
        """Returns the robot's pose at a time that another header tells (s).

        None where that is not known: the header has no stamp, is older than what is remembered, or from the future,
        which tells of a clock that is not odometry's.
        """
        past = self._moments
        if not past or stamp <= 0.0 or not past[0].stamp <= stamp <= past[-1].stamp + AHEAD:
            return None
        if stamp >= past[-1].stamp:
            return past[-1].pose
        after = bisect.bisect_right(past, stamp, key=lambda moment: moment.stamp)
        (begin, (x, y, yaw), _), (end, other, _) = past[after - 1], past[after]
        if stamp == begin:
            return past[after - 1].pose
        if end - begin > GAP:
            return None
        share = (stamp - begin) / (end - begin)
        return (x + share * (other[0] - x), y + share * (other[1] - y),
                float(azimuth.wrap(yaw + share * azimuth.wrap(other[2] - yaw))))

    def nearest(self, stamp: float) -> Moment | None:
        """The moment that is nearest to a time (s); None where none is within half of :data:`GAP`."""
        found = min(self._moments, key=lambda moment: abs(moment.stamp - stamp), default=None)
        return found if found is not None and abs(found.stamp - stamp) <= GAP / 2 else None


def age(header: Any, now: float) -> float:
    """Computes the age, at the time ``now`` (s), of what a header tells of; NaN where that is not known.

    It is not where there is no stamp, and where clocks of two machines disagree.
    """
    stamp = messages.time_seconds(header.stamp)
    found = now - stamp
    return found if stamp > 0.0 and -AHEAD <= found < DISAGREE else math.nan


def since(then: Pose, now: Pose) -> tuple[float, float, float]:
    """Transforms ``now`` into the frame of ``then``: ahead and to the left (m, m), and turned to the left (rad)."""
    dx, dy = now[0] - then[0], now[1] - then[1]
    cos, sin = math.cos(then[2]), math.sin(then[2])
    return cos * dx + sin * dy, cos * dy - sin * dx, float(azimuth.wrap(now[2] - then[2]))
