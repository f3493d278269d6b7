# SPDX-License-Identifier: Apache-2.0
"""Credentials of a robot's process, and the endpoint of its cloud: the same for all processes of a robot."""
from __future__ import annotations

import time
from pathlib import Path

from brain_edge.processes.settings import CLOUD_AT, SECURITY_VARIABLE
from brain_wire import SessionProblem
from brain_wire.credentials import credentials_file, read_credentials
from brain_wire.wakeup import Flag

LOOK = 1.0          # s between two looks at whether credentials were renewed


def cloud_at(told: str | None, secured: bool) -> str:
    """Endpoint of the cloud: as it was told, or that of this machine."""
    return told or (CLOUD_AT.replace("tcp/", "tls/") if secured else CLOUD_AT)


class Renewed(Flag):
    """Set where a process is to end, or where its credentials are other ones than when this was made.

    A robot's edge renews them, for a new key; a session that is open goes on with those that it began with, and is not
    let in any more once they have ended.

    Args:
        stop: ends the process.
        secured: file or folder of credentials; None: the fleet has no keys.
        name: of this robot.
    """

    _mark: tuple[int, int] | None = None

    def __init__(self, stop: Flag, secured: Path | None, name: str) -> None:
        super().__init__()
        self._stop, self._file = stop, None if secured is None else credentials_file(secured, name, "--secure")
        self._mark, self._next = self._found(), 0.0

    def _found(self) -> tuple[int, int] | None:
        try:
            found = None if self._file is None else self._file.stat()
        except OSError:
            return self._mark       # it is just being replaced
        return None if found is None else (found.st_mtime_ns, found.st_ino)

    def is_set(self) -> bool:
        """See the base."""
        if not self._is_set and time.monotonic() >= self._next:
            self._next = time.monotonic() + LOOK
            self._is_set = self._found() != self._mark
        return self._is_set or self._stop.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """See the base."""
        return self._stop.wait(timeout) or self.is_set()


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
