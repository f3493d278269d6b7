# SPDX-License-Identifier: Apache-2.0
"""Launch descriptions of the brain and of its parts; the launch files name which part they are."""
from __future__ import annotations

import os
import socket
from typing import Mapping

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from brain import interpreter

interpreter.share_packages()

from brain.launching import ROUTER_ARGUMENTS, Argument, arguments_of, launched, rviz_settings  # noqa: E402

ROUTER_PORT = 7447


def _declare(arguments: Mapping[str, Argument]) -> list[DeclareLaunchArgument]:
    """The actions that declare arguments."""
    return [DeclareLaunchArgument(name, default_value=argument.default, description=argument.description,
                                  choices=list(argument.choices) or None) for name, argument in arguments.items()]


def description(*only: str, world: str | None = None, router: bool = False) -> LaunchDescription:
    """What starts a graph's nodes.

    Args:
        only: what is wanted, as in :func:`brain.launching.chosen`; nothing: all nodes.
        world: default of the argument ``world``.
        router: has the arguments ``router`` and ``rviz``, and starts both.
    """
    arguments = arguments_of(world=world, router=router)

    def start(context: LaunchContext) -> list:
        value = {name: LaunchConfiguration(name).perform(context) for name in arguments}
        nodes = launched(value["graph"], value["world"], robot=value["robot"], namespace=value["namespace"],
                         only=only, params=value["params_file"], use_sim_time=value["use_sim_time"] == "true",
                         seed=value["seed"], split=value["split"], state_dir=value["state_dir"],
                         log_level=value["log_level"])
        rviz = value.get("rviz") == "true"
        return [*(zenoh_router(value["router"]) if router else []), *(Node(**node.settings()) for node in nodes),
                *([Node(**rviz_settings(value["namespace"], value["use_sim_time"] == "true"))] if rviz else [])]

    return LaunchDescription([*_declare(arguments), OpaqueFunction(function=start)])


def zenoh_router(wanted: str) -> list:
    """The router of rmw_zenoh, where it is wanted and needed."""
    if wanted == "false" or (wanted == "auto" and os.environ.get("RMW_IMPLEMENTATION") != "rmw_zenoh_cpp"):
        return []
    with socket.socket() as probe:
        probe.settimeout(1.0)
        if probe.connect_ex(("localhost", ROUTER_PORT)) == 0:
            return [LogInfo(msg=f"a Zenoh router listens on port {ROUTER_PORT} already")]
    return [Node(package="rmw_zenoh_cpp", executable="rmw_zenohd", output="screen", respawn=True, respawn_delay=1.0)]


def router_description() -> LaunchDescription:
    """What starts a Zenoh router alone."""
    return LaunchDescription([*_declare(ROUTER_ARGUMENTS), OpaqueFunction(
        function=lambda context: zenoh_router(LaunchConfiguration("router").perform(context)))])
