# SPDX-License-Identifier: Apache-2.0
"""Messages of a robot's sensors in an empty room, made up: for tests of regions, here and in other packages."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from brain_regions.azimuth import BINS, WIDTH
from brain_wire import messages


def make(name: str, **fields: Any) -> Any:
    """A message of ours, by its name alone."""
    return messages.make(f"brain_interfaces/msg/{name}", **fields)


def stamped(message: Any, stamp: float) -> Any:
    """The message with a stamp (s)."""
    message.header.stamp = messages.time_message(stamp)
    return message


def scan_of_box(x: float, y: float, yaw: float, half: float = 3.0) -> Any:
    """LaserScan from (x, y, yaw) (m, m, rad) in an empty square room of side 2 * half (m)."""
    angles = -math.pi + np.arange(180) * 2 * math.pi / 180
    direction = np.stack([np.cos(angles + yaw), np.sin(angles + yaw)])
    with np.errstate(divide="ignore"):
        reach = np.where(direction > 0, half - np.array([[x], [y]]), -half - np.array([[x], [y]])) / direction
    return messages.make("sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi,
                         angle_increment=2 * math.pi / 180, range_min=0.1, range_max=10.0, ranges=np.abs(reach).min(0))


def odometry(x: float, y: float, yaw: float, stamp: float = 0.0) -> Any:
    """Odometry at (x, y, yaw) (m, m, rad)."""
    message = stamped(messages.make("nav_msgs/msg/Odometry"), stamp)
    message.pose.pose.position.x, message.pose.pose.position.y = x, y
    message.pose.pose.orientation.z, message.pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
    return message


def seen(*objects: dict[str, Any], stamp: float = 0.0) -> Any:
    """Builds the message of vision that tells of objects (fields of DetectedObject)."""
    return stamped(make("DetectedObjects", source="vision", azimuth_min=-math.pi / 4, azimuth_max=math.pi / 4,
                        objects=[make("DetectedObject", **{"confidence": 0.9, **o}) for o in objects]), stamp)


def ways_told(*ways: tuple[float, float], source: str = "place") -> Any:
    """HeadingValues of ways to unseen floor, each of a heading (rad) and what it is worth (m)."""
    value, heading = np.full((2, BINS), np.nan, np.float32)
    for angle, worth in ways:
        bin_ = round(angle / WIDTH) % BINS
        value[bin_], heading[bin_] = worth, angle
    return make("HeadingValues", source=source, value=value, heading=heading)
