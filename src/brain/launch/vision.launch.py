# SPDX-License-Identifier: Apache-2.0
"""The eye alone: camera pictures to objects."""

from brain.ros_launch import description


def generate_launch_description():
    """Return what launch runs; `ros2 launch brain vision.launch.py --show-args` tells the arguments."""
    return description("vision/objects")
