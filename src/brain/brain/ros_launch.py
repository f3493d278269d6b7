# SPDX-License-Identifier: Apache-2.0
"""Launch descriptions of the brain and of its parts; the launch files name which part they are."""
from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from brain.launching import LOG_LEVELS, launched, rviz_settings
from brain.robots import SIM, shipped

ROUTER_PORT = 7447


@dataclass(frozen=True)
class Argument:
    """A launch argument: default, description and, where there are few, the values that are allowed."""

    default: str
    description: str
    choices: tuple[str, ...] = ()

    def declare(self, name: str) -> DeclareLaunchArgument:
        """The action that declares it."""
        return DeclareLaunchArgument(name, default_value=self.default, description=self.description,
                                     choices=list(self.choices) or None)


BOOL = ("true", "false")
ARGUMENTS = {
    "graph": Argument("brain", "Which regions there are: a graph of the package, or a path to a .graph.yaml"),
    "world": Argument("none", "'sim' starts the graph's simulated robot too, 'none' where a real one publishes its "
                              "sensors"),
    "robot": Argument(SIM, f"The robot's profile, which maps topics, frames and limits: a path to a .yaml, or one of "
                           f"{', '.join(shipped())}"),
    "namespace": Argument("", "Of every node, so that several brains run side by side"),
    "params_file": Argument("", "ROS 2 parameter file of this robot, over its profile"),
    "use_sim_time": Argument("false", "Stamps come from /clock; timeouts stay on the steady clock", BOOL),
    "router": Argument("auto", "Zenoh router: 'auto' starts one if RMW_IMPLEMENTATION is rmw_zenoh_cpp and none "
                       "answers", ("auto", *BOOL)),
    "rviz": Argument("false", "Shows the brain in RViz, with config/brain.rviz", BOOL),
    "log_level": Argument("info", "Of every node", LOG_LEVELS),
    "state_dir": Argument("", "Folder of the snapshots, from which regions come back as they were; empty: none"),
    "seed": Argument("0", "Of the simulated room and of all random streams"),
    "split": Argument("val", "Rooms of the simulated world", ("train", "val", "test")),
}


def description(*only: str, world: str | None = None, router: bool = False) -> LaunchDescription:
    """What starts a graph's nodes.

    Args:
        only: what is wanted, as in :func:`brain.launching.chosen`; nothing: all nodes.
        world: default of the argument ``world``.
        router: has the arguments ``router`` and ``rviz``, and starts both.
    """
    arguments = {name: argument for name, argument in ARGUMENTS.items() if router or name not in ("router", "rviz")}
    if world is not None:
        arguments["world"] = Argument(world, ARGUMENTS["world"].description)

    def start(context: LaunchContext) -> list:
        value = {name: LaunchConfiguration(name).perform(context) for name in arguments}
        nodes = launched(value["graph"], value["world"], robot=value["robot"], namespace=value["namespace"],
                         only=only, params=value["params_file"], use_sim_time=value["use_sim_time"] == "true",
                         seed=value["seed"], split=value["split"], state_dir=value["state_dir"],
                         log_level=value["log_level"])
        rviz = value.get("rviz") == "true"
        return [*(zenoh_router(value["router"]) if router else []), *(Node(**node.settings()) for node in nodes),
                *([Node(**rviz_settings(value["namespace"], value["use_sim_time"] == "true"))] if rviz else [])]

    return LaunchDescription([*(argument.declare(name) for name, argument in arguments.items()),
                              OpaqueFunction(function=start)])


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
    argument = Argument("true", "'true' starts one where none answers, 'auto' only for rmw_zenoh_cpp", ("auto", *BOOL))
    return LaunchDescription([argument.declare("router"), OpaqueFunction(
        function=lambda context: zenoh_router(LaunchConfiguration("router").perform(context)))])
