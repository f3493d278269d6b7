# SPDX-License-Identifier: Apache-2.0
"""Plug-in sensors: devices that the graph does not list and that may join a running brain: sonar, bumper, camera."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from brain_runtime.interfaces import DetectedObject
from brain_runtime.contract.ports import In, Out
from brain_runtime.contract.region import Inbox, Outbox, Region, State
from brain_sim import robot
from brain_sim.blobs import find_blobs
from brain_sim.camera_region import camera_of, fresh_pose, mover_places
from brain_sim.geometry import Footprint
from brain_sim.movers import Mover, put_movers
from brain_sim.room import Room
from brain_sim.sensors import Lidar
from brain_wire.messages import make
from brain_wire.parameters import parameter
from brain_wire.qos import FEATURE, LATCHED, SENSOR
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

limited_log = RateLimitedLog(logging.getLogger(__name__))

BINS = 36
BIN_WIDTH = 2 * math.pi / BINS


def bins_of(angles: np.ndarray) -> np.ndarray:
    """Bin of each angle (rad, base_link): bin 0 is centered ahead, counter-clockwise."""
    return np.round(np.asarray(angles) / BIN_WIDTH).astype(int) % BINS


class _Device(Region):
    """Base of the devices: it has the room and the true pose, of which they sense something."""

    world = In("sim/world", "std_msgs/msg/String", LATCHED, device=True)
    pose = In("sim/ground_truth", "nav_msgs/msg/Odometry", SENSOR, device=True)
    movers = In("sim/movers", "geometry_msgs/msg/PoseArray", SENSOR, device=True)

    def configure(self, parameters) -> None:
        """Takes the parameters; the room comes with the first sim/world."""
        super().configure(parameters)
        self._ready = False

    def enter(self, world: str) -> None:
        """Take in a new room (the text of sim/world)."""
        raise NotImplementedError(f"{type(self).__name__} must define enter()")

    def _pose(self, inbox: Inbox) -> tuple[float, float, float] | None:
        """The pose if there are both a room and a fresh one; enters a new room first."""
        message = inbox.get("world")
        if message is not None and (inbox.new("world") or not self._ready):
            try:
                self.enter(message.data)
                self._ready = True
            except Exception as error:  # mujoco's too: whatever a text is that is no room, the sensor goes on
                limited_log("world", f"sim/world is ignored, since it holds no room: {quoted(str(error))}; only the "
                                     "world may publish it")
        return fresh_pose(inbox) if self._ready else None

    def _features(self, port: Out, modality: str, hazard: np.ndarray, confidence: float) -> Any:
        """sensor/features with a hazard map float[36]; nothing is said about novelty."""
        return port(header=make("std_msgs/msg/Header", frame_id="base_link"), source=self.name,
                    modality=modality, confidence=confidence, hazard=hazard, novelty=np.zeros(BINS))


class Sonar(_Device):
    """A ring of ultrasound sensors near the floor: sees what lies below the lidar's plane, up to 1.5 m."""

    rate = 20.0
    features = Out("sensor/features", "brain_interfaces/msg/SensorFeatures", FEATURE, stamp_from="pose")

    @dataclass(frozen=True)
    class Parameters:
        """Height, reach and noise of the sonar."""

        height: float = parameter(0.06, "Height above the floor.", unit="m", low=0.02, high=0.3, live=False)
        range: float = parameter(1.5, "How far from the base's center it hears.", unit="m", low=0.3, high=4.0,
                                 live=False)
        noise: float = parameter(0.015, "Standard deviation of a distance.", unit="m", low=0.0, high=0.2,
                                 live=False)

    def enter(self, world: str) -> None:
        """Take in a new room."""
        model = mujoco.MjModel.from_xml_string(json.loads(world)["xml"])
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        # Five rays to a bin: a sonar's cone answers with the nearest echo in it.
        self._rays = Lidar(model, self.parameters.height, 5 * BINS, self.parameters.noise, 0.01,
                           self.parameters.range)
        self._model, self._data = model, data

    def step(self, inbox: Inbox, state: State, dt: float, rng: np.random.Generator) -> tuple[Outbox, State]:
        """One reading of the whole ring."""
        pose = self._pose(inbox)
        if pose is None:
            return {}, state
        if (places := mover_places(inbox)) is not None:
            put_movers(self._model, self._data, places)
        ranges = self._rays.ranges(self._data, *pose, rng)
        nearest = np.full(BINS, np.inf)
        np.minimum.at(nearest, bins_of(self._rays.angles), ranges)
        hazard = np.clip(1.0 - (nearest - robot.BASE_RADIUS), 0.0, 1.0)
        return {"features": self._features(self.features, "sonar", hazard, 0.95)}, state


class Bumper(_Device):
    """A ring of switches on the base's edge that close within 2 cm of anything solid."""

    rate = 50.0
    features = Out("sensor/features", "brain_interfaces/msg/SensorFeatures", FEATURE, stamp_from="pose")

    @dataclass(frozen=True)
    class Parameters:
        """Travel of the switches: how far they stand out."""

        travel: float = parameter(0.02, "Distance at which a switch closes.", unit="m", low=0.001, high=0.1)

    def enter(self, world: str) -> None:
        """Take in a new room."""
        content = json.loads(world)
        room = Room.from_json(json.dumps(content["room"]))
        self._movers = [Mover(**fields) for fields in content.get("movers", ())]
        self._walking: list[Footprint] = []
        (w, d), far = room.size, 10.0
        walls = [Footprint("rect", x, y, 0.0, hx, hy) for x, y, hx, hy in (
            (w / 2 + 0.05, 0, 0.05, far), (-w / 2 - 0.05, 0, 0.05, far),
            (0, d / 2 + 0.05, far, 0.05), (0, -d / 2 - 0.05, far, 0.05))]
        self._solid = room.footprints + walls

    def step(self, inbox: Inbox, state: State, dt: float, rng: np.random.Generator) -> tuple[Outbox, State]:
        """Senses the switches that are closed: hazard 1 in their directions."""
        pose = self._pose(inbox)
        if pose is None:
            return {}, state
        if (places := mover_places(inbox)) is not None:
            self._walking = [m.footprint(float(px), float(py)) for m, (px, py) in zip(self._movers, places)]
        x, y, yaw = pose
        around = yaw + np.arange(BINS) * BIN_WIDTH
        reach = robot.BASE_RADIUS + self.parameters.travel
        px, py = x + reach * np.cos(around), y + reach * np.sin(around)
        hazard = np.zeros(BINS)
        for solid in self._solid + self._walking:
            hazard[solid.distance(px, py) <= 0.0] = 1.0
        return {"features": self._features(self.features, "bumper", hazard, 1.0)}, state


class SecondCamera(_Device):
    """A camera on the base's rear with a conventional detector inside: it says what it sees behind."""

    rate = 10.0
    objects = Out("vision/objects", "brain_interfaces/msg/DetectedObjects", FEATURE, stamp_from="pose")

    @dataclass(frozen=True)
    class Parameters:
        """Direction of the camera."""

        direction: float = parameter(math.pi, "Heading of the optical axis in base_link.", unit="rad",
                                     low=-math.pi, high=math.pi)

    def enter(self, world: str) -> None:
        """Take in a new room."""
        camera = camera_of(world)
        if camera is None:
            raise ValueError("it cannot be loaded")
        self._camera = camera

    def step(self, inbox: Inbox, state: State, dt: float, rng: np.random.Generator) -> tuple[Outbox, State]:
        """One picture, looked through on board."""
        pose = self._pose(inbox)
        if pose is None:
            return {}, state
        x, y, yaw = pose
        axis = self.parameters.direction
        # The lens sits as far from the base's center as the first camera's does.
        ox, oy = robot.CAMERA_FORWARD * math.cos(axis), robot.CAMERA_FORWARD * math.sin(axis)
        c, s = math.cos(yaw), math.sin(yaw)
        eye = (x + c * ox - s * oy, y + s * ox + c * oy, robot.CAMERA_HEIGHT)
        if (places := mover_places(inbox)) is not None:
            put_movers(self._camera.model, self._camera.data, places)
        picture = self._camera.render_from(eye, yaw + axis, rng=rng)
        found = []
        for blob in find_blobs(picture, self._camera.focal)[:32]:
            bx = ox + blob.distance * math.cos(axis + blob.bearing)
            by = oy + blob.distance * math.sin(axis + blob.bearing)
            found.append(make(
                "brain_interfaces/msg/DetectedObject", color=getattr(DetectedObject, f"COLOR_{blob.color.upper()}"),
                shape=getattr(DetectedObject, f"SHAPE_{blob.shape.upper() or 'UNKNOWN'}"),
                confidence=min(0.9, 0.3 + blob.pixels / 100) * (0.6 if blob.cut else 1.0),
                bearing=math.atan2(by, bx), distance=math.hypot(bx, by), width=blob.width))
        half = self._camera.hfov / 2
        return {"objects": self.objects(
            header=make("std_msgs/msg/Header", frame_id="base_link"), source=self.name,
            azimuth_min=axis - half, azimuth_max=axis + half, objects=found)}, state
