# SPDX-License-Identifier: Apache-2.0
"""Parameters of the robot's body that several regions have. A robot's profile sets them for all."""
from __future__ import annotations

import math
from dataclasses import dataclass

from brain_runtime import parameter
from brain_wire.parameters import ParameterError

NOISE = 0.02        # m by which a return may lie inside the robot's outline, and still be of what is beside it


@dataclass(frozen=True)
class Frame:
    """Name of the base's frame in messages."""

    base_frame: str = parameter("base_link", "frame of the base, as headers name it", live=False)


@dataclass(frozen=True)
class Body(Frame):
    """A round base, where the lidar is on it, and the conventions of the lidar's driver (``scan`` of a profile)."""

    radius: float = parameter(0.18, "radius of the circle round the base frame that holds the robot", unit="m",
                              low=0.02, high=2.0)
    lidar_x: float = parameter(0.0, "how far ahead of the base frame the lidar is", unit="m", low=-2.0, high=2.0)
    lidar_y: float = parameter(0.0, "how far to the left of the base frame the lidar is", unit="m", low=-2.0, high=2.0)
    lidar_yaw: float = parameter(0.0, "direction of the scan's angle 0", unit="rad", low=-math.pi, high=math.pi)
    scan_zero_is_far: bool = parameter(False, "the lidar's driver writes 0 for no return within range")
    scan_empty_is_free: bool = parameter(False, "the robot may drive, slowly, though the lidar has had no return since "
                                         "the start: it works in the open")
    scan_own: tuple = parameter((), "where beams end at the robot itself: for each part an angle, an angle farther to "
                                "the left (rad) and a distance (m) that its beams do not exceed, from the base frame")

    def __post_init__(self) -> None:
        """Refuses a list that is not made of threes."""
        if len(self.scan_own) % 3 or not all(type(v) in (int, float) for v in self.scan_own):
            raise ParameterError(f"parameter scan_own must be numbers in threes (angle, angle, distance), but is "
                                 f"{list(self.scan_own)!r:.80}")

    @property
    def own(self) -> list[tuple[float, float, float]]:
        """``scan_own`` by threes."""
        return list(zip(*(self.scan_own[k::3] for k in range(3))))

    @property
    def inside(self) -> float:
        """Distance from the base frame (m) below which a return is of something inside the robot's outline."""
        return self.radius - NOISE


DEFAULT = Body()
