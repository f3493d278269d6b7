# SPDX-License-Identifier: Apache-2.0
"""Hazards: bumpers, cliffs and wheels that drop, as a Create 3 (TurtleBot 4) tells them."""
from __future__ import annotations

import math

import numpy as np

from brain_regions.sensors.plugin import PluginSensor
from brain_runtime import SENSOR, In
from brain_wire import definitions

ONE, SEVERAL = "irobot_create_msgs/msg/HazardDetection", "irobot_create_msgs/msg/HazardDetectionVector"
BUMP, CLIFF, WHEEL_DROP = 1, 2, 4       # of type; the others say nothing of a direction
definitions.add_type(ONE, definitions.parse("std_msgs/Header header\nuint8 type", ONE))
definitions.add_type(SEVERAL, definitions.parse(f"std_msgs/Header header\n{ONE}[] detections", SEVERAL))
WIDTH = math.radians(50.0)
SIDES = {"front": 0.0, "left": math.pi / 2, "right": -math.pi / 2, "back": math.pi, "rear": math.pi}


class Hazards(PluginSensor):
    """An ``irobot_create_msgs/HazardDetectionVector`` on ``hazard_detection``."""

    modality = "bumper"
    reading = In("hazard_detection", SEVERAL, SENSOR, device=True)

    def hazard(self, reading):
        """See the base class; where a hazard is, its frame or the words in that one's name tell, else all round."""
        found = np.zeros(36, np.float32)
        for one in reading.detections[:32]:
            if one.type in (BUMP, CLIFF, WHEEL_DROP):
                sides = [SIDES[word] for word in one.header.frame_id.split("_") if word in SIDES]
                ahead = math.atan2(sum(map(math.sin, sides)), sum(map(math.cos, sides))) if sides else 0.0
                found = np.maximum(found, self.touching(ahead, WIDTH if sides else math.tau))
        return found
