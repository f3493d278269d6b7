# SPDX-License-Identifier: Apache-2.0
"""The polar sheet of the prefrontal cortex: which place round the robot each of its neurons stands for.

A sheet has 36 bearings, the bins of :mod:`brain_regions.azimuth`, times 14 distances, equally apart in their logarithm,
as the grain of what is seen is. A place excites its neighbors on the sheet as a Gaussian bump; where several fire,
their center of mass tells a place between the neurons.
"""
from __future__ import annotations

import math

import numpy as np

from brain_regions.azimuth import BINS, CENTERS, COS, SIN, WIDTH, wrap
from brain_runtime.contract.polar import GRAIN, NEAREST, RINGS, ring

DISTANCES = (NEAREST * np.exp(GRAIN * np.arange(RINGS))).astype(np.float32)
SPREAD = 0.8                                                # standard deviation of a bump, in cells both ways
STRIDE = 0.10                                               # m that one spike of an odometry neuron stands for
_TAIL = np.float32(1e-3)                                    # what of a bump is less is nothing
_ROWS = np.arange(RINGS, dtype=np.float32)
_ONES = np.ones(BINS * RINGS, np.float32)
FARTHEST_NEIGHBOR = 3                                       # bins
_NEIGHBORS = (np.arange(BINS)[:, None] + np.arange(-FARTHEST_NEIGHBOR, FARTHEST_NEIGHBOR + 1)) % BINS
# of each bin and those beside it their numbers, sines and cosines
_NEAR = {reach: [(near, SIN[near], COS[near])
                 for near in _NEIGHBORS[:, FARTHEST_NEIGHBOR - reach:FARTHEST_NEIGHBOR + 1 + reach].copy()]
         for reach in (1, 2)}
FRACTIONS = 16                                              # of a cell, in which a bump is tabled
# a bump over five cells, by where in the middle one it is
_BUMP = np.exp(-0.5 * ((np.arange(-2, 3) - np.linspace(-0.5, 0.5, FRACTIONS + 1)[:, None]) / SPREAD) ** 2).astype(
    np.float32)
_LEANS = np.linspace(-0.4, 0.4, 5)                          # of a bin: directions of travel with shifts of their own


def bump(bearing: float, distance: float) -> np.ndarray:
    """Computes what a place excites: float32[BINS, RINGS], at most 1. Beyond the ends (m) it counts as at the end."""
    return bumps(np.array([bearing], np.float32), np.array([distance], np.float32))[0]


def bumps(bearings: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """As :func:`bump`, of several places: float32[n, BINS, RINGS] of bearings (rad) and distances (m), float32[n]."""
    across = wrap(CENTERS - bearings[:, None]) / np.float32(WIDTH * SPREAD)
    rings = np.log(np.maximum(distances, np.float32(1e-3)) / np.float32(NEAREST)) / np.float32(GRAIN)
    along = (_ROWS - np.clip(rings, 0.0, RINGS - 1.0)[:, None]) / np.float32(SPREAD)
    found = np.exp(-0.5 * across ** 2)[..., None] * np.exp(-0.5 * along ** 2)[:, None]
    found *= found > _TAIL
    return found


def nearby(sheets: np.ndarray, bearing: float, distance: float) -> list[float]:
    """Sums what some sheets, float32[n, BINS, RINGS], hold at a place, weighted as a bump there would be."""
    column, row = bearing / WIDTH, ring(distance)
    middle, first = round(column), max(round(row) - 2, 0)
    patch = sheets[:, _NEAR[2][middle % BINS][0], first:round(row) + 3]
    along = _BUMP[_fraction(row - round(row))][first - round(row) + 2:][:patch.shape[2]]
    return np.dot(np.dot(patch, along), _BUMP[_fraction(column - middle)]).tolist()


def _fraction(of_a_cell: float) -> int:
    """Row of :data:`_BUMP` for a place that lies so far (-0.5 to 0.5) behind a cell's middle."""
    return round((of_a_cell + 0.5) * FRACTIONS)


def place(activity: np.ndarray, column: int, reach: int = 2) -> tuple[float, float]:
    """Center of mass of what is active near a bearing.

    Args:
        activity: float32[BINS, RINGS], not negative.
        column: bin in the middle.
        reach: bins to each side that count, 1 or 2.

    Returns:
        Bearing (rad) and distance (m); NaN where nothing is active.
    """
    near, sin, cos = _NEAR[reach][column]
    weights = activity[near]
    by_bearing, by_ring = np.add.reduce(weights, 1), np.add.reduce(weights, 0).tolist()
    peak = by_ring.index(max(by_ring))
    if not by_ring[peak] > 0:
        return math.nan, math.nan
    first = max(peak - 2, 0)
    rings = by_ring[first:peak + 3]     # another object may stand behind
    middle = sum(k * weight for k, weight in enumerate(rings, first)) / sum(rings)
    return math.atan2(np.dot(by_bearing, sin), np.dot(by_bearing, cos)), NEAREST * math.exp(GRAIN * middle)


def peaks(activity: np.ndarray, floor: float, most: int) -> list[tuple[int, int]]:
    """Cells (bin, ring) in the middle of what is active, the most active first; each takes its neighborhood with it.

    Args:
        activity: float32[BINS, RINGS].
        floor: cells at or below it do not count.
        most: how many.
    """
    found: list[tuple[int, int]] = []
    above = activity > floor
    if not np.count_nonzero(above):
        return found
    left = activity * above
    # synapses saturate: the middle of a plateau is where most is round about
    beside = np.concatenate((left[-1:], left, left[:1]))
    around = left + 0.5 * (beside[:-2] + beside[2:])
    around[:, 1:-1] += 0.25 * (around[:, 2:] + around[:, :-2])
    around *= above
    while len(found) < most:
        column, row = divmod(int(around.argmax()), RINGS)
        if not around[column, row] > 0:
            break
        found.append((column, row))
        around[_NEIGHBORS[column], max(row - 3, 0):row + 4] = 0.0
    return found


def carried(bearing: float, distance: float, turned: float, ahead: float) -> tuple[float, float]:
    """Bearing (rad) and distance (m) of a place after the robot went ``ahead`` (m) and turned (rad, to the left)."""
    x, y = distance * math.cos(bearing) - ahead, distance * math.sin(bearing)
    return float(wrap(math.atan2(y, x) - turned)), math.hypot(x, y)


def brought_back(bearing: float, distance: float, turned: float, ahead: float) -> tuple[float, float]:
    """The inverse of :func:`carried`: where a place was before."""
    angle = bearing + turned
    x, y = distance * math.cos(angle) + ahead, distance * math.sin(angle)
    return math.atan2(y, x), math.hypot(x, y)


def seen_from(since: tuple[float, float, float], bearing: float, distance: float) -> tuple[float, float]:
    """Bearing (rad) and distance (m) of a place, after the robot went ahead, to the left (m, m) and turned (rad)."""
    ahead, left, turned = since
    if ahead or left:
        x, y = distance * math.cos(bearing) - ahead, distance * math.sin(bearing) - left
        bearing, distance = math.atan2(y, x), math.hypot(x, y)
    return float(wrap(bearing - turned)), distance


def _cubic(t: np.ndarray) -> np.ndarray:
    """Weights of the four neighbors for a value at ``t`` (0..1) between the middle two: [4, ...].

    R. Keys: Cubic Convolution Interpolation for Digital Image Processing, IEEE Trans. ASSP 29(6), 1981, a = -1/2. Its
    negative side lobes are what keeps a bump from broadening as it is shifted again and again.
    """
    return np.stack([((-0.5 * t + 1.0) * t - 0.5) * t, (1.5 * t - 2.5) * t * t + 1.0, ((-1.5 * t + 2.0) * t + 0.5) * t,
                     (0.5 * t - 0.5) * t * t])


def _shift(direction: float, way: float) -> np.ndarray:
    """Synapses that move a sheet's content when the robot goes ``way`` m in ``direction`` (rad): [cells, cells]."""
    angle = np.repeat(CENTERS.astype(np.float64), RINGS)
    away = np.tile(DISTANCES.astype(np.float64), BINS)
    # where was what is now at each cell?
    x, y = away * np.cos(angle) + way * math.cos(direction), away * np.sin(angle) + way * math.sin(direction)
    column = (np.arctan2(y, x) / WIDTH) % BINS
    row = np.log(np.maximum(np.hypot(x, y), 1e-6) / NEAREST) / GRAIN
    weights = np.zeros((BINS * RINGS, BINS * RINGS))
    cells = np.arange(BINS * RINGS)
    for i, across in zip((-1, 0, 1, 2), _cubic(column % 1.0)):
        for k, along in zip((-1, 0, 1, 2), _cubic(row % 1.0)):
            source = np.floor(row).astype(int) + k
            inside = (source >= 0) & (source < RINGS)
            start = ((np.floor(column).astype(int) + i) % BINS) * RINGS + np.clip(source, 0, RINGS - 1)
            np.add.at(weights, (start[inside], cells[inside]), (across * along)[inside])
    return weights.astype(np.float32)


class Shifts:
    """The synapses by which odometry moves a sheet's content: one set for each direction of travel."""

    def __init__(self) -> None:
        self._sets = {way: [_shift(lean * WIDTH, way) for lean in _LEANS] for way in (STRIDE, -STRIDE)}
        self._fan_outs = {way: [np.count_nonzero(m, axis=1) for m in found] for way, found in self._sets.items()}

    @staticmethod
    def _lean(turned: float) -> int:
        return int(np.argmin(np.abs(_LEANS * WIDTH - turned)))

    def opened(self, sheets: np.ndarray, turned: float, backward: bool = False) -> int:
        """Synapses by which :meth:`ahead` moves what the sheets hold: those of each neuron that holds anything."""
        each = self._fan_outs[-STRIDE if backward else STRIDE][self._lean(turned)]
        return int(np.dot(np.count_nonzero(sheets.reshape(len(sheets), -1), axis=0), each))

    def ahead(self, sheets: np.ndarray, turned: float, backward: bool = False) -> np.ndarray:
        """Sheets [n, BINS, RINGS] after one stride.

        Args:
            sheets: before; they look in the direction that the base looked in ``turned`` rad ago.
            turned: rad, at most half a bin.
            backward: the stride led back.
        """
        matrix = self._sets[-STRIDE if backward else STRIDE][self._lean(turned)]
        flat, moved = sheets.reshape(len(sheets), -1), np.zeros_like(sheets)
        live = np.flatnonzero(np.dot(flat, _ONES))      # no sheet is negative
        moved.reshape(flat.shape)[live] = np.maximum(np.dot(flat[live], matrix), 0.0)
        return moved
