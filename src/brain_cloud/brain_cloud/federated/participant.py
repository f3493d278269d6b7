# SPDX-License-Identifier: Apache-2.0
"""A robot's part: it asks what there is to do, fetches the weights, trains on what it has, and hands in the outcome.

Pictures never leave the robot. It asks, and is never called: so it works behind any router, and a robot without its
cloud simply gets no answer. A link that is cut, whatever is under way, costs a further try from where it stood. What
was trained and could not be handed in is kept until the cloud is back; where the strategy has a use for it, the robot
goes on learning from it meanwhile.
"""
from __future__ import annotations

import enum
import io
import logging
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple

import numpy as np

from brain_cloud.federated import round_messages
from brain_cloud.federated.learner import Learner
from brain_cloud.federated.weights import Weights, WeightsProblem, check, digest, pack, unpack
from brain_edge.blobs.carry import LEARNING, Carrier
from brain_edge.blobs.store import SHA256, BlobProblem, Blobs
from brain_edge.messages import question
from brain_edge.messages.question import NoAnswer, NotGiven, insist, rest
from brain_edge.messages.rate_limit import RETRY
from brain_edge.schema import FormProblem
from brain_security.fleet_keys import learn
from brain_wire import Session
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted
from brain_wire.temporary_folder import TemporaryFolder
from brain_wire.wakeup import Flag

PATIENCE = 10.0     # s for an answer; a link that was cut tells nobody
LONGEST_WAIT = 60.0
ALONE = 100_000     # times that a robot goes on alone at most, whatever it is told
INSISTS = 30        # tries of a part that is fetched
TRIES = 5           # of a part that is handed in, before the update is kept for when the cloud is back
AGAIN = 1.0         # s after which it is asked again what became of an update of which no more is taken
REASONS = 1000      # for waiting that are told

log = logging.getLogger("brain.learning")
limited_log = RateLimitedLog(log)


class Made(NamedTuple):
    """An update that is not handed in yet.

    Attributes:
        head: of the task that it was made for.
        weights, examples, metrics: see :meth:`.learner.Learner.fit`.
        before: digests of what this was trained on from, each of which was being handed in when the link was cut.
    """

    head: dict[str, Any]
    weights: Weights
    examples: int
    metrics: dict[str, float]
    before: tuple[str, ...] = ()


class Turned(enum.Enum):
    """Outcome of a turn."""

    WAITED = "nothing to do"
    OVER = "the training is over"
    TAKEN = "an update was taken"
    REFUSED = "an update was not taken"
    DECLINED = "this robot cannot train"


class Participant:
    """A robot that learns with its fleet.

    Args:
        session: open session that reaches the cloud's router.
        robot: its name.
        name: of the learner.
        learner: what trains.
        patience: s for an answer.
        software: version that the cloud is told.
        folder: for the weights that are trained from, so that what has come of them stays; None: of this object.

    Attributes:
        why: what the last turn came to, in words.
    """

    def __init__(self, session: Session, robot: str, name: str, learner: Learner, *, patience: float = PATIENCE,
                 software: str = "", folder: Path | None = None) -> None:
        self._session, self._robot, self._name, self._learner = session, robot, name, learner
        self._patience, self._software = patience, software
        self._down = Carrier(robot, LEARNING, session, patience=patience, tries=INSISTS)
        self._up = Carrier(robot, LEARNING, session, patience=patience, tries=TRIES)
        self._own = TemporaryFolder("learning") if folder is None else None
        self._blobs = Blobs(folder or Path(self._own.name))     # type: ignore[union-attr]
        self._made: Made | None = None
        self.why = ""

    def link(self, session: Session) -> None:
        """Goes on with another session, between two runs."""
        self._session = self._down.session = self._up.session = session

    def run(self, stop: Flag) -> None:
        """Takes turns until ``stop``; a cloud that is away is waited for, however long."""
        failures, said = 0, ""
        reasons: set[str] = set()       # for waiting, each of which is told once
        while not stop.is_set():
            try:
                turned, wait = self._turn(stop)
                failures = 0
            except (NoAnswer, NotGiven) as problem:
                failures += 1
                limited_log("link", f"{problem}; this robot goes on asking")
                wait, turned = RETRY.delay(failures), Turned.WAITED
            news = "" if turned is Turned.WAITED else turned.value if turned is Turned.OVER else (
                f"{turned.value}: {self.why}")
            if turned is Turned.WAITED and self.why and self.why not in reasons and len(reasons) < REASONS:
                reasons.add(self.why)
                log.info("%s: %s", turned.value, quoted(self.why))
            if news and news != said:
                log.info("%s", news)
                said = news
            rest(min(wait, LONGEST_WAIT), lambda: not stop.is_set())

    def turn(self) -> Turned:
        """One turn: asks, and does what there is to do.

        Raises:
            NoAnswer: the cloud cannot be reached. NotGiven: it takes no such question.
        """
        return self._turn(Flag())[0]

    def _turn(self, stop: Flag) -> tuple[Turned, float]:
        if self._made is not None:
            return self._merge(self._made, stop)
        head = self._ask({"do": "task", "learners": [self._name], "software": self._software})
        if "digest" not in head:
            self.why = head.get("why", "")
            return Turned.OVER if head.get("over") else Turned.WAITED, head.get("wait_s", 1.0)
        if any(field not in head for field in ("run", "round", "version", "size", "left_s", "config")):
            raise NoAnswer("the cloud's answer lacks what it must have")
        end = time.monotonic() + head["left_s"]
        model = self._fetch(head, stop)
        if model is None:
            return Turned.WAITED, 0.0
        try:
            weights, examples, metrics = self._fit(model, head, lambda: end - time.monotonic())
        except Exception as error:      # whatever a learner meets, the others are not to wait for this robot
            known = isinstance(error, (ValueError, RuntimeError, OSError))
            if not known:
                limited_log("learner", "the learner failed", trace=True, level=logging.ERROR)
            self.why = " ".join(f"{'' if known else f'{type(error).__name__}: '}{error}".split())[:200]
            self._ask({"do": "decline", "run": head["run"], "round": head["round"], "why": self.why})
            return Turned.DECLINED, 1.0
        self._made = Made(head, weights, examples, metrics)
        return self._merge(self._made, stop)

    def _fit(self, model: Weights, head: dict[str, Any], left: Callable[[], float]
             ) -> tuple[Weights, int, dict[str, float]]:
        weights, examples, metrics = self._learner.fit(model, head["config"], left)
        check(weights, model)
        return weights, examples, {name: float(value) for name, value in metrics.items() if np.isfinite(value)}

    def _merge(self, made: Made, stop: Flag) -> tuple[Turned, float]:
        """Hands in what was made. Without an answer it is kept, and goes on learning where the strategy says so."""
        try:
            # What the cloud has taken, though its word was lost, must not count again as a part of what came of it.
            for known in made.before:
                if self._was_taken(made, known, stop):
                    self._made = None
                    self.why = f"round {made.head['round']}, {made.examples} examples"
                    return Turned.TAKEN, 0.0
            turned = self._hand_in(made, stop)
        except NotGiven as problem:
            self._made, self.why = None, str(problem)
            return Turned.REFUSED, 1.0
        except NoAnswer:
            if len(made.before) < min(made.head["config"].get("alone", 0.0), ALONE) and not stop.is_set():
                self._go_on(made)
                return Turned.WAITED, 0.0
            raise
        self._made = None
        return turned

    def _was_taken(self, made: Made, known: str, stop: Flag) -> bool:
        """Asks if the cloud has taken an update of that digest. One that can say nothing now is asked until it can."""
        while not stop.is_set():
            head = self._insist({**_about(made), "digest": known}, stop)
            if "wait_s" not in head:
                return bool(head.get("taken"))
            rest(min(head["wait_s"], LONGEST_WAIT), lambda: not stop.is_set())
        raise NoAnswer("stopped")

    def _go_on(self, made: Made) -> None:
        try:
            weights, examples, metrics = self._fit(made.weights, made.head, lambda: float("inf"))
        except Exception as error:      # as above
            limited_log("alone", f"this robot cannot go on learning by itself: {' '.join(str(error).split())[:200]}")
            weights, examples, metrics = made.weights, made.examples, made.metrics
        self._made = Made(made.head, weights, examples, metrics, (*made.before, digest(pack(made.weights))))
        log.info("the cloud is away; trained on from what there is (%d)", len(self._made.before))

    def _fetch(self, head: dict[str, Any], stop: Flag) -> Weights | None:
        """The weights; None: they were replaced meanwhile."""
        named = SHA256 + head["digest"]
        for other in self._blobs.sizes().keys() - {named}:
            self._blobs.forget(other)
        try:
            path = self._down.fetch(named, head["size"], self._blobs, lambda: not stop.is_set())
        except NotGiven as problem:
            self.why = str(problem)
            return None
        except BlobProblem as problem:
            raise NoAnswer(f"the cloud's weights cannot be fetched: {problem}") from None
        if path is None:
            return None     # it is to end
        try:
            return unpack(path.read_bytes())
        except WeightsProblem as problem:
            raise NoAnswer(f"the cloud's weights cannot be read: {problem}") from None

    def _hand_in(self, made: Made, stop: Flag) -> tuple[Turned, float]:
        data = pack(made.weights)
        about = {**_about(made), "digest": digest(data), "size": len(data)}
        short = {name: about[name] for name in ("run", "round", "version")}
        while not stop.is_set():
            answer = self._insist(about, stop)
            if "refused" in answer:
                self.why = answer["refused"]
                return Turned.REFUSED, 0.0
            if answer.get("taken"):
                self.why = f"round {made.head['round']}, {made.examples} examples"
                return Turned.TAKEN, 0.0
            if "wait_s" in answer:
                rest(min(answer["wait_s"], LONGEST_WAIT), lambda: not stop.is_set())
                continue
            try:
                self._up.hand_in(SHA256 + about["digest"], len(data), io.BytesIO(data), short,
                                 lambda: not stop.is_set())
            except (NotGiven, BlobProblem) as problem:      # the next answer says what became of it
                limited_log("hand in", f"no more is taken of an update: {problem}")
                rest(AGAIN, lambda: not stop.is_set())
        self.why = "stopped"
        return Turned.REFUSED, 0.0

    def _insist(self, head: dict[str, Any], stop: Flag) -> dict[str, Any]:
        """An answer about an update, asked for again through cuts. Raises NoAnswer, NotGiven."""
        return insist(lambda: self._ask(head), TRIES, lambda: not stop.is_set())

    def _ask(self, head: dict[str, Any]) -> dict[str, Any]:
        """Asks once. Raises NoAnswer, NotGiven."""
        answer = question.ask(self._session, learn(self._robot), round_messages.write({"from": self._robot, **head}),
                              self._patience)
        try:
            return round_messages.read(answer, "reply").head
        except FormProblem as problem:
            raise NoAnswer(f"what the cloud answers cannot be read: {problem}") from None


def _about(made: Made) -> dict[str, Any]:
    return {"do": "put", "run": made.head["run"], "round": made.head["round"], "version": made.head["version"],
            "size": made.head["size"], "examples": max(1, int(made.examples)), "metrics": made.metrics}
