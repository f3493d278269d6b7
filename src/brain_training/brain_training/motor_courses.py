# SPDX-License-Identifier: Apache-2.0
"""Rooms as the motor's teacher knows them: clearance everywhere, cost of the cheapest way, shapes for rays."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from brain_regions.room_map import FAR, cost_to_go
from brain_sim.grid import Grid
from brain_sim.room import Room
from brain_sim.things import RoomObject

FINE = 0.05             # m, cells of the clearance
COARSE = 0.10           # m, cells of the cost
SIDE = 8.0              # m, the longest room
COMFORT = 0.25          # m of clearance from which on more of it makes a way no better
DRAWN = 0.72            # m round the middle of what is to be avoided that the prefrontal cortex tells motor to keep off
KEPT = 0.42             # m that the robot's edge keeps from its surface where that leaves no way
SHAPES = 20             # at most, in one room
BACK = 0.55             # m in front of a target's surface within which its cost is 0


class Course(NamedTuple):
    """A room with a goal in it, for a robot of one radius.

    Attributes:
        clearance: m from the center of each fine cell to the nearest wall or thing, the target left out. [160, 160]
        cost: m, weighted, of the cheapest way from each coarse cell to the goal; FAR: there is none. [80, 80]
        shapes: x, y, yaw, half sizes (m; a disk has its radius in the first and 0 in the other), seen by the lidar (1)
            or only by hazard maps (0). [SHAPES, 6], NaN where there is no shape.
        size: of the room (m). [2]
        target: x, y, yaw and half sizes of the target, or NaN. [5]
        avoid: x, y of what is to be avoided, its half width and 1, or zeros. [4]
    """

    clearance: np.ndarray
    cost: np.ndarray
    shapes: np.ndarray
    size: np.ndarray
    target: np.ndarray
    avoid: np.ndarray


def price(gap: np.ndarray) -> np.ndarray:
    """Computes the cost of a meter of way, by the gap (m) that it leaves."""
    return 1.0 + 3.0 * np.clip(1 - gap / COMFORT, 0, 1) + 15.0 * np.clip(1 - gap / 0.08, 0, 1)


def shape_of(footprint) -> tuple[float, ...]:
    """x, y, yaw, half sizes of a footprint, as in :class:`Course`."""
    f = footprint
    return f.x, f.y, f.yaw, f.half_x, 0.0 if f.kind == "disk" else f.half_y


def _padded(values: np.ndarray, side: int, fill: float) -> np.ndarray:
    found = np.full((side, side), fill, np.float32)
    found[:values.shape[0], :values.shape[1]] = values
    return found


class Maps:
    """Maps of one room, which all courses in it share."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._fine, self._coarse = (Grid(room.size, (), cell) for cell in (FINE, COARSE))
        self._far = {o.name: [o.footprint.distance(g.px, g.py) for g in (self._fine, self._coarse)]
                     for o in (*room.obstacles, *room.objects)}

    def _clearance(self, which: int, skip: set[str], avoid: RoomObject | None, tight: bool) -> np.ndarray:
        grid = (self._fine, self._coarse)[which]
        found = grid.clearance
        for name, grids in self._far.items():
            if name not in skip:
                found = np.minimum(found, grids[which] - (KEPT if avoid is not None and name == avoid.name else 0.0))
        if avoid is not None and not tight:     # else nobody could learn from what is told what would be right
            found = np.minimum(found, np.hypot(grid.px - avoid.x, grid.py - avoid.y) - DRAWN)
        return found

    def course(self, radius: float, target: RoomObject | None = None, avoid: RoomObject | None = None,
               waypoint: tuple[float, float] | None = None, unseen: bool = False,
               skip: frozenset[str] = frozenset(), tight: bool = False) -> Course:
        """A course to an object or to a waypoint.

        Args:
            radius: of the robot (m).
            unseen: the lidar misses low obstacles, which hazard maps tell of.
            skip: names of things that are taken away.
            tight: no more is kept from what is to be avoided than the suite asks for.
        """
        away = set(skip)
        coarse = self._clearance(1, away, avoid, tight)
        gap = coarse - radius
        grid = self._coarse
        seeds = np.full(gap.shape, FAR, np.float32)
        if target is not None:
            f = target.footprint
            there = (f.distance(grid.px, grid.py) < radius + BACK) & (gap > 0.03)
            for block in self.room.obstacles:
                there &= ~block.footprint.cuts(grid.px, grid.py, target.x, target.y)
            seeds[there] = 0.0
        elif waypoint is not None:
            seeds[grid.index(*waypoint)] = 0.0
        step = (price(gap) * COARSE).astype(np.float32)
        step[gap < 0.02] = FAR
        cost = cost_to_go(seeds, step)
        things = [o for o in (*self.room.obstacles, *self.room.objects) if o.name not in away]
        shapes = np.full((SHAPES, 6), np.nan, np.float32)
        for i, o in enumerate(things[:SHAPES]):
            shapes[i] = (*shape_of(o.footprint), 0.0 if unseen and o.name.startswith("low_") else 1.0)
        fine = self._clearance(0, away | ({target.name} if target else set()), avoid, tight)
        kept = np.zeros(4, np.float32) if avoid is None else np.array([avoid.x, avoid.y, avoid.radius, 1], np.float32)
        aim = np.full(5, np.nan, np.float32) if target is None else np.array(shape_of(target.footprint), np.float32)
        return Course(_padded(fine, round(SIDE / FINE), -1.0), _padded(cost, round(SIDE / COARSE), FAR), shapes,
                      np.array(self.room.size, np.float32), aim, kept)


class Ground:
    """The courses of many robots, one a row: all look-ups at once. Points are [robots, ..., 2] in the room (m)."""

    def __init__(self, robots: int) -> None:
        n, fine, coarse = robots, round(SIDE / FINE), round(SIDE / COARSE)
        self.clearance = np.full((n, fine, fine), -1.0, np.float32)
        self.cost = np.full((n, coarse, coarse), FAR, np.float32)
        self.shapes = np.full((n, SHAPES, 6), np.nan, np.float32)
        self.size = np.ones((n, 2), np.float32)
        self.target = np.full((n, 5), np.nan, np.float32)
        self.avoid = np.zeros((n, 4), np.float32)

    def put(self, row: int, course: Course) -> None:
        """Gives a robot another course."""
        for name, value in course._asdict().items():
            getattr(self, name)[row] = value

    def clear(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Clearance (m) at points [k, ..., 2] of the robots ``rows`` [k], between cells; below 0 outside."""
        side = self.clearance.shape[1]
        size = self.size[rows].reshape(len(rows), *(1,) * (points.ndim - 2), 2)
        at = np.nan_to_num((points + size / 2) / FINE - 0.5)
        low = np.clip(np.floor(at).astype(np.int32), 0, side - 2)
        part = np.clip(at - low, 0, 1).astype(np.float32)
        first = (rows.reshape(-1, *(1,) * (points.ndim - 2)) * side + low[..., 0]) * side + low[..., 1]
        flat = self.clearance.reshape(-1)
        a, b, c, d = flat[first], flat[first + 1], flat[first + side], flat[first + side + 1]
        px, py = part[..., 0], part[..., 1]
        found = (a * (1 - py) + b * py) * (1 - px) + (c * (1 - py) + d * py) * px
        edge = (size / 2 - np.abs(points)).min(-1)      # the last half cell before a wall, and beyond it
        return np.minimum(found, edge)

    def to_target(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Distance (m) of points [k, ..., 2] to the surface of each robot's target; NaN without one."""
        return distance(points, self.target[rows].reshape(len(rows), *(1,) * (points.ndim - 2), 5))

    def downhill(self, points: np.ndarray, rows: np.ndarray, length: int) -> np.ndarray:
        """Points along the cheapest way to the goal from points [k, 2]: [k, length, 2], cell by cell."""
        side = self.cost.shape[1]
        half = self.size[rows] / 2
        at = np.clip(((points + half) / COARSE).astype(np.int32), 1, side - 2)
        flat, found = self.cost.reshape(-1), np.empty((len(rows), length, 2), np.float32)
        around = np.array([[i, j] for i in (0, -1, 1) for j in (0, -1, 1)], np.int32)
        for k in range(length):
            near = np.clip(at[:, None] + around, 0, side - 1)
            values = flat[(rows[:, None] * side + near[..., 0]) * side + near[..., 1]]
            at = np.take_along_axis(near, values.argmin(1)[:, None, None], 1)[:, 0]
            found[:, k] = (at + 0.5) * COARSE - half
        return found

    def cost_at(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Cost of the cheapest way from points [k, 2] to the goal."""
        at = np.clip(((points + self.size[rows] / 2) / COARSE).astype(int), 0, self.cost.shape[1] - 1)
        return self.cost[rows, at[:, 0], at[:, 1]]


def distance(points: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Signed distance (m) of points [..., 2] to shapes [..., 5]; see :class:`Course`."""
    x, y = points[..., 0] - shape[..., 0], points[..., 1] - shape[..., 1]
    c, s = np.cos(shape[..., 2]), np.sin(shape[..., 2])
    disk = np.hypot(x, y) - shape[..., 3]
    qx, qy = np.abs(c * x + s * y) - shape[..., 3], np.abs(c * y - s * x) - shape[..., 4]
    box = np.hypot(np.maximum(qx, 0), np.maximum(qy, 0)) + np.minimum(np.maximum(qx, qy), 0)
    return np.where(shape[..., 4] == 0, disk, box)


def cast(origin: np.ndarray, angles: np.ndarray, shapes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Ranges (m) of rays in rooms, for many robots at once.

    Args:
        origin: [n, 2] (m).
        angles: [n, beams] (rad, in the room).
        shapes: [n, k, 5 or more]; NaN where there is none.
        size: [n, 2] of the rooms (m).
    """
    dx, dy = np.cos(angles), np.sin(angles)
    with np.errstate(divide="ignore", invalid="ignore"):
        walls = np.minimum((size[:, :1] / 2 * np.sign(dx) - origin[:, :1]) / dx,
                           (size[:, 1:] / 2 * np.sign(dy) - origin[:, 1:]) / dy)
        best = np.nan_to_num(walls, nan=np.inf).astype(np.float32)
        for k in range(shapes.shape[1]):
            s = shapes[:, k]
            rows = np.flatnonzero(~np.isnan(s[:, 0]) & (np.hypot(s[:, 0] - origin[:, 0], s[:, 1] - origin[:, 1])
                                                        < 3.0 + s[:, 3] + s[:, 4]))
            if len(rows):
                hit = _hit(s[rows], origin[rows], dx[rows], dy[rows])
                best[rows] = np.fmin(best[rows], hit)
    return best


def _hit(s, origin, dx, dy):
    x, y = origin[:, 0] - s[:, 0], origin[:, 1] - s[:, 1]
    c, n = np.cos(s[:, 2]), np.sin(s[:, 2])
    x, y = (c * x + n * y)[:, None], (c * y - n * x)[:, None]
    dx, dy = c[:, None] * dx + n[:, None] * dy, c[:, None] * dy - n[:, None] * dx
    b = x * dx + y * dy
    inside = b * b - (x * x + y * y - (s[:, 3] ** 2)[:, None])
    disk = np.where((inside >= 0) & (b < 0), -b - np.sqrt(np.maximum(inside, 0)), np.inf)
    hx, hy = s[:, 3][:, None], s[:, 4][:, None]
    tx0, tx1 = (-hx - x) / dx, (hx - x) / dx
    ty0, ty1 = (-hy - y) / dy, (hy - y) / dy
    near = np.maximum(np.minimum(tx0, tx1), np.minimum(ty0, ty1))
    far = np.minimum(np.maximum(tx0, tx1), np.maximum(ty0, ty1))
    box = np.where((near <= far) & (near > 0), near, np.inf)
    return np.where((s[:, 4] == 0)[:, None], disk, box)
