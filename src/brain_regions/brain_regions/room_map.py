# SPDX-License-Identifier: Apache-2.0
"""The map that ``place`` keeps: what the lidar found solid, what the camera has looked at, and ways through it.

Conventional by choice (evidence grid and dynamic programming). Arrays are indexed [row = y, column = x].
"""
from __future__ import annotations

import math
from typing import Sequence

import numpy as np

from brain_regions import azimuth

SIZE = 200              # cells along a side
CELL = 0.08             # m; the map covers 16 m x 16 m round the point where it was begun
SOLID = 0.5             # evidence above which a cell counts as solid
NEAR_SCAN = 0.15        # m: what is felt so near in front of what the scan shows is the same thing
LATE = 0.4              # of "seen": what a picture that came late adds; from 0.5 on a cell counts as seen
FAR = np.float32(1e6)   # cost of what cannot be reached


Box = tuple[slice, slice]
"""Rows and columns of a part of the map."""


def cells(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of points (m, map frame, origin in the middle); may lie outside the map."""
    return (np.floor(np.asarray(y) / CELL).astype(np.int32) + SIZE // 2,
            np.floor(np.asarray(x) / CELL).astype(np.int32) + SIZE // 2)


def inside(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Marks the cells that lie in the map, away from its outermost cells."""
    return (rows > 0) & (rows < SIZE - 1) & (columns > 0) & (columns < SIZE - 1)


def box_round(mask: np.ndarray, margin: int) -> Box:
    """The smallest part of the map that holds all set cells, and ``margin`` cells more to each side."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return (slice(max(int(rows[0]) - margin, 0), int(rows[-1]) + margin + 1),
            slice(max(int(columns[0]) - margin, 0), int(columns[-1]) + margin + 1))


def add_scan(solid: np.ndarray, seen: np.ndarray, pose: tuple[float, float, float], angles: np.ndarray,
             ranges: np.ndarray, *, looks: Sequence[tuple[float, float]], look_range: float,
             free_range: float = 8.0) -> None:
    """Adds a scan to the evidence ``solid`` and to what was ``seen``, both float32[SIZE, SIZE], in place.

    Args:
        pose: of the lidar in the map (m, m, rad).
        angles, ranges: of its beams (rad, m); a beam that hit nothing has an infinite range.
        looks: right and left edge (rad) of what each camera covers that has just looked from the same pose.
        look_range: m, up to which the camera would have known an object.
    """
    x, y, yaw = pose
    reach = np.minimum(ranges, free_range)
    along = np.arange(CELL / 2, free_range, CELL, dtype=np.float32)
    covered = along[None, :] < (reach - CELL)[:, None]
    cos, sin = np.cos(angles + yaw)[:, None], np.sin(angles + yaw)[:, None]
    rows, columns = cells(x + along * cos, y + along * sin)
    good = covered & inside(rows, columns)
    solid[rows[good], columns[good]] -= 0.25
    for look in looks:
        looked = good & ((angles >= look[0]) & (angles <= look[1]))[:, None] & (along < look_range)[None, :]
        seen[rows[looked], columns[looked]] = 1.0
    hit = np.isfinite(ranges) & (ranges < free_range)
    rows, columns = cells(x + (ranges[hit] + 0.02) * cos[hit, 0], y + (ranges[hit] + 0.02) * sin[hit, 0])
    good = inside(rows, columns)
    solid[rows[good], columns[good]] += 1.0
    # what hides behind a hit within the camera's view is not seen, but the hit itself is
    for look in looks:
        near = good & (ranges[hit] < look_range) & (angles[hit] >= look[0]) & (angles[hit] <= look[1])
        seen[rows[near], columns[near]] = 1.0
    np.clip(solid, -2.0, 4.0, out=solid)


def add_look(seen: np.ndarray, eye: tuple[float, float, float], look: tuple[float, float], look_range: float,
             pose: tuple[float, float, float], angles: np.ndarray, ranges: np.ndarray) -> None:
    """Adds a picture that came late to what was ``seen``, float32[SIZE, SIZE], in place.

    It counts :data:`LATE`, so that what is seen late is seen by two looks: where pictures come late they are few, and
    one from afar is no evidence that nothing stands there.

    Args:
        eye: where the robot was when the picture was taken (m, m, rad).
        look: right and left edge (rad) of what the camera covers.
        look_range: m, up to which the camera would have known an object.
        pose: where the robot was when it scanned, about then.
        angles, ranges: of the scan's beams (rad, m).
    """
    x, y, yaw = pose
    along = np.arange(CELL / 2, look_range + CELL, CELL, dtype=np.float32)
    # each beam up to what it hit, and that itself
    reach = np.where(np.isfinite(ranges), ranges + 0.02, np.float32(np.inf)).astype(np.float32)
    ends = np.minimum(along[None, :], reach[:, None])
    turned = (angles + yaw)[:, None]
    px, py = x + ends * np.cos(turned), y + ends * np.sin(turned)
    rows, columns = cells(px, py)
    bearing = azimuth.wrap(np.arctan2(py - eye[1], px - eye[0]) - eye[2])
    looked = ((along[None, :] < (reach + CELL)[:, None]) & inside(rows, columns) & (bearing >= look[0])
              & (bearing <= look[1]) & (np.hypot(px - eye[0], py - eye[1]) < look_range))
    new = np.zeros(seen.shape, bool)
    new[rows[looked], columns[looked]] = True
    np.minimum(seen + np.float32(LATE) * new, np.float32(1.0), out=seen)


class _Sweeps:
    """Sweeps of values[i] = min(values[i], values[neighbor] + distance * step[i]) over a field and its 8 neighbors.

    Works on rows laid end to end, where a neighbor is a fixed offset away and numpy runs through without a stop. A
    border that cannot be crossed keeps one end of a row from being the neighbor of the other.
    """

    def __init__(self, values: np.ndarray, step: np.ndarray, border: np.float32) -> None:
        height, width = values.shape
        wide = width + 2
        self.field = np.full((height + 2, wide), border, np.float32)
        self.field[1:-1, 1:-1] = values
        cost = np.full_like(self.field, FAR)
        cost[1:-1, 1:-1] = step
        flat = self.field.reshape(-1)
        first, last = wide + 1, len(flat) - wide - 1
        self._inner = flat[first:last]
        beside, across = (-wide, wide, -1, 1), (-wide - 1, -wide + 1, wide - 1, wide + 1)
        self._beside, self._across = ([flat[first + o:last + o] for o in offsets] for offsets in (beside, across))
        self._cost = cost.reshape(-1)[first:last]
        self._diagonal = self._cost * np.float32(math.sqrt(2))
        self._one, self._other = np.empty_like(self._inner), np.empty_like(self._inner)

    @property
    def values(self) -> np.ndarray:
        """The field without its border."""
        return self.field[1:-1, 1:-1]

    def run(self, count: int) -> np.ndarray:
        """Makes ``count`` sweeps; says which inner values changed in them."""
        before = self._inner.copy()
        for _ in range(count):
            for neighbors, cost, out in ((self._beside, self._cost, self._one),
                                         (self._across, self._diagonal, self._other)):
                np.minimum(neighbors[0], neighbors[1], out=out)
                np.minimum(out, neighbors[2], out=out)
                np.minimum(out, neighbors[3], out=out)
                np.add(out, cost, out=out)
            np.minimum(self._one, self._other, out=self._one)
            np.minimum(self._inner, self._one, out=self._inner)
        return self._inner[before != self._inner]


def add_hazard(felt: np.ndarray, pose: tuple[float, float, float], hazard: np.ndarray, radius: float,
               angles: np.ndarray, ranges: np.ndarray) -> None:
    """Adds what another sensor than the lidar feels to the evidence ``felt``, float32[SIZE, SIZE], in place.

    What the scan shows as near is left to the scan, which tells its place better than a bin of 10 degrees does. What
    stands there stays until the sensor looks through it: beams that pass above it say nothing about it.

    Args:
        pose: of the robot in the map (m, m, rad).
        hazard: sound hazard map, float32[36].
        radius: of the base (m).
        angles, ranges: of the scan's beams (rad, m).
    """
    x, y, yaw = pose
    bins = np.rint(angles / azimuth.WIDTH).astype(int) % azimuth.BINS
    shown = np.full(azimuth.BINS, np.inf, np.float32)
    np.minimum.at(shown, bins, ranges)
    (hit,) = np.nonzero(hazard > 0.02)
    distance = radius + 1.0 - hazard[hit]
    across = azimuth.CENTERS[hit][:, None] + yaw + np.array([-0.35, 0.0, 0.35], np.float32) * azimuth.WIDTH
    along = np.arange(radius, radius + 1.0, CELL, dtype=np.float32)
    passed = np.broadcast_to((along < (distance - 1.5 * CELL)[:, None])[:, None, :], (*across.shape, len(along)))
    rows, columns = cells(x + np.cos(across)[..., None] * along, y + np.sin(across)[..., None] * along)
    good = passed & inside(rows, columns)
    felt[rows[good], columns[good]] -= 0.25
    alone = shown[hit] > distance + NEAR_SCAN
    far = (distance[alone] + CELL / 2)[:, None]
    rows, columns = cells(x + np.cos(across[alone]) * far, y + np.sin(across[alone]) * far)
    good = inside(rows, columns)
    felt[rows[good], columns[good]] += 0.5
    np.clip(felt, 0.0, 2.0, out=felt)


def distances(blocked: np.ndarray, reach: int = 8) -> np.ndarray:
    """Distance (m) of each cell to the nearest blocked one, up to ``reach`` cells; chamfer metric. float32."""
    limit = np.float32((reach + 1) * CELL)
    sweeps = _Sweeps(np.where(blocked, np.float32(0), limit), np.full(blocked.shape, CELL, np.float32), limit)
    sweeps.run(reach)
    return sweeps.values


def cost_to_go(seeds: np.ndarray, step: np.ndarray, *, start: tuple[int, int] | None = None,
               limit: float = math.inf) -> np.ndarray:
    """Cheapest cost from every cell to a seed.

    Args:
        seeds: float32, the cost at which each cell is a goal itself; FAR where it is none.
        step: float32, cost of crossing a cell (s or m per cell), FAR where it cannot be crossed.
        start: the cell from which a way is wanted: what is farther from the seeds than that may be too dear.
        limit: costs from this on are of no interest, and may be too high.
    """
    sweeps = _Sweeps(seeds, step, FAR)
    for _ in range(sweeps.values.size // 4):
        changed = sweeps.run(4)
        if not len(changed) or changed.min() >= (limit if start is None else min(limit, sweeps.values[start])):
            break
    return sweeps.values


def follow(values: np.ndarray, row: int, column: int, length: int) -> list[tuple[int, int]]:
    """Cells downhill in ``values`` from (row, column), at most ``length`` of them; ends at a goal."""
    path = [(row, column)]
    for _ in range(length):
        row, column = path[-1]
        if not (0 < row < values.shape[0] - 1 and 0 < column < values.shape[1] - 1):
            break
        window = values[row - 1:row + 2, column - 1:column + 2]
        best = int(np.argmin(window))
        if window.flat[best] >= values[row, column]:
            break
        path.append((row + best // 3 - 1, column + best % 3 - 1))
    return path


def grow(mask: np.ndarray, steps: int, within: np.ndarray) -> np.ndarray:
    """``mask`` grown by ``steps`` cells to the four sides, never out of ``within``."""
    mask = mask & within
    for _ in range(steps):
        grown = mask.copy()
        grown[1:] |= mask[:-1]
        grown[:-1] |= mask[1:]
        grown[:, 1:] |= mask[:, :-1]
        grown[:, :-1] |= mask[:, 1:]
        mask = grown & within
    return mask


def shrink(mask: np.ndarray, steps: int) -> np.ndarray:
    """``mask`` without what lies within ``steps`` cells of its edge (to the four sides)."""
    return ~grow(~mask, steps, np.ones_like(mask))


def box_sum(mask: np.ndarray, half: int) -> np.ndarray:
    """Number of set cells in the square of 2 * ``half`` + 1 cells round each cell. float32."""
    side = 2 * half + 1
    summed = np.pad(mask.astype(np.float32), ((half + 1, half), (half + 1, half))).cumsum(0).cumsum(1)
    return summed[side:, side:] - summed[:-side, side:] - summed[side:, :-side] + summed[:-side, :-side]


def line_is_free(solid: np.ndarray, row: int, column: int, to_row: int, to_column: int) -> bool:
    """Tells whether no solid cell lies on the straight line between two cells."""
    count = max(abs(to_row - row), abs(to_column - column), 1)
    rows = np.rint(np.linspace(row, to_row, count + 1)).astype(int)
    columns = np.rint(np.linspace(column, to_column, count + 1)).astype(int)
    return not (solid[rows, columns] > SOLID).any()
