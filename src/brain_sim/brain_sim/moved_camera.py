# SPDX-License-Identifier: Apache-2.0
"""The simulated camera on other mountings and with other lenses, which the robot's frames and camera_info tell."""
from __future__ import annotations

import math
import zlib
from dataclasses import replace

import numpy as np

from brain_runtime.contract.optics import Mount
from brain_runtime.contract.ports import Out
from brain_runtime.contract.region import Region
from brain_sim.camera_region import Camera, camera_of
from brain_sim.description import BASE, transform
from brain_wire.messages import time_message
from brain_wire.qos import LATCHED

LINK, OPTICAL = "moved_camera_link", "moved_camera_optical_frame"
MOUNTS = 10


def drawn(number: int) -> tuple[Mount, int, float]:
    """Draws a mounting (0 to :data:`MOUNTS` less 1): 0.12 to 1.1 m high, some degrees aslant; columns, and view (rad).

    A picture has three quarters as many rows as columns.
    """
    rng = np.random.default_rng([41, number])
    mount = Mount(float(rng.uniform(0.0, 0.15)), 0.0, float(np.exp(rng.uniform(math.log(0.12), math.log(1.1)))), 0.0,
                  math.radians(rng.uniform(-10.0, 20.0)), math.radians(rng.uniform(-6.0, 6.0)))
    return mount, int(rng.choice([160, 320])), math.radians(rng.uniform(60.0, 110.0))


def mounted(room: str) -> tuple[Mount, int, float]:
    """The one of :func:`drawn` that a room (the text of sim/world) has."""
    return drawn(zlib.crc32(room.encode()) % MOUNTS)


class MovedCamera(Camera):
    """A camera with one of ten mountings, by the room that it is in; :class:`MovedFrames` tells of it."""

    ablations = {}

    frame = OPTICAL

    def opened(self, world):
        mount, columns, view = mounted(world)
        return camera_of(world, columns, columns * 3 // 4, view, mount=mount)


class MovedFrames(Region):
    """Frames of the :class:`MovedCamera`, as a robot's driver publishes them."""

    world = replace(Camera.world, trigger=True)
    tf_static = Out("tf_static", "tf2_msgs/msg/TFMessage", LATCHED)

    def step(self, inbox, state, dt, rng):
        """Tells of them with each room."""
        if not inbox.new("world"):
            return {}, state
        (mount, _, _), now = mounted(inbox.get("world").data), time_message(inbox.stamp)
        return {"tf_static": self.tf_static(transforms=[
            transform(BASE, LINK, (mount.x, mount.y, mount.height), (mount.roll, mount.pitch, mount.yaw), now),
            transform(LINK, OPTICAL, (0.0, 0.0, 0.0), (-math.pi / 2, 0.0, -math.pi / 2), now)])}, state
