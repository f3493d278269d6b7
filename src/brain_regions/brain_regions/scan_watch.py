# SPDX-License-Identifier: Apache-2.0
"""Watch on the lidar: whether scans that are sound one by one can be believed, by what came before and by odometry.

A lidar that has died may go on to publish: scans without any return, the last one again and again, or noise. Such a
scan is found by what it contradicts: returns that were well within range and vanish all at once, ranges that stay equal
to the bit while the robot moves, or jump while it hardly does. Where only a part of the beams tells nothing, the robot
does not drive that way. What holds while the robot turns is the lidar's or the robot's own, and not the room's.

Of the last seconds only, and so not of a region's state: who comes back after a restart begins anew.
"""
from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple

import numpy as np

from brain_regions import beams
from brain_regions.azimuth import wrap
from brain_regions.beams import HIT, OPEN, Beams
from brain_regions.body import DEFAULT, Body
from brain_regions.lidars import Lidars, carried
from brain_regions.mounting import Mounting
from brain_regions.past import DISAGREE, Past, Pose, since
from brain_runtime.contract.outline import bins_of, in_words, parts
from brain_wire.messages import time_seconds

HOLD = 2.0                      # s for which scans must be sound after one that was not
SECTOR = math.radians(45.0)     # to each side of where the robot goes: what is judged as its way
BLIND = math.radians(15.0)      # of the way, in which no beam tells anything
ALIVE = 0.02                    # share of beams with a return that shows that the lidar measures
WELL_WITHIN = 0.95              # of range_max; what is farther may vanish
SLACK = 0.10                    # m
LOST = 0.1                      # share of the returns to be expected: if fewer are left, they have vanished
FLANK = 0.5                     # of range_max: a view that ends so near on both sides is not open but dead
EQUAL = 0.8                     # share of finite ranges
STILL = math.radians(10.0), 0.2, 0.4, 3     # rad or m that the robot moved, s and scans: equal so long is frozen
GENTLE = 0.1, 0.02              # m, rad between two scans: beams see again what they saw
LEAP = 0.3, 0.2                 # m and share of its range by which a beam's jumps
LEAPS = 0.5, 8, 5, 0.5          # share of the beams that jump, of so many at least; scans and s: so long is noise
SHIFTS = math.radians(20.0)     # by which a scan may be turned, where odometry does not tell of it
BINS = 72                       # directions for which something is remembered
STAYS = 1.0                     # s after which what stands inside the outline is not noise
FORGET = 0.5                    # s
CROWDED = 10.0                  # s
WITH_THE_ROBOT = math.radians(270.0)    # that it turned: what is still in the same place turns with it
SLOW = 0.10                     # m/s in the open
JUMP = (0.5, 1.0)               # m, rad between two scans: the robot was carried
LATE = 1.0                      # s between the stamps of odometry and of a scan that are of one moment
DEAD = "the lidar measures nothing: {}; is it dead, covered or unplugged?"


class _Before(NamedTuple):
    """Returns of the last scan that was believed: from where, when, and as points from base_link (m), float32[n, 2]."""

    pose: Pose | None
    at: float
    points: np.ndarray


def changed(before: Beams, seen: Beams, step: int = 0) -> bool:
    """Tells whether most beams of a scan end elsewhere than those of another did that are so many beams further.

    Not where they cannot be compared: the scans look in other directions, or have hardly any returns.
    """
    if len(before.kinds) != len(seen.kinds):
        return False
    if np.abs(before.directions[[0, -1]] - seen.directions[[0, -1]]).max() > 0.25 * seen.spacing:
        return False
    then, now = np.roll(before.ranges, step), seen.ranges
    both = (np.roll(before.kinds, step) == HIT) & (seen.kinds == HIT)
    apart = np.abs(now[both] - then[both]) > np.maximum(LEAP[0], LEAP[1] * then[both])
    return len(apart) >= LEAPS[1] and bool(apart.mean() > LEAPS[0])


def _late(scan: float, odometry: float) -> str:
    """Returns the reason why the stamps (s) of a scan and odometry differ; empty where they do not, or nobody knows."""
    apart = odometry - scan
    if min(scan, odometry) <= 0.0 or not LATE < abs(apart) < DISAGREE:
        return ""
    late, other = ("scan", "odom") if apart > 0.0 else ("odom", "scan")
    return (f"{late} comes late: it is stamped {abs(apart):.1f} s before {other}; is its driver slow, or does it stamp "
            "by another clock (chrony or NTP)?")


class ScanWatch:
    """Judges scans as they come; see the module.

    Attributes:
        fault: why no scan is to be believed now, for a person; empty where they are.
        ways: why the robot is not to drive ahead and back, for a person; empty where it may.
        outline: what stands inside the robot's outline, for a person, with what to do about it.
        crowded: something stood inside the outline a short while ago, which may hide the rest.
        fixed: what of ``ways`` and ``outline`` turned with the robot.
        slow: there is nothing to be seen, and the robot may drive slowly only (m/s); infinite otherwise.
        repeated: m that were driven since a scan that is equal to the newest one.
        doubtful: beams of the newest scan that come back from nothing may be dead.
        unproven: whether those ahead are is seen by a turn on the spot.
        beams: of the newest scan that can be read.
        lidars: how lidars are mounted.
    """

    def __init__(self) -> None:
        self.body, self.lidars = DEFAULT, Lidars()
        self.beams: Beams | None = None
        self.fault = self.outline = self.fixed = ""
        self.ways = ("", "")
        self.slow, self.repeated = math.inf, 0.0
        self.doubtful = self.unproven = self.crowded = False
        self._scan: Any = None
        self._bad = -math.inf       # when the last scan came that is not to be believed
        self._alive = False
        self._before: _Before | None = None
        self._ever = np.zeros(BINS, bool)       # directions that have had a return
        self._anchor: tuple[np.ndarray, Pose | None, float, int] | None = None
        self._frozen: np.ndarray | None = None
        self._last: tuple[Beams, Pose] | None = None
        self._mounting, self._past = Mounting(), Past()
        self._leaps = (0, math.inf)             # scans in a row that jumped, and when the first came
        self._inside = np.full((2, BINS), -1e9)    # when something inside was seen first and last
        self._crowded = -math.inf   # when something stood inside last
        self._yaw = 0.0             # rad turned, not wrapped
        self._pose: Pose | None = None
        self._since: tuple[float, float] | None = None  # least and largest yaw since something is in the way
        self._stood = -math.inf     # when it was there last

    @property
    def hint(self) -> str:
        """Reason why it may not go ahead, for a person."""
        return self.outline or self.ways[0]

    def hear(self, inbox: Any, pose: Pose | None, parameters: Body, stamp: float = 0.0) -> Any | None:
        """Takes in what came on the ports of :class:`.lidars.Scanning`, as :meth:`take` does; the newest scan, or None.

        Args:
            inbox: of the region.
            pose, stamp: as there.
            parameters: of the region: what the profile says of robot and lidars.
        """
        scan, body, second, fault = self.lidars.take(inbox, parameters)
        if scan is not None:
            self.take(scan, pose, inbox.now, body, stamp, second, fault)
        return scan

    def take(self, scan: Any, pose: Pose | None, now: float, body: Body, stamp: float = 0.0,
             second: tuple[Any, Body] | None = None, fault: str = "") -> str:
        """Takes in the newest scan, once.

        Args:
            scan: LaserScan; the same one again changes nothing.
            pose: of the robot by odometry; None: not known.
            now: s, on any steady clock.
            body: of the robot, and how the lidar is mounted on it.
            stamp: of the odometry that the pose is of (s); 0: not known.
            second: the newest scan of a second lidar, and the body with that one's mounting.
            fault: why the scan is not to be believed, whatever it says.

        Returns:
            :attr:`fault`.
        """
        if scan is self._scan:
            return self.fault
        self._scan, self.body = scan, body
        self._turn(pose, stamp)
        why = fault or beams.misshapen(scan) or ("" if pose is None else _late(time_seconds(scan.header.stamp), stamp))
        if not why:
            self.beams = seen = beams.read(scan, self.body, second and self._at_once(scan, *second))
            why = (self._repeats(seen, pose, now) or self._jumps(seen, pose, now) or beams.untold(seen, self.body)
                   or self._judge(seen, pose, now)
                   or self._mounting.take(seen, self._taken_from(time_seconds(scan.header.stamp), pose, stamp)))
        if why:
            self.fault, self._bad = why, now
        elif now - self._bad >= HOLD:
            self.fault = ""
        return self.fault

    def _turn(self, pose: Pose | None, stamp: float) -> None:
        if pose is not None and self._pose is not None:
            ahead, left, turned = since(self._pose, pose)
            if math.hypot(ahead, left) > JUMP[0] or abs(turned) > JUMP[1]:     # nothing is where it was
                self._before = self._anchor = None
                self._past.clear()
            else:
                self._yaw += turned
        self._pose = pose
        if pose is not None:
            self._past.put(stamp, pose)

    def _at_once(self, scan: Any, other: Any, body: Body) -> tuple[Any, Body]:
        """The second lidar's scan as if it was taken with the first one's, where it is known from where both were."""
        here, there = (self._past.at(time_seconds(one.header.stamp)) for one in (scan, other))
        return (other, body) if here is None or there is None else (other, carried(body, *since(here, there)))

    def _taken_from(self, stamp: float, pose: Pose | None, odometry: float) -> Pose | None:
        """Pose that the scan was taken from; None where nobody knows: on a busy machine one of them comes late.

        By the stamps (s) of the scan and of odometry. Where these tell nothing of each other, the newest pose is it.
        """
        if min(stamp, odometry) <= 0.0 or abs(odometry - stamp) >= DISAGREE:
            return pose
        return self._past.at(stamp)

    # -- equal scans -----------------------------------------------------------------------------------------------

    def _repeats(self, seen: Beams, pose: Pose | None, now: float) -> str:
        """Checks whether ranges stay equal to the bit while the robot moves: of all beams, or of those ahead."""
        measured, kept = seen.measured, self._anchor
        if self._frozen is not None:
            if self._equal(seen, self._frozen):
                return "the lidar is frozen: its ranges stay equal to the bit while the robot moves"
            self._frozen = None
        if kept is None or not self._equal(seen, kept[0]):
            self._anchor, self.repeated = (measured, pose, now, 1), 0.0
            return ""
        first, then, at, count = kept
        self._anchor = (first, then or pose, at, count + 1)
        if pose is None or then is None:
            return ""
        ahead, left, turned = since(then, pose)
        self.repeated = way = math.hypot(ahead, left)
        if now - at < STILL[2] or count + 1 < STILL[3] or abs(turned) < STILL[0] and way < STILL[1]:
            return ""
        if abs(turned) < STILL[0] and self._fits(seen, ahead):
            return ""
        self._frozen = first
        return "the lidar is frozen: its ranges stay equal to the bit while the robot moves"

    @staticmethod
    def _equal(seen: Beams, before: np.ndarray) -> bool:
        """Tells whether most finite ranges are equal to the bit: of all beams, or of those ahead."""
        if len(before) != len(seen.measured):
            return False
        finite = np.isfinite(seen.measured) & (seen.kinds == HIT)
        equal = finite & (seen.measured == before)
        return any(np.count_nonzero(equal & part) >= max(EQUAL * np.count_nonzero(finite & part), 3)
                   for part in (finite, np.abs(wrap(seen.directions)) < SECTOR))

    @staticmethod
    def _fits(seen: Beams, ahead: float) -> bool:
        """Tells whether the scan would look the same from so far ahead (m), as in a corridor without noise."""
        order = np.argsort(wrap(seen.directions))
        hit, angles, distances = (values[order] for values in (seen.kinds == HIT, seen.angles, seen.distances))
        points = np.stack([distances * np.cos(angles), distances * np.sin(angles)], -1)
        moved = points[hit] - (ahead, 0.0)
        at = np.searchsorted(wrap(seen.directions)[order], np.arctan2(moved[:, 1], moved[:, 0])) % len(order)
        between = hit[at - 1] & hit[at]
        one, other, moved = points[at - 1][between], points[at][between], moved[between]
        along = other - one
        share = np.clip(((moved - one) * along).sum(1) / np.maximum((along ** 2).sum(1), 1e-9), 0.0, 1.0)
        apart = np.hypot(*(one + share[:, None] * along - moved).T)
        return len(apart) > 0 and bool(np.mean(apart < 0.02 + 0.01 * np.hypot(*moved.T)) > 0.95)

    def _jumps(self, seen: Beams, pose: Pose | None, now: float) -> str:
        """Checks whether most ranges jump from scan to scan while the robot moves hardly or not at all."""
        before, self._last = self._last, None if pose is None else (seen, pose)
        (count, first), self._leaps = self._leaps, (0, math.inf)
        if before is None or pose is None or not changed(before[0], seen):
            return ""
        ahead, left, turned = since(before[1], pose)
        if math.hypot(ahead, left) > GENTLE[0] or abs(turned) > GENTLE[1]:
            return ""
        # odometry may not tell yet that it turned
        most = min(SHIFTS / seen.spacing, len(seen.kinds) // 4)
        if not all(changed(before[0], seen, step) for step in np.linspace(-most, most, 40).round().astype(int)):
            return ""
        self._leaps = count + 1, min(first, now)
        if count + 1 < LEAPS[2] or now - first < LEAPS[3]:
            return ""
        return "the lidar measures noise: most of its ranges jump from scan to scan while the robot hardly moves"

    # -- what a scan tells of the way ------------------------------------------------------------------------------

    def _judge(self, seen: Beams, pose: Pose | None, now: float) -> str:
        """Judges whether the lidar has died, and where the robot may drive."""
        hit, count = seen.kinds == HIT, len(seen.kinds)
        angles, distances = seen.hits()
        self._alive |= np.count_nonzero(hit) >= ALIVE * count
        self.slow = math.inf
        if not self._alive:
            if not self.body.scan_empty_is_free:
                self.ways = ("", "")
                return DEAD.format("no return since the start") + " In the open: scan: {empty_is_free: true}"
            self.slow = SLOW
        points = np.stack([distances * np.cos(angles), distances * np.sin(angles)], -1)
        expected = self._expected(seen, pose, now)
        few = 0.05 if count >= beams.FINE else 0.6
        if len(expected) >= max(few * count, 3) and len(points) <= LOST * len(expected):
            return DEAD.format("its returns vanished all at once")
        self._ever[bins_of(seen.directions[hit], BINS)] = True
        gone = [self._of_either_half(self._vanished, seen, middle, expected) for middle in (0.0, math.pi)]
        if not any(gone):
            self._before = _Before(pose, now, points)
        doubts = [why or self._of_either_half(self._unproven, seen, middle)
                  for why, middle in zip(gone, (0.0, math.pi))]
        self.doubtful, self.unproven = any(doubts), bool(doubts[0] and not gone[0])
        self.ways = doubts[0] or self._blind(seen, 0.0), doubts[1] or self._blind(seen, math.pi)
        self._look_inside(angles, distances, now)
        self._hold_against(now)
        return ""

    def _expected(self, seen: Beams, pose: Pose | None, now: float) -> np.ndarray:
        """Predicts where earlier returns should lie now, well within range: points from base_link (m), float[n, 2]."""
        before = self._before
        if before is None:
            return np.zeros((0, 2))
        points, way = before.points, 0.0
        if pose is not None and before.pose is not None:
            ahead, left, turned = since(before.pose, pose)
            cos, sin = math.cos(turned), math.sin(turned)
            x, y = points[:, 0] - ahead, points[:, 1] - left
            points = np.stack([cos * x + sin * y, cos * y - sin * x], -1)
        else:
            way = now - before.at       # it may have driven at 1 m/s
        return points[np.hypot(*points.T) < WELL_WITHIN * seen.range_max - SLACK - way]

    def unseen(self, way: float) -> str:
        """Returns the reason why the robot is not to drive in a direction (rad), for a person; empty where it may."""
        if abs(way) < SECTOR or abs(way) > math.pi - SECTOR:
            return self.ways[abs(way) > SECTOR]
        return "" if self.beams is None else self._blind(self.beams, way)

    def _blind(self, seen: Beams, middle: float) -> str:
        """Returns the reason why a way cannot be judged: beams that tell something lie too far apart in it."""
        telling = np.sort(wrap(seen.directions - middle)[seen.telling].astype(float))
        edges = np.concatenate((telling[-1:] - 2 * math.pi, telling, telling[:1] + 2 * math.pi))
        least = max(BLIND, 2.5 * seen.spacing)
        width = np.minimum(edges[1:], SECTOR) - np.maximum(edges[:-1], -SECTOR)
        if not ((np.diff(edges) > least) & (width > min(least, SECTOR) / 2)).any():
            return ""
        side = "left" if middle > 0.0 else "right"
        where = "ahead" if not middle else "back" if middle == math.pi else f"to the {side}"
        return f"the scan tells nothing of the way {where}: no beam measures there"

    @staticmethod
    def _of_either_half(doubt: Callable[..., str], seen: Beams, middle: float, *more: Any) -> str:
        """Applies a doubt to the left and the right half of a way: one in which nothing is seen hides a wall too."""
        if len(seen.kinds) < beams.FINE:
            return ""
        for half in (-SECTOR / 2, SECTOR / 2):
            if why := doubt(wrap(seen.directions - middle - half), seen, middle + half, *more):
                return why.format("behind" if middle else "ahead")
        return ""

    @staticmethod
    def _vanished(aside: np.ndarray, seen: Beams, middle: float, expected: np.ndarray) -> str:
        """Checks whether what stood there vanished all at once, and nothing is behind it."""
        inside = np.abs(wrap(np.arctan2(expected[:, 1], expected[:, 0]) - middle)) < SECTOR / 2
        wanted = np.count_nonzero(inside)
        there = np.count_nonzero((np.abs(aside) < SECTOR / 2) & (seen.kinds == HIT))
        gone = wanted and wanted >= 0.5 * np.count_nonzero(np.abs(aside) < SECTOR / 2) and there <= LOST * wanted
        return "the scan's returns vanished all at once {}" if gone else ""

    def _unproven(self, aside: np.ndarray, seen: Beams, middle: float) -> str:
        """No beam has ever had a return there, and what is seen beside it is near on both sides.

        Open floor recedes: the last returns beside it are from about as far as the lidar sees.
        """
        hit, inside = seen.kinds == HIT, np.abs(aside) < SECTOR / 2
        if self.body.scan_empty_is_free or np.count_nonzero(inside & (seen.kinds == OPEN)) <= 0.5 * inside.sum():
            return ""       # it is known, or it is blind
        if np.mean(self._ever[bins_of(seen.directions[inside], BINS)]) > 1.5 * LOST:   # a bin lies on each edge
            return ""
        flanks = [np.flatnonzero(hit & side) for side in (aside > 0, aside < 0)]
        nearest = [at[np.abs(aside[at]).argmin()] for at in flanks if len(at)]
        if (len(nearest) < 2 or max(float(seen.ranges[at]) for at in nearest) > FLANK * seen.range_max
                or sum(abs(float(aside[at])) for at in nearest) < 2 * SECTOR):
            return ""
        return "the lidar has never had a return {}, where these beams may be dead or covered"

    # -- inside the outline, and what turns with the robot -----------------------------------------------------------

    def _look_inside(self, angles: np.ndarray, distances: np.ndarray, now: float) -> None:
        """Finds out what stands inside the robot's outline, and proposes what the profile is to say of it."""
        near = distances < self.body.inside
        seen = np.zeros(BINS, bool)
        seen[bins_of(angles[near], BINS)] = True
        first, last = self._inside
        first[seen & (now - last > FORGET)] = now
        last[seen] = now
        stays = (now - last <= FORGET) & (last - first >= STAYS)
        self._crowded = now if stays.any() else self._crowded
        self.crowded = now - self._crowded < CROWDED
        if not stays.any():
            self.outline = ""
        elif not self.outline:
            self.outline = ("something stands inside the robot's outline; if it is the robot's own: "
                            f"scan: {{own: {in_words(parts(angles[near], distances[near], stays))}}} in its profile, "
                            "which `brain doctor --own` writes after a full turn")

    def _hold_against(self, now: float) -> None:
        """Blames the robot itself for what is in the way while it turned by far: that is none of the room's."""
        hint = self.hint
        if hint:
            self._stood = now
            low, high = self._since or (self._yaw, self._yaw)
            self._since = min(low, self._yaw), max(high, self._yaw)
            if self._since[1] - self._since[0] > WITH_THE_ROBOT:
                self.fixed = hint
        elif now - self._stood >= HOLD:
            self._since, self.fixed = None, ""
