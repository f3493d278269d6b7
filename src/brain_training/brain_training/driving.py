# SPDX-License-Identifier: Apache-2.0
"""Drives of a robot's camera: poses along driven ways through a room, twenty a second.

The robot is taken as a point that keeps to the limits of the real one (speed, turn, accelerations) and to free
ground. It drives from waypoint to waypoint on ways that keep clear of things; half of the waypoints lie in front of an
object, as they do when the brain works.
"""
from __future__ import annotations

import numpy as np

from brain_sim import robot
from brain_sim.geometry import wrap_angle
from brain_sim.grid import Grid
from brain_sim.room import Room

PERIOD = 1.0 / robot.CAMERA_RATE
MARGIN = 0.03           # m, kept free around the base
CLEAR = 0.10            # m, kept free around the base by the ways that are planned
STOP = (0.2, 0.45)      # m, between the base's edge and an object that is driven to: where the brain comes to a stop
ARRIVED = 0.15          # m from a waypoint
AHEAD = 0.4             # m, how far along its way the robot aims
PATIENCE = 10           # frames without way made or turned, after which another waypoint is drawn

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
        self._open = self.grid.clearance > robot.BASE_RADIUS + CLEAR
        self._points = np.stack([self.grid.px[self._open], self.grid.py[self._open]], axis=-1)

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
        return *self._anywhere(), float(rng.uniform(-np.pi, np.pi))

    def poses(self, start: Pose, frames: int) -> list[Pose]:
        """The pose at each of ``frames`` pictures of a way that begins at ``start`` at a random speed."""
        rng = self.rng
        x, y, yaw = start
        v, w = rng.uniform(-0.1, robot.MAX_SPEED), rng.normal(0.0, 0.6)
        way, stuck, found = self._way(x, y), 0, []
        for _ in range(frames):
            found.append((x, y, yaw))
            if np.hypot(way[-1][0] - x, way[-1][1] - y) < ARRIVED or stuck > PATIENCE:
                way, stuck = self._way(x, y), 0
            while len(way) > 1 and np.hypot(way[0][0] - x, way[0][1] - y) < AHEAD:
                way.pop(0)
            aim, away = way[0], float(np.hypot(way[-1][0] - x, way[-1][1] - y))
            turn = float(wrap_angle(np.arctan2(aim[1] - y, aim[0] - x) - yaw))
            want_v = robot.MAX_SPEED * max(0.0, np.cos(turn)) ** 2 * min(1.0, 2.0 * away) + rng.normal(0.0, 0.05)
            want_w = float(np.clip(2.0 * turn + rng.normal(0.0, 0.3), -robot.MAX_TURN, robot.MAX_TURN))
            v += np.clip(want_v - v, -robot.MAX_ACCELERATION * PERIOD, robot.MAX_ACCELERATION * PERIOD)
            w += np.clip(want_w - w, -robot.MAX_TURN_ACCELERATION * PERIOD, robot.MAX_TURN_ACCELERATION * PERIOD)
            nx, ny = x + v * PERIOD * np.cos(yaw), y + v * PERIOD * np.sin(yaw)
            if self._clear(nx, ny):
                x, y = nx, ny
            else:
                v = 0.0
            stuck += abs(v) < 0.05 and abs(w) < 0.3
            yaw = float(wrap_angle(yaw + w * PERIOD))
        return found

    def _clear(self, x: float, y: float) -> bool:
        if max(abs(x) - self.room.size[0] / 2, abs(y) - self.room.size[1] / 2) > -robot.BASE_RADIUS:
            return False
        return bool(self.grid.clearance[self.grid.index(x, y)] > robot.BASE_RADIUS + MARGIN)

    def _anywhere(self) -> tuple[float, float]:
        x, y = self._points[self.rng.integers(len(self._points))]
        return float(x), float(y)

    def _way(self, x: float, y: float) -> list[tuple[float, float]]:
        """Points from here to a waypoint; straight where nothing is between or no way is known."""
        rng, goal = self.rng, self._anywhere()
        if rng.random() < 0.5:
            thing = self.room.objects[rng.integers(len(self.room.objects))]
            away = np.hypot(self._points[:, 0] - thing.x, self._points[:, 1] - thing.y)
            away -= thing.radius + robot.BASE_RADIUS
            (stops,) = np.nonzero((away > STOP[0]) & (away < STOP[1]))
            if len(stops):
                goal = tuple(self._points[rng.choice(stops)])
        ends = np.zeros_like(self._open)
        here, there = self.grid.index(x, y), self.grid.index(*goal)
        ends[here] = ends[there] = True
        free = self._open | ends
        if len(self.grid.straightened([(x, y), (x, y), goal], free)) == 2:  # every corner could be cut
            return [goal]
        ends[here] = here == there
        path = self.grid.path((x, y), ends, free, aim=goal, slack=self.grid.cell)
        return [*self.grid.straightened(path, free)[1:], goal] if path else [goal]
