# SPDX-License-Identifier: Apache-2.0
"""Sensors alone, beside the eye: all that publishes sensor/features, such as the map of the room."""

from brain.ros_launch import description


def generate_launch_description():
    """Return what launch runs; `ros2 launch brain sensors.launch.py --show-args` tells the arguments."""
    return description("sensor/features")
