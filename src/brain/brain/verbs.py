# SPDX-License-Identifier: Apache-2.0
"""The verbs of ``brain``: which package has each, and how it is told of where nobody has loaded it.

Each package adds its verbs by an entry point of the group ``brain.commands``, as those of ros2cli do. This table is
what ``brain --help`` shows, without importing any of them, and how a verb that is not installed is named with its
remedy. A test holds it against the entry points.
"""
from __future__ import annotations

import sys
from importlib import metadata
from typing import NamedTuple

GROUP = "brain.commands"


class Verb(NamedTuple):
    """One verb: the package that has it, the heading it stands under, and one line for a person."""

    package: str
    heading: str
    help: str


RUN, LOOK, FLEET, LEARN, MEASURE, SECURE, OTHER = (
    "Run a brain", "Look inside", "Run a fleet", "Train", "Measure", "Secure", "Others'")
VERBS = {
    "up": Verb("brain", RUN, "Run a brain until Ctrl-C, and start again what dies."),
    "run": Verb("brain", RUN, "Join one region to a brain that is running."),
    "say": Verb("brain", RUN, "Tell the brain what to do."),
    "teach": Verb("brain", RUN, "Teach it to see a thing of your own, which sentences may name."),
    "stop": Verb("brain", RUN, "End a region, which stays ended."),
    "start": Verb("brain", RUN, "Begin a region again that was ended by order."),
    "teleop": Verb("brain", RUN, "Steer the robot by hand, before the brain."),
    "estop": Verb("brain", RUN, "Stop the robot until `brain release`."),
    "release": Verb("brain", RUN, "End the emergency stop."),
    "new": Verb("brain", RUN, "Write files to begin with: a region, or a graph."),
    "demo": Verb("brain_eval", RUN, "Run a robot in a simulated room, and tell it what to find."),
    "status": Verb("brain", LOOK, "Show how each region is."),
    "topic": Verb("brain_observe", LOOK, "List, show, measure and publish topics."),
    "node": Verb("brain_observe", LOOK, "List nodes, and tell of one."),
    "param": Verb("brain_observe", LOOK, "List, read, change and write out parameters."),
    "doctor": Verb("brain_observe", LOOK, "Look for what is wrong with a robot before it drives."),
    "calibrate": Verb("brain_observe", LOOK, "Measure how a camera is tilted."),
    "robot": Verb("brain_observe", LOOK, "Write a robot's profile, by what it tells and by questions."),
    "look": Verb("brain_observe", LOOK, "Save what the brain sees now as a picture."),
    "metrics": Verb("brain_observe", LOOK, "Show a brain's figures to Prometheus."),
    "film": Verb("brain_eval", LOOK, "Draw what each region did in an episode."),
    "docs": Verb("brain_eval", LOOK, "Write the reference from the code."),
    "cloud": Verb("brain_cloud", FLEET, "Run the cloud of a fleet of robots."),
    "edge": Verb("brain_edge", FLEET, "Run a robot's side of a fleet, beside its brain."),
    "fleet": Verb("brain_edge", FLEET, "Ask the cloud, and order what is wanted of its robots."),
    "devices": Verb("brain_edge", FLEET, "Run devices beside a brain, without a cloud."),
    "operator": Verb("brain_cloud", FLEET, "Run jobs, and show robots, in a Kubernetes cluster."),
    "jobs": Verb("brain_cloud", FLEET, "Run jobs from the manifests of a cluster on this machine."),
    "train": Verb("brain_training", LEARN, "Train the networks anew."),
    "lifelong": Verb("brain_training", LEARN, "Learn vision site by site, and forget none."),
    "parameter-server": Verb("brain_training", LEARN, "Hold weights that workers train."),
    "parameter-worker": Verb("brain_training", LEARN, "Train with parameter servers."),
    "export": Verb("brain_training", LEARN, "Write a region's network in the NIR format."),
    "eval": Verb("brain_eval", MEASURE, "Run a suite of episodes, and report success."),
    "score": Verb("brain_eval", MEASURE, "Judge vision by pictures and recordings of cameras."),
    "compare": Verb("brain_eval", MEASURE, "Put evaluations into one table."),
    "collectives": Verb("brain_training", MEASURE, "Check and measure what processes do together."),
    "bench": Verb("brain_eval", MEASURE, "Measure speed and memory on this machine."),
    "keys": Verb("brain_security", SECURE, "Make keys and access rules for a graph."),
    "policy": Verb("brain_security", SECURE, "Print the SROS2 policy of a graph."),
}


def installed() -> dict[str, metadata.EntryPoint]:
    """The verbs that are installed, by name, in the table's order, others' behind them."""
    # One of the table is its package's: what an older installation left behind has moved.
    found = {point.name: point for point in metadata.entry_points(group=GROUP)
             if point.name not in VERBS or point.module.partition(".")[0] == VERBS[point.name].package}
    return {name: found[name] for name in [*(v for v in VERBS if v in found), *sorted(found.keys() - VERBS.keys())]}


def lacking(name: str) -> str:
    """Returns the message for a verb of the table that is not installed, with the remedy."""
    package = VERBS[name].package
    return (f"`brain {name}` is in the package {package}, which is not installed for {sys.executable}; in a ROS 2 "
            f"workspace: python -m colcon build --packages-up-to brain {package}; without ROS: make venv")
