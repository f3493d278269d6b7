# SPDX-License-Identifier: Apache-2.0
"""Place of a sensor on a robot, and a camera's picture as if it hung level. How its lens projects says :mod:`.images`.

Frames are those of REP 103: x ahead, y to the left, z up. A sensor's pitch is positive down and its roll positive when
its right side goes down, as the right-hand rule has it about y and x.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from brain_runtime.contract.images import Lens


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


class OpticsError(ValueError):
    """A camera sees nothing that a level picture shows; says why."""


class Levelled:
    """Map from a camera's picture to a level one: rotation and distortion are undone.

    Args:
        lens: of pictures of one size.
        mount: of the camera.
        view: directions [rows, columns, 3] that the level picture's pixels show, along the mount's yaw (x ahead, y to
            the left, z up).

    Attributes:
        seen: bool [rows, columns], where the camera sees.

    Raises:
        OpticsError: it sees nothing of the view.
    """

    def __init__(self, lens: Lens, mount: Mount, view: np.ndarray) -> None:
        self.lens, self.mount = lens, mount
        at = lens.project(view @ mount.turned())
        with np.errstate(invalid="ignore"):
            self.seen = ((at >= 0) & (at < (lens.columns, lens.rows))).all(-1)
        if not self.seen.any():
            raise OpticsError(f"the camera sees nothing of what is looked at: its pitch of "
                              f"{math.degrees(mount.pitch):.0f} or roll of {math.degrees(mount.roll):.0f} degrees is "
                              f"wrong, or its lens")
        at[~self.seen] = np.nan
        # blocks over which the picture is averaged, so that nothing between two pixels is lost
        steps = [np.abs(np.diff(at[..., k], axis=1 - k)) for k in (1, 0)]
        steps = [step[np.isfinite(step)] for step in steps]
        self._block = [min(max(1, round(float(np.median(step)))), 257) if len(step) else 1 for step in steps]
        self._size = lens.rows // self._block[0], lens.columns // self._block[1]
        last = np.array(self._size) - 1
        place = np.clip(at[self.seen][:, ::-1] / self._block - 0.5, 0.0, last)
        first = np.minimum(place.astype(np.intp), np.maximum(last - 1, 0))
        y, x = (place - first).astype(np.float32).T[..., None]
        (up, left), (down, right) = first.T, np.minimum(first + 1, last).T
        self._taps = [(row * self._size[1] + column, weight) for row, column, weight in (
            (up, left, (1 - y) * (1 - x)), (up, right, (1 - y) * x), (down, left, y * (1 - x)), (down, right, y * x))]

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """uint8 [rows, columns, 3] of a picture uint8 [rows, columns, 3] of the lens's size.

        Black (0, 0, 0) is where the camera sees nothing, and nothing else; what is black to the camera has 1.

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
        found = np.zeros((*self.seen.shape, 3), np.uint8)
        found[self.seen] = np.clip(np.rint(sum(flat.take(at, 0) * weight for at, weight in self._taps)), 1.0, 255.0)
        return found
