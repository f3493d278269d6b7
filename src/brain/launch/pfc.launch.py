# SPDX-License-Identifier: Apache-2.0
"""Decisions alone: language, the prefrontal cortex, and the action Seek."""

from brain.ros_launch import description


def generate_launch_description():
    """Return what launch runs; `ros2 launch brain pfc.launch.py --show-args` tells the arguments."""
    return description("lang/features", "pfc/control", "goal/text")
