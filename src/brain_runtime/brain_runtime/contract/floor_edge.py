# SPDX-License-Identifier: Apache-2.0
"""Tilt of a camera by where walls meet the floor: the lidar tells where that is, and pictures have an edge there.

A wall that the lidar meets at a place of the floor stands on it, so the camera shows the edge between the two at one
elevation, which its height tells. A pitch and a roll, and a height where it is not known, are tried by how strong
pictures' edges are along the whole line, in many pictures: what furniture and tiles show goes along another one.
"""
from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount

PITCHES, ROLLS = (-25.0, 25.0, 1.0), (-12.0, 12.0, 3.0)      # degrees: first, last and step of what is tried
FINER = 0.25                # degrees, round the best of these
HEIGHTS = tuple(0.08 * 1.2 ** np.arange(16))    # m: what is tried where the height is not known
FINER_HEIGHTS = 1.2 ** np.linspace(-0.8, 0.8, 9)    # times the best of these
RAYS = 60                   # of a picture's walls that are looked at
POINTS = 12                 # of a wall that a picture must show to count
NEAREST, FARTHEST = 0.3, 6.0    # m from the camera at which walls count
GAP = 0.15                  # m between two beams' points, and of each m away as much more, from which it is no wall
MOST = 40                   # pictures that are kept
FEWEST = 5, 24              # pictures from which on they tell anything, where the height is known, and where not
APART = math.radians(3.0)   # from the best pitch, beyond which others compete with it
SURE = 1.12, 1.15           # times the strongest of these that the best must be, likewise
AGREED = math.radians(1.0)  # by which pitches by both halves of the pictures may differ


class Tilt(NamedTuple):
    """A camera's tilt.

    Attributes:
        pitch, roll: rad, as of :class:`.optics.Mount`.
        height: above the floor (m): what was told, or what walls near and far show.
        sureness: how many times the edges of any other pitch its edges are as strong.
        spread: by how much pitches by each half of the pictures alone differ (rad); NaN where a half tells nothing.
    """

    pitch: float
    roll: float
    height: float
    sureness: float
    spread: float

    def of(self, mount: Mount) -> Mount:
        """The mounting with this height and tilt."""
        return replace(mount, height=self.height, pitch=self.pitch, roll=self.roll)


class FloorEdge:
    """Pictures with the walls that stood before the camera; a few seconds of a robot that turns are best.

    Args:
        mount: of the camera, of which place, yaw and height count.
    """

    def __init__(self, mount: Mount) -> None:
        self._mount = mount
        self._seen: list[tuple[np.ndarray, Lens, np.ndarray]] = []
        self._taken = 0

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, picture: np.ndarray, lens: Lens, walls: np.ndarray) -> bool:
        """Takes in a picture; whether it counts.

        Args:
            picture: uint8 [rows, columns, 3].
            lens: of the camera.
            walls: float[n, 2], where beams of the lidar ended, in the base's frame (m), in the order of their angles.
        """
        away = walls - (self._mount.x, self._mount.y)
        c, s = math.cos(self._mount.yaw), math.sin(self._mount.yaw)
        ahead = away @ np.array([[c, -s], [s, c]])
        far = np.hypot(*ahead.T)
        with np.errstate(invalid="ignore"):
            steps = np.hypot(*np.diff(ahead, axis=0).T) < GAP * (1.0 + far[1:])
            wall = np.flatnonzero(np.r_[steps, False] & np.r_[False, steps] & (far > NEAREST) & (far < FARTHEST)
                                  & (np.abs(np.arctan2(ahead[:, 1], ahead[:, 0])) < 1.2))
        if len(wall) < POINTS:
            return False
        self._taken += 1
        if len(self._seen) == MOST:     # older ones go by turns, so that those of all directions stay
            del self._seen[self._taken % MOST]
        self._seen.append((_edges(picture, lens), lens, ahead[wall[::-(-len(wall) // RAYS)]]))
        return True

    def found(self, high: bool = False) -> Tilt | None:
        """The tilt, once enough pictures agree; None: they tell nothing.

        Args:
            high: the height is not known, either; walls near and far are needed, and more pictures.
        """
        if len(self._seen) < FEWEST[high]:
            return None
        heights = np.array(HEIGHTS if high else (self._mount.height,))
        pitches, rolls = (np.radians(np.arange(first, last + step / 2, step)) for first, last, step in (PITCHES, ROLLS))
        scores = self._scores(self._seen, heights, pitches, rolls)
        if not np.isfinite(scores).any():
            return None
        k, *at = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
        others = scores[:, np.abs(pitches - pitches[at[0]]) > APART]
        others = others[np.isfinite(others)]
        # with few others to compare with any line is the strongest
        if len(others) < len(pitches) or not (
                sureness := float(scores[(k, *at)] / max(others.max(), 1e-9))) >= SURE[high]:
            return None
        finer = FINER_HEIGHTS if high else np.ones(1)
        found = self._finer(self._seen, heights[k] * finer, pitches[at[0]], rolls[at[1]])
        halves = [self._finer(self._seen[k::2], found[0] * finer, *found[1:])[1] for k in range(2)]
        height, pitch, roll = found
        return Tilt(pitch, roll, height, sureness, abs(halves[0] - halves[1]))

    def _finer(self, seen: list[Any], heights: np.ndarray, pitch: float, roll: float) -> tuple[float, float, float]:
        pitches = pitch + np.radians(np.arange(-PITCHES[2], PITCHES[2] + FINER / 2, FINER))
        rolls = roll + np.radians(np.arange(-ROLLS[2], ROLLS[2] + FINER, 2 * FINER))
        scores = self._scores(seen, heights, pitches, rolls, 1)
        if not np.isfinite(scores).any():
            return math.nan, math.nan, roll
        high, row, column = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
        return float(heights[high]), float(pitches[row]), float(rolls[column])

    @staticmethod
    def _scores(seen: list[Any], heights: np.ndarray, pitches: np.ndarray, rolls: np.ndarray, least: int = FEWEST[0]
                ) -> np.ndarray:
        """Mean strength of edges, [heights, pitches, rolls]; NaN where ``least`` pictures do not show them."""
        turned = np.stack([Mount(pitch=p, roll=r).turned() for p in pitches for r in rolls])
        shape = len(heights), len(turned)
        total, count = np.zeros(shape), np.zeros(shape)
        for edges, lens, walls in seen:
            rays = np.stack([np.column_stack([walls, np.full(len(walls), -height)]) for height in heights])
            at = lens.project(np.einsum("hnk,mkj->hmnj", rays, turned))
            with np.errstate(invalid="ignore"):
                inside = ((at >= 0) & (at < (lens.columns, lens.rows))).all(-1)
                column, row = np.moveaxis(np.where(inside[..., None], at, 0).astype(int), -1, 0)
            strong = np.where(inside, edges[row, column], 0.0).sum(-1)
            shown = inside.sum(-1)
            enough = shown >= min(POINTS, len(walls))
            total += np.where(enough, strong / np.maximum(shown, 1), 0.0)
            count += enough
        # a tilt for which few pictures show the line has no say
        return np.where(count >= max(least, 0.5 * len(seen)), total / np.maximum(count, 1), np.nan).reshape(
            len(heights), len(pitches), len(rolls))


def _edges(picture: np.ndarray, lens: Lens) -> np.ndarray:
    """Strength of edges between above and below, 0..1, float32 [rows, columns], widened to about a degree."""
    half = max(round(math.radians(0.5) * lens.focal), 1)
    rows = np.cumsum(np.pad(picture.astype(np.float32), ((half, half), (0, 0), (0, 0)), "edge"), 0)
    rows = np.concatenate([np.zeros_like(rows[:1]), rows])
    tall = len(picture)
    below = rows[2 * half:2 * half + tall] - rows[half:half + tall]
    above = rows[half:half + tall] - rows[:tall]
    strong = np.abs(below - above).max(-1)
    return np.minimum(strong / max(float(np.quantile(strong, 0.95)), 1e-6), 1.0).astype(np.float32)
