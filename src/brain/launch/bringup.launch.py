# SPDX-License-Identifier: Apache-2.0
"""Run a whole brain under ``ros2 launch``: ``brain up``, whose regions are ROS 2 nodes over Zenoh.

Which processes there are stands in the graph alone; ``brain up`` starts and restarts them, and ends them when
launch interrupts it. Real rmw_zenoh nodes see them with ``RMW_IMPLEMENTATION=rmw_zenoh_cpp``.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess
from launch.substitutions import LaunchConfiguration
from launch_ros.substitutions import ExecutableInPackage

ARGUMENTS = {
    "world": ("none", "'arena' starts the simulated robot too; 'none' where a real one publishes its sensors"),
    "split": ("val", "rooms of the simulated world: train, val or test"),
    "seed": ("0", "which of these rooms"),
}


def generate_launch_description() -> LaunchDescription:
    """Return what launch runs: one process, with the arguments above as its options."""
    command = [ExecutableInPackage(package="brain", executable="brain"), "up"]
    for name in ARGUMENTS:
        command += [f"--{name}", LaunchConfiguration(name)]
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, ExecuteProcess(cmd=command, output="screen")])
