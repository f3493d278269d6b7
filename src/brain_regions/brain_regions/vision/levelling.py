# SPDX-License-Identifier: Apache-2.0
"""Level pictures of any camera, which the network of vision is made for."""
from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from brain_regions.vision.network import HEIGHT, RESOLUTION, TOP, WIDTH, directions
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Levelled, Mount


class Sight(NamedTuple):
    """A camera's pictures as the network looks at them.

    Attributes:
        level: makes them, uint8 [HEIGHT, WIDTH, 3].
        right, left: directions of the edges of what they show (rad, positive to the left, from the camera's yaw).
    """

    level: Levelled
    right: float
    left: float


@functools.lru_cache(maxsize=16)
def sight(lens: Lens, pitch: float = 0.0, roll: float = 0.0) -> Sight:
    """Finds how the network looks through a camera.

    Args:
        lens: of the camera.
        pitch, roll: rad, of its mounting.

    Raises:
        OpticsError: the camera sees nothing of what a level picture shows.
    """
    level = Levelled(lens, Mount(pitch=pitch, roll=roll), directions())
    (columns,) = np.nonzero(level.seen.any(0))
    return Sight(level, (WIDTH / 2 - 1 - int(columns[-1])) * RESOLUTION, (WIDTH / 2 - int(columns[0])) * RESOLUTION)


LEVEL = "level"
"""Distortion model of a CameraInfo that says that pictures have been levelled, which no camera's driver says."""


def level_info(mount: Mount) -> Any:
    """Makes the CameraInfo of level pictures; ``d`` has the camera's x, y, height (m) and yaw (rad)."""
    from brain_wire.messages import make

    return make("sensor_msgs/msg/CameraInfo", width=WIDTH, height=HEIGHT, distortion_model=LEVEL,
                d=[mount.x, mount.y, mount.height, mount.yaw])


def level_mount(info: Any) -> Mount | None:
    """Mounting of the camera whose pictures have been levelled, by their CameraInfo; None: they have not been."""
    if info is None or info.distortion_model != LEVEL or (info.width, info.height) != (WIDTH, HEIGHT):
        return None
    told = [float(value) for value in info.d]
    return Mount(*told) if len(told) == 4 and all(map(math.isfinite, told)) and 0.0 < told[2] <= 5.0 else None


def cut(picture: np.ndarray, view: np.ndarray) -> np.ndarray:
    """Picture of other directions, uint8 [rows, columns, 3], of a level one; black where that shows nothing.

    Args:
        picture: uint8 [HEIGHT, WIDTH, 3].
        view: float[rows, columns, 3], directions of any length, as :func:`.network.directions`.
    """
    x = WIDTH / 2 - 0.5 - np.arctan2(view[..., 1], view[..., 0]) / RESOLUTION
    y = (TOP - np.arctan2(view[..., 2], np.hypot(view[..., 0], view[..., 1]))) / RESOLUTION - 0.5
    inside = (x > -1) & (x < WIDTH) & (y > -1) & (y < HEIGHT)
    left, up = np.clip(np.floor(x), 0, WIDTH - 2).astype(int), np.clip(np.floor(y), 0, HEIGHT - 2).astype(int)
    right, down = np.clip(x - left, 0.0, 1.0)[..., None], np.clip(y - up, 0.0, 1.0)[..., None]
    upper, lower = (picture[row, left] * (1.0 - right) + picture[row, left + 1] * right for row in (up, up + 1))
    return np.where(inside[..., None], np.rint(upper * (1.0 - down) + lower * down), 0).astype(np.uint8)
