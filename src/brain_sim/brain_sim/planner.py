# SPDX-License-Identifier: Apache-2.0
"""Driving on the true map: paths by A* that keep off things, and pure pursuit along them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from brain_sim import robot
from brain_sim.geometry import Footprint, wrap_angle
from brain_sim.grid import Grid
from brain_sim.layout import AVOID_MARGIN, PATH_MARGIN, free_and_goal
from brain_sim.room import Room
from brain_sim.things import RoomObject

COMFORT = 0.25
"""Clearance of the robot's edge in meters from which on more of it makes a path no better."""


class Planner:
    """Paths to the objects of one room, on its true map; `more` is in the way besides."""

    def __init__(self, room: Room, more: Sequence[Footprint] = ()):
        self.room = room
        self._grid = Grid(room.size, [*room.footprints, *more])
        self._blocks = [*(o.footprint for o in room.obstacles), *more]

    def path(self, start: tuple[float, float], target: RoomObject,
             avoid: RoomObject | None = None) -> list[tuple[float, float]] | None:
        """Points in meters to a place in reach of `target`, or None when there is no way with margins."""
        grid = self._grid
        for margin in (PATH_MARGIN, 0.06):
            free, goal = free_and_goal(grid, target, avoid, self._blocks, margin)
            gap = grid.clearance - robot.BASE_RADIUS
            price = 3.0 * np.clip(1.0 - gap / COMFORT, 0.0, 1.0)
            if avoid is not None:
                spare = avoid.footprint.distance(grid.px, grid.py) - robot.BASE_RADIUS - robot.AVOID_DISTANCE
                price += 3.0 * np.clip(1.0 - (spare - AVOID_MARGIN) / 0.2, 0.0, 1.0)
            free[grid.index(*start)] = True
            path = grid.path(start, goal, free, extra=price, aim=(target.x, target.y),
                             slack=target.footprint.outer_radius + robot.BASE_RADIUS + robot.REACH)
            if path is not None:
                return path
        return None


class PurePursuit:
    """Follows a path: steers to the point `ahead` meters on, turning on the spot when it lies behind."""

    def __init__(self, path: list[tuple[float, float]], ahead: float = 0.3, speed: float = 0.45):
        self._points = np.asarray(path, float)
        self._ahead, self._speed = ahead, speed
        self._at = 0

    def command(self, x: float, y: float, yaw: float) -> tuple[float, float] | None:
        """(v, w) at a pose, or None when the end of the path is reached within 5 cm."""
        p = self._points
        window = p[self._at:self._at + 12]
        self._at += int(np.argmin(np.hypot(window[:, 0] - x, window[:, 1] - y)))
        to_end = math.hypot(p[-1, 0] - x, p[-1, 1] - y)
        if self._at >= len(p) - 2 and to_end < 0.05:
            return None
        k = self._at
        while k < len(p) - 1 and math.hypot(p[k, 0] - x, p[k, 1] - y) < self._ahead:
            k += 1
        error = float(wrap_angle(math.atan2(p[k, 1] - y, p[k, 0] - x) - yaw))
        w = max(-robot.MAX_TURN, min(robot.MAX_TURN, 2.5 * error))
        if abs(error) > 0.7:
            return 0.0, w
        # Brake for the end of the path, and slow down for bends.
        v = min(self._speed * (1.0 - abs(error)), math.sqrt(2 * 0.6 * max(to_end - 0.02, 0.0)) + 0.03)
        return v, w


def turn_to(yaw: float, bearing: float) -> float | None:
    """Turn (rad/s) towards a bearing on the spot, or None when within 0.05 rad."""
    error = float(wrap_angle(bearing - yaw))
    if abs(error) < 0.05:
        return None
    return max(-1.2, min(1.2, 2.5 * error))
