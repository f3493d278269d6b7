# SPDX-License-Identifier: Apache-2.0
"""Level pictures of any camera, which the network of vision is made for."""
from __future__ import annotations

import functools
import math
from typing import Any

from brain_regions.vision.network import HEIGHT, WIDTH, directions
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Levelled, Mount


@functools.lru_cache(maxsize=8)
def levelled(lens: Lens, mount: Mount) -> Levelled:
    """Makes the map from a camera's pictures to level ones, uint8 [HEIGHT, WIDTH, 3], once for a lens and a mounting.

    Raises:
        OpticsError: the camera sees nothing of what a level picture shows.
    """
    return Levelled(lens, mount, directions())


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
