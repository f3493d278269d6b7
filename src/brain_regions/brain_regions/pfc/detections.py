# SPDX-License-Identifier: Apache-2.0
"""Remembered objects as ``vision_msgs`` has them, for programs that know nothing of this brain.

The port is there where ``vision_msgs`` is installed, and the message is made by the definition that lies there.
"""
from __future__ import annotations

import functools
import math
from typing import Any

from brain_runtime import FEATURE, Out
from brain_runtime.contract.odometry import Pose
from brain_runtime.contract.sights import thing
from brain_runtime.share import share_directory
from brain_wire import definitions, messages

PACKAGE = "vision_msgs"
TYPE = f"{PACKAGE}/msg/Detection3DArray"
SIZE = 0.3              # m, of an object whose width is not known


@functools.cache
def port() -> Out | None:
    """The port for what is remembered; None where ``vision_msgs`` is not installed, or is one before 4.0."""
    try:
        definitions.register(PACKAGE, share_directory(PACKAGE))
        fits = messages.has_field(f"{PACKAGE}/msg/ObjectHypothesis", "class_id")
    except (OSError, ValueError):       # ValueError: there are no such definitions
        return None
    return Out("pfc/objects", TYPE, FEATURE, on_demand=True) if fits else None


def told(out: Out, objects: Any, odom: Any, pose: Pose) -> Any:
    """Objects in odometry's frame, at the moment of the pose from which they are told.

    Args:
        out: the port.
        objects: DetectedObjects.
        odom: Odometry of that pose.
        pose: of the robot.
    """
    header = messages.make("std_msgs/msg/Header", stamp=odom.header.stamp, frame_id=odom.header.frame_id)
    found = []
    for one in objects:
        angle, size = pose[2] + one.bearing, one.width if math.isfinite(one.width) else SIZE
        at = messages.make("geometry_msgs/msg/Pose")
        at.position.x = pose[0] + one.distance * math.cos(angle)
        at.position.y = pose[1] + one.distance * math.sin(angle)
        at.position.z, at.orientation.w = size / 2, 1.0
        result = messages.make(f"{PACKAGE}/msg/ObjectHypothesisWithPose")
        result.hypothesis.class_id, result.hypothesis.score = thing(one.color, one.shape), float(one.confidence)
        result.pose.pose = at
        detection = messages.make(f"{PACKAGE}/msg/Detection3D", header=header, results=[result])
        detection.bbox.center, whole = at, detection.bbox.size
        whole.x = whole.y = whole.z = float(size)
        found.append(detection)
    return out(header=header, detections=found)
