# SPDX-License-Identifier: Apache-2.0
"""Common parts of plug-in sensors: where the sensor is on the robot, and hazard maps of what it tells."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Mapping

import numpy as np

from brain_regions.azimuth import BINS, WIDTH
from brain_regions.body import Frame
from brain_runtime.contract.robot_frames import Framed, RobotFrames
from brain_runtime import FEATURE, Out, parameter
from brain_runtime.contract.frames import Frames, Pose


@dataclass(frozen=True)
class PluginParameters(Frame):
    """Robot, and place of the sensor where no frame tells it."""

    radius: float = parameter(0.18, "radius of the circle round the base frame that holds the robot", unit="m",
                              low=0.02, high=2.0)
    x: float = parameter(0.0, "how far ahead of the base frame the sensor is, if its frame does not tell", unit="m",
                         low=-2.0, high=2.0)
    y: float = parameter(0.0, "how far to the left of the base frame it is", unit="m", low=-2.0, high=2.0)
    z: float = parameter(0.1, "how high it is", unit="m", low=0.0, high=3.0)
    yaw: float = parameter(0.0, "direction in which it looks", unit="rad", low=-3.1416, high=3.1416)
    pitch: float = parameter(0.0, "how far it looks down", unit="rad", low=-1.5708, high=1.5708)


class PluginSensor(Framed):
    """Base of sensors that join: subclasses declare the port ``reading`` and say in :meth:`hazard` what it means."""

    rate = 10.0
    modality = ""
    confidence = 1.0
    fresh = 0.5             # s, age up to which a reading tells
    Parameters = PluginParameters
    features = Out("sensor/features", "brain_interfaces/msg/SensorFeatures", FEATURE.with_depth(10),
                   stamp_from="reading")

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Takes parameters; of the robot's frames nothing is known yet."""
        super().configure(parameters)
        self._frames = RobotFrames()

    def hazard(self, reading: Any) -> np.ndarray:
        """Hazard map, float32[36] as SensorFeatures has it, of a reading. Raises ValueError: it cannot be read."""
        raise NotImplementedError(f"{type(self).__name__} must define hazard()")

    def step(self, inbox, state, dt, rng):
        """Tells of the newest reading; while it is too old or cannot be read, nothing."""
        self._frames.hear(inbox)
        self.trouble = self._frames.broken
        reading = inbox.get("reading", within=self.fresh)
        if reading is None:
            return {}, state
        try:
            hazard = self.hazard(reading)
        except ValueError as error:
            self.trouble = f"{type(self).reading.topic} is refused: {error}"
            return {}, state
        message = self.features(source=self.name, modality=self.modality, confidence=self.confidence, hazard=hazard)
        message.header.frame_id = self.parameters.base_frame
        return {"features": message}, state

    def place(self, frame: str) -> Pose:
        """Place of the sensor of a frame, seen from the base; as the parameters say where no frame tells it."""
        found, why = self._frames.find(frame, self.parameters.base_frame, Frames.pose) if frame else (None, "")
        self.trouble = self.trouble or why
        if found is not None:
            return found
        p = self.parameters
        (s, c), (n, d) = ((math.sin(a), math.cos(a)) for a in (p.yaw, p.pitch))
        return Pose(np.array([[c * d, -s, c * n], [s * d, c, s * n], [-n, 0.0, d]]), np.array([p.x, p.y, p.z]))

    def around(self, points: np.ndarray) -> np.ndarray:
        """Hazard map, float32[36], of points from the base, float[n, 2 or more] (m)."""
        distances = np.hypot(points[:, 0], points[:, 1])
        hazard = np.zeros(BINS, np.float32)
        bins = np.rint(np.arctan2(points[:, 1], points[:, 0]) / WIDTH).astype(int) % BINS
        np.maximum.at(hazard, bins, np.clip(1.0 - (distances - self.parameters.radius), 0.0, 1.0).astype(np.float32))
        return hazard

    def touching(self, direction: float, width: float) -> np.ndarray:
        """Hazard map, float32[36], of what touches the robot in a direction, over a width (rad)."""
        count = max(3, math.ceil(width / WIDTH) * 2 + 1)
        across = direction + np.linspace(-width / 2, width / 2, count)
        return self.around(self.parameters.radius * np.stack([np.cos(across), np.sin(across)], -1))
