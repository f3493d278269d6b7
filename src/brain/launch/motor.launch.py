# SPDX-License-Identifier: Apache-2.0
"""Movement alone: motor, and the brainstem, which alone publishes cmd_vel."""

from brain.ros_launch import description


def generate_launch_description():
    """Return what launch runs; `ros2 launch brain motor.launch.py --show-args` tells the arguments."""
    return description("motor/command", "cmd_vel")
