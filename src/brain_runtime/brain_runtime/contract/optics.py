# SPDX-License-Identifier: Apache-2.0
"""Place of a sensor on a robot, a camera or a lidar, and a camera's picture as if it hung level.

How a camera's lens projects says :mod:`.images`.

Frames are those of REP 103: x ahead, y to the left, z up. A sensor's pitch is positive down and its roll positive when
its right side goes down, as the right-hand rule has it about y and x.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from brain_runtime.contract.images import Lens

SNAPPED = 6     # decimals of a pixel, which rounding alone changes
LARGEST = 257   # px of a block's side: so many bytes add up to 16 bits


class OpticsError(ValueError):
    """A camera sees nothing of a view; says why."""


@dataclass(frozen=True)
class Mount:
    """Place of a camera or a lidar on a robot.

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
        """Rotation [3, 3] from the sensor (x along its axis) to a level frame that looks along its yaw."""
        c, s = math.cos(self.pitch), math.sin(self.pitch)
        k, r = math.cos(self.roll), math.sin(self.roll)
        return np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]) @ np.array(
            [[1.0, 0.0, 0.0], [0.0, k, -r], [0.0, r, k]])

    def beams(self, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Computes how a lidar's beams leave it, float[n] each, by their angles in its scan (rad, float[n]).

        Returns:
            Directions seen from the base (rad, not wrapped); and of each m of a beam, m along the floor and m up.
        """
        ahead, left, up = self.turned() @ np.stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)])
        return np.unwrap(np.arctan2(left, ahead)) + self.yaw, np.hypot(ahead, left), up


def seen(lens: Lens, mount: Mount, rays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finds where a camera shows directions.

    Args:
        lens, mount: of the camera.
        rays: float[..., 3], any length, in a level frame that looks along the camera's yaw.

    Returns:
        Pixels float[..., 2] (column and row, 0 at the left and upper edge), and bool[...], which the picture has.
    """
    at = lens.project(rays @ mount.turned())
    with np.errstate(invalid="ignore"):
        return at, np.asarray(((at >= 0) & (at < (lens.columns, lens.rows))).all(-1))


class Levelled:
    """Map from a camera's picture to one of other directions: rotation, distortion and field of view are undone.

    Where the camera sees nothing it is black (0, 0, 0), and nowhere else: what is black to the camera has 1.

    Args:
        lens: of pictures of one size.
        mount: of the camera, of which pitch and roll count.
        view: directions of the view's pixels, float[rows, columns, 3] of any length, in a level frame that looks along
            the camera's yaw.

    Attributes:
        seen: bool[rows, columns], where the camera sees.

    Raises:
        OpticsError: it sees nothing of the view.
    """

    def __init__(self, lens: Lens, mount: Mount, view: np.ndarray) -> None:
        self._lens = lens
        at, self.seen = seen(lens, mount, view)
        if not self.seen.any():
            raise OpticsError(f"the camera sees nothing of what is looked at: its pitch of "
                              f"{math.degrees(mount.pitch):.0f} or roll of {math.degrees(mount.roll):.0f} degrees is "
                              f"wrong, or its lens")
        # the picture is averaged over blocks as large as the view's pixels, so that nothing between two taps is lost
        known = np.where(self.seen[..., None], at, np.nan)
        tall, wide = self._block = [_step(known[..., axis]) for axis in (1, 0)]
        at = at[self.seen][:, ::-1].round(SNAPPED)
        begin = np.maximum(np.floor(at.min(0) - np.array(self._block) / 2), 0).astype(int)
        end = np.minimum(np.ceil(at.max(0) + np.array(self._block) / 2), (lens.rows, lens.columns)).astype(int)
        self._size = np.maximum((end - begin) // self._block, 1)
        self._part = tuple(slice(first, first + count * block) for first, count, block in zip(
            begin, self._size, self._block))
        last = self._size - 1
        place = np.clip((at - begin) / self._block - 0.5, 0.0, last)
        first = np.minimum(place.astype(np.intp), np.maximum(last - 1, 0))
        y, x = (place - first).astype(np.float32).T[..., None]
        (up, left), (down, right) = first.T, np.minimum(first + 1, last).T
        self._taps = [(row * self._size[1] + column, weight / (tall * wide)) for row, column, weight in (
            (up, left, (1 - y) * (1 - x)), (up, right, (1 - y) * x), (down, left, y * (1 - x)),
            (down, right, y * x)) if weight.any()]

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """Picture of the view, uint8 [rows, columns, 3], of one of the camera, uint8 [rows, columns, 3].

        Raises:
            ValueError: it has another size than the lens says.
        """
        if picture.shape != (self._lens.rows, self._lens.columns, 3):
            raise ValueError(f"a picture of {picture.shape[1]} x {picture.shape[0]} is not one of "
                             f"{self._lens.columns} x {self._lens.rows}, for which this map was made")
        (tall, wide), (rows, columns) = self._block, self._size
        blocks = picture[self._part].reshape(rows, tall, -1)
        sums = blocks[:, 0].astype(np.uint16)       # whole rows at once, which is quick
        for row in range(1, tall):
            sums += blocks[:, row]
        beside = sums.reshape(rows, columns, wide, 3)
        flat = beside[:, :, 0].astype(np.float32)
        for column in range(1, wide):
            flat += beside[:, :, column]
        flat = flat.reshape(-1, 3)
        found = np.zeros((*self.seen.shape, 3), np.uint8)
        found[self.seen] = np.maximum(np.rint(sum(flat.take(at, 0) * weight for at, weight in self._taps)), 1.0)
        return found


def _step(places: np.ndarray) -> int:
    """Whole pixels from one pixel of a view [rows, columns] to the next, along the axis in which they move most."""
    steps = []
    for axis in (0, 1):
        moved = np.diff(places, axis=axis)
        moved = np.sort(np.abs(moved[np.isfinite(moved)]))      # of glances many are made: quicker than a nanmedian
        if len(moved):
            steps.append(float(moved[(len(moved) - 1) // 2] + moved[len(moved) // 2]) / 2)
    return min(max(round(max(steps, default=1.0)), 1), LARGEST)
