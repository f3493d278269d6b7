# SPDX-License-Identifier: Apache-2.0
"""Nodes that launch files start: a graph's regions in ROS 2. Plain data, so that it is tested without launch.

The launch files turn each :class:`LaunchedNode` into a ``launch_ros.actions.Node``; which there are, and which are
started again, stands in the graph alone.
"""
from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Mapping

from brain_runtime.graph.command_lines import arguments as process_arguments
from brain_runtime.graph import NO_WORLD, SIM_WORLD, GraphError, load_graph
from brain_runtime.graph.graphs import config_directory, find_graph
from brain_runtime.hosts.node_parameters import SIM_TIME
from brain_runtime.graph.resolve import resolve
from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_runtime.graph.robots import robot_in, shipped
from brain_runtime.graph.rooms import SEED
from brain_runtime.run import keeper
from brain_runtime.hosts.ros_args import RosArgsError
from brain_wire.parameters import ParameterError

PACKAGE, EXECUTABLE = "brain_runtime", "ros_region"
WITH_SPARE = (sys.executable, "-m", "brain_runtime.with_spare")
RESPAWN_DELAY = 0.5         # s before a node that ended is started again
# s from SIGINT to SIGTERM, and from that to SIGKILL: the brainstem holds on until the robot stands. Launch's own 5 s
# are not enough on a loaded machine.
SIGTERM_AFTER, SIGKILL_AFTER = "10", "10"
DEVICES = "devices"
_NAMESPACE = re.compile(r"/?[A-Za-z_]\w*(/[A-Za-z_]\w*)*/?", re.ASCII)
SPLITS = ("train", "val", "test")
LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")


@dataclass(frozen=True)
class Argument:
    """A launch argument: default, description and, where there are few, the values that are allowed."""

    default: str
    description: str
    choices: tuple[str, ...] = ()


BOOL = ("true", "false")
ARGUMENTS = {
    "graph": Argument("brain", "Which regions there are: a graph of the package, or a path to a .graph.yaml"),
    "world": Argument(NO_WORLD, f"'{SIM_WORLD}' starts the graph's simulated robot too, in the first of its worlds; a "
                                f"name that of another; '{NO_WORLD}' where a real one publishes its sensors"),
    "robot": Argument("", "The robot's profile, which maps topics, frames and limits: a path to a .yaml, or one of "
                          f"{', '.join(shipped())}. With a world 'sim' where none is named; a real one must be named"),
    "namespace": Argument("", "Of every node, so that several brains run side by side"),
    "params_file": Argument("", "ROS 2 parameter file of this robot, over its profile"),
    "external": Argument("", "Regions that others run, as vision,place: waited for and watched like the rest, but not "
                             "started"),
    "dry_run": Argument("false", "Print what would run, and start nothing", BOOL),
    "use_sim_time": Argument("false", "Stamps come from /clock; timeouts stay on the steady clock", BOOL),
    "router": Argument("auto", "Zenoh router: 'auto' starts one if RMW_IMPLEMENTATION is rmw_zenoh_cpp and none "
                       "answers where its sessions look", ("auto", *BOOL)),
    "rviz": Argument("false", "Shows the brain in RViz, with config/brain.rviz", BOOL),
    "log_level": Argument("info", "Of every node", LOG_LEVELS),
    "state_dir": Argument("", "Folder of the snapshots, from which regions come back as they were; empty: none"),
    "seed": Argument(str(SEED), "Of the simulated room and of all random streams"),
    "split": Argument("val", "Rooms of the simulated world", SPLITS),
}
ROUTER_ARGUMENTS = {
    "router": Argument("true", "'true' starts one where none answers, 'auto' only for rmw_zenoh_cpp", ("auto", *BOOL))}


def arguments_of(*, world: str | None = None, router: bool = False) -> dict[str, Argument]:
    """The arguments of a launch file; see :func:`brain.ros_launch.description`, which takes the same."""
    arguments = {name: argument for name, argument in ARGUMENTS.items() if router or name not in ("router", "rviz")}
    if world is not None:
        arguments["world"] = Argument(world, ARGUMENTS["world"].description)
    return arguments


@dataclass(frozen=True)
class LaunchedNode:
    """A node for launch.

    Attributes:
        name, namespace: of the node.
        arguments: of the executable, in front of ``--ros-args``.
        parameters: files and dicts, later ones win.
        remappings: from topic to topic.
        respawn: started again when it ends.
        spare: a second process is kept ready for it; see :mod:`brain_runtime.with_spare`.
        device: of the simulated world, not of the brain.
        log_level: of the node.
    """

    name: str
    namespace: str
    arguments: tuple[str, ...]
    parameters: tuple[Path | Mapping[str, Any], ...]
    remappings: tuple[tuple[str, str], ...]
    respawn: bool
    spare: bool
    device: bool
    log_level: str

    @property
    def turn(self) -> int:
        """Number of its turn to end where launch is gone; see :mod:`brain_runtime.run.keeper`."""
        return keeper.WORLD if self.device else keeper.MOVER

    def settings(self) -> dict[str, Any]:
        """Keyword arguments for ``launch_ros.actions.Node``."""
        return dict(package=PACKAGE, executable=EXECUTABLE, name=self.name, namespace=self.namespace,
                    arguments=list(self.arguments), remappings=list(self.remappings), respawn=self.respawn,
                    respawn_delay=RESPAWN_DELAY, sigterm_timeout=SIGTERM_AFTER, sigkill_timeout=SIGKILL_AFTER,
                    output="screen", ros_arguments=["--log-level", self.log_level],
                    parameters=[p if isinstance(p, dict) else str(p) for p in self.parameters],
                    **(dict(prefix=shlex.join(WITH_SPARE), exec_name=EXECUTABLE) if self.spare else {}))


def chosen(resolved: Resolved, only: Iterable[str]) -> list[ResolvedRegion]:
    """The regions that are wanted, without those that others run.

    Args:
        resolved: all regions.
        only: what is wanted: ``devices`` for the simulated world, the regions of the brain that publish a topic, or
            those of a name; empty: all.

    Raises:
        GraphError: none publishes such a topic or has such a name.
    """
    regions, only = resolved.regions, tuple(only)
    wanted: set[str] = set() if only else {region.name for region in regions}
    for part in only:
        if part == DEVICES:
            found = {region.name for region in regions if region.device}
        else:
            found = {region.name for region in regions if part == region.name or not region.device and part in
                     {port.topic for port in region.load().outputs().values()}}
        if not found and part != DEVICES:
            raise GraphError(f"graph {resolved.name} has no {part}, neither a region nor a topic that one publishes; "
                             f"it has " + ", ".join(region.name for region in regions))
        wanted |= found
    return [region for region in resolved.started if region.name in wanted]


def whole_number(argument: str, value: int | str) -> int:
    """The number that is meant by a launch argument.

    Raises:
        GraphError: it is none of 0 or more.
    """
    try:
        number = int(value)
    except ValueError:
        number = -1
    if number < 0:
        raise GraphError(f"{argument} is {value!r}; it must be a whole number of 0 or more, as in {argument}:=7")
    return number


@dataclass(frozen=True)
class Planned:
    """Plan of the nodes that launch is to start.

    Attributes:
        resolved: the whole brain.
        nodes: what is wanted of it.
    """

    resolved: Resolved
    nodes: tuple[LaunchedNode, ...]


def planned(graph: str = "brain", world: str = NO_WORLD, *, robot: str = "", namespace: str = "",
            only: Iterable[str] = (), params: str = "", external: Iterable[str] = (), use_sim_time: bool = False,
            seed: int | str = 0, split: str = "val", state_dir: str = "", log_level: str = "info") -> Planned:
    """Plans the nodes that launch is to start, and checks what they are given.

    Args:
        graph: name or path of a graph.
        world: ``sim``, ``none``, or the name of one of the graph's worlds.
        robot: name or path of a robot's profile; empty: the simulated one, with a world.
        namespace: of every node.
        only: what is wanted; see :func:`chosen`.
        params: ROS parameter file over the robot's profile; empty: none.
        external: regions that others run.
        use_sim_time: stamps come from ``/clock``; timeouts stay on the steady clock.
        seed, split: of the simulated room, and the seed of the random streams.
        state_dir: folder of the snapshots; empty: none are made.
        log_level: one of :data:`LOG_LEVELS`.

    Raises:
        GraphError: a graph, world, node, file, number, level or value of a parameter that there is not.
        RobotError: a robot's profile that there is not, that does not fit, or that must be named and is not.
    """
    path = find_graph(graph)
    robot = robot_in(load_graph(path, world).world, robot)  # a graph of toys wants one named too
    seed = whole_number("seed", seed)
    if namespace and not _NAMESPACE.fullmatch(namespace):
        raise GraphError(f"namespace is {namespace!r}; it must be made of names of letters, digits and _, as in "
                         f"namespace:=robot1 or namespace:=hall/robot1")
    if log_level not in LOG_LEVELS:
        raise GraphError(f"log_level is {log_level!r}; it must be one of {', '.join(LOG_LEVELS)}")
    if params and not os.path.isfile(params):       # which raises nothing, as Path.is_file() does
        raise GraphError(f"there is no parameter file {params}; params_file must be a path to one")
    if split not in SPLITS:
        raise GraphError(f"split is {split!r}; it must be one of {', '.join(SPLITS)}")
    try:    # what runs may be a part of a brain, so that not every port need be fed
        resolved = resolve(path, world, robot, files=[params] if params else [], namespace=namespace, host="ros",
                           external=external, room={"seed": seed, "split": split}, edges=False)
    except (RosArgsError, ParameterError) as error:
        raise GraphError(f"params_file: {error}" if params else str(error)) from error
    # One dict of what stands below the user's files: the order in which patterns of names come first counts, so that a
    # file beside the graph in front would have the user's own, for the same pattern, lose to the profile.
    below = {region.name: _for_launch({**region.beside, **region.profile}) for region in resolved.regions}
    # In a namespace the simulated robot has a clock of its own; ROS 2 nodes look for it at the top.
    clock = (("/clock", "clock"),) if use_sim_time and any(region.device for region in resolved.regions) else ()
    return Planned(resolved, tuple(LaunchedNode(
        region.name, namespace, tuple(process_arguments(region, seed, state_dir)),
        (*filter(None, [below[region.name]]), *resolved.files, _for_launch({SIM_TIME: use_sim_time, **region.own})),
        (*region.remap.items(), *clock), region.restart == "always", region.spare, region.device,
        log_level)
        for region in chosen(resolved, only)))


def _for_launch(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as launch takes them: of an empty list it cannot tell the kind, and refuses it."""
    return {name: [""] if isinstance(value, (list, tuple)) and not value else value for name, value in values.items()}


def launched(graph: str = "brain", world: str = NO_WORLD, **more: Any) -> list[LaunchedNode]:
    """The nodes that launch is to start; takes and raises what :func:`planned` does."""
    return list(planned(graph, world, **more).nodes)


def rviz_settings(namespace: str = "", use_sim_time: bool = False) -> dict[str, Any]:
    """Keyword arguments for the ``launch_ros.actions.Node`` that shows the brain of a namespace in RViz."""
    topics = ("tf", "tf_static", *(("clock",) if use_sim_time and namespace else ()))
    return dict(package="rviz2", executable="rviz2", name="rviz2", namespace=namespace, output="screen",
                arguments=["-d", str(config_directory() / "brain.rviz")], parameters=[{"use_sim_time": use_sim_time}],
                remappings=[(f"/{topic}", topic) for topic in topics])
