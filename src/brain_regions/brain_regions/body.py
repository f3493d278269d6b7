# SPDX-License-Identifier: Apache-2.0
"""Parameters of the robot's body that several regions have. A robot's profile sets them for all."""
from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from brain_runtime import parameter
from brain_runtime.contract.optics import Mount
from brain_runtime.contract.outline import INSIDE
from brain_wire.parameters import ParameterError

B = TypeVar("B", bound="Body")
HALF = 3.1416       # rad: half a turn, as people write it


@dataclass(frozen=True)
class Frame:
    """Name of the base's frame in messages."""

    base_frame: str = parameter("base_link", "frame of the base, as headers name it", live=False)


@dataclass(frozen=True)
class Body(Frame):
    """A round base, where lidars are on it, and the conventions of the lidar's driver (``scan`` of a profile).

    Where the robot's frames tell how a lidar is mounted, they are believed before this; see :mod:`.lidars`.
    """

    radius: float = parameter(0.18, "radius of the circle round the base frame that holds the robot", unit="m",
                              low=0.02, high=2.0)
    lidar_x: float = parameter(0.0, "how far ahead of the base frame the lidar is", unit="m", low=-2.0, high=2.0)
    lidar_y: float = parameter(0.0, "how far to the left of the base frame the lidar is", unit="m", low=-2.0, high=2.0)
    lidar_yaw: float = parameter(0.0, "direction of the scan's angle 0", unit="rad", low=-HALF, high=HALF)
    lidar_pitch: float = parameter(0.0, "how far the lidar leans ahead, so that its beams ahead go down", unit="rad",
                                   low=-HALF, high=HALF)
    lidar_roll: float = parameter(0.0, "how far the lidar leans to its right; 3.1416: it hangs upside down", unit="rad",
                                  low=-HALF, high=HALF)
    lidar_height: float = parameter(0.2, "height of the lidar above the floor, needed where it leans", unit="m",
                                    low=0.0, high=3.0)
    lidar_frames: bool = parameter(True, "where tf_static or robot_description tell how a lidar is mounted, they are "
                                   "believed; false: the profile is")
    second_lidar: tuple = parameter((), "where the lidar of scan/second is, if its frame does not tell: x, y (m) and "
                                    "yaw (rad) as of the first, and if need be pitch, roll (rad) and height (m)")
    scan_zero_is_far: bool = parameter(False, "the lidar's driver writes 0 for no return within range")
    scan_empty_is_free: bool = parameter(False, "the robot may drive, slowly, though the lidar has had no return since "
                                         "the start: it works in the open")
    scan_own: tuple = parameter((), "where beams end at the robot itself: for each part an angle, an angle farther to "
                                "the left (rad) and a distance (m) that its beams do not exceed, from the base frame")

    def __post_init__(self) -> None:
        """Refuses a list that is not made of threes, and a second lidar whose place is none."""
        if len(self.scan_own) % 3 or not all(type(v) in (int, float) for v in self.scan_own):
            raise ParameterError(f"parameter scan_own must be numbers in threes (angle, angle, distance), but is "
                                 f"{list(self.scan_own)!r:.80}")
        if len(self.second_lidar) not in (0, 3, 4, 5, 6) or not all(
                type(v) in (int, float) and math.isfinite(v) for v in self.second_lidar):
            raise ParameterError(f"parameter second_lidar must be x, y, yaw and if need be pitch, roll, height, but is "
                                 f"{list(self.second_lidar)!r:.80}")

    @property
    def lidar(self) -> Mount:
        """Mounting of the lidar."""
        return Mount(self.lidar_x, self.lidar_y, self.lidar_height, self.lidar_yaw, self.lidar_pitch, self.lidar_roll)

    @property
    def second(self) -> Mount | None:
        """Mounting of the second lidar; None: nothing is said of one."""
        if not self.second_lidar:
            return None
        x, y, yaw, pitch, roll, height = (*self.second_lidar, *(0.0, 0.0, type(self).lidar_height)[
            len(self.second_lidar) - 3:])
        return Mount(x, y, height, yaw, pitch, roll)

    def with_lidar(self: B, mount: Mount) -> B:
        """The same body with its lidar mounted so."""
        return replace(self, lidar_x=mount.x, lidar_y=mount.y, lidar_yaw=mount.yaw, lidar_pitch=mount.pitch,
                       lidar_roll=mount.roll, lidar_height=mount.height)

    @property
    def own(self) -> list[tuple[float, float, float]]:
        """``scan_own`` by threes."""
        return list(zip(*(self.scan_own[k::3] for k in range(3))))

    @property
    def inside(self) -> float:
        """Distance from the base frame (m) below which a return is of something inside the robot's outline."""
        return self.radius - INSIDE


DEFAULT = Body()
