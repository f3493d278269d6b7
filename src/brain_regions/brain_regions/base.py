# SPDX-License-Identifier: Apache-2.0
"""Ways in which the base can move: on the spot and ahead, sideways too (mecanum or omni wheels), or only in curves.

A base that steers like a car (Ackermann) turns only while it drives. Who wants it to turn on the spot gets curves,
ahead and back by turns where there is no room for one.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from brain_regions.azimuth import wrap
from brain_regions.beams import Beams
from brain_regions.body import Body
from brain_runtime import parameter

CRAWL = 0.4             # share of the top speed at which it drives curves to turn
SLIGHT = 0.02           # m/s, rad/s: less is no movement
ROOM, LITTLE = 0.35, 0.14   # m of free path to begin a curve with, and to end it at
BEHIND = math.radians(45.0)


@dataclass(frozen=True)
class Base(Body):
    """Ways in which the base can move."""

    max_reverse: float = parameter(0.15, "top speed backwards", unit="m/s", low=0.0, high=1.0)
    max_lateral: float = parameter(0.0, "top speed sideways; 0: the base cannot move so", unit="m/s", low=0.0, high=2.0)
    turning_radius: float = parameter(0.0, "radius of the tightest curve of a base that steers like a car; 0: the base "
                                      "turns on the spot", unit="m", low=0.0, high=10.0)

    @property
    def cannot(self) -> str:
        """Limits of the base, for a person; empty for one that turns on the spot."""
        if not self.turning_radius:
            return ""
        back = "ahead and back by turns" if self.max_reverse else "ahead, and not back"
        return (f"the base cannot turn on the spot: it drives curves of {self.turning_radius:.2f} m or wider instead, "
                f"{back}")

    def turn(self, speed: float, turning: float) -> float:
        """Turning (rad/s) that a base at a speed (m/s) can do of what is wanted."""
        most = abs(speed) / self.turning_radius if self.turning_radius else math.inf
        return min(max(turning, -most), most)


class Steering:
    """Curves for a base that cannot turn on the spot, in the place of such turns."""

    def __init__(self) -> None:
        self._gear = 1.0        # ahead; -1: back

    def steer(self, velocity: tuple[float, float], base: Base, most: float, seen: Beams | None
              ) -> tuple[tuple[float, float], str]:
        """Makes a velocity (m/s, rad/s) one that the base can do.

        Args:
            velocity: wanted.
            base: of the robot.
            most: its top speed (m/s).
            seen: beams of the newest scan; None: there are none.

        Returns:
            The velocity, and why it turns not at all though it was to, for a person; mostly empty.
        """
        speed, turning = velocity
        if not base.turning_radius or abs(turning) < SLIGHT or base.turn(speed, turning) == turning:
            return velocity, ""
        if abs(speed) < SLIGHT:
            room = {gear: free_path(seen, base.radius, gear) for gear in (1.0, -1.0)}
            if not base.max_reverse:
                room[-1.0] = 0.0
            if room[self._gear] < LITTLE:
                self._gear = -self._gear if room[-self._gear] >= ROOM else self._gear
            if room[self._gear] < LITTLE:
                return (0.0, 0.0), f"no room for a curve of {base.turning_radius:.2f} m"
        else:
            self._gear = math.copysign(1.0, speed)
        limit = CRAWL * most if self._gear > 0 else min(CRAWL * most, base.max_reverse)
        speed = self._gear * max(abs(speed), min(abs(turning) * base.turning_radius, limit))
        return (speed, base.turn(speed, turning)), ""


def free_path(seen: Beams | None, radius: float, side: float) -> float:
    """Free distance (m) of a round robot's edge straight ahead (``side`` 1) or back (-1); 0 where nothing is seen."""
    way = 0.0 if side > 0 else math.pi
    if seen is None or not (np.abs(wrap(seen.directions[seen.telling] - way)) < BEHIND).any():
        return 0.0
    angles, distances = seen.hits()
    x, y = side * distances * np.cos(angles), np.abs(distances * np.sin(angles))
    near = (x > 0) & (y < radius)
    return max(0.0, float((x[near] - np.sqrt(radius ** 2 - y[near] ** 2)).min())) if near.any() else math.inf
