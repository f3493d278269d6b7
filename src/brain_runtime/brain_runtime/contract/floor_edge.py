# SPDX-License-Identifier: Apache-2.0
"""Tilt of a camera by where walls meet the floor: the lidar tells where that is, and pictures have an edge there.

A wall that the lidar meets at a place of the floor stands on it, so the camera shows the edge between the two at one
elevation, which its height tells. A pitch and a roll are tried by how strong pictures' edges are along the whole line,
in many pictures: what furniture and tiles show goes along another one.
"""
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount

PITCHES, ROLLS = (-25.0, 25.0, 1.0), (-12.0, 12.0, 3.0)      # degrees: first, last and step of what is tried
FINER = 0.25                # degrees, round the best of these
POINTS = 12                 # of a wall that a picture must show to count
NEAREST, FARTHEST = 0.3, 6.0    # m from the camera at which walls count
GAP = 0.15                  # m between two beams' points, and of each m away as much more, from which it is no wall
MOST = 40                   # pictures that are kept
FEWEST = 5                  # from which on they tell anything
APART = math.radians(3.0)   # from the best pitch, beyond which others compete with it
SURE = 1.12                 # times the strongest of these that the best must be


class Tilt(NamedTuple):
    """A camera's tilt.

    Attributes:
        pitch, roll: rad, as of :class:`.optics.Mount`.
        sureness: how many times the edges of any other pitch its edges are as strong.
        spread: by how much pitches by each half of the pictures alone differ (rad); NaN where a half tells nothing.
    """

    pitch: float
    roll: float
    sureness: float
    spread: float


class FloorEdge:
    """Pictures with the walls that stood before the camera; a few seconds of a robot that turns are best."""

    def __init__(self) -> None:
        self._seen: list[tuple[np.ndarray, Lens, np.ndarray]] = []
        self._taken = 0

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, picture: np.ndarray, lens: Lens, mount: Mount, walls: np.ndarray) -> bool:
        """Takes in a picture; whether it counts.

        Args:
            picture: uint8 [rows, columns, 3].
            lens: of the camera.
            mount: of the camera, of which place, height and yaw count.
            walls: float[n, 2], where beams of the lidar ended, in the base's frame (m), in the order of their angles.
        """
        away = walls - (mount.x, mount.y)
        c, s = math.cos(mount.yaw), math.sin(mount.yaw)
        ahead = away @ np.array([[c, -s], [s, c]])
        far = np.hypot(*ahead.T)
        with np.errstate(invalid="ignore"):
            steps = np.hypot(*np.diff(ahead, axis=0).T) < GAP * (1.0 + far[1:])
            wall = (np.r_[steps, False] & np.r_[False, steps] & (far > NEAREST) & (far < FARTHEST)
                    & (np.abs(np.arctan2(ahead[:, 1], ahead[:, 0])) < 1.2))
        if wall.sum() < POINTS:
            return False
        rays = np.column_stack([ahead[wall], np.full(int(wall.sum()), -mount.height)])
        self._taken += 1
        if len(self._seen) == MOST:     # older ones go by turns, so that those of all directions stay
            del self._seen[self._taken % MOST]
        self._seen.append((_edges(picture, lens), lens, rays))
        return True

    def found(self) -> Tilt | None:
        """The tilt, once enough pictures agree; None: they tell nothing."""
        if len(self._seen) < FEWEST:
            return None
        pitches, rolls = (np.radians(np.arange(first, last + step / 2, step)) for first, last, step in (PITCHES, ROLLS))
        scores = self._scores(self._seen, pitches, rolls)
        if not np.isfinite(scores).any():
            return None
        at = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
        others = scores[np.abs(pitches - pitches[at[0]]) > APART]
        others = others[np.isfinite(others)]
        # with few others to compare with any line is the strongest
        if len(others) < len(pitches) or not (sureness := float(scores[at] / max(others.max(), 1e-9))) >= SURE:
            return None
        pitch, roll = self._finer(self._seen, pitches[at[0]], rolls[at[1]])
        halves = [self._finer(self._seen[k::2], pitch, roll)[0] for k in range(2)]
        return Tilt(pitch, roll, sureness, abs(halves[0] - halves[1]))

    def _finer(self, seen: list[Any], pitch: float, roll: float) -> tuple[float, float]:
        pitches = pitch + np.radians(np.arange(-PITCHES[2], PITCHES[2] + FINER / 2, FINER))
        rolls = roll + np.radians(np.arange(-ROLLS[2], ROLLS[2] + FINER, 2 * FINER))
        scores = self._scores(seen, pitches, rolls, 1)
        if not np.isfinite(scores).any():
            return math.nan, roll
        row, column = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
        return float(pitches[row]), float(rolls[column])

    @staticmethod
    def _scores(seen: list[Any], pitches: np.ndarray, rolls: np.ndarray, least: int = FEWEST) -> np.ndarray:
        """Mean strength of edges by pitch and roll, [pitches, rolls]; NaN where ``least`` pictures do not show them."""
        turned = np.stack([Mount(pitch=p, roll=r).turned() for p in pitches for r in rolls])
        total, count = np.zeros(len(turned)), np.zeros(len(turned))
        for edges, lens, rays in seen:
            at = lens.project(np.einsum("nk,mkj->mnj", rays, turned))
            with np.errstate(invalid="ignore"):
                inside = ((at >= 0) & (at < (lens.columns, lens.rows))).all(-1)
                column, row = np.where(inside[..., None], at, 0).astype(int).transpose(2, 0, 1)
            strong = np.where(inside, edges[row, column], 0.0).sum(1)
            shown = inside.sum(1)
            enough = shown >= POINTS
            total += np.where(enough, strong / np.maximum(shown, 1), 0.0)
            count += enough
        # a tilt for which few pictures show the line has no say
        return np.where(count >= max(least, 0.5 * len(seen)), total / np.maximum(count, 1), np.nan).reshape(
            len(pitches), len(rolls))


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
