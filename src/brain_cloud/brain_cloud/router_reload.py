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
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

from brain_edge.processes.settings import ZENOH
from brain_runtime.run.loop import Loop
from brain_runtime.run.workload import Event, Restart, Workload
from brain_security.folder import FolderError, read_router
from brain_security.rights import ROUTER
from brain_wire import Session, open_session
from brain_wire.backoff import Backoff
from brain_wire.endpoints import address
from brain_wire.logs import Logs
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.router import ANOTHER_RUNS, ROUTING, Router, RouterProblem, RouterRuns
from brain_wire.session import OVERRIDE_VARIABLE, Elsewhere
from brain_wire.temporary_folder import TemporaryFolder

LOOK = 0.3          # s between two looks at the rules
PAUSE = 2.0         # s between two times that the router is opened anew only to take somebody in
PATIENCE = 60.0     # s until the router is open for the first time
RETRY = Restart(backoff=Backoff(first=0.05, most=0.5))     # its ports may not be free at once
SETTINGS = ";".join(f"{key}={json.dumps(value)}" for key, value in ZENOH.items())

log = logging.getLogger("brain.cloud")
limited_log = RateLimitedLog(log)


class RouterReload:
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
        self._opened = time.monotonic()
        self._rules_changed = False     # it is killed for that
        words = [word for endpoint in endpoints for word in ("--listen", endpoint)]
        argv = (sys.executable, "-m", "brain_wire.router", "--config", str(self._file), *words)
        self._logs = TemporaryFolder("gate")
        self._loop = Loop([Workload(ROUTER, argv, {OVERRIDE_VARIABLE: SETTINGS}, RETRY)],
                          Logs(Path(self._logs.name), log.warning), on_event=self._tell)
        self._over, self._begun = threading.Event(), threading.Event()
        self._problem: RouterProblem | None = None
        # The kernel ends the router with the thread that started it.
        self._thread = threading.Thread(target=self._keep, name="gate", daemon=True)
        self._thread.start()
        self._begun.wait()
        if self._problem is not None:
            self.close()
            raise self._problem

    @property
    def inside(self) -> str:
        """Endpoint at which this process reaches it."""
        protocol, host, port = address(self._endpoints[0])
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "::1"}.get(host, host)
        return f"{protocol}/[{host}]:{port}" if ":" in host else f"{protocol}/{host}:{port}"

    def close(self) -> None:
        """Closes the router."""
        self._over.set()
        self._loop.wake()
        self._thread.join()
        self._logs.cleanup()

    def _mark(self) -> tuple[int, int, int] | None:
        """Returns time, size and inode of the rules file, to tell another one by; None where it cannot be read."""
        try:
            found = os.stat(self._file)
            return found.st_mtime_ns, found.st_size, found.st_ino
        except OSError:
            return None

    def _keep(self) -> None:
        try:
            while not self._begun.is_set():
                self._loop.round(0.05)
                if ROUTING in self._loop.log_path(ROUTER).read_text(encoding="utf-8", errors="replace"):
                    self._begun.set()
                elif self._loop.failures(ROUTER) or time.monotonic() - self._opened > PATIENCE:
                    kind = RouterRuns if self._loop.status(ROUTER) == ANOTHER_RUNS else RouterProblem
                    why = self._loop.fault(ROUTER) or "the router's process does not start"
                    self._problem = kind(self._loop.last_line(ROUTER) or why)
                    return
            while not self._over.is_set():
                self._loop.round(LOOK)
                self._follow_rules()
        finally:
            self._loop.stop(grace=0.0)
            self._begun.set()

    def _follow_rules(self) -> None:
        mark = self._mark()
        if mark is None or mark == self._seen:
            return
        try:
            subjects = _subjects(self._file.parent)
        except (FolderError, FileNotFoundError) as problem:
            limited_log("rules", f"the rules are not read anew: {problem}")
            return
        # Taking rights away does not wait; many who come one after the other are taken in together.
        if self._subjects <= subjects and time.monotonic() - self._opened < PAUSE:
            return
        came, went = sorted(subjects - self._subjects), sorted(self._subjects - subjects)
        self._rules_changed = self._loop.kill(ROUTER)
        self._seen, self._subjects, self._opened = mark, subjects, time.monotonic()
        log.info("the router is opened anew, since its rules have changed%s%s",
                 f"; let in: {', '.join(came)}" if came else "", f"; kept out: {', '.join(went)}" if went else "")

    def _tell(self, event: Event) -> None:
        if event.kind in ("ended", "unhealthy") and not self._rules_changed and self._begun.is_set():
            limited_log("router", f"the router's process has {event.text}")
        if event.kind == "started":
            self._rules_changed = False


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
    with contextlib.closing(RouterReload(secure, endpoints)) as gate, \
            open_session(gate.inside, patience=10.0, elsewhere=Elsewhere(secure / f"{ROUTER}.json5"), more={
                **ZENOH, "mode": "client", "listen/endpoints": [], "access_control": {"enabled": False},
                # It is this process, whatever name the certificate has.
                "transport/link/tls/verify_name_on_connect": False}) as session:
        yield session
