# SPDX-License-Identifier: Apache-2.0
"""Launch descriptions of the brain and of its parts; the launch files name which part they are.

All that can fail is looked for before the first process starts. What was started ends when launch is gone, however
that went: it is told who its launch is.
"""
from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Mapping

from launch import LaunchContext, LaunchDescription
from launch.actions import (DeclareLaunchArgument, EmitEvent, ExecuteProcess, LogInfo, OpaqueFunction,
                            RegisterEventHandler)
from launch.event_handlers import OnShutdown
from launch.events import Shutdown, matches_action
from launch.events.process import SignalProcess
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from brain import interpreter

interpreter.share_packages()

from brain.launch_router import plan  # noqa: E402
from brain_runtime.graph.launching import (  # noqa: E402
    ROUTER_ARGUMENTS, SIGKILL_AFTER, SIGTERM_AFTER, Argument, arguments_of, planned, rviz_settings)
from brain.preflight import find_executable  # noqa: E402
from brain_wire import safe_text  # noqa: E402
from brain_runtime.graph.dry_run import lines  # noqa: E402
from brain_runtime.graph.graphs import names_of  # noqa: E402
from brain_runtime.run import keeper  # noqa: E402
from brain_runtime.run.state_folder import usable  # noqa: E402

KEEPER = (sys.executable, "-m", "brain_runtime.with_launch")


def _declare(arguments: Mapping[str, Argument]) -> list[DeclareLaunchArgument]:
    """The actions that declare arguments."""
    return [DeclareLaunchArgument(name, default_value=argument.default, description=argument.description,
                                  choices=list(argument.choices) or None) for name, argument in arguments.items()]


def description(*only: str, world: str | None = None, router: bool = False) -> LaunchDescription:
    """Builds the launch description that starts a graph's nodes.

    Args:
        only: what is wanted, as in :func:`brain_runtime.graph.launching.chosen`; nothing: all nodes.
        world: default of the argument ``world``.
        router: has the arguments ``router`` and ``rviz``, and starts both.
    """
    arguments = arguments_of(world=world, router=router)

    def start(context: LaunchContext) -> list:
        value = {name: LaunchConfiguration(name).perform(context) for name in arguments}
        sim_time = value["use_sim_time"] == "true"
        whole = planned(
            value["graph"], value["world"], robot=value["robot"], namespace=value["namespace"], only=only,
            params=value["params_file"], external=names_of(value["external"]), use_sim_time=sim_time,
            seed=value["seed"], split=value["split"], state_dir=value["state_dir"], log_level=value["log_level"])
        said = [LogInfo(msg=f"warning: {warning}") for warning in whole.resolved.warnings]
        if value["dry_run"] == "true":
            wanted = {node.name for node in whole.nodes} if only else None
            return [*said, LogInfo(msg="\n".join(map(safe_text.line, lines(whole.resolved, wanted))))]
        nodes = [node.settings() for node in whole.nodes]
        rviz = [rviz_settings(value["namespace"], sim_time)] if value.get("rviz") == "true" else []
        for settings in nodes:
            find_executable(settings["package"], settings["executable"])
        for settings in rviz:
            find_executable(settings["package"], settings["executable"], ", or leave rviz:=true away")
        if value["state_dir"]:
            usable(Path(value["state_dir"]))
        started = [*(Node(**settings, additional_env=keeper.told(node.turn))
                     for node, settings in zip(whole.nodes, nodes, strict=True)),
                   *(Node(**settings, additional_env=keeper.told(), exec_name=settings["executable"],
                          prefix=shlex.join(KEEPER)) for settings in rviz)]
        routing = zenoh_router(value["router"]) if router else []   # looks before it returns what starts
        return [*said, *routing, *started, _all_end(started)]

    return LaunchDescription([*_declare(arguments), OpaqueFunction(function=start)])


def _all_end(started: list) -> RegisterEventHandler:
    """Sends SIGINT to all that was started when launch ends by SIGINT.

    Launch leaves that to the terminal, where it has one. A SIGINT that was sent to launch alone would have the robot go
    on until its nodes get SIGTERM.
    """
    def end(event: Shutdown, context: LaunchContext) -> list:
        return [EmitEvent(event=SignalProcess(signal_number=signal.SIGINT, process_matcher=matches_action(action)))
                for action in started] if event.due_to_sigint and not context.noninteractive else []

    return RegisterEventHandler(OnShutdown(on_shutdown=end))


def zenoh_router(wanted: str) -> list:
    """The router of rmw_zenoh, where it is wanted and needed."""
    found = plan(wanted, os.environ)
    said = [LogInfo(msg=found.says)] if found.says else []
    if not found.command:
        return said
    environment = {**dict(found.environment), **keeper.told(keeper.ROUTER)}
    kept = ExecuteProcess(cmd=[*KEEPER, "--router", *found.command], name="router", output="screen",
                          additional_env=environment, sigterm_timeout=SIGTERM_AFTER, sigkill_timeout=SIGKILL_AFTER)
    return [*said, kept, _all_end([kept])]


def router_description() -> LaunchDescription:
    """Builds the launch description that starts a Zenoh router alone."""
    return LaunchDescription([*_declare(ROUTER_ARGUMENTS), OpaqueFunction(
        function=lambda context: zenoh_router(LaunchConfiguration("router").perform(context)))])
