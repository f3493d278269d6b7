# SPDX-License-Identifier: Apache-2.0
"""What no device may say on a robot's topics: what moves it, stops it, or tells it what to do.

A device is described by whoever may order things of a robot, and its driver is a stranger's program. So it gets the
types of single measured values only, and no topic of the brain's own.
"""
from __future__ import annotations

import re

from brain_fleet.schema import FormProblem
from brain_wire.names import NameProblem, expand
from brain_wire.shown import quoted

# Types by the kind of a property, where nothing else is asked for.
PLAIN = {"boolean": "std_msgs/msg/Bool", "integer": "std_msgs/msg/Int64", "float": "std_msgs/msg/Float64",
         "string": "std_msgs/msg/String"}
TYPES = (*PLAIN.values(), "std_msgs/msg/Float32", "std_msgs/msg/Int32", "std_msgs/msg/UInt8", "std_msgs/msg/UInt32",
         "sensor_msgs/msg/BatteryState", "sensor_msgs/msg/FluidPressure", "sensor_msgs/msg/Illuminance",
         "sensor_msgs/msg/Range", "sensor_msgs/msg/RelativeHumidity", "sensor_msgs/msg/Temperature")
# The brain's own (a test compares them with its graph), and those of every ROS 2 node.
TOPICS = ("brain/heartbeat", "brain/spikes", "brain/trace", "camera/camera_info", "camera/image_raw", "clock",
          "cmd_vel", "diagnostics", "estop", "estop/release", "estop/status", "goal/status", "goal/text", "imu",
          "joint_states", "lang/features", "motor/command", "motor/status", "odom", "parameter_events", "pfc/choice",
          "pfc/control", "pfc/memory", "pfc/sheet", "place/headings", "robot_description", "rosout", "scan",
          "sensor/features", "tf", "tf_static", "vision/objects")
BELOW = ("inside", "sim")   # all topics below these


def check_topic(name: str, type_name: str) -> None:
    """Raises FormProblem where a device may not publish on a topic; says what it may."""
    if type_name not in TYPES:
        raise FormProblem(f"a device cannot say a {quoted(type_name)}; there are {', '.join(TYPES)}")
    try:
        full = expand(name, "/", "device")
    except NameProblem as problem:
        raise FormProblem(str(problem)) from None
    if name.startswith("~") or any(full.endswith(f"/{topic}") for topic in TOPICS) or any(
            f"/{above}/" in full for above in BELOW):
        raise FormProblem(f"{quoted(name)} is a topic of the brain's own, which no device may publish; take another, "
                          f"as devices/{name.strip('~/').rpartition('/')[2]}")


def check_key(key: str) -> None:
    """Raises FormProblem where a key is no single key of Zenoh's, or is one of ROS 2's, which have a protocol."""
    chunks = key.split("/")
    if not all(chunks) or re.search(r"[*$?#\s\x00-\x1f]", key):
        raise FormProblem(f"{quoted(key)} is no key: chunks with / between them, and none of * $ ? #")
    if chunks[0].isdecimal() or any(chunk.startswith(("@", "RIHS")) or "::" in chunk for chunk in chunks):
        raise FormProblem(f"{quoted(key)} is a key of ROS 2's or of Zenoh's own; for a topic there is the protocol "
                          f"ros-topic")
