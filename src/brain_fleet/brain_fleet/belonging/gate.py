# SPDX-License-Identifier: Apache-2.0
"""The gate: the cloud's router, opened anew by itself when its rules have changed.

Zenoh 1.10 reads its access rules when a router is opened; what is written to its admin space later changes nothing, it
knows no revocation lists, and no single link can be closed. So the router is a process of its own, which is killed with
all its links, and another takes its ports with the new rules. Robots are back within about a second, and what was on
its way is delivered again. One whose rights were taken away gets a link, and nothing goes through it. The cloud itself
is a client of its router, so it need not begin anew.
"""
from __future__ import annotations

import contextlib
import logging
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

from brain_fleet.belonging.names import GO_ON, IS_OPEN, IS_READY, TAKEN
from brain_fleet.processes.settings import ZENOH
from brain_security.folder import FolderError, read_router
from brain_security.rights import ROUTER
from brain_wire import Session, open_session
from brain_wire.connect_errors import address
from brain_wire.router import Router, RouterProblem, RouterRuns
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.session import Elsewhere

LOOK = 0.3          # s between two looks at the rules
PAUSE = 2.0         # s between two times that the router is opened anew only to take somebody in
PATIENCE = 60.0     # s for a word of the router's process
RETRY = 0.5         # s until a router that could not be opened is tried again

log = logging.getLogger("brain.cloud")
limited_log = RateLimitedLog(log)


class _Child:
    """The process of a router, ready to take the ports."""

    def __init__(self, file: Path, endpoints: list[str]) -> None:
        words = [word for endpoint in endpoints for word in ("--listen", endpoint)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "brain_fleet.belonging.run_router", "--config", str(file), *words], text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise RouterProblem(f"no process can be started for the router: {error.strerror or error}") from error
        if self._hear() != IS_READY:
            self.kill()
            raise RouterProblem("the router's process does not start")

    def open(self) -> None:
        """Lets it take the ports. Raises RouterProblem, RouterRuns."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{GO_ON}\n")
            self._process.stdin.flush()
            said = self._hear()
        except OSError as error:
            said = str(error)
        if said != IS_OPEN:
            self.kill()
            kind = RouterRuns if said.startswith(TAKEN) else RouterProblem
            raise kind(said.removeprefix(TAKEN) or "the router's process has ended")

    def _hear(self) -> str:
        """Its next line; empty where it has ended, or says nothing for long."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            return ""
        return self._process.stdout.readline().strip()

    @property
    def over(self) -> bool:
        """True once its process has ended by itself."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Ends it, with all links, at once."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):      # of what could not be written to it any more
                    pipe.close()


class Gate:
    """A router that follows a file of rules, until it is closed.

    Args:
        folder: of the fleet's keys.
        endpoints: where robots reach it.

    Raises:
        RouterProblem, FolderError: it cannot be opened.
    """

    def __init__(self, folder: Path, endpoints: list[str]) -> None:
        self._file, self._endpoints = folder / f"{ROUTER}.json5", endpoints
        self._seen, self._subjects = self._mark(), _subjects(folder)
        self._router: _Child | None = self._child()
        self._router.open()
        self._opened = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="gate", daemon=True)
        self._thread.start()

    @property
    def inside(self) -> str:
        """Endpoint at which this process reaches it."""
        protocol, host, port = address(self._endpoints[0])
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "::1"}.get(host, host)
        return f"{protocol}/[{host}]:{port}" if ":" in host else f"{protocol}/{host}:{port}"

    def close(self) -> None:
        """Closes the router."""
        self._over.set()
        self._thread.join()
        if self._router is not None:
            self._router.kill()

    def _mark(self) -> tuple[int, int, int] | None:
        """Returns time, size and inode of the rules file, to tell another one by; None where it cannot be read."""
        try:
            found = os.stat(self._file)
            return found.st_mtime_ns, found.st_size, found.st_ino
        except OSError:
            return None

    def _child(self) -> _Child:
        return _Child(self._file, self._endpoints)

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            mark = self._mark()
            ended = self._router is not None and self._router.over
            if ended:
                log.warning("the router's process has ended, and is started again")
            elif mark is None or mark == self._seen:
                continue
            try:
                subjects = _subjects(self._file.parent)
            except (FolderError, FileNotFoundError) as problem:
                limited_log("rules", f"the rules are not read anew: {problem}")
                continue
            # Taking rights away does not wait; many who come one after the other are taken in together.
            if not ended and self._subjects <= subjects and time.monotonic() - self._opened < PAUSE:
                continue
            self._anew(subjects)
            self._seen = mark

    def _anew(self, subjects: set[str]) -> None:
        came, went = sorted(subjects - self._subjects), sorted(self._subjects - subjects)
        old, self._router = self._router, None
        while self._router is None and not self._over.is_set():
            try:
                child = self._child()
                if old is not None:     # as late as can be
                    old.kill()
                    old = None
                child.open()
                self._router = child
            except RouterProblem as problem:
                if old is not None and went:    # rather closed than open by the old rules
                    old.kill()
                    old = None
                limited_log("open", f"the router is not open: {problem}")
                self._over.wait(RETRY)
        if old is not None:
            old.kill()
        self._subjects, self._opened = subjects, time.monotonic()
        log.info("the router is opened anew, since its rules have changed%s%s",
                 f"; let in: {', '.join(came)}" if came else "", f"; kept out: {', '.join(went)}" if went else "")


def _subjects(folder: Path) -> set[str]:
    """Common names that have rights."""
    rules: dict[str, Any] = read_router(folder).get("access_control", {})
    return {name for subject in rules.get("subjects", ()) for name in subject.get("cert_common_names", ())}


@contextlib.contextmanager
def routing(endpoints: list[str], secure: Path | None) -> Iterator[Session]:
    """A router at ``endpoints``, and a session for the cloud.

    Args:
        secure: folder of the fleet's keys; None: nothing is secured, and there are no rules that could change.

    Raises:
        RouterProblem, SessionProblem, FolderError: it cannot be opened.
    """
    if secure is None:
        with Router(endpoints, more=ZENOH) as router, Session(router.session, ", ".join(endpoints)) as session:
            yield session
        return
    with contextlib.closing(Gate(secure, endpoints)) as gate, \
            open_session(gate.inside, patience=10.0, elsewhere=Elsewhere(secure / f"{ROUTER}.json5"), more={
                **ZENOH, "mode": "client", "listen/endpoints": [], "access_control": {"enabled": False},
                # It is this process, whatever name the certificate has.
                "transport/link/tls/verify_name_on_connect": False}) as session:
        yield session
