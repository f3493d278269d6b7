# SPDX-License-Identifier: Apache-2.0
"""Beams of a LaserScan: the one place that says what each of them tells, for every region that reads scans.

A beam ends at something (HIT), comes back from nothing within range (OPEN), meets the floor (FLOOR, where the lidar
leans), is kept from telling anything by a part of the robot itself (OWN), or tells nothing (UNKNOWN). REP 117 says
which numbers mean which; where a driver has conventions of its own, the robot's profile says so (the keys of ``scan``,
parameters ``scan_*`` of :class:`brain_regions.body.Body`).
"""
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from brain_regions.azimuth import sound, wrap
from brain_regions.body import DEFAULT, Body
from brain_runtime.contract.optics import Mount

UNKNOWN, HIT, OPEN, OWN, FLOOR = range(5)
LEAST = 5               # beams that a scan must have
MOST = 1440             # beams that are looked at one by one; of more, neighbors are taken together
FINE = 72               # beams from which on a single one without a return, between others that have one, was lost
TELLING = 0.05          # share of beams that must tell something
FAR_AWAY = 100.0        # m: a scan with no return nearer than that is not in meters
WIDEST_LEAST = 2.0      # m: neither is one whose least range is larger
LEAN = math.radians(20.0)       # of a lidar: one that leans more sees other things than what is in the way
STEEP = math.radians(8.0)       # what rises or falls by more, and comes back from nothing, tells of no free floor
FLAT = 0.04             # m above the floor: what ends so low is the floor


class Beams(NamedTuple):
    """A scan, beam by beam.

    Attributes:
        kinds: what each tells, int8[n].
        directions: in which each leaves the lidar, from base_link's x (rad), float32[n], not wrapped.
        ranges: from the lidar to where each ends (m), float32[n]; infinite where it is OPEN.
        angles, distances: where each ends, from base_link (rad, m), float32[n]; of OPEN ones only the direction counts.
        range_max: m.
        measured: the scan's own ranges (m), float32[n].
    """

    kinds: np.ndarray
    directions: np.ndarray
    ranges: np.ndarray
    angles: np.ndarray
    distances: np.ndarray
    range_max: float
    measured: np.ndarray

    @property
    def telling(self) -> np.ndarray:
        """Mask of the beams that tell something of the room, bool[n]."""
        return (self.kinds != UNKNOWN) & (self.kinds != OWN)

    @property
    def spacing(self) -> float:
        """Angle between two beams (rad)."""
        return abs(float(self.directions[1] - self.directions[0]))

    def hits(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns where beams end at something, from base_link: angles (rad) and distances (m), float32[m] each."""
        hit = self.kinds == HIT
        return self.angles[hit], self.distances[hit]

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        """As :meth:`hits`, and those that tell of free floor only, at an infinite distance. Angles are in -pi..pi."""
        told = (self.kinds == HIT) | (self.kinds == OPEN)    # of those that meet the floor, what is behind is not known
        return wrap(self.angles[told]), np.where(self.kinds == OPEN, np.float32(np.inf), self.distances)[told]


def heard(scan: Any | None, body: Body = DEFAULT, second: tuple[Any, Body] | None = None) -> tuple[Beams | None, str]:
    """Beams of the newest LaserScan, or None and why there are none, for a person; :mod:`.scan_watch` says more."""
    why = "no fresh scan" if scan is None else misshapen(scan)
    if why:
        return None, why
    seen = read(scan, body, second)
    why = untold(seen, body)
    return (None, why) if why else (seen, "")


def read(scan: Any, body: Body = DEFAULT, second: tuple[Any, Body] | None = None) -> Beams:
    """Reads each beam of a LaserScan (kind, angle, distance); :func:`misshapen` must find nothing in the scan.

    Args:
        scan: LaserScan.
        body: of the robot, and how the lidar is mounted.
        second: the scan of another lidar, and the body with that one's mounting; its beams follow those of the first.
    """
    seen = _read(scan, body)
    if second is None:
        return seen
    other = _read(*second)
    return Beams(*(min(one, more) if isinstance(one, float) else np.concatenate((one, more))
                   for one, more in zip(seen, other)))


def _read(scan: Any, body: Body) -> Beams:
    measured = np.asarray(scan.ranges, dtype=np.float32)
    least, most = max(scan.range_min, 1e-3), scan.range_max
    too_near = np.isneginf(measured)
    ranges = np.where(too_near, np.float32(least * 1.001), measured)
    directions = (scan.angle_min + scan.angle_increment * np.arange(len(ranges))).astype(np.float32)
    with np.errstate(invalid="ignore"):
        kinds = np.where(ranges >= np.float32(most), OPEN, np.where(ranges >= least, HIT, UNKNOWN)).astype(np.int8)
    if body.scan_zero_is_far:
        kinds[measured == 0.0] = OPEN
    ranges = np.where(kinds == OPEN, np.float32(np.inf), ranges)
    if len(ranges) > MOST:
        kinds, ranges, directions, measured = _together(kinds, ranges, directions, measured)
    if len(ranges) >= FINE:
        open_ = kinds == OPEN
        kinds[open_ & ~np.roll(open_, 1) & ~np.roll(open_, -1)] = UNKNOWN
    if body.lidar_pitch or body.lidar_roll:
        directions, ranges = _leaning(kinds, directions, ranges, body.lidar)
    else:
        directions = directions + np.float32(body.lidar_yaw)
    angles, distances = _from_base(directions, ranges, body)
    for begin, end, reach in body.own:
        # a post may swallow a beam, too: what comes back from nothing behind it tells of no free floor
        at = np.where(kinds == OPEN, _from_base(directions, np.full_like(ranges, reach), body)[0], angles)
        own = (at - begin) % (2 * math.pi) <= (end - begin) % (2 * math.pi)
        kinds[own & ((distances < reach) | (kinds == OPEN))] = OWN
    return Beams(kinds, directions, ranges, angles, distances, float(most), measured)


def _leaning(kinds: np.ndarray, angles: np.ndarray, ranges: np.ndarray, lidar: Mount) -> tuple[np.ndarray, np.ndarray]:
    """Beams of a lidar that leans or hangs upside down, laid on the floor: directions (rad) and ranges (m), float32[n].

    ``kinds`` is changed where a beam meets the floor, or goes over or below what it would tell of.
    """
    directions, along, up = lidar.beams(angles)
    kinds[(kinds == OPEN) & (np.abs(up) > math.sin(STEEP))] = UNKNOWN
    with np.errstate(invalid="ignore"):
        kinds[(kinds == HIT) & (lidar.height + ranges * up < FLAT)] = FLOOR
        return directions.astype(np.float32), (ranges * along).astype(np.float32)


def _together(kinds: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of so many beams that lie beside each other that at most :data:`MOST` are left, the one that tells most."""
    size = -(-len(kinds) // MOST)
    count = len(kinds) // size
    kinds, ranges, *more = (values[:count * size].reshape(count, size) for values in (kinds, *others))
    rank = np.where(kinds == HIT, ranges, np.where(kinds == OPEN, np.float32(1e9), np.float32(1e10)))
    best = rank.argmin(1)[:, None]
    return tuple(np.take_along_axis(values, best, 1)[:, 0] for values in (kinds, ranges, *more))


def _from_base(directions: np.ndarray, ranges: np.ndarray, body: Body) -> tuple[np.ndarray, np.ndarray]:
    """Beams as they leave the lidar to angles (rad) and distances (m) from the base, float32[n] each.

    Of those that are not finite, which have no end to be seen from elsewhere, only the direction is known.
    """
    if not (body.lidar_x or body.lidar_y or body.lidar_yaw or body.lidar_pitch or body.lidar_roll):
        return directions, ranges
    ends = np.isfinite(ranges)
    reach = np.where(ends, ranges, np.float32(0.0))
    x, y = body.lidar_x + reach * np.cos(directions), body.lidar_y + reach * np.sin(directions)
    return (np.where(ends, np.arctan2(y, x), wrap(directions)).astype(np.float32),
            np.where(ends, np.hypot(x, y), ranges).astype(np.float32))


def misshapen(scan: Any) -> str:
    """Returns the reason why a LaserScan cannot be read at all, for a person; empty where it can."""
    count, begin, step, end = len(scan.ranges), scan.angle_min, scan.angle_increment, scan.angle_max
    if count < LEAST:
        return f"the scan has {count} beams; {LEAST} are needed"
    if not sound(begin, step) or step == 0:
        return f"the scan's angles are no numbers: angle_min {begin:g}, angle_increment {step:g}"
    if abs(step) * (count - 1) > 2.2 * math.pi:
        return "the scan's beams lie over more than a turn; angle_increment must be in radians"
    last = begin + step * (count - 1)
    if sound(end) and (end - begin) * step < 0 and abs(wrap(end - last)) > max(3 * abs(step), 0.1):
        return f"the scan's angles contradict each other: from {begin:.2f} to {end:.2f} rad in steps of {step:g}"
    if not scan.range_max > scan.range_min >= 0:
        return f"the scan's range_min {scan.range_min:g} and range_max {scan.range_max:g} make no sense"
    if scan.range_min > WIDEST_LEAST:
        return f"the scan's range_min is {scan.range_min:g}; ranges must be in meters"
    return ""


def untold(beams: Beams, body: Body) -> str:
    """Returns the reason why beams tell nothing of the room, for a person; empty where they do."""
    count = len(beams.kinds)
    leans = math.acos(min(abs(math.cos(body.lidar_pitch) * math.cos(body.lidar_roll)), 1.0))
    if leans > LEAN:
        return (f"the lidar leans by {math.degrees(leans):.0f} degrees, and does not see what is in the way: mount it "
                f"level, or correct its frame in the URDF or lidar_pitch and lidar_roll in the profile")
    told = np.count_nonzero(beams.telling)
    if told < TELLING * count:
        r = beams.measured
        each = {"not a number": np.count_nonzero(np.isnan(r)), "0": np.count_nonzero(r == 0.0),
                "below range_min": np.count_nonzero((r < 0.0) | (r > 0.0))}
        most = max(each, key=lambda name: each[name])
        remedy = "; if its driver writes 0 for no return: scan: {zero_is_far: true} in the profile"
        # without their number, which changes from scan to scan: what is said anew is logged
        return (f"the lidar measures nothing: nearly all of the scan's {count} beams are {most}"
                f"{remedy if most == '0' else ''}")
    distances = beams.hits()[1]
    if distances.min(initial=np.inf) > FAR_AWAY and len(distances):
        return f"the scan's nearest return is at {distances.min():.0f}; ranges must be in meters"
    inside = np.count_nonzero(distances < body.inside)
    if inside > 0.5 * told:
        return f"{inside} of {count} beams of the scan end inside the robot's outline (radius {body.radius:g} m)"
    return ""
