# SPDX-License-Identifier: Apache-2.0
"""Fetches models from the cloud: piece by piece, from where it was when the link was cut or the robot was off."""
from __future__ import annotations

import json
import logging
import threading
from typing import Any, Callable, Mapping

import zenoh
from zenoh.handlers import Callback

from brain_fleet.messages.pace import RETRY
from brain_fleet.models.model_file import ModelProblem, check_model
from brain_fleet.models.parts import PIECE, NoRoom
from brain_fleet.models.serving import WAIT
from brain_fleet.models.shelf import Shelf
from brain_fleet.models.statement import read_statement
from brain_fleet.schema import FormProblem, read_json
from brain_fleet.store import StoreProblem
from brain_security.fleet_keys import models
from brain_wire import Session
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

PATIENCE = 15.0         # s for an answer, on a thin link too
ABOUT = 2 * 2**20       # bytes of what is said of a model
AGAIN = 10.0            # s until what was refused, or has no room, is looked at again

log = logging.getLogger("brain.edge")
limited_log = RateLimitedLog(log)


class _NoAnswer(RuntimeError):
    """Nobody answers just now."""


class _NotGiven(RuntimeError):
    """It was not given, or not as it is, which may be so later; says why."""


class Fetching:
    """One thread that fetches what is asked for.

    Args:
        robot: its name.
        shelf: where they are put.
        authority: returns that of the fleet, PEM, or None where it has no keys; it may raise ModelProblem.
        came: called when there is news of a model.
    """

    def __init__(self, robot: str, shelf: Shelf, authority: Callable[[], bytes | None],
                 came: Callable[[], None]) -> None:
        self._key, self._shelf, self._authority, self._came = models(robot), shelf, authority, came
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._wanted: dict[str, str] = {}       # digest: region
        self._told: dict[str, dict[str, str]] = {}
        self._wake, self._over, self._asked = threading.Event(), threading.Event(), threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="fetching", daemon=True)
        self._thread.start()

    def link(self, session: Session | None) -> None:
        """There is a link to the cloud; None: there is none any more."""
        self._session = session
        self._wake.set()

    def want(self, wanted: Mapping[str, str]) -> None:
        """All models that are wanted, by digest: of which region."""
        with self._lock:
            if wanted == self._wanted:
                return
            self._wanted = dict(wanted)
            self._told = {digest: told for digest, told in self._told.items() if digest in wanted}
        self._wake.set()

    def again(self) -> None:
        """One that was there is missing, or the cloud is back: look now."""
        self._failures = 0
        self._asked.set()
        self._wake.set()

    def status(self, digest: str) -> dict[str, str]:
        """Returns the progress of a model: ``state`` and ``why``, as they are reported."""
        with self._lock:
            return self._told.get(digest) or {"state": "waiting", "why": "the model has not come from the cloud yet"}

    def close(self) -> None:
        """Ends the thread; what has come stays."""
        self._over.set()
        self.again()
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                wait = self._look()
            except Exception:   # whatever the disk does, the thread is there when it is well again
                limited_log("look", "what is missing could not be looked for", trace=True, level=logging.ERROR)
                wait = AGAIN
            self._wake.wait(wait)
            self._wake.clear()

    def _look(self) -> float | None:
        """Fetches what is missing; in how many seconds to look again, None: when something else is wanted.

        Raises:
            StoreProblem: it cannot be seen what is there.
        """
        with self._lock:
            missing = {digest: region for digest, region in self._wanted.items() if self._shelf.path(digest) is None}
        session, again = self._session, AGAIN
        for digest, region in missing.items():
            if session is None or self._over.is_set():
                break
            try:
                self._fetch(session, digest, region)
                self._failures = 0
            except _NoAnswer:
                self._failures += 1
                again = RETRY.delay(self._failures)
            except (NoRoom, StoreProblem, _NotGiven) as problem:
                limited_log(f"room {digest}", str(problem))
                self._tell(digest, "waiting", str(problem))
            except ModelProblem as problem:
                self._tell(digest, "refused", str(problem))
            except Exception:   # whatever one model is, the next is fetched
                limited_log("fetch", f"model {digest[:19]} could not be fetched", trace=True, level=logging.ERROR)
        return again if missing else None

    def _fetch(self, session: Session, digest: str, region: str) -> None:
        record = self._json(session, digest)
        stated, signer = read_statement(record, self._authority())
        if stated["digest"] != digest or stated["region"] != region:
            raise ModelProblem(f"model {digest[:19]} is for {stated['region']}, not for {region}")
        size, parts = stated["size"], self._shelf.parts
        with self._lock:
            wanted = set(self._wanted)
        self._shelf.make_room(digest, size, wanted)
        began = have = parts.have(digest)
        while have < size and not self._over.is_set():
            with self._lock:
                if digest not in self._wanted:
                    return      # it was taken back meanwhile
            data = self._ask(session, digest, offset=have)
            if not 0 < len(data) <= min(PIECE, size - have):
                raise ModelProblem(f"model {digest[:19]} comes otherwise than was said of it: {len(data)} bytes after "
                                   f"{have} of {size}")
            have = parts.put(digest, have, data)
            self._note(digest, f"{have} of {size} bytes of the model have come")
        try:
            path = parts.finish(digest, size)
        except NoRoom:
            raise
        except ModelProblem as problem:     # a disk, or the way, has torn it: that is no fault of the model's
            raise _NotGiven(f"{problem}, and fetched anew") from None
        if path is None:
            return
        try:
            check_model(path)
        except (ModelProblem, OSError) as problem:
            self._shelf.lose(digest)
            raise ModelProblem(f"model {digest[:19]} is not taken: {problem}") from None
        self._shelf.take(digest, region, size, signer)
        log.info("model %s for %s has come, %d bytes%s%s", digest[:19], region, size,
                 f" ({began} of them before)" if began else "", f", signed by {signer}" if signer else "")
        self._came()

    def _note(self, digest: str, why: str) -> None:
        with self._lock:
            self._told[digest] = {"state": "waiting", "why": why}

    def _tell(self, digest: str, state: str, why: str) -> None:
        told = {"state": state, "why": why[:500]}
        with self._lock:
            news = self._told.get(digest) != told
            self._told[digest] = told
        if news:
            self._came()

    def _json(self, session: Session, digest: str) -> Any:
        try:
            return read_json(self._ask(session, digest), ABOUT)
        except FormProblem as problem:
            raise ModelProblem(f"what the cloud says of model {digest[:19]} does not read: {problem}") from None

    def _ask(self, session: Session, digest: str, **more: int) -> bytes:
        """Asks the cloud for a model's record, or for a piece of the model; returns the answer.

        Raises:
            _NoAnswer: nothing just now. _NotGiven: it refuses. ModelProblem: what it answers is too large.
        """
        came: list[zenoh.Reply] = []
        done = self._asked = threading.Event()
        try:
            session.zenoh.get(self._key, handler=Callback(came.append, done.set, indirect=False),
                              payload=json.dumps({"digest": digest, **more}).encode(),
                              target=zenoh.QueryTarget.ALL, timeout=PATIENCE,
                              consolidation=zenoh.ConsolidationMode.NONE)
        except zenoh.ZError as error:
            raise _NoAnswer from error
        done.wait(PATIENCE)     # or until the cloud is back, which knows nothing of what was asked before the cut
        for reply in list(came):
            if reply.ok is not None:
                if len(reply.ok.payload) > ABOUT:
                    raise ModelProblem(f"the cloud answers with {len(reply.ok.payload)} bytes")
                return reply.ok.payload.to_bytes()
            why = b"" if reply.err is None else reply.err.payload.to_bytes()[:500]
            if why not in (b"", b"Timeout", WAIT.encode()):
                raise _NotGiven(f"the cloud does not give it: {quoted(why.decode('utf-8', 'replace'))}")
        raise _NoAnswer
