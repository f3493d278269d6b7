# SPDX-License-Identifier: Apache-2.0
"""Labels that a robot makes itself: its own later, nearer and surer looks tell what an earlier picture showed.

What its vision told while it was recorded is put into the odometry's frame. Looks at one place are one thing; looks
count by how sure and near they were, and decide together what it is. A look at a thing that was looked at well then
labels its picture: where it is by the look, what it is by all of them. Another look labels it where it was very sure.
About columns of looks that were not, and where a thing should be that vision did not tell, nothing is asked.

The labels are as good as the vision that was recorded, made consistent: not truth. What it never saw is labelled as
nothing.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Sequence

import numpy as np

from brain_runtime.contract.optics import Mount
from brain_sim.things import COLORS, SHAPES
from brain_training.recordings.outcomes import Outcome, decided
from brain_training.recordings.views import View, seen_from

TOGETHER = 0.45         # m; looks nearer to each other are at one thing
NEAR = 4.0              # m, beyond which a look says too little about where a thing is
LOOKS = 5               # a thing was looked at so often at least
WEIGHT = 2.0            # and its looks count so much: sum of confidence / distance
AGREE = 0.6             # share of what counts that is for one color and shape
ASIDE = 0.3             # m that a look may be beside its thing
FARTHER = 0.2           # and of the distance, that it may be before or behind it
ALONE = 0.9             # confidence of a look that is believed, though the thing was not looked at well
REACH = 6.0             # m, within which a thing should be seen
LATE = 0.3              # s between a picture and the odometry that is taken for it

Pose = tuple[float, float, float]


@dataclass
class Thing:
    """One place that was looked at: sums over its looks."""

    weight: float = 0.0
    looks: int = 0
    x: float = 0.0
    y: float = 0.0
    size: float = 0.0
    kinds: np.ndarray = field(default_factory=lambda: np.zeros((len(COLORS), len(SHAPES))))

    def add(self, x: float, y: float, size: float, kind: tuple[int, int], weight: float) -> None:
        """Takes in a look; ``size`` is the thing's width (m)."""
        self.weight, self.looks = self.weight + weight, self.looks + 1
        step = weight / self.weight
        self.x, self.y = self.x + step * (x - self.x), self.y + step * (y - self.y)
        self.size += step * (size - self.size)
        self.kinds[kind] += weight

    @property
    def kind(self) -> tuple[int, int]:
        """Number of color and of shape that most of its looks told."""
        color, shape = np.unravel_index(int(self.kinds.argmax()), self.kinds.shape)
        return int(color), int(shape)

    @property
    def sound(self) -> bool:
        """True where the thing was looked at well, and the looks agree."""
        return bool(self.looks >= LOOKS and self.weight >= WEIGHT and self.kinds.any()
                    and self.kinds.max() >= AGREE * self.kinds.sum())


class Odometry:
    """Poses by time, from odometry; stamps in ns."""

    def __init__(self, stamps: Sequence[int], poses: Sequence[Pose]) -> None:
        order = np.argsort(np.asarray(stamps, np.int64), kind="stable")
        self._stamps = np.asarray(stamps, np.int64)[order]
        self._poses = np.asarray(poses, np.float64).reshape(-1, 3)[order]
        self._poses[:, 2] = np.unwrap(self._poses[:, 2])

    def at(self, stamp: int) -> Pose | None:
        """Between the two nearest; None where none is near in time."""
        k = int(np.searchsorted(self._stamps, stamp))
        near = [n for n in (k - 1, k) if 0 <= n < len(self._stamps)]
        if not near or min(abs(int(self._stamps[n]) - stamp) for n in near) > LATE * 1e9:
            return None
        if len(near) < 2:
            return tuple(map(float, self._poses[near[0]]))
        a, b = near
        gap = int(self._stamps[b] - self._stamps[a])
        share = (stamp - int(self._stamps[a])) / gap if gap else 0.0
        return tuple(map(float, self._poses[a] + share * (self._poses[b] - self._poses[a])))


class OwnLabels:
    """Labels of one recording.

    Args:
        told: DetectedObjects of the recorded vision, by the stamp of their picture (ns).
        odometry: of the recording.
        outcomes: of goals: only looks at things that one has decided about are labels then, and about others nothing is
            asked. None: goals say nothing.
    """

    def __init__(self, told: dict[int, Any], odometry: Odometry, outcomes: Sequence[Outcome] | None = None) -> None:
        self._told, self._odometry = told, odometry
        self._alone = ALONE if outcomes is None else math.inf
        self.things: list[Thing] = []
        for stamp, message in told.items():
            pose = odometry.at(stamp)
            for seen in message.objects if pose is not None else ():
                self._look(pose, seen)
        if outcomes is not None:
            self.things = decided(self.things, odometry, outcomes)
        self.things = [thing for thing in self.things if thing.sound]

    def _look(self, pose: Pose, seen: Any) -> None:
        if not (seen.color and seen.shape and 0.05 < seen.distance < NEAR and math.isfinite(seen.width)):
            return
        x, y, yaw = pose
        x, y = x + seen.distance * math.cos(yaw + seen.bearing), y + seen.distance * math.sin(yaw + seen.bearing)
        here = [thing for thing in self.things if math.hypot(thing.x - x, thing.y - y) < TOGETHER]
        if not here:
            here = [Thing()]
            self.things += here
        thing = min(here, key=lambda t: math.hypot(t.x - x, t.y - y))
        thing.add(x, y, float(seen.width * seen.distance), (seen.color - 1, seen.shape - 1),
                  float(seen.confidence / seen.distance))

    def views(self, stamp: int, mount: Mount) -> list[View] | None:
        """Objects in the picture of a stamp; None where vision or odometry told nothing of it.

        Args:
            stamp: of the picture (ns).
            mount: of its camera.
        """
        pose, message = self._odometry.at(stamp), self._told.get(stamp)
        if pose is None or message is None:
            return None
        found, left = [], {}
        for number, thing in enumerate(self.things):
            away = math.hypot(thing.x - pose[0], thing.y - pose[1])
            if 0.1 < away < REACH:
                left[number] = math.atan2(thing.y - pose[1], thing.x - pose[0]) - pose[2], away
        places = dict(left)
        for seen in message.objects:
            if not (math.isfinite(seen.bearing + seen.distance + seen.width) and seen.distance > 0.05):
                continue
            near = min(places, key=lambda n: _apart(seen, *places[n]), default=None)
            sure = near is not None and _apart(seen, *places[near]) < 1.0
            kind = self.things[near].kind if sure else (max(seen.color - 1, 0), max(seen.shape - 1, 0))
            if sure:
                left.pop(near, None)
            elif seen.color and seen.shape:
                sure = seen.confidence >= self._alone
            found.append(seen_from(mount, *kind, seen.bearing, seen.distance, seen.width, sure))
        found.sort(key=lambda view: view.distance)
        for number, (bearing, away) in left.items():    # behind the others: what was told is not put in doubt
            found.append(seen_from(mount, *self.things[number].kind, bearing, away,
                                   self.things[number].size / away, False))
        return found


def _apart(seen: Any, bearing: float, distance: float) -> float:
    """Measures how far a look is from a place; below 1 it is there. Looks tell directions better than distances."""
    ahead, aside = seen.distance * math.cos(seen.bearing - bearing), seen.distance * math.sin(seen.bearing - bearing)
    return max(abs(aside) / ASIDE, abs(ahead - distance) / (ASIDE + FARTHER * distance))
