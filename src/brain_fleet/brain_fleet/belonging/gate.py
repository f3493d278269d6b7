# SPDX-License-Identifier: Apache-2.0
"""The gate: the cloud's router, opened anew by itself when its rules have changed.

Zenoh 1.10 reads its access rules when a router is opened; what is written to its admin space later changes nothing, it
knows no revocation lists, and no single link can be closed. So the router is closed, with all links, and opened
with the new rules on the same ports. Robots are back within about a second, and what was on its way is delivered again.
One whose rights were taken away gets a link, and nothing goes through it. The cloud itself is a client of its router,
so it need not begin anew.
"""
from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any, Iterator

from brain_fleet.processes.settings import ZENOH
from brain_security.folder import FolderError, read_router
from brain_security.rights import ROUTER
from brain_wire import Session, open_session
from brain_wire.refusal import address
from brain_wire.router import Router, RouterProblem
from brain_wire.seldom import Seldom
from brain_wire.session import Elsewhere, SessionProblem

LOOK = 0.3      # s between two looks at the rules
PAUSE = 2.0     # s between two times that the router is opened anew only to take somebody in
RETRY = 0.5     # s until a router that could not be opened is tried again

log = logging.getLogger("brain.cloud")
seldom = Seldom(log)


class Gate:
    """A router in this process that follows a file of rules, until it is closed.

    Args:
        folder: of the fleet's keys.
        endpoints: where robots reach it.

    Raises:
        RouterProblem, SessionProblem, FolderError: it cannot be opened.
    """

    def __init__(self, folder: Path, endpoints: list[str]) -> None:
        self._file, self._endpoints = folder / f"{ROUTER}.json5", endpoints
        self._seen, self._subjects = self._mark(), _subjects(folder)
        self._router: Router | None = self._open()
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
            self._router.close()

    def _mark(self) -> tuple[int, int, int] | None:
        """What tells whether the file is another one."""
        try:
            found = os.stat(self._file)
            return found.st_mtime_ns, found.st_size, found.st_ino
        except OSError:
            return None

    def _open(self) -> Router:
        return Router(self._endpoints, config_file=self._file, more=ZENOH)

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            mark = self._mark()
            if mark is None or mark == self._seen:
                continue
            try:
                subjects = _subjects(self._file.parent)
            except (FolderError, FileNotFoundError) as problem:
                seldom("rules", f"the rules are not read anew: {problem}")
                continue
            # Taking rights away does not wait; many who come one after the other are taken in together.
            if self._subjects <= subjects and time.monotonic() - self._opened < PAUSE:
                continue
            self._anew(subjects)
            self._seen = mark

    def _anew(self, subjects: set[str]) -> None:
        came, went = sorted(subjects - self._subjects), sorted(self._subjects - subjects)
        if self._router is not None:
            self._router.close()
            self._router = None
        while self._router is None and not self._over.is_set():
            try:
                self._router = self._open()
            except (RouterProblem, SessionProblem) as problem:     # rather closed than open by the old rules
                seldom("open", f"the router is not open: {problem}")
                self._over.wait(RETRY)
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
