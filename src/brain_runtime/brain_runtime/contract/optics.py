# SPDX-License-Identifier: Apache-2.0
"""Optics of a camera on a robot: where it is mounted, how its lens projects, and its picture as if it hung level.

Frames are those of REP 103: x ahead, y to the left, z up. A camera's pitch is positive down and its roll positive when
its right side goes down, as the right-hand rule has it about y and x.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from brain_runtime.contract.images import Lens

COLUMNS, ROWS = 128, 80     # of a levelled picture
TOP, BOTTOM = math.radians(15.0), math.radians(-60.0)       # elevation of its upper and lower edge
WIDEST = math.radians(120.0)        # that a levelled picture reaches over
ELEVATION = TOP - (np.arange(ROWS) + 0.5) * (TOP - BOTTOM) / ROWS
"""Of the rows' middles (rad)."""
_ASIDE = np.radians(np.arange(-85.0, 85.01, 0.25))          # azimuths at which it is looked what a camera sees


class OpticsError(ValueError):
    """A camera sees nothing that a levelled picture shows; says why."""


@dataclass(frozen=True)
class Mount:
    """Place of a camera on a robot.

    Attributes:
        x, y: from the base's frame (m).
        height: above the floor (m).
        yaw, pitch, roll: rad.
    """

    x: float = 0.0
    y: float = 0.0
    height: float = 0.35
    yaw: float = 0.0
    pitch: float = 0.0
    roll: float = 0.0

    def turned(self) -> np.ndarray:
        """Rotation [3, 3] from the camera (x along its axis) to a level frame that looks along its yaw."""
        c, s = math.cos(self.pitch), math.sin(self.pitch)
        k, r = math.cos(self.roll), math.sin(self.roll)
        return np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]) @ np.array(
            [[1.0, 0.0, 0.0], [0.0, k, -r], [0.0, r, k]])

    def ground(self, elevation: np.ndarray) -> np.ndarray:
        """Distance (m) at which a direction meets the floor; inf at the horizon and above."""
        with np.errstate(divide="ignore"):
            return np.where(elevation < 0.0, self.height / np.tan(-np.minimum(elevation, 0.0)), np.inf)


def rays(azimuth: np.ndarray, elevation: np.ndarray) -> np.ndarray:
    """Unit vectors [..., 3] of directions (rad, left and up positive)."""
    flat = np.cos(elevation)
    return np.stack(np.broadcast_arrays(flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)), -1)


class Levelled:
    """Map from a camera's picture to one whose columns are equal in azimuth and whose rows are equal in elevation.

    The camera's own angular resolution is kept: the columns share what it sees, up to :data:`WIDEST`. Rotation and
    distortion are undone. Rows reach from :data:`TOP` to :data:`BOTTOM`, whether the camera sees so far or not.

    Args:
        lens: of pictures of one size.
        mount: of the camera.

    Attributes:
        azimuth: of the columns' middles [COLUMNS], from the camera's yaw, positive to the left (rad).
        elevation: of the rows' middles [ROWS] (rad).
        resolution: rad a column.
        seen: bool [ROWS, COLUMNS], where the camera sees.

    Raises:
        OpticsError: it sees nothing of that.
    """

    def __init__(self, lens: Lens, mount: Mount) -> None:
        self.lens, self.mount, self.elevation = lens, mount, ELEVATION
        inside = self._at(_ASIDE)[1].sum(0)
        (wide,) = np.nonzero(inside * 3 >= max(inside.max(), 1))   # where a third of the most rows are seen
        if not len(wide):
            raise OpticsError(f"the camera sees nothing between {math.degrees(TOP):.0f} degrees above the horizon and "
                              f"{-math.degrees(BOTTOM):.0f} below it: its pitch of {math.degrees(mount.pitch):.0f} or "
                              f"roll of {math.degrees(mount.roll):.0f} degrees is wrong, or its lens")
        low, high = max(_ASIDE[wide[0]], -WIDEST / 2), min(_ASIDE[wide[-1]], WIDEST / 2)
        self.resolution = float(high - low) / COLUMNS
        self.azimuth = high - (np.arange(COLUMNS) + 0.5) * self.resolution
        at, self.seen = self._at(self.azimuth)
        # blocks over which the picture is averaged, so that nothing between two pixels is lost
        steps = [float(np.nanmedian(np.abs(np.diff(at[..., k], axis=1 - k)))) for k in (1, 0)]
        self._block = [min(max(1, round(step)), 257) if math.isfinite(step) else 1 for step in steps]
        self._size = lens.rows // self._block[0], lens.columns // self._block[1]
        last = np.array(self._size) - 1
        place = np.clip(at[self.seen][:, ::-1] / self._block - 0.5, 0.0, last)
        first = np.minimum(place.astype(np.intp), np.maximum(last - 1, 0))
        y, x = (place - first).astype(np.float32).T[..., None]
        (up, left), (down, right) = first.T, np.minimum(first + 1, last).T
        self._taps = [(row * self._size[1] + column, weight) for row, column, weight in (
            (up, left, (1 - y) * (1 - x)), (up, right, (1 - y) * x), (down, left, y * (1 - x)), (down, right, y * x))]

    def _at(self, azimuth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pixels [ROWS, azimuths, 2] of directions, and where the picture has them."""
        at = self.lens.project(rays(azimuth[None], self.elevation[:, None]) @ self.mount.turned())
        with np.errstate(invalid="ignore"):
            return at, ((at >= 0) & (at < (self.lens.columns, self.lens.rows))).all(-1)

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """float32 [ROWS, COLUMNS, 3], 0 to 255, of a picture uint8 [rows, columns, 3]; 0 where the camera sees nothing.

        Raises:
            ValueError: the picture has another size than the lens says.
        """
        if picture.shape != (self.lens.rows, self.lens.columns, 3):
            raise ValueError(f"a picture of {picture.shape[1]} x {picture.shape[0]} is not one of "
                             f"{self.lens.columns} x {self.lens.rows}, for which this map was made")
        (tall, wide), (rows, columns) = self._block, self._size
        blocks = picture[:rows * tall, :columns * wide].reshape(rows, tall, -1)
        sums = blocks[:, 0].astype(np.uint16)       # of up to 257 rows; whole rows at once, which is quick
        for row in range(1, tall):
            sums += blocks[:, row]
        beside = sums.reshape(rows, columns, wide, 3)
        means = beside[:, :, 0].astype(np.float32)
        for column in range(1, wide):
            means += beside[:, :, column]
        flat = means.reshape(-1, 3) * np.float32(1.0 / (tall * wide))
        found = np.zeros((ROWS, COLUMNS, 3), np.float32)
        found[self.seen] = sum(flat.take(at, 0) * weight for at, weight in self._taps)
        return found
