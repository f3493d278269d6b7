# SPDX-License-Identifier: Apache-2.0
"""Findings of the lidar's scans: shape, beams that tell nothing, and beams that end at the robot itself."""
from __future__ import annotations

import math
from typing import Any, Iterator, Sequence

import numpy as np

from brain_observe.doctor.finding import DEGRADES, NOTE, STOPS, Finding
from brain_observe.doctor.frames import lidar_of
from brain_observe.doctor.heard import SCAN, Heard
from brain_observe.doctor.odometry import moves
from brain_runtime.contract import outline
from brain_runtime.contract.azimuth import sound, wrap
from brain_runtime.contract.optics import Mount

LEAST = 5                   # beams
MOST_RANGE = 100.0          # m: nothing nearer is no room in meters
WIDEST_LEAST = 2.0          # m, of range_min
NEARLY = 0.95               # share of beams: nearly all
ALWAYS = 0.8                # share of scans in which a beam is dead, or ends at the robot
DEAD = math.radians(5.0), 0.1       # side by side, and share of all beams
AHEAD = math.radians(45.0)  # to each side of straight ahead: the way that a scan must see


def findings(heard: Heard) -> list[Finding]:
    """All that is wrong with the scans that came."""
    scans = [one.message for one in heard.came[SCAN]]
    if not scans:
        return []
    topic, newest = heard.topic(SCAN), scans[-1]
    if (shape := _shape(topic, newest)) is not None:
        return [shape]
    alike = [s for s in scans if len(s.ranges) == len(newest.ranges)]
    ranges = np.stack([np.asarray(s.ranges, np.float32) for s in alike])
    if (empty := _empty(heard, topic, newest, ranges)) is not None:
        return [empty]
    return [*_limits(topic, newest, ranges), *_frozen(heard, topic, ranges), *_dead(heard, topic, newest, ranges),
            *_ahead(heard, topic, newest), *_own(heard, topic)]


def _shape(topic: str, scan: Any) -> Finding | None:
    """Finding of a scan that cannot be read at all."""
    count, begin, end, step = len(scan.ranges), scan.angle_min, scan.angle_max, scan.angle_increment
    if count < LEAST:
        return Finding("scan-beams", STOPS, topic, f"it has {count} beams; {LEAST} are needed", "look at the driver")
    says = f"angle_min {begin:.4g}, angle_max {end:.4g}, angle_increment {step:.4g} rad and {count} ranges"
    if not sound(begin, step) or step == 0.0:
        return Finding("scan-angles", STOPS, topic, f"its angles are no numbers: {says}", "fill in all of them")
    if abs(step) * (count - 1) > 2.2 * math.pi:
        return Finding("scan-angles", STOPS, topic, f"its beams lie over more than a turn: {says}",
                       "angle_increment must be in radians")
    fits = (end - begin) / step + 1.0 if sound(end) else math.nan
    if not abs(fits - count) <= max(1.5, 0.01 * count):
        return Finding("scan-count", STOPS, topic, f"{says} contradict each other: by the angles there are "
                       f"{fits:.0f}", "the driver must publish as many ranges as its angles say, or correct its angles")
    if not (scan.range_max > scan.range_min >= 0.0 and scan.range_min <= WIDEST_LEAST):
        return Finding("scan-limits", STOPS, topic, f"range_min {scan.range_min:g} and range_max {scan.range_max:g} m "
                       f"make no sense", "set both in meters, as the sensor's data sheet has them")
    return None


def _empty(heard: Heard, topic: str, scan: Any, ranges: np.ndarray) -> Finding | None:
    """Finding of scans that tell nothing: nearly all beams are one kind of nothing."""
    zero_is_far, empty_is_free = (heard.value(f"scan_{key}", False, "brainstem")
                                  for key in ("zero_is_far", "empty_is_free"))
    kinds = {"not a number": np.isnan(ranges), "0": ranges == 0.0,
             "+inf, or range_max and more": ranges >= scan.range_max,
             "below range_min": (ranges < scan.range_min) & (ranges != 0.0)}
    for kind, those in kinds.items():
        if those.mean() < NEARLY:
            continue
        far = kind.startswith("+inf") or kind == "0" and zero_is_far
        if far and empty_is_free:
            return None
        remedy = ("is it dead, covered or unplugged? In the open: scan: {empty_is_free: true}" if far else
                  "if its driver writes 0 for no return: scan: {zero_is_far: true} in the profile; else it is dead"
                  if kind == "0" else "is it dead, covered or unplugged? Are its ranges in meters?")
        return Finding("scan-empty", STOPS, topic,
                       f"{100 * those.mean():.0f} % of its {ranges.shape[1]} beams are {kind}", remedy)
    return None


def _limits(topic: str, scan: Any, ranges: np.ndarray) -> Iterator[Finding]:
    finite = ranges[np.isfinite(ranges) & (ranges > 0.0)]
    if len(finite) and float(finite.min()) > MOST_RANGE:
        yield Finding("scan-units", STOPS, topic, f"its nearest return is at {finite.min():.0f} m",
                      "ranges must be in meters")


def _frozen(heard: Heard, topic: str, ranges: np.ndarray) -> Iterator[Finding]:
    finite = np.isfinite(ranges[-1]) & (ranges[-1] > 0.0)
    if len(ranges) > 2 and finite.any() and (ranges[:, finite] == ranges[-1, finite]).all():
        yield Finding("scan-frozen", STOPS if moves(heard) else NOTE, topic, f"{len(ranges)} scans are equal to the bit"
                      + (" while the robot moves" if moves(heard) else "; a real lidar's are not, even at rest"),
                      "look at the lidar's driver: it may repeat the last scan")


def _dead(heard: Heard, topic: str, scan: Any, ranges: np.ndarray) -> Iterator[Finding]:
    """Finding of beams that never tell anything, side by side or many; of no return within range they tell enough."""
    with np.errstate(invalid="ignore"):
        told = (ranges >= scan.range_min) | np.isneginf(ranges)
    if heard.value("scan_zero_is_far", False, "brainstem"):
        told |= ranges == 0.0
    dead = (~told).mean(0) >= ALWAYS
    part = max(_parts(dead), key=lambda one: one[1] - one[0], default=(0, 0))
    wide = (part[1] - part[0]) * abs(scan.angle_increment)
    if dead.mean() >= DEAD[1] or wide >= DEAD[0]:
        yield Finding("scan-dead", DEGRADES, topic, f"{np.count_nonzero(dead)} of {len(dead)} beams never measure, most"
                      f" of them side by side from {_at(scan, part[0])} to {_at(scan, part[1] - 1)} degrees",
                      "clean the lidar; take away what covers it; the robot does not drive where no beam measures")


def _parts(flags: np.ndarray) -> list[tuple[int, int]]:
    """Begin and end of each run of true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]


def _at(scan: Any, beam: int) -> int:
    return round(math.degrees(scan.angle_min + beam * scan.angle_increment))


def _ahead(heard: Heard, topic: str, scan: Any) -> Iterator[Finding]:
    """Finding where no beam looks where the robot drives."""
    mount = lidar_of(heard)
    sides = np.abs(wrap(mount.beams(scan.angle_min + scan.angle_increment * np.arange(len(scan.ranges)))[0]))
    if np.count_nonzero(sides < AHEAD) * abs(scan.angle_increment) < AHEAD:
        yield Finding("scan-ahead", STOPS, topic, f"hardly any beam looks ahead: they reach from {_at(scan, 0)} to "
                      f"{_at(scan, len(scan.ranges) - 1)} degrees, it is turned by "
                      f"{mount.yaw:.2f} rad", "correct lidar_yaw in the profile or its frame, or turn the lidar: the "
                      "robot does not drive where no beam measures")


def own_parts(heard: Heard) -> tuple[list[float], list[float], float]:
    """Parts of the robot that stand in its scans and that the profile does not leave out yet, as ``outline`` has them.

    Returns:
        As values of ``scan_own``: those well inside the outline; and those that reach a little beyond, which are told
        after a full turn alone. Then how far the robot turned (rad).
    """
    radius, mount = heard.value("radius", 0.0, "brainstem"), lidar_of(heard)
    turned = float(np.ptp(np.unwrap([pose[2] for pose in heard.poses()]))) if heard.poses() else 0.0
    scans = [ends(one.message, mount, heard.value("scan_own", (), "brainstem")) for one in heard.came[SCAN]]
    found: list[list[float]] = []
    for within in (radius - outline.INSIDE, radius + outline.MARGIN if turned >= outline.TURN else 0.0):
        angles, distances = outline.stay(scans, within)
        stays = np.zeros(outline.BINS, bool)
        stays[outline.bins_of(angles)] = True
        found.append(outline.parts(angles, distances, stays, radius + outline.MARGIN) if radius and len(angles) else [])
    return found[0], found[1], turned


def ends(scan: Any, mount: Mount, own: Sequence[float]) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns of a scan from the base but for those that are left out: angles (rad), distances (m); beams' spacing."""
    ranges = np.asarray(scan.ranges, np.float32)
    with np.errstate(invalid="ignore"):
        hit = np.isfinite(ranges) & (ranges >= max(scan.range_min, 1e-3)) & (ranges < scan.range_max)
    directions, along, _ = mount.beams(scan.angle_min + scan.angle_increment * np.flatnonzero(hit))
    x, y = (at + ranges[hit] * along * side for at, side in (
        (mount.x, np.cos(directions)), (mount.y, np.sin(directions))))
    angles, distances = np.arctan2(y, x), np.hypot(x, y)
    left = np.ones(len(angles), bool)
    for begin, end, reach in zip(own[::3], own[1::3], own[2::3]):
        left &= ~(((angles - begin) % math.tau <= (end - begin) % math.tau) & (distances < reach))
    return angles[left], distances[left], abs(scan.angle_increment)


def _own(heard: Heard, topic: str) -> Iterator[Finding]:
    """Finding of beams that end at the robot itself in all scans, whether it stands or turns."""
    inside, beyond, _ = own_parts(heard)
    if not inside and not beyond:
        return
    radius = heard.value("radius", 0.0, "brainstem")
    where, when = ("inside", "all the time") if inside else ("at", "while it turns round")
    yield Finding("scan-own", STOPS if inside else DEGRADES, topic,
                  f"beams end {where} the robot's outline (radius {radius:g} m) {when}: it sees itself",
                  "look whether the radius is right; if these are posts or housing, in the profile: scan: {own: "
                  f"{outline.in_words(beyond or inside)}}}; --own asks, after a full turn, and writes it")
