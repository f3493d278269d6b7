# SPDX-License-Identifier: Apache-2.0
"""Members of a fleet beside those that ``brain keys --node`` made keys for: who enrolled, and who was revoked.

They stand in ``members.json`` of the fleet's folder. A robot has a *generation*: Zenoh has no revocation lists, and its
access rules know a certificate by its common name alone. So a robot that was revoked and comes back has another common
name than before, and what was signed for it before has no rights any more.
"""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brain_security.fleet_keys import check_robot
from brain_security.folder import FolderError, metadata_of

FILE = "members.json"
FORMAT = 1
LONGEST = 64 * 2**20    # bytes of the file
ENROLLED, REVOKED = "enrolled", "revoked"


@dataclass(frozen=True)
class Member:
    """A robot that enrolled, or was revoked.

    Attributes:
        robot: its name.
        state: ENROLLED or REVOKED.
        generation: how often the name was given, from 1.
        at, by: when, and who ordered it; for people.
    """

    robot: str
    state: str
    generation: int = 1
    at: str = ""
    by: str = ""

    @property
    def common_name(self) -> str:
        """Of its certificate."""
        return common_name(self.robot, self.generation)


@dataclass
class Register:
    """Register of members, as the file holds it.

    Attributes:
        members: by the robot's name.
        tokens: plain values, by the robot's name: what else is to be kept in the same write.
    """

    members: dict[str, Member] = field(default_factory=dict)
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)


def common_name(robot: str, generation: int) -> str:
    """Common name of a robot's certificate; the first is that of ``brain keys``. No robot's name has a point in it."""
    return f"/{robot}" if generation == 1 else f"/{robot}.{generation}"


def read_register(folder: Path) -> Register:
    """Reads the register of enrolled and revoked robots; empty where there is no such file.

    Raises:
        FolderError: it does not read.
    """
    path = Path(folder) / FILE
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST)
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise FolderError(f"{path} is of format {found['format']}, and this software reads format {FORMAT}; take "
                              f"the brain_security that wrote it")
        members = {check_robot(one["robot"]): Member(**one) for one in found["members"]}
        tokens = {check_robot(robot): dict(token) for robot, token in found["tokens"].items()}
        if not all(one.state in (ENROLLED, REVOKED) and type(one.generation) is int for one in members.values()):
            raise ValueError("a member is in no state that there is")
        return Register(members, tokens)
    except FileNotFoundError:
        return Register()
    except OSError as error:
        raise FolderError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FolderError(f"{path} does not read ({str(error)[:80]}); bring it back from a backup: without it revoked "
                          f"robots would be let in again") from None


def robots_of(folder: Path, known: list[str] | None = None) -> dict[str, str]:
    """Robots that have rights, and the common name of each.

    Args:
        known: those with keys from ``brain keys``; None: those that the router's rules have.

    Raises:
        FolderError: the folder is no fleet's, or does not read.
    """
    if known is None:
        about = metadata_of(folder) or {}
        if not isinstance(about.get("robots"), list):
            raise FolderError(f"{folder} has no keys of a fleet; `brain keys {folder} --node ROBOT` makes some")
        known = [robot for robot in about["robots"] if isinstance(robot, str)]
    members = read_register(folder).members
    found = {robot: common_name(robot, 1) for robot in known if robot not in members}
    found.update({one.robot: one.common_name for one in members.values() if one.state == ENROLLED})
    return dict(sorted(found.items()))
