# SPDX-License-Identifier: Apache-2.0
"""A grid over a room: clearance of every cell, and shortest paths by A*."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from brain_sim.geometry import Footprint

_SQRT2 = 2.0**0.5
_MOVES = [(1, 0, 1.0), (-1, 0, 1.0), (0, 1, 1.0), (0, -1, 1.0),
          (1, 1, _SQRT2), (1, -1, _SQRT2), (-1, 1, _SQRT2), (-1, -1, _SQRT2)]


class Grid:
    """Cells of `cell` meters over a room of size (width, depth) meters centered on the origin.

    `clearance[i, j]` is the distance in meters from the cell's center to the nearest wall or footprint.
    """

    def __init__(self, size: tuple[float, float], footprints: Sequence[Footprint], cell: float = 0.1):
        self.cell = cell
        self.size = size
        self.nx, self.ny = int(round(size[0] / cell)), int(round(size[1] / cell))
        self.xs = (np.arange(self.nx) + 0.5) * cell - size[0] / 2
        self.ys = (np.arange(self.ny) + 0.5) * cell - size[1] / 2
        self.px, self.py = np.meshgrid(self.xs, self.ys, indexing="ij")
        self.clearance = np.minimum(size[0] / 2 - np.abs(self.px), size[1] / 2 - np.abs(self.py))
        for footprint in footprints:
            self.add(footprint)

    def add(self, footprint: Footprint) -> None:
        """Take one more footprint into the clearance."""
        self.clearance = np.minimum(self.clearance, footprint.distance(self.px, self.py))

    def index(self, x: float, y: float) -> tuple[int, int]:
        """Cell that holds the point (meters), clipped to the room."""
        i = int((x + self.size[0] / 2) / self.cell)
        j = int((y + self.size[1] / 2) / self.cell)
        return min(max(i, 0), self.nx - 1), min(max(j, 0), self.ny - 1)

    def path(self, start: tuple[float, float], goal: np.ndarray, free: np.ndarray,
             extra: np.ndarray | None = None, aim: tuple[float, float] | None = None,
             slack: float = 0.0) -> list[tuple[float, float]] | None:
        """Shortest 8-connected path in meters from `start` to any True cell of `goal`, or None.

        goal, free: bool[nx, ny]; extra: float[nx, ny] added cost per meter of entering a cell (>= 0);
        aim, slack: a point from which every goal cell is at most `slack` meters away, so that the
        straight distance to it less `slack` never overestimates.
        """
        begin = self.index(*start)
        if not free[begin]:
            return None
        if aim is None:
            estimate = np.zeros((self.nx, self.ny))
        else:
            estimate = np.maximum(np.hypot(self.px - aim[0], self.py - aim[1]) - slack, 0.0)
        est, ok, done_goal = estimate.tolist(), free.tolist(), goal.tolist()
        price = extra.tolist() if extra is not None else None
        cost = {begin: 0.0}
        parent: dict[tuple[int, int], tuple[int, int]] = {}
        closed: set[tuple[int, int]] = set()
        heap = [(est[begin[0]][begin[1]], begin)]
        while heap:
            _, node = heapq.heappop(heap)
            if node in closed:
                continue
            closed.add(node)
            i, j = node
            if done_goal[i][j]:
                return self._trace(node, parent)
            for di, dj, length in _MOVES:
                a, b = i + di, j + dj
                if not (0 <= a < self.nx and 0 <= b < self.ny) or not ok[a][b]:
                    continue
                # A diagonal step must not cut the corner of a blocked cell.
                if di and dj and not (ok[a][j] and ok[i][b]):
                    continue
                step = length * self.cell
                if price is not None:
                    step *= 1.0 + price[a][b]
                total = cost[node] + step
                if total < cost.get((a, b), 1e18):
                    cost[(a, b)] = total
                    parent[(a, b)] = node
                    heapq.heappush(heap, (total + est[a][b], (a, b)))
        return None

    def straightened(self, path: list[tuple[float, float]], free: np.ndarray) -> list[tuple[float, float]]:
        """The path with every corner cut that the cells in `free` (bool[nx, ny]) allow."""
        if len(path) < 3:
            return path
        points, kept, at = np.asarray(path), [path[0]], 0
        while at < len(points) - 1:
            for to in range(len(points) - 1, at, -1):
                steps = int(np.hypot(*(points[to] - points[at])) / (self.cell / 2)) + 2
                line = points[at] + np.linspace(0, 1, steps)[:, None] * (points[to] - points[at])
                i = ((line[:, 0] + self.size[0] / 2) / self.cell).astype(int)
                j = ((line[:, 1] + self.size[1] / 2) / self.cell).astype(int)
                if to == at + 1 or free[i, j].all():
                    break
            kept.append(path[to])
            at = to
        return kept

    def _trace(self, node, parent) -> list[tuple[float, float]]:
        cells = [node]
        while cells[-1] in parent:
            cells.append(parent[cells[-1]])
        return [(float(self.xs[i]), float(self.ys[j])) for i, j in reversed(cells)]


def path_length(points: Sequence[tuple[float, float]]) -> float:
    """Length in meters of a polyline."""
    p = np.asarray(points, float)
    return float(np.hypot(*np.diff(p, axis=0).T).sum()) if len(p) > 1 else 0.0
