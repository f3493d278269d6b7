# SPDX-License-Identifier: Apache-2.0
"""Gives regions the models that are ordered: by their parameter ``weights``, between two of their steps.

Never while a goal is pursued, unless the order says so. A region that fails soon after it has been given a model gets
back what it had before, with a cloud or without, and is not given that model again until it is ordered anew.
"""
from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, NamedTuple

from brain_edge.blobs.store import digest_of
from brain_edge.models.fetching import Fetching
from brain_edge.models.goals import GoalWatch
from brain_edge.models.model_cache import ModelCache
from brain_edge.models.model_file import OWN
from brain_edge.state.brain import Brain, Never, NotNow
from brain_edge.state.desired_state import DesiredState, Wanted
from brain_edge.state.kinds import WEIGHTS
from brain_edge.store import Store

GUARD = 60.0        # s after a model was given to a region in which its failure is the model's

log = logging.getLogger("brain.edge")


class _Row(NamedTuple):
    """Model that a region was given: a row of the table ``loaded``."""

    digest: str
    before: str
    original: str
    failed: int | None
    why: str


@dataclass
class _Guard:
    """A region that has just been given a model.

    Attributes:
        version: of the order.
        until: steady time (s).
        epochs: of the processes of all regions then; empty: not heard yet.
    """

    version: int
    until: float
    epochs: dict[str, int]


def waiting(why: str) -> dict[str, Any]:
    """A status."""
    return {"state": "waiting", "why": why[:500]}


def refused(why: str) -> dict[str, Any]:
    """A status."""
    return {"state": "refused", "why": why[:500]}


class Loading:
    """Models of the regions of one robot.

    Args:
        store: its database.
        held: tells people what happened.
        cache, fetching: where models are, and come from.
        now: steady time (s).
    """

    def __init__(self, store: Store, held: DesiredState, cache: ModelCache, fetching: Fetching,
                 now: Callable[[], float] = time.monotonic) -> None:
        self._store, self._held, self._cache, self._fetching, self._now = store, held, cache, fetching, now
        self._guards: dict[str, _Guard] = {}
        # what a region refused, and which process of it did: it is not asked again and again
        self._refusals: dict[tuple[str, int], tuple[int, str]] = {}

    def prepare(self, wanted: list[Wanted]) -> dict[tuple[str, str], dict[str, Any]]:
        """Has what is wanted fetched, whether a brain runs or not; returns how far those are that are missing."""
        models = [one for one in wanted if one.kind == "Model" and one.spec["digest"] != OWN]
        self._fetching.want({one.spec["digest"]: one.spec["region"] for one in models})
        return {one[:2]: self._fetching.status(one.spec["digest"]) for one in models
                if self._cache.path(one.spec["digest"]) is None}

    def begin(self) -> None:
        """A brain is there that may be another one than before."""
        self._guards.clear()
        self._refusals.clear()

    def look(self, watch: GoalWatch) -> None:
        """Sees whether a region failed with what it was given. Raises StoreProblem."""
        for region, guard in list(self._guards.items()):
            if self._now() > guard.until:
                del self._guards[region]
                continue
            epochs = watch.epochs()
            if not guard.epochs.get(region):
                guard.epochs = epochs
                continue
            why = watch.ill(region, guard.epochs[region])
            others = [name for name in guard.epochs if name != region]
            if why and others and 2 * sum(epochs.get(name) != guard.epochs[name] for name in others) >= len(others):
                guard.epochs = epochs       # the whole brain was started again
            elif why:
                self._failed(region, guard, why)

    def _failed(self, region: str, guard: _Guard, why: str) -> None:
        row = self._row(region)
        if row is None:
            del self._guards[region]
            return
        text = f"{region} failed with model {row.digest[:19]}: {why}; it gets back what it had before"
        with self._store.change() as db:
            # it is to have what it had before, whatever that order says
            db.execute("UPDATE loaded SET digest = before, failed = ?, why = ? WHERE region = ?",
                       (guard.version, text[:400], region))
            self._held.event_within(db, text)
        del self._guards[region]        # not before it is written down: else nobody would give back what it had
        log.error("%s", text)

    def guarded(self) -> bool:
        """Tells whether any region is being watched closely."""
        return bool(self._guards)

    def _row(self, region: str) -> _Row | None:
        rows = self._store.read("SELECT digest, before, original, failed, why FROM loaded WHERE region = ?", (region,))
        return _Row(*rows[0]) if rows else None

    def bring_about(self, brain: Brain, one: Wanted, watch: GoalWatch) -> dict[str, Any]:
        """Gives a region what is wanted, where it has not got it; returns the status.

        Raises:
            NotNow: the region does not answer.
            Never: it has no weights, or refuses these.
            StoreProblem: the database cannot be written.
        """
        region, digest = one.spec["region"], one.spec["digest"]
        row = self._row(region)
        if row is not None and row.failed == one.version:
            try:
                self._set(brain, region, self._value(row.digest, row.original))
            except NotNow:
                pass    # it has not come back: then it has nothing of that model either
            return refused(row.why)
        if digest != OWN and self._cache.path(digest) is None:
            return self._fetching.status(digest)
        have = str(brain.get_parameter(region, WEIGHTS))
        original = row.original if row is not None else "" if self._ours(have) else have
        value = self._value(digest, original)
        known = row is not None and row.digest == digest
        if have != value:
            known_refusal = self._refusals.get((region, one.version))
            if known_refusal is not None and known_refusal[0] == watch.epoch(region):
                return refused(known_refusal[1])
            # What a region had, and lost when it was started again, it gets whatever it is about.
            if not known and one.spec.get("when", "idle") != "now" and watch.pursuing():
                return waiting(f"a goal is being pursued: {region} keeps its weights until it has ended")
            if not watch.heard(region):     # else nobody would see that its process is another one a moment later
                return waiting(f"{region} has not been heard yet")
            if digest != OWN and digest_of(Path(value)) != digest:
                self._cache.lose(digest)
                self._fetching.again()
                return waiting(f"the file of model {digest[:19]} is damaged; it is fetched again")
            problem = self._set(brain, region, value)
            if problem is not None:
                self._refusals[region, one.version] = watch.epoch(region), problem
                return refused(problem)
            watch.changed(region)
            if digest != OWN:
                # A process that was started again meanwhile, and is not heard yet, is to show by the epochs of before.
                guard = self._guards.get(region)
                epochs = guard.epochs if guard is not None and guard.version == one.version else watch.epochs()
                self._guards[region] = _Guard(one.version, self._now() + GUARD, epochs)
                self._cache.used(digest)
        if not known:
            with self._store.change() as db:
                if row is None:
                    db.execute("INSERT INTO loaded VALUES (?, ?, ?, ?, NULL, '')", (region, digest, OWN, original))
                else:
                    db.execute("UPDATE loaded SET digest = ?, before = ?, failed = NULL, why = '' WHERE region = ?",
                               (digest, row.digest, region))
                has = "its own weights" if digest == OWN else f"model {digest[:19]}"
                self._held.event_within(db, f"{region} has {has}")
        if digest == OWN or self._cache.signer(digest):
            return {"state": "applied"}
        return {"state": "applied", "why": "not signed: this fleet has no keys"}

    def _set(self, brain: Brain, region: str, value: str) -> str | None:
        """Sets the weights; why the region refuses them, or None."""
        try:
            brain.set_parameters(region, {WEIGHTS: value})
        except Never as problem:
            return str(problem)
        return None

    def _value(self, digest: str, original: str) -> str:
        """Returns the value that the parameter ``weights`` is to have."""
        path = None if digest == OWN else self._cache.path(digest)
        return original if path is None else str(path)

    def _ours(self, value: str) -> bool:
        return value.startswith(f"{self._cache.blobs.folder}/")
