# SPDX-License-Identifier: Apache-2.0
"""Cloud: points of a depth camera or a 3D lidar, of which those as high as the robot are in its way."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from brain_regions.sensors.plugin import PluginParameters, PluginSensor
from brain_runtime import SENSOR, In, parameter
from brain_runtime.contract.point_clouds import points

LEAST = 3               # points of a bin: one alone is noise


@dataclass(frozen=True)
class CloudParameters(PluginParameters):
    """Heights that are in the robot's way."""

    low: float = parameter(0.05, "height above the floor from which on a point is in the way", unit="m", low=-1.0,
                           high=1.0)
    high: float = parameter(0.6, "height of the robot, above which nothing is in the way", unit="m", low=0.0, high=3.0)


class Cloud(PluginSensor):
    """A ``sensor_msgs/PointCloud2`` on ``points``."""

    modality, confidence = "cloud", 0.9
    Parameters = CloudParameters
    reading = In("points", "sensor_msgs/msg/PointCloud2", SENSOR, device=True)

    def hazard(self, reading):
        """See the base class; points of the robot itself, well inside its outline, are left out."""
        turned, at = self.place(reading.header.frame_id)
        found = points(reading) @ turned.T.astype(np.float32) + at.astype(np.float32)
        far = np.hypot(found[:, 0], found[:, 1])
        p = self.parameters
        found = found[(found[:, 2] > p.low) & (found[:, 2] < p.high) & (far > p.radius) & (far < p.radius + 1.0)]
        bins = np.rint(np.arctan2(found[:, 1], found[:, 0]) * (36 / (2 * np.pi))).astype(int) % 36
        return self.around(found[np.bincount(bins, minlength=36)[bins] >= LEAST])
