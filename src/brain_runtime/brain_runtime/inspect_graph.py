# SPDX-License-Identifier: Apache-2.0
"""What a graph's classes say, found out in a process of its own.

Checking a graph imports every region's module. The supervisor must outlive whatever those do, and stay small, so it
asks here and gets JSON back.
"""
from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable

from brain_runtime.given import check_files
from brain_runtime.robots import SIM, RobotError, load_robot
from brain_runtime.graph import Graph, GraphError, RegionSpec, check_graph, load_graph
from brain_runtime.region import Region
from brain_runtime.ros_args import RosArgsError
from brain_wire.parameters import ParameterError

TIMEOUT = 120.0  # s; importing is slow on a machine that has just been set up


class GivenError(ValueError):
    """A parameter file that cannot be used; names it or the parameter, and what would do."""


@dataclass(frozen=True)
class Facts:
    """What a region's class declares.

    Attributes:
        rate: steps a second by itself (Hz), or None.
        triggers: topics that make it step, remapped.
        parameters: names of its parameters.
        robot: parameters that the robot's profile gives it.
        publishes, hears: topics of its ports, remapped.
        actions: that it serves, remapped.
        moves: it commands actuators: it has something to bring to rest before it ends.
    """

    rate: float | None
    triggers: tuple[str, ...]
    parameters: tuple[str, ...]
    robot: dict[str, Any] = field(default_factory=dict)
    publishes: tuple[str, ...] = ()
    hears: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    moves: bool = False


def facts_of(spec: RegionSpec) -> Facts:
    """Loads a region's class and reads what it declares.

    Raises:
        GraphError: the class cannot be loaded.
    """
    cls = spec.load()
    publishes, hears, actions = (tuple(spec.remap.get(p.topic, p.topic) for p in declared.values())
                                 for declared in (cls.outputs(), cls.inputs(), cls.actions()))
    triggers = tuple(spec.remap.get(p.topic, p.topic) for p in cls.inputs().values() if p.trigger)
    return Facts(cls.rate, triggers, tuple(cls.Parameters.__dataclass_fields__), publishes=publishes, hears=hears,
                 actions=actions, moves=cls.come_to_rest is not Region.come_to_rest)


def inspect_graph(path: Path, world: str = "none", robot: str = SIM, external: Iterable[str] = (), *,
                  files: Iterable[Path] = (), namespace: str = ""
                  ) -> tuple[Graph, dict[str, Facts], list[str]]:
    """Reads and checks a graph, for a robot.

    Args:
        path: of the graph.
        world: whose devices join.
        robot: name or path of a profile.
        external: regions that others run, beside those of which the graph says so.
        files: parameter files, checked against the regions that they are for.
        namespace: of the regions, for the names in those files.

    Returns:
        The graph with the robot's names of topics, facts by region, and warnings.

    Raises:
        GraphError: it cannot run; see :func:`brain_runtime.graph.check_graph`.
        RobotError: the profile does not fit; see :mod:`brain_runtime.robots`.
        GivenError: a parameter file cannot be read, or what it gives a region does not fit.
    """
    graph = load_robot(robot).on(load_graph(path, world)).without(external)
    argv = [sys.executable, "-m", __name__, str(path), world, robot, namespace, *map(str, files)]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise GraphError(f"graph {path}: importing its regions took more than {TIMEOUT:g} s; look for a module that "
                         f"works while it is imported") from None
    try:
        answer: dict[str, Any] = json.loads(done.stdout.rpartition("\n\n")[2])
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise GraphError(f"graph {path}: importing its regions ended the process: {last}") from None
    if "error" in answer:
        raise {"robot": RobotError, "given": GivenError}.get(answer.get("whose"), GraphError)(answer["error"])
    facts = {name: Facts(f["rate"], tuple(f["triggers"]), tuple(f["parameters"]), f["robot"],
                         *(tuple(f[what]) for what in ("publishes", "hears", "actions")), f["moves"])
             for name, f in answer["facts"].items()}
    return graph, facts, answer["warnings"]


def main(path: str, world: str, robot: str, namespace: str, *files: str) -> None:
    """Prints, after an empty line, one JSON object: ``error`` and ``whose`` it is, or ``facts`` and ``warnings``."""
    try:
        profile = load_robot(robot)
        graph = profile.on(load_graph(path, world))
        warnings = check_graph(graph)
        given = profile.parameters(graph)
        answer = {"facts": {s.name: facts_of(s).__dict__ | {"robot": given.get(s.name, {})} for s in graph.regions},
                  "warnings": warnings}
        if files:
            check_files(graph, files, namespace)
    except RobotError as error:
        answer = {"error": str(error), "whose": "robot"}
    except (ParameterError, RosArgsError) as error:
        answer = {"error": str(error), "whose": "given"}
    except GraphError as error:
        answer = {"error": str(error)}
    except Exception as error:  # a region's module may raise anything while it is imported
        answer = {"error": f"graph {path}: {type(error).__name__} while its regions were loaded: {error}"}
    print("\n\n" + json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
