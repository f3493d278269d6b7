# SPDX-License-Identifier: Apache-2.0
"""Profiles of robots: by which names a robot has the brain's topics, what it measures and what it may do.

A profile is one YAML file, for every host::

    description: one sentence
    command_timeout: 0.5                                # s; after the last command the base stops by itself
    topics: {cmd_vel: diff_drive_controller/cmd_vel}    # the brain's name: the robot's
    shared: {radius: 0.2}                               # for each region that has a parameter of this name
    scan: {zero_is_far: true}                           # the lidar's conventions: the shared parameters scan_*
    regions: {brainstem: {max_linear: 0.3}}             # for one region
    kit: {lidar: {model: RPLIDAR A1, rate: 7.5}}        # its sensors and base, as they are: see KIT
    middleware: {rmw: rmw_fastrtps_cpp, zenoh: false, bridge: run the brain under ROS 2}
    refused: it has no camera                           # a robot that no brain can drive: why, and the remedy

All but the description may be left out. A user's own parameter file wins over it.
"""
from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Iterable, Mapping

from brain_runtime import yaml_text
from brain_runtime.graph import NO_WORLD, Graph, load_graph, load_worlds
from brain_runtime.graph.graphs import config_directory, default_graph
from brain_wire.parameters import ParameterError, check_parameters
from brain_wire.safe_text import quoted

SIM = "sim"
_KEYS = {"description", "command_timeout", "topics", "shared", "scan", "regions", "kit", "middleware", "refused"}
KIT = {
    "lidar": {"model", "rate", "beams", "from", "to", "nearest", "farthest", "height", "frame"},
    "camera": {"model", "rate", "width", "height_px", "frame"},
    "base": {"max_linear", "max_angular", "acceleration", "turn_acceleration", "odom_rate", "source"}}
"""Parts of a robot and what a profile may tell of each: texts, and numbers in Hz, pixels, rad, m, m/s, rad/s and so on.

They are facts of the robot that no region takes; a fake robot is made of them.
"""
_TEXTS = {"model", "frame", "source"}
_MIDDLEWARE = {"rmw": str, "zenoh": bool, "bridge": str}
LONGEST_TIMEOUT = 2.0       # s; a base that goes on longer by itself has no command timeout
OWN = ("brain/", "estop", "goal/", "teleop/")     # topics by which people and the `brain` command reach a brain
_REFUSED = re.compile(r"^refused:", re.MULTILINE)
_TOPIC = re.compile(r"/?[A-Za-z_]\w*(/[A-Za-z_]\w*)*", re.ASCII)


class RobotError(ValueError):
    """A profile that cannot be used; names the file, the entry and the remedy."""


@dataclass(frozen=True)
class Robot:
    """Profile of a robot.

    Attributes:
        name: of the profile.
        path: of its file.
        description: for a person.
        command_timeout: s after the last command, after which the base stops by itself; None: nobody has measured it.
        topics: from the brain's name of a topic to the robot's; relative names move with the namespace.
        shared: parameters of each region that has one of the name; of the file's ``scan``, with ``scan_`` before it.
        regions: parameters by region, over the shared ones.
        kit: facts of its sensors and its base; see :data:`KIT`.
        middleware: ``rmw``, which its own nodes speak; ``zenoh``, false where they cannot be given rmw_zenoh_cpp; and
            ``bridge``, what a brain then needs, for a person.
    """

    name: str
    path: Path
    description: str = ""
    command_timeout: float | None = None
    topics: Mapping[str, str] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)
    regions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    kit: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    middleware: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unheard(self) -> str:
        """Reason why a brain on Zenoh does not hear this robot, with the remedy; empty where it may."""
        if self.middleware.get("zenoh", True):
            return ""
        return (f"robot {self.name} speaks {self.middleware.get('rmw', 'another middleware')}, which a brain on Zenoh "
                f"does not hear: {self.middleware.get('bridge') or 'run the whole brain under ROS 2'}")

    def on(self, graph: Graph) -> Graph:
        """The graph with the robot's names of topics; what the graph remaps already goes on from there."""
        return replace(graph, regions=tuple(
            replace(spec, remap={**self.topics, **{topic: self.topics.get(other, other)
                                                   for topic, other in spec.remap.items()}})
            for spec in graph.regions)) if self.topics else graph

    def parameters(self, graph: Graph) -> dict[str, dict[str, Any]]:
        """Parameters by region of the graph. Checks all that the profile says against the regions' classes.

        What a profile names may also be in the graph that comes with the package: a small graph of one's own needs no
        profile of its own. Regions of a world that does not join are not loaded, since a robot lacks what they import.

        Raises:
            RobotError: a region, parameter or topic that there is not, or a value that does not fit.
            GraphError: a class that cannot be loaded.
        """
        path = default_graph()
        others = load_graph(path).regions if path else ()
        worlds = [load_graph(path, world) for world in load_worlds(path)] if path else []
        known = {spec.name: spec.load() for spec in (*others, *graph.regions) if not spec.lacks_package()}
        devices = {spec.name for world in worlds for spec in world.regions if spec.device}
        self._check_names("region", self.regions, {*known, *devices})
        self._check_names("topic", self.topics, {port.topic for cls in known.values() for port in cls.ports().values()})
        have = {name: {one.name for one in fields(cls.Parameters)} for name, cls in known.items()}
        self._check_names("parameter", self.shared, set().union(*have.values()))
        values = {name: {**{n: v for n, v in self.shared.items() if n in have[name]}, **self.regions.get(name, {})}
                  for name in known}
        try:
            for name, cls in known.items():
                check_parameters(name, cls.Parameters, values[name])
        except ParameterError as error:
            raise RobotError(f"robot {self.name} ({self.path}): {error}") from error
        return {spec.name: values[spec.name] for spec in graph.regions if values[spec.name]}

    def _check_names(self, what: str, names: Iterable[str], known: Iterable[str]) -> None:
        odd = sorted(set(names) - set(known))
        if odd:
            raise RobotError(f"robot {self.name} ({self.path}): there is no {what} {quoted(', '.join(odd))[1:-1]}; "
                             f"there are {', '.join(sorted(known))}")


def robots_directory() -> Path:
    """Folder of the profiles that come with the package."""
    return config_directory() / "robots"


def shipped() -> list[str]:
    """Names of the profiles that come with the package, without those of robots that are refused."""
    return sorted(path.stem for path in robots_directory().glob("*.yaml")
                  if not _REFUSED.search(path.read_text(encoding="utf-8")))


def robot_in(world: str, robot: str = "") -> str:
    """The profile that is meant: a real robot's must be named; without a name a world's is the simulated one's.

    Args:
        world: ``none`` for a real robot.
        robot: name or path of a profile; empty: none was named.

    Raises:
        RobotError: there is no world and no robot was named, or the simulated one was.
    """
    if world != NO_WORLD:
        return robot or SIM
    if robot and not _is_sim(robot):
        return robot
    real = ", ".join(name for name in shipped() if name != SIM)
    why = f"robot {robot} is the simulated one, whose speeds and braking are no real robot's: without a world name " \
          "yours" if robot else "without a world the robot is a real one and must be named"
    raise RobotError(f"{why}, as robot:=NAME or --robot NAME; there are {real}, or give a path to a .yaml; "
                     f"docs/new-robot.md says how to write one")


def _is_sim(robot: str) -> bool:
    there = _is_file(Path(robot))
    return robot == SIM and not there or there and Path(robot).samefile(robots_directory() / f"{SIM}.yaml")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:    # in a folder of others, or longer than a name may be
        raise RobotError(f"cannot read robot {quoted(str(path))}: {error.strerror}") from error


def load_robot(name: str) -> Robot:
    """Reads a profile. What it says of regions is checked by :meth:`Robot.parameters`.

    Args:
        name: a path, or the name of one that comes with the package (``sim``).

    Raises:
        RobotError: there is none, or it is none.
    """
    path = Path(name)
    if path.suffix not in (".yaml", ".yml") and not _is_file(path):
        path = robots_directory() / f"{name}.yaml"
    if not _is_file(path):
        raise RobotError(f"there is no robot {name!r}; there are {', '.join(shipped())}, or give a path to a .yaml; "
                         f"docs/new-robot.md says how to write one")
    try:
        content = yaml_text.read(path)
    except OSError as error:
        raise RobotError(f"cannot read robot {path}: {error.strerror}") from error
    except yaml_text.YamlProblem as error:
        raise RobotError(f"robot {path} is not YAML: {error}") from error
    return _parse(content, path)


def _parse(content: Any, path: Path) -> Robot:
    if not isinstance(content, dict):
        raise RobotError(f"robot {path} must be a mapping with some of {', '.join(sorted(_KEYS))}")
    odd = sorted(str(key) for key in set(content) - _KEYS)
    if odd:
        raise RobotError(f"robot {path} has unknown keys {quoted(', '.join(odd))[1:-1]}; known are "
                         f"{', '.join(sorted(_KEYS))}")
    if content.get("refused"):
        raise RobotError(f"robot {path.stem} ({path}) is refused: {' '.join(str(content['refused']).split())}")
    timeout = content.get("command_timeout")
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0.0 < timeout <= LONGEST_TIMEOUT):
        raise RobotError(f"robot {path}: `command_timeout` must be a number of seconds, above 0 and at most "
                         f"{LONGEST_TIMEOUT:g}, but is {quoted(repr(timeout))}")
    parts = {key: content.get(key) or {} for key in ("topics", "shared", "scan", "regions")}
    for key, value in parts.items():
        if not isinstance(value, dict):
            raise RobotError(f"robot {path}: `{key}` must be a mapping, but is {quoted(repr(value))}")
        for name in value:
            if not isinstance(name, str):
                raise RobotError(f"robot {path}: `{key}` has the key {quoted(repr(name))}, which is no name; put names "
                                 f"in quotes")
    for region, values in parts["regions"].items():
        if not isinstance(values, dict):
            raise RobotError(f"robot {path}: region {region} must be a mapping of parameters, but is "
                             f"{quoted(repr(values))}")
    for topic, other in parts["topics"].items():
        if str(topic).startswith(OWN):
            raise RobotError(f"robot {path}: topic {topic} cannot be renamed, since `brain` and people use it by this "
                             f"name; bring the robot's to it instead")
        if not isinstance(other, str) or not _TOPIC.fullmatch(other):
            raise RobotError(f"robot {path}: topic {topic} must be mapped to a name such as base/{topic}, "
                             f"but is mapped to {quoted(repr(other))}")
    # a list of a parameter file holds numbers of one kind
    scan = {f"scan_{key}": [float(v) if type(v) is int else v for v in value] if isinstance(value, list) else value
            for key, value in parts.pop("scan").items()}
    parts["shared"] = {**parts["shared"], **scan}
    return Robot(path.stem, path, str(content.get("description") or ""), timeout, **parts, kit=_kit(content, path),
                 middleware=_middleware(content, path))


def _kit(content: dict[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    kit = content.get("kit") or {}
    if not isinstance(kit, dict) or not set(kit) <= set(KIT) or not all(isinstance(v, dict) for v in kit.values()):
        raise RobotError(f"robot {path}: `kit` must be a mapping of {', '.join(KIT)} to what they are, but is "
                         f"{quoted(repr(kit))}")
    for part, facts in kit.items():
        for key, value in facts.items():
            if key not in KIT[part]:
                raise RobotError(f"robot {path}: {part} of `kit` has no {quoted(str(key))}; it may tell "
                                 f"{', '.join(sorted(KIT[part]))}")
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            if not (isinstance(value, str) if key in _TEXTS else number):
                raise RobotError(f"robot {path}: {key} of {part} of `kit` must be a "
                                 f"{'text' if key in _TEXTS else 'number'}, but is {quoted(repr(value))}")
    return kit


def _middleware(content: dict[str, Any], path: Path) -> dict[str, Any]:
    told = content.get("middleware") or {}
    if not isinstance(told, dict) or not all(isinstance(v, _MIDDLEWARE.get(k, ())) for k, v in told.items()):
        raise RobotError(f"robot {path}: `middleware` must be a mapping with rmw (a text), zenoh (true or false) and "
                         f"bridge (a text), but is {quoted(repr(told))}")
    return {key: " ".join(value.split()) if isinstance(value, str) else value for key, value in told.items()}


def write_parameters(parameters: Mapping[str, Mapping[str, Any]], path: Path) -> Path:
    """Writes parameters by region as a ROS parameter file that fits in every namespace; returns its path."""
    sections = {f"/**/{region}": {"ros__parameters": dict(values)} for region, values in parameters.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml_text.written(sections), encoding="utf-8")
    return path
