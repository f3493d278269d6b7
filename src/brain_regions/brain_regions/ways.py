# SPDX-License-Identifier: Apache-2.0
"""Ways to floor that was not looked at: where it begins, and in which direction each way there sets out.

Conventional by choice, as :mod:`brain_regions.room_map`, whose arrays these are (a part of the map, [row, column]).
"""
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from brain_regions import azimuth, room_map
from brain_regions.room_map import CELL, FAR

AREA = 7                # cells to each side of a frontier in which unseen floor counts for it
MOST_AREA = 1.2         # m^2 of unseen floor beyond which more of it is worth no more
LEAST = 3               # cells that must be free ahead for a direction to be one
DEAR = 10.0             # cost of a meter from which on nobody drives straight on


class Frontiers(NamedTuple):
    """Cells of seen floor beside unseen floor.

    Attributes:
        rows, columns: of the cells, int[n].
        area: unseen floor round each (m^2), float32[n].
    """

    rows: np.ndarray
    columns: np.ndarray
    area: np.ndarray


def frontiers(unseen: np.ndarray, solid: np.ndarray, seen: np.ndarray, standing: np.ndarray) -> Frontiers:
    """Finds where floor that was looked at borders on floor that was not.

    Args:
        unseen: cells that are worth looking at, bool.
        solid: cells that hold something, bool.
        seen: cells that were looked at, bool.
        standing: cells on which the robot has room, and to which there is a way, bool.
    """
    walls = room_map.grow(solid, 1, np.ones_like(solid))
    patch = room_map.shrink(unseen & ~solid, 2)             # an object fits there
    rows, columns = np.nonzero(room_map.grow(patch, 5, ~walls) & seen & standing)
    return Frontiers(rows, columns, (room_map.box_sum(patch, AREA) * CELL ** 2)[rows, columns])


class Fan(NamedTuple):
    """Costs of setting out in each of many directions.

    Attributes:
        rows, columns: of the cell that is headed for, int[n].
        costs: of the way to it, and on from there, float32[n]; :data:`.room_map.FAR` where there is none.
    """

    rows: np.ndarray
    columns: np.ndarray
    costs: np.ndarray


def fan(costs: np.ndarray, step: np.ndarray, at: tuple[float, float], angles: np.ndarray, reach: float) -> Fan:
    """Sets out from a point in many directions, each straight on for as long as it is not dear.

    Args:
        costs: of the way on from each cell, float32[rows, columns]; :data:`.room_map.FAR` where there is none.
        step: cost of crossing each cell, float32[rows, columns].
        at: y and x, in cells.
        angles: directions (rad).
        reach: way straight on (m).
    """
    along = np.arange(1, max(int(reach / CELL), LEAST) + 1)
    rows = np.floor(at[0] + along * np.sin(angles)[:, None]).astype(int)
    columns = np.floor(at[1] + along * np.cos(angles)[:, None]).astype(int)
    inside = (rows >= 0) & (rows < step.shape[0]) & (columns >= 0) & (columns < step.shape[1])
    rows, columns = np.where(inside, rows, 0), np.where(inside, columns, 0)
    crossed = np.where(inside, step[rows, columns], FAR)
    free = np.logical_and.accumulate(crossed < DEAR * CELL, axis=1)
    last = free.sum(1) - 1
    each = np.arange(len(angles))
    rows, columns = rows[each, last], columns[each, last]
    total = (crossed * free).sum(1) + costs[rows, columns]
    return Fan(rows, columns, np.where(last + 1 >= LEAST, total, FAR).astype(np.float32))


def headed_for(path: list[tuple[int, int]], away: np.ndarray, radius: float, lookahead: float) -> tuple[int, int]:
    """Farthest cell of a way within the lookahead that can be headed for in a straight line.

    Args:
        path: cells from where the robot is on.
        away: distance of each cell to what is solid (m).
        radius: of the robot (m).
        lookahead: m.
    """
    narrow = (away < radius + 0.04).astype(np.float32)
    best = path[min(1, len(path) - 1)]
    length = 0.0
    for before, cell in zip(path, path[1:]):
        length += CELL * math.hypot(cell[0] - before[0], cell[1] - before[1])
        if length > lookahead:
            break
        if room_map.line_is_free(narrow, *path[0], *cell):
            best = cell
    return best


def view(seen: np.ndarray, pose: tuple[float, float, float], angles: np.ndarray, ranges: np.ndarray,
         look_range: float) -> np.ndarray:
    """Floor in the free part of each bin that was not looked at (m^2), over 0.5 m^2, cut to 1. float32[36].

    Args:
        seen: from 0.5 on a cell was looked at, float32[SIZE, SIZE].
        pose: of the robot in the map (m, m, rad).
        angles, ranges: of the scan's beams (rad, m).
        look_range: m, up to which the camera would know an object.
    """
    along = np.arange(0.3, look_range, CELL, dtype=np.float32)
    x = pose[0] + along * np.cos(angles + pose[2])[:, None]
    y = pose[1] + along * np.sin(angles + pose[2])[:, None]
    rows, columns = room_map.cells(x, y)
    free = (along < (np.minimum(ranges, look_range) - 0.05)[:, None]) & room_map.inside(rows, columns)
    rows, columns = np.where(free, rows, 0), np.where(free, columns, 0)
    unseen = free & (seen[rows, columns] < 0.5)
    area = (unseen * along).sum(1) * CELL * (2 * math.pi / max(len(angles), 1))
    bins = np.rint(angles / azimuth.WIDTH).astype(int) % azimuth.BINS
    return np.minimum(np.bincount(bins, area, azimuth.BINS) / 0.5, 1.0).astype(np.float32)
