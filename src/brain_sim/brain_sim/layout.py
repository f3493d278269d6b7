# SPDX-License-Identifier: Apache-2.0
"""One attempt at the layout of a room, and the promises that it has to keep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from brain_sim import robot
from brain_sim.geometry import Footprint, sight_lines, wrap_angle
from brain_sim.grid import Grid, path_length
from brain_sim.things import COLORS, SHAPES, Kind, Obstacle, RoomObject, object_rgb

# What can be named differs in outline, so that it can be told apart from ten pixels on: round, low and wide, slim and tall.
RADII = {"ball": (0.18, 0.25), "box": (0.21, 0.26), "cylinder": (0.12, 0.15)}    # or half the side, m
HEIGHTS = {"box": (0.26, 0.30), "cylinder": (0.65, 0.85)}                       # m
PATH_MARGIN = 0.12          # beside the robot's radius, free on the guaranteed path
AVOID_MARGIN = 0.10         # beyond the 0.4 m of an avoided object, free on the guaranteed path
OBJECT_GAP = 0.8            # between surfaces of objects, so that a stop at one is not a stop at another
OBSTACLE_GAP = 0.3          # between an object's surface and an obstacle or wall
START_GAP = 0.65            # between the robot's edge and any object at the start
SEEN_RANGE = 4.5            # a target counted as seen is nearer than this, so that it covers enough pixels
TALL = 0.6                  # obstacles at least this high hide objects (camera at 0.35, objects <= 0.55)


class RoomPlan:
    """One attempt at a room: places things in turn and gives up as soon as something does not fit."""

    def __init__(self, rng, visibility, target, avoid, absent, include, low_obstacles, n_objects,
                 n_obstacles):
        self.rng, self.visibility, self.target, self.avoid = rng, visibility, target, avoid
        self.absent, self.include, self.low = absent, include, low_obstacles
        self.n_objects = n_objects or int(rng.integers(4, 9))
        self.n_obstacles = n_obstacles or int(rng.integers(2, 7))
        self.obstacles: list[Obstacle] = []
        self.objects: list[RoomObject] = []
        self.shortest = 0.0

    def build(self) -> bool:
        """Builds a room; tells whether it keeps every promise."""
        rng = self.rng
        self.size = tuple(float(v) for v in np.round(rng.uniform(6.0, 8.0, 2), 1))
        self._place_obstacles()
        self.grid = Grid(self.size, [o.footprint for o in self.obstacles])
        first = None if self.absent else self._sized(0, *self.target)
        if not self._place_start_and_target(first):
            return False
        if not self._place_others():
            return False
        return self.absent or (self._seen_as_asked() and self._path())

    def _place_obstacles(self) -> None:
        rng = self.rng
        for i in range(self.n_obstacles + self.low):
            low = i >= self.n_obstacles
            inner_wall = not low and (rng.random() < 0.4 or (i == 0 and self.visibility == "hidden"))
            if inner_wall:
                # Inner walls keep to the room's axes and may lean on a wall; blocks lie as they like.
                half_x, half_y = rng.uniform(0.6, 1.4), rng.uniform(0.05, 0.1)
                yaw = rng.integers(2) * np.pi / 2
                height = rng.uniform(1.0, 1.8)
            elif low:
                half_x, half_y, yaw = *rng.uniform(0.12, 0.3, 2), rng.uniform(-np.pi, np.pi)
                height = rng.uniform(0.10, 0.15)
            else:
                half_x, half_y, yaw = *rng.uniform(0.15, 0.5, 2), rng.uniform(-np.pi, np.pi)
                height = rng.uniform(TALL, 1.2)
            tone = rng.uniform(0.3, 0.6)
            brown = rng.uniform(0.0, 0.25)
            self.obstacles.append(Obstacle(
                name=f"low_{i}" if low else f"obstacle_{i}",
                x=float(rng.uniform(-0.5, 0.5) * (self.size[0] - 0.6)),
                y=float(rng.uniform(-0.5, 0.5) * (self.size[1] - 0.6)),
                yaw=float(yaw), half_x=float(half_x), half_y=float(half_y), height=float(height),
                rgb=(float(tone * (1 + brown)), float(tone), float(tone * (1 - brown)))))

    def _sized(self, index: int, color: str, shape: str) -> RoomObject:
        radius = float(self.rng.uniform(*RADII[shape]))
        height = 2 * radius if shape == "ball" else float(self.rng.uniform(*HEIGHTS[shape]))
        return RoomObject(f"object_{index}_{color}_{shape}", color, shape, 0.0, 0.0,
                          float(self.rng.uniform(-np.pi, np.pi)), radius, height, object_rgb(color, self.rng))

    def _at(self, item: RoomObject, x: float, y: float) -> RoomObject:
        return replace(item, x=float(x), y=float(y))

    def _tall(self) -> list[Footprint]:
        return [o.footprint for o in self.obstacles if o.height >= TALL]

    def _place_start_and_target(self, item: RoomObject | None) -> bool:
        """Draw the start and, by the visibility asked for, a place of the target and a heading."""
        rng, grid = self.rng, self.grid
        cells = np.argwhere(grid.clearance > robot.BASE_RADIUS + 0.25)
        if len(cells) < 50:
            return False
        i, j = cells[rng.integers(len(cells))]
        x, y = float(grid.xs[i]), float(grid.ys[j])
        self.start = (x, y, float(rng.uniform(-np.pi, np.pi)))
        if item is None:
            return True
        reach = item.footprint.outer_radius
        spots = np.argwhere(grid.clearance > reach + OBSTACLE_GAP)
        spots = spots[rng.permutation(len(spots))[:60]]
        for a, b in spots:
            candidate = self._at(item, grid.xs[a], grid.ys[b])
            distance = float(np.hypot(candidate.x - x, candidate.y - y))
            if distance < reach + robot.BASE_RADIUS + 1.0:
                continue
            if self.visibility == "hidden":
                if not self._hidden(candidate.footprint):
                    continue
            else:
                if distance > SEEN_RANGE:
                    continue
                bearing = np.arctan2(candidate.y - y, candidate.x - x)
                half = np.arcsin(min(reach / (distance - robot.CAMERA_FORWARD), 1.0))
                edge = robot.CAMERA_HFOV / 2
                if self.visibility == "front":
                    turn = rng.uniform(-1, 1) * (edge - half - 0.05)
                else:
                    turn = rng.choice((-1, 1)) * rng.uniform(edge + half + 0.15, np.pi)
                self.start = (x, y, float(wrap_angle(bearing - turn)))
            self.objects = [candidate]
            return True
        return False

    def _hidden(self, target: Footprint) -> bool:
        angle = np.linspace(-np.pi, np.pi, 16, endpoint=False)
        cx = self.start[0] + robot.CAMERA_FORWARD * np.cos(angle)
        cy = self.start[1] + robot.CAMERA_FORWARD * np.sin(angle)
        bx, by = sight_lines(cx, cy, target, 17, grow=0.03)
        cut = np.zeros(bx.shape, bool)
        for tall in self._tall():
            cut |= tall.cuts(cx[:, None], cy[:, None], bx, by, grow=-0.02)
        return bool(cut.all())

    def _place_others(self) -> bool:
        rng, (tc, ts) = self.rng, self.target
        used = {self.target, self.avoid, *self.include}

        def draw(colors, shapes):
            options = [(c, s) for c in colors for s in shapes if (c, s) not in used]
            return options[rng.integers(len(options))]

        kinds = [self.avoid] if self.avoid else []
        kinds += self.include
        if not any(c == tc for c, _ in kinds):
            kinds.append(draw((tc,), SHAPES))
        if not any(s == ts for _, s in kinds):
            kinds.append(draw(COLORS, (ts,)))
        wanted = self.n_objects - (0 if self.absent else 1)
        while len(kinds) < wanted:
            kinds.append(draw(COLORS, SHAPES))
        grid, (sx, sy, _) = self.grid, self.start
        from_start = np.hypot(grid.px - sx, grid.py - sy)
        for kind in kinds:
            item = self._sized(len(self.objects), *kind)
            reach = item.footprint.outer_radius
            ok = grid.clearance > reach + OBSTACLE_GAP
            ok &= from_start > reach + robot.BASE_RADIUS + START_GAP
            for other in self.objects:
                ok &= other.footprint.distance(grid.px, grid.py) > reach + OBJECT_GAP
            if kind == self.avoid and self.objects and rng.random() < 0.7:
                # Mostly near the straight way, else avoiding would be no task.
                t = self.objects[0]
                along = np.clip(((grid.px - sx) * (t.x - sx) + (grid.py - sy) * (t.y - sy))
                                / max((t.x - sx) ** 2 + (t.y - sy) ** 2, 1e-9), 0, 1)
                ok &= np.hypot(grid.px - sx - along * (t.x - sx), grid.py - sy - along * (t.y - sy)) < 0.8
            spots = np.argwhere(ok)
            if not len(spots):
                return False
            a, b = spots[rng.integers(len(spots))]
            self.objects.append(self._at(item, grid.xs[a], grid.ys[b]))
        return True

    def _seen_as_asked(self) -> bool:
        """For behind and front: most of the target's width is in free sight from the camera turned to it."""
        if self.visibility == "hidden":
            return True
        x, y, yaw = self.start
        target = self.objects[0].footprint
        heading = yaw if self.visibility == "front" else np.arctan2(target.y - y, target.x - x)
        cx, cy = x + robot.CAMERA_FORWARD * np.cos(heading), y + robot.CAMERA_FORWARD * np.sin(heading)
        bx, by = sight_lines(cx, cy, target, 15)
        cut = np.zeros(bx.shape, bool)
        for block in self._tall() + [o.footprint for o in self.objects[1:]]:
            cut |= block.cuts(cx, cy, bx, by)
        return bool((~cut).mean() > 0.7)

    def _path(self) -> bool:
        """Checks that paths with margins lead to the target and what is included, past the avoided object.

        Sets `shortest`, the length of the one to the target.
        """
        grid = Grid(self.size, [o.footprint for o in self.obstacles] + [o.footprint for o in self.objects])
        avoid = next((o for o in self.objects if o.kind == self.avoid), None)
        blocks = [o.footprint for o in self.obstacles]
        lengths = []
        for wanted in [self.objects[0]] + [o for o in self.objects if o.kind in self.include]:
            free, goal = free_and_goal(grid, wanted, avoid, blocks)
            path = grid.path(self.start[:2], goal, free, aim=(wanted.x, wanted.y),
                             slack=wanted.footprint.outer_radius + robot.BASE_RADIUS + robot.REACH)
            if path is None:
                return False
            lengths.append(path_length(grid.straightened(path, free)))
        self.shortest = lengths[0]
        return True


def free_and_goal(grid: Grid, target: RoomObject, avoid: RoomObject | None, obstacles: list[Footprint],
                  margin: float = PATH_MARGIN) -> tuple[np.ndarray, np.ndarray]:
    """Cells (bool[nx, ny] each) where the robot's center may be, and those at which the target is reached.

    A goal cell has the target in reach of the robot's front, with 0.1 m to spare, and nothing between.
    """
    free = grid.clearance > robot.BASE_RADIUS + margin
    if avoid is not None:
        near = avoid.footprint.distance(grid.px, grid.py)
        free &= near > robot.BASE_RADIUS + robot.AVOID_DISTANCE + AVOID_MARGIN
    goal = free & (target.footprint.distance(grid.px, grid.py) < robot.BASE_RADIUS + robot.REACH - 0.1)
    for block in obstacles:
        goal &= ~block.cuts(grid.px, grid.py, target.x, target.y)
    return free, goal
