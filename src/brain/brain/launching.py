# SPDX-License-Identifier: Apache-2.0
"""What launch files start: a graph's regions as ROS 2 nodes. Plain data, so that it is tested without launch.

The launch files turn each :class:`LaunchedNode` into a ``launch_ros.actions.Node``; which there are, and which are
started again, stands in the graph alone.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Mapping

from brain.graphs import config_directory, find_graph, load, merged, own_parameters, params_file
from brain.robots import SIM as SIMULATED
from brain.robots import load_robot, shipped
from brain.rooms import SEED
from brain_runtime.graph import GraphError, RegionSpec, load_worlds

PACKAGE, EXECUTABLE = "brain_runtime", "ros_region"
RESPAWN_DELAY = 0.5         # s before a node that ended is started again
SIM = "sim"                 # the first world of a graph, whatever its name
NO_WORLD = "none"
DEVICES = "devices"
_NAMESPACE = re.compile(r"/?[A-Za-z_]\w*(/[A-Za-z_]\w*)*/?", re.ASCII)
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
    "world": Argument("none", "'sim' starts the graph's simulated robot too, 'none' where a real one publishes its "
                              "sensors"),
    "robot": Argument(SIMULATED, "The robot's profile, which maps topics, frames and limits: a path to a .yaml, or one "
                                 f"of {', '.join(shipped())}"),
    "namespace": Argument("", "Of every node, so that several brains run side by side"),
    "params_file": Argument("", "ROS 2 parameter file of this robot, over its profile"),
    "use_sim_time": Argument("false", "Stamps come from /clock; timeouts stay on the steady clock", BOOL),
    "router": Argument("auto", "Zenoh router: 'auto' starts one if RMW_IMPLEMENTATION is rmw_zenoh_cpp and none "
                       "answers", ("auto", *BOOL)),
    "rviz": Argument("false", "Shows the brain in RViz, with config/brain.rviz", BOOL),
    "log_level": Argument("info", "Of every node", LOG_LEVELS),
    "state_dir": Argument("", "Folder of the snapshots, from which regions come back as they were; empty: none"),
    "seed": Argument(str(SEED), "Of the simulated room and of all random streams"),
    "split": Argument("val", "Rooms of the simulated world", ("train", "val", "test")),
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
        device: of the simulated world, not of the brain.
        log_level: of the node.
    """

    name: str
    namespace: str
    arguments: tuple[str, ...]
    parameters: tuple[Path | Mapping[str, Any], ...]
    remappings: tuple[tuple[str, str], ...]
    respawn: bool
    device: bool
    log_level: str

    def settings(self) -> dict[str, Any]:
        """Keyword arguments for ``launch_ros.actions.Node``."""
        return dict(package=PACKAGE, executable=EXECUTABLE, name=self.name, namespace=self.namespace,
                    arguments=list(self.arguments), remappings=list(self.remappings), respawn=self.respawn,
                    respawn_delay=RESPAWN_DELAY, output="screen", ros_arguments=["--log-level", self.log_level],
                    parameters=[p if isinstance(p, dict) else str(p) for p in self.parameters])


def world_of(graph: str, world: str) -> str:
    """The world that is meant: ``sim`` is the graph's first.

    Raises:
        GraphError: there is no such world or graph.
    """
    if world != SIM:
        return world
    worlds = load_worlds(find_graph(graph))
    if not worlds:
        raise GraphError(f"graph {graph} has no simulated world; say world:=none")
    return worlds[0]


def chosen(specs: Iterable[RegionSpec], only: Iterable[str], graph: str) -> list[RegionSpec]:
    """The regions that are wanted.

    Args:
        specs: all regions.
        only: what is wanted: ``devices`` for the simulated world, the regions of the brain that publish a topic, or
            those of a name; empty: all.
        graph: as messages call it.

    Raises:
        GraphError: none publishes such a topic or has such a name.
    """
    specs, only = list(specs), tuple(only)
    wanted: set[str] = set() if only else {spec.name for spec in specs}
    for part in only:
        if part == DEVICES:
            found = {spec.name for spec in specs if spec.device}
        else:
            found = {spec.name for spec in specs if part == spec.name or not spec.device and part in
                     {port.topic for port in spec.load().outputs().values()}}
        if not found and part != DEVICES:
            raise GraphError(f"graph {graph} has no {part}, neither a region nor a topic that one publishes; it has "
                             + ", ".join(spec.name for spec in specs))
        wanted |= found
    return [spec for spec in specs if spec.name in wanted]


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


def launched(graph: str = "brain", world: str = NO_WORLD, *, robot: str = SIMULATED, namespace: str = "",
             only: Iterable[str] = (), params: str = "", use_sim_time: bool = False, seed: int | str = 0,
             split: str = "val", state_dir: str = "", log_level: str = "info") -> list[LaunchedNode]:
    """The nodes that launch is to start.

    Args:
        graph: name or path of a graph.
        world: ``sim``, ``none``, or the name of one of the graph's worlds.
        robot: name or path of a robot's profile.
        namespace: of every node.
        only: what is wanted; see :func:`chosen`.
        params: ROS parameter file over the robot's profile; empty: none.
        use_sim_time: stamps come from ``/clock``; timeouts stay on the steady clock.
        seed, split: of the simulated room, and the seed of the random streams.
        state_dir: folder of the snapshots; empty: none are made.
        log_level: one of :data:`LOG_LEVELS`.

    Raises:
        GraphError: a graph, world, node, file, number or level that there is not.
        RobotError: a robot's profile that there is not, or that does not fit.
    """
    profile = load_robot(robot)
    loaded = profile.on(load(graph, world_of(graph, world)))
    given = profile.parameters(loaded)
    seed = whole_number("seed", seed)
    if namespace and not _NAMESPACE.fullmatch(namespace):
        raise GraphError(f"namespace is {namespace!r}; it must be made of names of letters, digits and _, as in "
                         f"namespace:=robot1 or namespace:=hall/robot1")
    if log_level not in LOG_LEVELS:
        raise GraphError(f"log_level is {log_level!r}; it must be one of {', '.join(LOG_LEVELS)}")
    if params and not Path(params).is_file():
        raise GraphError(f"there is no parameter file {params}; params_file must be a path to one")
    beside = params_file(find_graph(graph))
    room = {spec.name: {"seed": seed, "split": split} for spec in loaded.regions
            if {"seed", "split"} <= set(spec.load().Parameters.__dataclass_fields__)}
    own = merged(own_parameters(loaded), room)
    # In a namespace the simulated robot has a clock of its own; ROS 2 nodes look for it at the top.
    clock = (("/clock", "clock"),) if use_sim_time and any(spec.device for spec in loaded.regions) else ()
    found = []
    for spec in chosen(loaded.regions, only, graph):
        arguments = ["--class", spec.cls, "--name", spec.name, "--seed", str(seed)]
        arguments += ["--state-dir", state_dir] if state_dir else []
        arguments += ["--critical"] if spec.critical else []
        found.append(LaunchedNode(
            spec.name, namespace, tuple(arguments),
            (*([beside] if beside else []), *([given[spec.name]] if spec.name in given else []),
             *([Path(params)] if params else []), {"use_sim_time": use_sim_time, **own.get(spec.name, {})}),
            (*spec.remap.items(), *clock), spec.restart == "always", spec.device, log_level))
    return found


def rviz_settings(namespace: str = "", use_sim_time: bool = False) -> dict[str, Any]:
    """Keyword arguments for the ``launch_ros.actions.Node`` that shows the brain of a namespace in RViz."""
    topics = ("tf", "tf_static", *(("clock",) if use_sim_time and namespace else ()))
    return dict(package="rviz2", executable="rviz2", name="rviz2", namespace=namespace, output="screen",
                arguments=["-d", str(config_directory() / "brain.rviz")], parameters=[{"use_sim_time": use_sim_time}],
                remappings=[(f"/{topic}", topic) for topic in topics])
