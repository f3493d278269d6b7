# SPDX-License-Identifier: Apache-2.0
"""Where a robot's camera gets to: poses along driven ways through a room, twenty a second.

The robot is taken as a point that keeps to the limits of the real one (speed, turn, accelerations) and to free
ground. It drives from waypoint to waypoint; half of them lie in front of an object, as they do when the brain works.
"""
from __future__ import annotations

import numpy as np

from brain_sim import robot
from brain_sim.geometry import wrap_angle
from brain_sim.grid import Grid
from brain_sim.room import Room

PERIOD = 1.0 / robot.CAMERA_RATE
MARGIN = 0.03           # m, kept free around the base
ARRIVED = 0.25          # m from a waypoint
PATIENCE = 30           # frames without way made, after which another waypoint is drawn

Pose = tuple[float, float, float]


class Drive:
    """Drives through one room.

    Args:
        room: from :func:`brain_sim.room.generate_room`.
        rng: of all choices.
    """

    def __init__(self, room: Room, rng: np.random.Generator) -> None:
        self.room, self.rng = room, rng
        self.grid = Grid(room.size, room.footprints)
        self._free = np.argwhere(self.grid.clearance > robot.BASE_RADIUS + 2 * MARGIN)

    def place(self, near: bool) -> Pose:
        """A free pose: anywhere with any heading, or (``near``) close to an object and roughly toward it."""
        rng = self.rng
        if near:
            thing = self.room.objects[rng.integers(len(self.room.objects))]
            for _ in range(20):
                away = thing.radius + robot.BASE_RADIUS + rng.uniform(0.1, 1.3)
                direction = rng.uniform(-np.pi, np.pi)
                x, y = thing.x + away * np.cos(direction), thing.y + away * np.sin(direction)
                if self._clear(x, y):
                    return x, y, float(wrap_angle(direction + np.pi + rng.normal(0.0, 0.45)))
        i, j = self._free[rng.integers(len(self._free))]
        return float(self.grid.xs[i]), float(self.grid.ys[j]), float(rng.uniform(-np.pi, np.pi))

    def poses(self, start: Pose, frames: int) -> list[Pose]:
        """The pose at each of ``frames`` pictures of a way that begins at ``start`` at a random speed."""
        rng = self.rng
        x, y, yaw = start
        v, w = rng.uniform(-0.1, robot.MAX_SPEED), rng.normal(0.0, 0.6)
        goal, stuck, found = self._waypoint(), 0, []
        for _ in range(frames):
            found.append((x, y, yaw))
            away = np.hypot(goal[0] - x, goal[1] - y)
            if away < ARRIVED or stuck > PATIENCE:
                goal, stuck = self._waypoint(), 0
            turn = float(wrap_angle(np.arctan2(goal[1] - y, goal[0] - x) - yaw))
            want_v = robot.MAX_SPEED * max(0.0, np.cos(turn)) * min(1.0, away) + rng.normal(0.0, 0.05)
            want_w = float(np.clip(2.0 * turn + rng.normal(0.0, 0.3), -robot.MAX_TURN, robot.MAX_TURN))
            v += np.clip(want_v - v, -robot.MAX_ACCELERATION * PERIOD, robot.MAX_ACCELERATION * PERIOD)
            w += np.clip(want_w - w, -robot.MAX_TURN_ACCELERATION * PERIOD, robot.MAX_TURN_ACCELERATION * PERIOD)
            nx, ny = x + v * PERIOD * np.cos(yaw), y + v * PERIOD * np.sin(yaw)
            if self._clear(nx, ny):
                x, y = nx, ny
            else:
                v = 0.0
            stuck += abs(v) < 0.05
            yaw = float(wrap_angle(yaw + w * PERIOD))
        return found

    def _clear(self, x: float, y: float) -> bool:
        if max(abs(x) - self.room.size[0] / 2, abs(y) - self.room.size[1] / 2) > -robot.BASE_RADIUS:
            return False
        return bool(self.grid.clearance[self.grid.index(x, y)] > robot.BASE_RADIUS + MARGIN)

    def _waypoint(self) -> tuple[float, float]:
        rng = self.rng
        if rng.random() < 0.5:
            thing = self.room.objects[rng.integers(len(self.room.objects))]
            direction = rng.uniform(-np.pi, np.pi)
            away = thing.radius + robot.BASE_RADIUS + 0.3
            return thing.x + away * np.cos(direction), thing.y + away * np.sin(direction)
        i, j = self._free[rng.integers(len(self._free))]
        return float(self.grid.xs[i]), float(self.grid.ys[j])
