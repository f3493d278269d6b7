# SPDX-License-Identifier: Apache-2.0
"""The simulated robot alone: world, camera and what else the graph's world has."""

from brain.ros_launch import description


def generate_launch_description():
    """Return what launch runs; `ros2 launch brain simulator.launch.py --show-args` tells the arguments."""
    return description("devices", world="sim")
