# SPDX-License-Identifier: Apache-2.0
"""Where a robot's camera is: by its fixed frames, else by its profile. One reading for all who look through it."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from brain_runtime.contract.frames import FrameError, Frames
from brain_runtime.contract.optics import Mount
from brain_wire.parameters import parameter

USUAL = Mount(x=0.15, height=0.35)
"""Taken where nobody tells."""
FAR, TURNED = 0.05, math.radians(5.0)       # m and rad by which frames and a profile may differ


@dataclass(frozen=True)
class CameraParameters:
    """Place of the camera by the robot's profile, and its lens where pictures do not tell."""

    camera_x: float = parameter(USUAL.x, "how far ahead of base_link the camera is", unit="m", low=-5.0, high=5.0)
    camera_y: float = parameter(0.0, "how far to the left of base_link the camera is", unit="m", low=-5.0, high=5.0)
    camera_height: float = parameter(-1.0, "how high above the floor the camera is; below 0: as its frames say, else "
                                     f"{USUAL.height:g}", unit="m", low=-1.0, high=5.0)
    camera_yaw: float = parameter(0.0, "direction the camera looks in", unit="rad", low=-math.pi, high=math.pi)
    camera_pitch: float = parameter(0.0, "how far down the camera looks", unit="rad", low=-1.2, high=1.2)
    camera_roll: float = parameter(0.0, "how far the camera's right side hangs down", unit="rad", low=-math.pi,
                                   high=math.pi)
    field_of_view: float = parameter(math.pi / 2, "horizontal, while camera_info is missing or uncalibrated",
                                     unit="rad", low=0.2, high=2.8)
    rectified: bool = parameter(False, "pictures are rectified: the lens is that of camera_info's p")

    def mount(self) -> Mount:
        """Mounting that the profile tells."""
        return Mount(self.camera_x, self.camera_y, self.camera_height if self.camera_height > 0 else USUAL.height,
                     self.camera_yaw, self.camera_pitch, self.camera_roll)


class Mounted(NamedTuple):
    """A camera's mounting and where it is from.

    Attributes:
        mount: of the camera.
        known: frames or the profile tell how high it is; else it is taken for usual.
        doubt: how sources contradict each other, in words; empty: they do not.
    """

    mount: Mount
    known: bool
    doubt: str


class CameraMount:
    """Mounting of a camera, kept up to date by what comes in."""

    def __init__(self) -> None:
        self._frames, self._refused = Frames(), ""
        self._asked: tuple[Any, Mounted] | None = None

    def take_frames(self, message: Any) -> None:
        """Takes in a message of ``tf_static``."""
        self._take(self._frames.take, message)

    def take_description(self, message: Any) -> None:
        """Takes in a ``robot_description``."""
        self._take(self._frames.describe, message.data)

    def _take(self, how: Any, what: Any) -> None:
        try:
            how(what)
        except FrameError as error:
            self._refused = str(error)
        self._asked = None

    def of(self, parameters: CameraParameters, frame: str, base: str) -> Mounted:
        """Returns the mounting of the camera whose pictures name ``frame``, on the base ``base``."""
        if self._asked is None or self._asked[0] != (parameters, frame, base):
            self._asked = (parameters, frame, base), self._found(parameters, frame, base)
        return self._asked[1]

    def _found(self, parameters: CameraParameters, frame: str, base: str) -> Mounted:
        told, known = parameters.mount(), parameters.camera_height > 0
        try:
            found = self._frames.mount(frame, base)
        except FrameError as error:
            # who publishes no frames of the camera has a profile; who publishes wrong ones is told
            return Mounted(told, known, self._refused or (str(error) if "circle" in str(error) else ""))
        if found.height <= 0.01:
            return Mounted(told, known, f"by its frames the camera is {found.height:.2f} m above the floor; the "
                                        f"profile is taken: correct the frames of {frame!r}")
        doubt = self._refused or self._frames.changed
        if known and not doubt and _apart(found, told):
            doubt = (f"by its frames the camera is {_said(found)}, by the profile {_said(told)}; the frames are taken: "
                     f"correct the one that is wrong")
        return Mounted(told if _equal(found, told) else found, True, doubt)


def _apart(a: Mount, b: Mount) -> bool:
    turns = (abs(math.remainder(p - q, 2 * math.pi)) for p, q in ((a.yaw, b.yaw), (a.pitch, b.pitch), (a.roll, b.roll)))
    return max(abs(a.x - b.x), abs(a.y - b.y), abs(a.height - b.height)) > FAR or max(turns) > TURNED


def _equal(a: Mount, b: Mount) -> bool:
    """Whether they differ by rounding alone: the profile's numbers are taken then, which are round."""
    return all(abs(p - q) < 1e-6 for p, q in zip(vars(a).values(), vars(b).values()))


def _said(mount: Mount) -> str:
    return (f"{mount.height:.2f} m high, {mount.x:.2f} m ahead, turned by {math.degrees(mount.yaw):.0f}, pitched by "
            f"{math.degrees(mount.pitch):.0f} and rolled by {math.degrees(mount.roll):.0f} degrees")
