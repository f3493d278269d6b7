# SPDX-License-Identifier: Apache-2.0
"""A view of the robot from behind and above, cast by rays: for moving pictures, without GL."""

from __future__ import annotations

import math

import numpy as np

from brain_runtime.contract.optics import Mount
from brain_sim.camera import RayCamera
from brain_sim.geometry import Footprint
from brain_sim.layout import TALL
from brain_sim.room import Room

BEHIND = 1.5
ABOVE = 1.15
PITCH = 0.42
KEEP_IN = 0.12
_SMOOTHING = 0.25
_TURNS = (0.0, 0.4, -0.4, 0.8, -0.8, 1.2, -1.2, 1.6, -1.6, 2.2, -2.2)


class ChaseView:
    """Follows the robot through one room. width, height in pixels of the pictures; `xml` as from room_xml."""

    def __init__(self, room: Room, xml: str, width: int = 240, height: int = 160):
        self._camera = RayCamera(xml, width, height, hfov=math.radians(75), mount=Mount(pitch=PITCH), chase=True)
        self._size = room.size
        self._tall: list[Footprint] = [o.footprint for o in room.obstacles if o.height >= TALL]
        self._yaw: float | None = None

    def frame(self, x: float, y: float, yaw: float) -> np.ndarray:
        """Picture uint8[height, width, 3] with the robot at (x, y) meters, heading `yaw` radians.

        The view's heading follows the robot's smoothly, so call it for each frame in turn.
        """
        wanted = self._best_heading(x, y, yaw)
        if self._yaw is None:
            self._yaw = wanted
        self._yaw += _SMOOTHING * math.remainder(wanted - self._yaw, 2 * math.pi)
        back = self._free_length(x, y, self._yaw)
        # What is lost behind the robot is won above it, so that the robot stays in the picture.
        eye = (x - back * math.cos(self._yaw), y - back * math.sin(self._yaw), ABOVE + 0.45 * (BEHIND - back))
        return self._camera.render_from(eye, self._yaw, base=(x, y, yaw))

    def _best_heading(self, x: float, y: float, yaw: float) -> float:
        """The robot's heading, or the nearest to it behind which there is room for the eye."""
        lengths = [self._free_length(x, y, yaw + turn) for turn in _TURNS]
        roomy = [turn for turn, length in zip(_TURNS, lengths, strict=True) if length > 0.75 * BEHIND]
        return yaw + (roomy[0] if roomy else _TURNS[int(np.argmax(lengths))])

    def _free_length(self, x: float, y: float, yaw: float) -> float:
        """Computes how far back from the robot the eye may be: inside the walls, no tall obstacle between (m)."""
        dx, dy = -math.cos(yaw), -math.sin(yaw)
        length = BEHIND
        for at, step, size in ((x, dx, self._size[0]), (y, dy, self._size[1])):
            if abs(step) > 1e-9:
                wall = math.copysign(size / 2 - KEEP_IN, step)
                length = min(length, max((wall - at) / step, 0.0))
        along = np.linspace(0.0, length, 31)
        for block in self._tall:
            hit = np.flatnonzero(block.distance(x + along * dx, y + along * dy) < KEEP_IN)
            if len(hit):
                along = along[:max(hit[0], 1)]
        return float(along[-1])
