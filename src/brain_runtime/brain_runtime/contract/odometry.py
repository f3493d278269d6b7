# SPDX-License-Identifier: Apache-2.0
"""Odometry as regions hear it: judged before it is used, and with an origin so near that 32 bits hold a position.

One message is refused where it cannot tell a pose: numbers that are none, an orientation that is no unit quaternion or
lays the robot on its side, frames that are swapped. A source is refused where its pose and its twist contradict each
other while the robot turns and drives, or where its pose jumps again and again. What was refused once stays refused
until it was sound for :data:`PROBATION`; a contradiction, which a robot that stands cannot show, four times as long
each time, until pose and twist agree again.

A twist that a driver does not fill in (zeros for ever, or a negative or huge variance) is no evidence, nor is a robot
that is carried while its twist says that it stands. Covariances are read for nothing else.
"""
from __future__ import annotations

import cmath
import logging
import math
from typing import Any

import numpy as np

from brain_runtime.contract.azimuth import sound, wrap, yaw_of
from brain_runtime.contract.inbox import Inbox
from brain_wire import messages
from brain_wire.rate_limited_log import RateLimitedLog

limited_log = RateLimitedLog(logging.getLogger(__name__), every=60.0)

Pose = tuple[float, float, float]
"""x, y and yaw (m, m, rad)."""

JUMP = (0.5, 1.0)       # m, rad between two poses: the robot was carried
PROBATION = 2.0         # s that what was refused must be sound before it is used again
MOST = 6                # times that it grows
UNIT = 0.01             # by which the square of a quaternion's length may differ from 1, as tf2 has it
UPRIGHT = 0.5           # cosine of the angle by which the robot may lean: 60 degrees
ABOVE = ("odom", "map", "earth")    # frames (REP 105) that no robot's base is
GRID = 1024.0           # m; origins are whole numbers of it, which 32 bits hold exactly
TURN, WAY = math.radians(20.0), 1.0     # rad, m after which pose and twist are compared
SHARE = 0.4             # by which they may differ: wheels that slip, a track that was measured badly
TOLD = 0.3              # of TURN or WAY that the twist must tell: less may be a robot that is carried
LAG = 0.2               # s by which a filter may delay one of them
LONGEST = 10.0          # s after which the comparison begins anew: slow drift is no contradiction
GAP = 0.5               # s between two messages, beyond which nobody knows what happened
AT_ONCE = 0.2           # s between two messages within which a jump is none of a robot's
UNKNOWN = 1e3           # variance from which on a twist was not measured
STILL = 1e-3            # m/s, rad/s: below it a twist says nothing


def unsound(message: Any) -> str:
    """Returns the reason why an Odometry tells no pose, for a person; empty where it does."""
    p, q, twist = message.pose.pose.position, message.pose.pose.orientation, message.twist.twist
    for what, numbers in (("position", (p.x, p.y)), ("orientation", (q.x, q.y, q.z, q.w)),
                          ("twist", (twist.linear.x, twist.linear.y, twist.angular.z))):
        if not sound(*numbers):
            return f"its {what} is no sound number: {_told(numbers)}"
    square = q.x * q.x + q.y * q.y + q.z * q.z + q.w * q.w
    if not square:
        return "its orientation is all zeros, which is no direction; fill in x, y, z and w"
    if abs(square - 1.0) > UNIT:
        return f"its orientation (x, y, z, w = {_told((q.x, q.y, q.z, q.w))}) is no unit quaternion"
    if 1.0 - 2.0 * (q.x * q.x + q.y * q.y) < UPRIGHT:
        return f"its orientation (x, y, z, w = {_told((q.x, q.y, q.z, q.w))}) lays the robot on its side"
    if (child := message.child_frame_id.rpartition("/")[2]) in ABOVE:
        return f"its frames are swapped: child_frame_id is {child}, where the base belongs"
    return ""


def _told(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{number:.3g}" for number in numbers)


def pose_of(message: Any) -> Pose:
    """The pose of a sound Odometry, in the frame that it names."""
    p = message.pose.pose.position
    return float(p.x), float(p.y), yaw_of(message.pose.pose.orientation)


def origin_of(pose: Pose) -> np.ndarray:
    """An origin near a pose: whole numbers of :data:`GRID`, float32[2] (m); zeros where the pose is near zero."""
    return np.array([GRID * round(pose[0] / GRID), GRID * round(pose[1] / GRID)], np.float32)


def from_origin(pose: Pose, origin: np.ndarray) -> Pose:
    """A pose as it is seen from an origin (float32[2]), subtracted in 64 bits."""
    return pose[0] - float(origin[0]), pose[1] - float(origin[1]), pose[2]


class Odometry:
    """Judges the odometry of one source, message by message.

    Of the last seconds only, and so not of a region's state: after a restart it begins anew.

    Attributes:
        refused: why nothing is taken from this source now, for a person; empty: it is.
    """

    def __init__(self) -> None:
        self.refused = ""
        self._newest: Any = None
        self._sound_since: float | None = None
        self._last: tuple[float, float, Pose, complex, float] | None = None     # time, stamp, pose, speed, turning
        self._jumped = -math.inf
        self._turn, self._way = _Compared(TURN), _Compared(WAY)

    def newest(self, inbox: Inbox, within: float) -> Any | None:
        """The newest message of the port ``odom``; None where none is so fresh (s), or where it is refused."""
        message = inbox.get("odom", within)
        if message is not None and message is not self._newest:
            self._newest = message
            self.hear(message, inbox.now - inbox.age("odom"))
        return None if self.refused else message

    def pose(self, inbox: Inbox, within: float) -> Pose | None:
        """Returns the robot's pose by the newest message, in the frame that it names; None as for :meth:`newest`."""
        message = self.newest(inbox, within)
        return None if message is None else pose_of(message)

    @property
    def stamp(self) -> float:
        """Of the newest message (s); 0 where there is none."""
        return 0.0 if self._newest is None else messages.time_seconds(self._newest.header.stamp)

    def refusal(self, inbox: Inbox, within: float) -> str:
        """Returns why a message so fresh (s) is not used, for a person; empty: it is used, or there is none."""
        self.newest(inbox, within)
        return self.refused if inbox.age("odom") <= within else ""

    def hear(self, message: Any, now: float) -> str:
        """Judges the next message of the source.

        Args:
            message: an Odometry.
            now: when it came, by a steady clock (s).

        Returns:
            :attr:`refused`.
        """
        why = unsound(message)
        if why:
            self._last = None
        else:
            why = self._contradiction(message, now)
        if why:
            self._sound_since = None
            self.refused = self.refused or f"odom is refused: {why}"    # the first: numbers change with each message
            limited_log("odom", f"odom is refused: {why}")
        elif self.refused:
            if self._sound_since is None:
                self._sound_since = now
            if now - self._sound_since >= PROBATION * 4.0 ** min(max(self._turn.failed, self._way.failed, 1) - 1, MOST):
                self.refused = ""
        return self.refused

    def _contradiction(self, message: Any, now: float) -> str:
        """Returns the reason why a sound message does not fit those before it; empty: it does."""
        twist, pose, stamp = message.twist, pose_of(message), messages.time_seconds(message.header.stamp)
        speed = complex(twist.twist.linear.x, twist.twist.linear.y) if _measured(twist, 0) else 0j
        turning = float(twist.twist.angular.z) if _measured(twist, 35) else 0.0
        before, self._last = self._last, (now, stamp, pose, speed, turning)
        if before is None:
            return ""
        then, stamp_then, was, speed_then, turning_then = before
        # By the stamps, which a slowed simulation and a busy network leave as they are; by receipt without stamps.
        dt = stamp - stamp_then if stamp > stamp_then > 0.0 else now - then
        moved, turned = complex(pose[0] - was[0], pose[1] - was[1]), float(wrap(pose[2] - was[2]))
        if abs(moved) > JUMP[0] or abs(turned) > JUMP[1]:
            self._turn.end()
            self._way.end()
            often, self._jumped = now - self._jumped < PROBATION and dt < AT_ONCE, now
            return f"its pose jumps again and again, by {abs(moved):.2g} m and {_degrees(turned)} now" if often else ""
        if dt <= 0.0 or dt > GAP:
            self._turn.end()
            self._way.end()
            return ""
        # A twist is of the message's own moment, or the mean since the message before: across a gap these differ.
        mean, again = (speed + speed_then) / 2 * dt, bool(self.refused)
        if self._turn.differ(turned, ((turning + turning_then) / 2 * dt, turning * dt), turning, now, again):
            return (f"its orientation turned by {_degrees(self._turn.moved.real)} while its twist says "
                    f"{_degrees(self._turn.told[0].real)}")
        # a twist belongs to the base's own frame; some drivers tell it in the odometry's
        ahead = cmath.rect(1.0, was[2] + turned / 2)
        if self._way.differ(moved, (mean * ahead, mean, speed * dt * ahead), speed, now, again):
            far, said = abs(self._way.moved), abs(self._way.told[0])
            if abs(far - said) < SHARE * max(far, said):
                return "its position moves in another direction than its orientation and twist say"
            return f"its position moved by {far:.2g} m while its twist says {said:.2g} m"
        return ""


class _Compared:
    """Movement by pose and by twist since some moment, as complex numbers (turns are real), until they can be compared.

    Attributes:
        moved: by the pose.
        told: by the twist, in each of its readings.
        failed: how often they differed since they agreed last.
    """

    def __init__(self, least: float) -> None:
        self._least, self.failed = least, 0
        self.moved: complex = 0j
        self.told: tuple[complex, ...] = ()
        self.end()

    def end(self) -> None:
        """The next message begins the comparison anew."""
        self._since: float | None = None

    def differ(self, moved: complex, told: tuple[complex, ...], rate: complex, now: float, again: bool) -> bool:
        """Takes in one more step; whether enough has come together, and no reading of the twist fits the pose.

        ``again``: the source is refused already, and this is no new failure.
        """
        if abs(rate) <= STILL:      # it stands, or is carried, or the driver does not fill it in
            return False
        if self._since is None or now - self._since > LONGEST:
            self._since, self._rate, self.moved, self.told = now, rate, 0j, (0j,) * len(told)
        self.moved += moved
        self.told = tuple(a + b for a, b in zip(self.told, told))
        most = max(abs(self.moved), *map(abs, self.told))
        if most < self._least or abs(self.told[0]) < TOLD * self._least:
            return False
        slack = SHARE * most + LAG * abs(rate - self._rate)
        self.end()
        differ = all(abs(self.moved - each) > slack for each in self.told)
        self.failed = self.failed + (not again) if differ else 0
        return differ


def _measured(twist: Any, at: int) -> bool:
    """Tells whether a variance says that the twist was measured; zeros say nothing of it."""
    return bool(0.0 <= twist.covariance[at] < UNKNOWN)


def _degrees(angle: float) -> str:
    return f"{round(math.degrees(angle))} degrees"
