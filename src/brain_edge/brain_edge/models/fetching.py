# SPDX-License-Identifier: Apache-2.0
"""Fetches models from the cloud: piece by piece, from where it was when the link was cut or the robot was off."""
from __future__ import annotations

import logging
import threading
from typing import Callable, Mapping

from brain_edge.blobs.carry import MODELS, Carrier, NoAnswer, NotGiven
from brain_edge.blobs.store import BlobProblem, NoRoom
from brain_edge.messages.rate_limit import RETRY
from brain_edge.models.model_cache import ModelCache
from brain_edge.models.model_file import ModelProblem, check_model
from brain_edge.models.model_signature import read_statement
from brain_edge.store import StoreProblem
from brain_wire import Session
from brain_wire.rate_limited_log import RateLimitedLog

AGAIN = 10.0            # s until what was refused, or has no room, is looked at again

log = logging.getLogger("brain.edge")
limited_log = RateLimitedLog(log)


class Fetching:
    """One thread that fetches what is asked for.

    Args:
        robot: its name.
        cache: where they are put.
        authority: returns that of the fleet, PEM, or None where it has no keys; it may raise ModelProblem.
        came: called when there is news of a model.
    """

    def __init__(self, robot: str, cache: ModelCache, authority: Callable[[], bytes | None],
                 came: Callable[[], None]) -> None:
        self._cache, self._authority, self._came = cache, authority, came
        self._carrier = Carrier(robot, MODELS)
        self._lock = threading.Lock()
        self._wanted: dict[str, str] = {}       # digest: region
        self._told: dict[str, dict[str, str]] = {}
        self._wake, self._over = threading.Event(), threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="fetching", daemon=True)
        self._thread.start()

    def link(self, session: Session | None) -> None:
        """There is a link to the cloud; None: there is none any more."""
        self._carrier.session = session
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
        self._carrier.again()
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
            missing = {digest: region for digest, region in self._wanted.items() if self._cache.path(digest) is None}
        again = AGAIN
        for digest, region in missing.items():
            if self._carrier.session is None or self._over.is_set():
                break
            try:
                self._fetch(digest, region)
                self._failures = 0
            except NoAnswer:
                self._failures += 1
                again = RETRY.delay(self._failures)
            except (NoRoom, StoreProblem, NotGiven) as problem:
                limited_log(f"room {digest}", str(problem))
                self._tell(digest, "waiting", str(problem))
            except BlobProblem as problem:
                self._tell(digest, "refused", str(problem))
            except Exception:   # whatever one model is, the next is fetched
                limited_log("fetch", f"model {digest[:19]} could not be fetched", trace=True, level=logging.ERROR)
        return again if missing else None

    def _fetch(self, digest: str, region: str) -> None:
        stated, signer = read_statement(self._carrier.about(digest), self._authority())
        if stated["digest"] != digest or stated["region"] != region:
            raise ModelProblem(f"model {digest[:19]} is for {stated['region']}, not for {region}")
        size, blobs = stated["size"], self._cache.blobs
        with self._lock:
            wanted = set(self._wanted)
        self._cache.make_room(digest, size, wanted)
        began = blobs.have(digest)
        path = self._carrier.fetch(digest, size, blobs, lambda: self._goes_on(digest), lambda have: self._note(
            digest, f"{have} of {size} bytes of the model have come"))
        if path is None:
            return
        try:
            check_model(path)
        except (ModelProblem, OSError) as problem:
            self._cache.lose(digest)
            raise ModelProblem(f"model {digest[:19]} is not taken: {problem}") from None
        self._cache.take(digest, region, size, signer)
        log.info("model %s for %s has come, %d bytes%s%s", digest[:19], region, size,
                 f" ({began} of them before)" if began else "", f", signed by {signer}" if signer else "")
        self._came()

    def _goes_on(self, digest: str) -> bool:
        with self._lock:
            return digest in self._wanted and not self._over.is_set()     # it may be taken back meanwhile

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
