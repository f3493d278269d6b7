# SPDX-License-Identifier: Apache-2.0
"""Names of a fleet on Zenoh: which key each robot, the cloud and its operators speak on.

A router cannot look into messages, and who receives one is not told whose certificate its sender has. So the sender's
name is part of the key, and the access rules hold each certificate to its own.
"""
from __future__ import annotations

import re

ROOT = "brain_fleet"
CLOUD = "cloud"
LONGEST = 40    # characters of a robot's name
# Names that stand for something else in a fleet or in its folder of keys.
KEPT = (CLOUD, "router", "ca", "operator", "all")

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class FleetNameProblem(ValueError):
    """A name that no robot can have; says which, and what is allowed."""


def check_robot(name: str) -> str:
    """``name``, if a robot can have it.

    Raises:
        FleetNameProblem: it cannot.
    """
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise FleetNameProblem(f"a robot cannot be called {ascii(name[:80])}: its name consists of small letters, "
                               f"digits and _, begins with a letter and has at most {LONGEST} characters")
    if name in KEPT:
        raise FleetNameProblem(f"a robot cannot be called {name}, which stands for something else here; choose another")
    return name


def up(robot: str) -> str:
    """Key on which a robot hands messages to the cloud; ``*``: all robots."""
    return f"{ROOT}/{robot}/up"


def down(robot: str) -> str:
    """Key on which a robot is handed the cloud's messages."""
    return f"{ROOT}/{robot}/down"


def blobs(robot: str) -> str:
    """Key on which a robot fetches files from the cloud, and hands in its own, piece by piece; ``*``: all robots."""
    return f"{ROOT}/{robot}/blobs"


def models(robot: str) -> str:
    """Key on which a robot of the release before asks the cloud for models; ``*``: all robots."""
    return f"{ROOT}/{robot}/models"


def learn(robot: str) -> str:
    """Key on which a robot asks what it is to learn, and hands in what came of it; ``*``: all robots."""
    return f"{ROOT}/{robot}/learn"


def second(robot: str) -> str:
    """Key on which a robot asks the cloud's large network about a picture; ``*``: all robots."""
    return f"{ROOT}/{robot}/second"


def alive(member: str) -> str:
    """Key of the liveliness token of a robot, or of the cloud; ``*``: of all."""
    return f"{ROOT}/{member}/alive"


def orders(person: str) -> str:
    """Key on which a person asks the cloud and gives it orders; ``*``: all persons."""
    return f"{ROOT}/{CLOUD}/orders/{person}"


def robot_of(key: str, end: str) -> str | None:
    """The robot in a key such as :func:`up` gives it, ``end`` being its last part; None where it is none."""
    parts = key.split("/")
    if len(parts) != 3 or parts[0] != ROOT or parts[2] != end:
        return None
    return parts[1] if _NAME.fullmatch(parts[1]) and parts[1] not in KEPT else None
