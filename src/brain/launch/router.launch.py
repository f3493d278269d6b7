# SPDX-License-Identifier: Apache-2.0
"""A Zenoh router alone, where none answers yet."""

from brain.ros_launch import router_description


def generate_launch_description():
    """Return what launch runs; `ros2 launch brain router.launch.py --show-args` tells the arguments."""
    return router_description()
