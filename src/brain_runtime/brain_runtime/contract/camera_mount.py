# SPDX-License-Identifier: Apache-2.0
"""Place of a robot's camera: by its fixed frames, else by its profile. One reading for all who look through it."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from brain_runtime.contract.azimuth import wrap
from brain_runtime.contract.frames import Frames
from brain_runtime.contract.optics import Mount
from brain_runtime.contract.robot_frames import RobotFrames
from brain_wire.parameters import parameter

USUAL = Mount(x=0.15, height=0.35)
"""Taken where nobody tells."""
GUESSED = (f"nobody tells how the camera is mounted: {USUAL.height:g} m high, {USUAL.x:g} m ahead and level is taken "
           f"and the robot crawls; publish its frames (robot_description), or say camera_height and camera_pitch in "
           f"the profile, or camera_confirmed: true if it is so")
"""Said where :data:`USUAL` is taken."""
APART = 0.05, math.radians(5.0)         # m and rad by which frames and a profile may differ
ROUNDED = 1e-6                          # m and rad by which they do where they say the same
LOWEST = 0.01                           # m above the floor
LONGEST = 150                           # characters of a frame's name, which is told to people
ANGLES = "yaw", "pitch", "roll"
HALF = 3.1416                           # rad: half a turn, as people write it


@dataclass(frozen=True)
class CameraParameters:
    """Place of the camera where the robot's frames do not tell it, and its lens where pictures do not."""

    camera_x: float = parameter(USUAL.x, "how far ahead of base_link the camera is", unit="m", low=-5.0, high=5.0)
    camera_y: float = parameter(0.0, "how far to the left of base_link the camera is", unit="m", low=-5.0, high=5.0)
    camera_height: float = parameter(USUAL.height, "how high above the floor the camera is", unit="m", low=0.01,
                                     high=5.0)
    camera_yaw: float = parameter(0.0, "direction the camera looks in", unit="rad", low=-HALF, high=HALF)
    camera_pitch: float = parameter(0.0, "how far down the camera looks", unit="rad", low=-1.2, high=1.2)
    camera_roll: float = parameter(0.0, "how far the camera's right side hangs down; 3.1416: it hangs upside down",
                                   unit="rad", low=-HALF, high=HALF)
    camera_confirmed: bool = parameter(False, "the camera is mounted as the numbers above say, although they are the "
                                              "usual ones and no frames tell it: a person has measured it")
    field_of_view: float = parameter(math.pi / 2, "horizontal, while camera_info is missing or uncalibrated",
                                     unit="rad", low=0.2, high=2.8)
    rectified: bool = parameter(False, "pictures are rectified: the lens is that of camera_info's p")

    @property
    def mount(self) -> Mount:
        """Mounting that the profile tells."""
        return Mount(self.camera_x, self.camera_y, self.camera_height, self.camera_yaw, self.camera_pitch,
                     self.camera_roll)


class Mounted(NamedTuple):
    """A camera's mounting.

    Attributes:
        mount: of the camera.
        doubt: what sources of it contradict each other, or cannot be, for a person; empty: nothing.
        guessed: nobody tells it, and :data:`USUAL` is taken.
    """

    mount: Mount
    doubt: str
    guessed: bool = False


class CameraMount:
    """Mounting of a camera. Have it :meth:`hear` in each step, by the ports of :class:`.robot_frames.Framed`."""

    def __init__(self) -> None:
        self._frames = RobotFrames()
        self._asked: tuple[Any, Mounted] | None = None

    def hear(self, inbox: Any) -> None:
        """Takes in what frames tell."""
        if self._frames.hear(inbox):
            self._asked = None

    def of(self, parameters: CameraParameters, frame: str, base: str) -> Mounted:
        """Mounting of the camera whose pictures name ``frame``, on the base ``base``."""
        asked = parameters, frame, base
        if self._asked is None or self._asked[0] != asked:
            self._asked = asked, self._found(*asked)
        return self._asked[1]

    def _found(self, parameters: CameraParameters, frame: str, base: str) -> Mounted:
        told, frame = parameters.mount, frame[:LONGEST]
        found, _ = self._frames.find(frame, base, Frames.mount) if frame else (None, "")
        if found is None:       # who publishes no frames of the camera has a profile
            guessed = told == USUAL and not parameters.camera_confirmed
            return Mounted(told, self._frames.broken or GUESSED * guessed, guessed)
        if found.height < LOWEST:
            return Mounted(told, f"by frame {frame!r} the camera is {found.height:.2f} m above the floor, and the "
                                 f"profile is believed; correct the URDF")
        off = _apart(told, found)
        if max(off.values()) < ROUNDED:     # the numbers of the profile are round
            return Mounted(told, self._frames.broken)
        # what is usual a profile need not say
        wrong = [name for name, by in off.items() if by > APART[name in ANGLES]
                 and getattr(told, name) != getattr(USUAL, name)]
        are = {name: round(getattr(found, name), 4) + 0.0 for name in wrong}    # and no -0
        contradiction = wrong and (
            f"frame {frame!r} of the camera and the profile contradict each other, and the frame is believed: "
            + ", ".join(f"camera_{name} is {are[name]:.2f} and not {getattr(told, name):.2f}"
                        for name in wrong)
            + "; in the profile, shared: {" + ", ".join(f"camera_{name}: {are[name]:.4f}" for name in wrong)
            + "}, or correct the URDF")
        return Mounted(found, contradiction or self._frames.broken)


def _apart(one: Mount, other: Mount) -> dict[str, float]:
    """Differences of two mountings, m and rad, all positive."""
    return {name: abs(float(wrap(by)) if name in ANGLES else by) for name in vars(one)
            if math.isfinite(by := getattr(other, name) - getattr(one, name))}
