# SPDX-License-Identifier: Apache-2.0
"""What regions know of the robot's body: parameters that several of them have. A robot's profile sets them for all."""
from __future__ import annotations

import math
from dataclasses import dataclass

from brain_runtime import parameter


@dataclass(frozen=True)
class Frame:
    """How messages name the base."""

    base_frame: str = parameter("base_link", "frame of the base, as headers name it", live=False)


@dataclass(frozen=True)
class Body(Frame):
    """A round base, and where the lidar is on it."""

    radius: float = parameter(0.18, "radius of the circle round the base frame that holds the robot", unit="m",
                              low=0.02, high=2.0)
    lidar_x: float = parameter(0.0, "how far ahead of the base frame the lidar is", unit="m", low=-2.0, high=2.0)
    lidar_y: float = parameter(0.0, "how far to the left of the base frame the lidar is", unit="m", low=-2.0, high=2.0)
    lidar_yaw: float = parameter(0.0, "direction of the scan's angle 0", unit="rad", low=-math.pi, high=math.pi)


DEFAULT = Body()
