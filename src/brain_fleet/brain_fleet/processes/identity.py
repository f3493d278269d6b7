# SPDX-License-Identifier: Apache-2.0
"""Whose credentials a robot's process has, and where its cloud is: the same for all processes of a robot."""
from __future__ import annotations

from pathlib import Path

from brain_fleet.processes.settings import CLOUD_AT, SECURITY_VARIABLE
from brain_wire import SessionProblem
from brain_wire.credentials import credentials_file, read_credentials


def cloud_at(told: str | None, secured: bool) -> str:
    """Endpoint of the cloud: as it was told, or that of this machine."""
    return told or (CLOUD_AT.replace("tcp/", "tls/") if secured else CLOUD_AT)


def check_credentials(secured: Path | None, name: str) -> None:
    """Says before anything runs that credentials are another robot's: the cloud's router would drop all in silence.

    Args:
        secured: file or folder of credentials; None: the fleet has no keys.
        name: of this robot.

    Raises:
        SessionProblem: see there, or they cannot be read.
    """
    if secured is None:
        return
    found = read_credentials(credentials_file(secured, name, "--secure"), "--secure")
    if found is not None and found.name != f"/{name}":
        raise SessionProblem(f"the credentials in {secured} ({SECURITY_VARIABLE}) are those of {found.name[1:]}, not "
                             f"of {name}: a robot speaks for itself only; give --name {found.name[1:]}, or make some "
                             f"for {name} with `brain keys FOLDER --node {name}`")
