# SPDX-License-Identifier: Apache-2.0
"""Credentials of a robot's process, and its link to the cloud: the same for all processes of a robot."""
from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Callable

from brain_edge.processes.settings import CLOUD_AT, SECURITY_VARIABLE, ZENOH, refused, remedy
from brain_runtime.run.ending import Ending
from brain_security.fleet_keys import check_robot
from brain_wire import NoRouter, Session, SessionProblem, open_session, safe_text
from brain_wire.credentials import credentials_file, read_credentials
from brain_wire.logs import survive_full_disk
from brain_wire.session import Elsewhere
from brain_wire.wakeup import Flag

LOOK = 1.0          # s between two looks at whether credentials were renewed
RETRY = 1.0         # s between attempts to reach a cloud, or a brain, that was not reached yet


def begun(what: str) -> Ending:
    """Ending of this process, which logs to standard error from now on, under a name, be the disk full or not."""
    ending = Ending()
    survive_full_disk()
    safe_text.log_to(sys.stderr, logging.INFO, f"%(asctime)s %(levelname)s {what}: %(message)s")
    return ending


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
        FleetNameProblem: no robot has such a name.
        SessionProblem: see there, or they cannot be read.
    """
    check_robot(name)
    if secured is None:
        return
    found = read_credentials(credentials_file(secured, name, "--secure"), "--secure")
    if found is not None and found.name != f"/{name}":
        raise SessionProblem(f"the credentials in {secured} ({SECURITY_VARIABLE}) are those of {found.name[1:]}, not "
                             f"of {name}: a robot speaks for itself only; give --name {found.name[1:]}, or make some "
                             f"for {name} with `brain keys FOLDER --node {name}`")


def while_linked(work: Callable[[Session, Flag], None], cloud: str, name: str, secured: Path | None, stop: Flag,
                 missing: str, log: logging.Logger) -> None:
    """Works with a session to the cloud until ``stop``, with another whenever the credentials were renewed.

    Zenoh itself links a session again after a cut.

    Args:
        work: does it until the flag is set; it may raise NoRouter, too.
        cloud: endpoint.
        name: of this robot.
        secured: file or folder of credentials; None: the fleet has no keys.
        missing: what is told where nobody listens.
        log: where that is told, once.

    Raises:
        SessionProblem: the credentials cannot be used.
    """
    said = ""
    while not stop.is_set():
        try:
            until = Renewed(stop, secured, name)
            with open_session(cloud, identity=name, patience=0.0, more=ZENOH, elsewhere=Elsewhere(secured)) as session:
                work(session, until)
        except NoRouter as problem:
            why = remedy(problem) if refused(problem) else missing
            if why != said:
                log.info("%s; this robot tries again", why)
                said = why
            stop.wait(RETRY)
