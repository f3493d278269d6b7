# SPDX-License-Identifier: Apache-2.0
"""Ground truth of the camera's picture, from the simulator: labels for recordings. No brain may hear it."""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from brain_runtime.contract.ports import In, Out
from brain_runtime.contract.region import Inbox, Outbox, Region, State
from brain_sim import robot
from brain_sim.camera import RayCamera, SeenObject
from brain_sim.camera_region import camera_of, fresh_pose, mover_places
from brain_sim.movers import put_movers
from brain_sim.things import COLORS, SHAPES
from brain_wire.messages import make
from brain_wire.parameters import parameter
from brain_wire.qos import FEATURE, LATCHED, SENSOR

CLEAR_PIXELS = 10
"""An object that shows fewer is told with a confidence of :data:`FAINT`: whether it can be seen is not asked."""
FAINT = 0.1


class Truth(Region):
    """Tells the objects in each picture, as a perfect detector would; stamped as the picture.

    It casts the picture's rays once more. A picture whose pose is not the newest any more, as may be where regions are
    processes of their own, is left without labels.
    """

    world = In("sim/world", "std_msgs/msg/String", LATCHED, device=True)
    pose = In("sim/ground_truth", "nav_msgs/msg/Odometry", SENSOR, device=True)
    movers = In("sim/movers", "geometry_msgs/msg/PoseArray", SENSOR, device=True)
    image = In("camera/image_raw", "sensor_msgs/msg/Image", SENSOR, trigger=True, device=True)

    objects = Out("sim/objects", "brain_interfaces/msg/DetectedObjects", FEATURE, stamp_from="image")

    @dataclass(frozen=True)
    class Parameters:
        """Least part of an object that must be seen."""

        pixels: int = parameter(CLEAR_PIXELS, "Objects that show fewer are told as faint.", unit="px", low=1, high=1000)

    def configure(self, parameters) -> None:
        """Takes the parameters; the room comes with the first sim/world."""
        super().configure(parameters)
        self._camera: RayCamera | None = None

    def step(self, inbox: Inbox, state: State, dt: float, rng: np.random.Generator) -> tuple[Outbox, State]:
        """The objects of a new picture."""
        world = inbox.get("world")
        if world is not None and (inbox.new("world") or self._camera is None):
            self._camera = camera_of(world.data) or self._camera
        pose, image = fresh_pose(inbox), inbox.get("image")
        if self._camera is None or pose is None or not inbox.new("image"):
            return {}, state
        if image.header.stamp != inbox.get("pose").header.stamp:
            return {}, state
        if (places := mover_places(inbox)) is not None:
            put_movers(self._camera.model, self._camera.data, places)
        self._camera.render(*pose)
        seen = sorted(self._camera.ground_truth_objects(), key=lambda o: o.distance)[:32]
        half = robot.CAMERA_HFOV / 2
        return {"objects": self.objects(
            header=make("std_msgs/msg/Header", frame_id="base_link"), source=self.name, azimuth_min=-half,
            azimuth_max=half, objects=[self._object(o) for o in seen])}, state

    def _object(self, seen: SeenObject):
        return make("brain_interfaces/msg/DetectedObject", color=COLORS.index(seen.color) + 1,
                    shape=SHAPES.index(seen.shape) + 1, bearing=seen.bearing, distance=seen.distance,
                    confidence=1.0 if seen.pixels >= self.parameters.pixels else FAINT,
                    width=min(seen.width, math.pi))
