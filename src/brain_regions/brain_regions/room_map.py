# SPDX-License-Identifier: Apache-2.0
"""The map that ``place`` keeps: what the lidar found solid, what the camera has looked at, and ways through it.

Conventional by choice (evidence grid and dynamic programming). Arrays are indexed [row = y, column = x].
"""
from __future__ import annotations

import math

import numpy as np

SIZE = 200              # cells along a side
CELL = 0.08             # m; the map covers 16 m x 16 m round the point where it was begun
SOLID = 0.5             # evidence above which a cell counts as solid
FAR = np.float32(1e6)   # cost of what cannot be reached
_SHIFTS = [(dy, dx, math.hypot(dy, dx)) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]


def cells(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of points (m, map frame, origin in the middle); may lie outside the map."""
    return (np.floor(np.asarray(y) / CELL).astype(np.int32) + SIZE // 2,
            np.floor(np.asarray(x) / CELL).astype(np.int32) + SIZE // 2)


def inside(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Which cells lie in the map, away from its outermost cells."""
    return (rows > 0) & (rows < SIZE - 1) & (columns > 0) & (columns < SIZE - 1)


def add_scan(solid: np.ndarray, seen: np.ndarray, pose: tuple[float, float, float], angles: np.ndarray,
             ranges: np.ndarray, *, look: tuple[float, float], look_range: float, free_range: float = 8.0) -> None:
    """Adds a scan to the evidence ``solid`` and to what was ``seen``, both float32[SIZE, SIZE], in place.

    Args:
        pose: of the lidar in the map (m, m, rad).
        angles, ranges: of its beams (rad, m); a beam that hit nothing has an infinite range.
        look: right and left edge (rad) of what the camera covers.
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
    looked = good & ((angles >= look[0]) & (angles <= look[1]))[:, None] & (along < look_range)[None, :]
    seen[rows[looked], columns[looked]] = 1.0
    hit = np.isfinite(ranges) & (ranges < free_range)
    rows, columns = cells(x + (ranges[hit] + 0.02) * cos[hit, 0], y + (ranges[hit] + 0.02) * sin[hit, 0])
    good = inside(rows, columns)
    solid[rows[good], columns[good]] += 1.0
    # what hides behind a hit within the camera's view is not seen, but the hit itself is
    near = good & (ranges[hit] < look_range) & (angles[hit] >= look[0]) & (angles[hit] <= look[1])
    seen[rows[near], columns[near]] = 1.0
    np.clip(solid, -2.0, 4.0, out=solid)


def distances(blocked: np.ndarray, reach: int = 8) -> np.ndarray:
    """Distance (m) of each cell to the nearest blocked one, up to ``reach`` cells; chamfer metric. float32."""
    limit = np.float32((reach + 1) * CELL)
    result = np.where(blocked, np.float32(0), limit).astype(np.float32)
    for _ in range(reach):
        before = result.copy()
        _relax(result, np.full_like(result, CELL))
        if np.array_equal(before, result):
            break
    return result


def _relax(values: np.ndarray, step: np.ndarray) -> None:
    """One sweep of values[i] = min(values[i], values[neighbor] + distance * step[i]) over the inner cells, in place."""
    inner = values[1:-1, 1:-1]
    cost = step[1:-1, 1:-1]
    height, width = values.shape
    diagonal = cost * np.float32(math.sqrt(2))
    for dy, dx, length in _SHIFTS:
        other = values[1 + dy:height - 1 + dy, 1 + dx:width - 1 + dx]
        np.minimum(inner, other + (diagonal if length > 1 else cost), out=inner)


def cost_to_go(seeds: np.ndarray, step: np.ndarray, sweeps: int = 400) -> np.ndarray:
    """Cheapest cost from every cell to a seed.

    Args:
        seeds: float32, the cost at which each cell is a goal itself; FAR where it is none.
        step: float32, cost of crossing a cell (s or m per cell), FAR where it cannot be crossed.
    """
    values = seeds.astype(np.float32).copy()
    for _ in range(sweeps // 4):
        before = values.copy()
        for _ in range(4):
            _relax(values, step)
        if np.array_equal(before, values):
            break
    return values


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
    """Whether no solid cell lies on the straight line between two cells."""
    count = max(abs(to_row - row), abs(to_column - column), 1)
    rows = np.rint(np.linspace(row, to_row, count + 1)).astype(int)
    columns = np.rint(np.linspace(column, to_column, count + 1)).astype(int)
    return not (solid[rows, columns] > SOLID).any()
