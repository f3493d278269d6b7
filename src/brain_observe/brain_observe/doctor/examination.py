# SPDX-License-Identifier: Apache-2.0
"""Examination: what is to be there by profile and graph, and all findings of what was heard."""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from brain_observe.doctor import camera, camera_tilt, frames, graph, machine, odometry, scan, topics
from brain_observe.doctor.finding import STOPS, Finding, ordered
from brain_observe.doctor.heard import Heard
from brain_observe.doctor.machine import Machine
from brain_runtime.graph import NO_WORLD, SIM_WORLD, GraphError
from brain_runtime.graph.graphs import expected_regions
from brain_runtime.graph.inspect_graph import inspect_graph
from brain_runtime.graph.robots import SIM, Robot, RobotError, load_robot, robots_directory

THEMES = (topics, frames, odometry, scan, camera, camera_tilt, graph)
NAMELESS = "the robot's own numbers and names: no profile is named (--robot), and the brain's names of topics are taken"


def expect(robot: str, which: str, domain: int, namespace: str) -> Heard:
    """Reads what is to be there, with nothing heard yet.

    Args:
        robot: name or path of a profile; empty: none was named.
        which: name or path of the graph.
        namespace: absolute.

    Raises:
        RobotError: there is no such profile, or it is none.
        GraphError: there is no such graph, or it is none.
    """
    profile = load_robot(robot) if robot else Robot("", Path())
    heard = Heard(profile, bool(robot), domain, namespace, expected=tuple(expected_regions(which, namespace)))
    simulated = robot and profile.path.resolve() == (robots_directory() / f"{SIM}.yaml").resolve()
    try:
        world = SIM_WORLD if simulated else NO_WORLD
        heard.resolved = inspect_graph(which, world, robot or None, namespace=namespace)
    except RobotError as error:
        heard.refused = Finding("profile-refused", STOPS, f"profile {profile.name}", str(error), "correct that entry; "
                                "docs/new-robot.md says what a profile may hold")
        # its numbers may be anything; only its names were looked at
        heard.robot = replace(profile, shared={}, regions={})
    except GraphError as error:
        heard.refused = Finding("graph-refused", STOPS, f"graph {which}", str(error), "correct the graph, or install "
                                "what it names")
    return heard


def judge(heard: Heard, here: Machine) -> tuple[list[Finding], list[str]]:
    """All findings, the worst first, and what could not be judged."""
    found, left = list(machine.findings(here)), [] if heard.named else [NAMELESS]
    for theme in THEMES if here.router else ():
        try:
            found += theme.findings(heard)
        except Exception as error:  # whatever a peer published, the other themes are judged
            left.append(f"{theme.__name__.rpartition('.')[2]}: {type(error).__name__}: {error}")
    for one in (frames, odometry, graph) if here.router else ():
        left += one.unjudged(heard)
    return ordered(found), left
