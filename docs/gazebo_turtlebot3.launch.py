# SPDX-License-Identifier: Apache-2.0
"""TurtleBot 3 in Gazebo with a brain. Not run: no Gazebo was at hand when it was written.

It wants ros-$ROS_DISTRO-turtlebot3-gazebo, rmw_zenoh_cpp for all, and this workspace::

    export RMW_IMPLEMENTATION=rmw_zenoh_cpp
    ros2 launch docs/gazebo_turtlebot3.launch.py model:=waffle_pi world:=turtlebot3_world
"""
import os

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction, SetEnvironmentVariable
from launch.launch_description_sources import PythonLaunchDescriptionSource

from ament_index_python.packages import get_package_share_directory

MODELS = ("burger", "waffle_pi")    # of which there are profiles; the Burger's camera is one that you add


def start(context):
    """Gazebo's world with the robot, then the brain, both by simulated time."""
    model, world = (context.launch_configurations[name] for name in ("model", "world"))
    worlds = os.path.join(get_package_share_directory("turtlebot3_gazebo"), "launch", f"{world}.launch.py")
    brain = os.path.join(get_package_share_directory("brain"), "launch", "bringup.launch.py")
    return [
        SetEnvironmentVariable("TURTLEBOT3_MODEL", model),
        IncludeLaunchDescription(PythonLaunchDescriptionSource(worlds), launch_arguments={
            "use_sim_time": "true"}.items()),
        IncludeLaunchDescription(PythonLaunchDescriptionSource(brain), launch_arguments={
            "robot": f"turtlebot3_{model}", "use_sim_time": "true"}.items())]


def generate_launch_description():
    """Called by launch."""
    return LaunchDescription([
        DeclareLaunchArgument("model", default_value="waffle_pi", choices=MODELS, description="Which TurtleBot 3."),
        DeclareLaunchArgument("world", default_value="turtlebot3_world",
                              description="Launch file of turtlebot3_gazebo, without its ending."),
        OpaqueFunction(function=start)])
