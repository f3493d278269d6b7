# SPDX-License-Identifier: Apache-2.0
"""Rounds: who is asked, whose update is taken, and when a round ends. Knows no wire.

A round begins when the first robot is handed it, and ends when all that were asked have answered, when enough have, or
at its deadline. What came is aggregated if it is enough; else the round is begun anew with the weights as they are.
A robot that is late in several rounds in a row is left out of as many, where there are enough without it.
Each accepted update is on the disk before the robot hears so, and so a process that is killed goes on with them.
"""
from __future__ import annotations

import hashlib
import logging
import math
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Mapping

from brain_cloud.federated import privacy
from brain_cloud.federated.plan import Plan
from brain_cloud.federated.records import Opened, Records, RecordsProblem, model_bytes
from brain_cloud.federated.strategies import DPFedAvg, Update
from brain_cloud.federated.weights import WeightsProblem, check, digest, pack, unpack
from brain_edge.uptime_clock import boot_id, since_boot
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

HERE = 30.0         # s after its last question up to which a robot counts as there
ASK_AGAIN = 1.0     # s after which a robot asks again that has nothing to do
LATELY = 100        # rounds
LEFT_OUT = 5.0      # s after which a robot asks again that is left out of the open round
ROBOTS = 20_000     # that are remembered

log = logging.getLogger("brain.learning")
limited_log = RateLimitedLog(log)


@dataclass(frozen=True)
class Task:
    """Task of a robot: to train from the version ``version`` of the weights, in the round ``attempt``."""

    run: str
    attempt: int
    version: int
    digest: str
    size: int
    left_s: float
    learner: str
    config: Mapping[str, float]


@dataclass(frozen=True)
class Wait:
    """A robot has nothing to do, and why; it asks again."""

    why: str
    seconds: float = ASK_AGAIN
    over: bool = False


class Refused(ValueError):
    """An update is not taken; says why. Another try with the same update would be refused too."""


class Rounds:
    """One training.

    Args:
        folder: of the training.
        plan: that is followed.
        seconds, boot: of this machine: how long it has run, and which run that is.
        happened: told what people may want to know of a robot, or of the whole ("").

    Attributes:
        folder, plan, strategy: see there.
        held: no robot is given a task, since who began the training lets it rest.

    Raises:
        RecordsProblem: the folder cannot be used.
        StrategyProblem: the plan's strategy is none.
    """

    def __init__(self, folder: Path, plan: Plan, *, seconds: Callable[[], float] = since_boot, boot: str | None = None,
                 happened: Callable[[str, str], None] = lambda robot, text: None) -> None:
        self.folder, self.plan, self.strategy, self._happened = folder, plan, plan.made(), happened
        self._seconds, self._boot = seconds, boot or boot_id()
        self._lock, self.held = threading.RLock(), False
        self._records = Records(folder, plan)
        self._records.tidy()
        self._state = self._records.state
        self._heard: dict[str, float] = {}
        self._handed: set[str] = set()
        self._declined: dict[str, str] = {}
        self._left_out: set[str] = set()
        self._answers = self._records.updates()
        self._digests = {robot: digest(pack(update.weights)) for robot, (update, _) in self._answers.items()}
        self._refused: dict[str, str] = {}
        self._bytes, self._digest = model_bytes(self._state)
        opened = self._records.opened()
        self._began: float | None = None
        if opened is not None or self._answers:
            same = opened is not None and opened.boot == self._boot and opened.began <= seconds()
            self._handed = set() if opened is None else set(opened.handed)     # a kill does not end their training
            self._open(opened.began if same and opened is not None else seconds())

    # -- what robots ask -------------------------------------------------------------------------------------------

    def task(self, robot: str, learners: tuple[str, ...]) -> Task | Wait:
        """Returns the next task of a robot, or why it has to wait and for how long."""
        with self._lock:
            self.turn()
            if robot not in self._heard and len(self._heard) >= ROBOTS:
                return Wait("too many robots are there", 60.0)
            if self.over:
                return Wait("the training is over", 60.0, over=True)
            if self.held:
                return Wait("the training rests", 5.0)
            if self.plan.learner not in learners:       # nobody waits for it
                return Wait(f"this training needs the learner {self.plan.learner}", 60.0)
            self._heard[robot] = self._seconds()
            if not self.strategy.asynchronous:
                if robot in self._answers or robot in self._declined:
                    return Wait("the others are waited for")
                if not self.asked(robot):
                    return Wait("this round was drawn without this robot")
                if robot not in self._handed and (rounds := self._left_out_for(robot)):
                    self._left_out.add(robot)
                    return Wait(f"it was late in the last {self.plan.late} rounds, and is left out of {rounds} more; "
                                f"let it have less to learn from, or give the plan a longer deadline_s", LEFT_OUT)
                if robot not in self._handed:
                    self._handed.add(robot)
                    self._open(self._seconds() if self._began is None else self._began)
            return Task(self._state.run, self._state.attempt, self._state.version, self._digest, len(self._bytes),
                        self.left(), self.plan.learner, {**self.plan.config, **self.strategy.config()})

    def asked(self, robot: str) -> bool:
        """Tells whether the open round asks a robot: drawn for each by itself, the same however often it is asked."""
        if self.plan.fraction >= 1.0:
            return True
        text = f"{self._state.secret}/{self._state.attempt}/{robot}".encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") / 2**64 < self.plan.fraction

    def weights(self, wanted: str) -> bytes | None:
        """The weights of a digest as they are now; None: these are others meanwhile."""
        with self._lock:
            return self._bytes if wanted == self._digest else None

    def expected(self, run: str, attempt: int, version: int) -> int:
        """Returns the size (bytes) of an update that can be taken now.

        Raises:
            Refused: none that began so can.
        """
        with self._lock:
            self.turn()
            if run != self._state.run:
                raise Refused("it is of another training")
            if self.over:
                raise Refused("the training is over")
            if self.strategy.asynchronous:
                stale = self._state.version - version
                if not 0 <= stale <= self._most_stale():
                    raise Refused(f"it began {stale} versions ago, and at most {self._most_stale()} are taken")
            elif (attempt, version) != (self._state.attempt, self._state.version):
                raise Refused("it is late: its round is over")
            return len(self._bytes)

    def take(self, robot: str, run: str, attempt: int, version: int, data: bytes, examples: int,
             metrics: Mapping[str, float]) -> None:
        """Takes a robot's update; it is on the disk then. The same one again changes nothing.

        Raises:
            Refused: it is not taken.
            RecordsProblem: it cannot be kept just now; the robot may try again.
        """
        with self._lock:
            if self.taken(robot, digest(data), attempt, version):
                return
            self.expected(run, attempt, version)
            self._heard[robot] = self._seconds()
            try:
                weights = unpack(data)
                check(weights, self._state.model)
            except WeightsProblem as problem:
                self._refuse(robot, str(problem))
                raise Refused(str(problem)) from None
            update = Update(robot, weights, max(1, min(examples, self.plan.most_examples)),
                            max(0, self._state.version - version))
            told = {name: float(value) for name, value in list(metrics.items())[:50] if math.isfinite(value)}
            if self.strategy.asynchronous:
                self._digests[robot] = digest(data)
                self._mix(update, told)
                return
            if not self.asked(robot):
                raise Refused("this round was drawn without this robot")
            if robot not in self._answers:
                self._records.keep(update, told)
                self._answers[robot], self._digests[robot] = (update, told), digest(data)
                if self._began is None:
                    self._open(self._seconds())
            self.turn()

    def taken(self, robot: str, named: str, attempt: int, version: int) -> bool:
        """Checks whether an update of that digest was taken lately: whose acknowledgement was lost hands it in again.

        The same weights in another round, or from other weights, are another update.
        """
        with self._lock:
            if robot in self._answers:
                return self._digests.get(robot) == named
            lately = self._state.history[-max(LATELY, self._most_stale() + 1):]     # for as long as it could be taken
            return any(entry["updates"].get(robot) == named and (
                entry.get("from", version) == version if self.strategy.asynchronous else entry["round"] == attempt)
                for entry in lately)

    def decline(self, robot: str, run: str, attempt: int, why: str) -> None:
        """A robot cannot take part in a round."""
        with self._lock:
            behind = self._state.attempt - attempt      # where there are no rounds, each update begins another
            known = 0 <= behind <= (self._most_stale() if self.strategy.asynchronous else 0)
            if run == self._state.run and known and robot not in self._answers:
                self._declined[robot] = why[:200]
                self.turn()

    def _refuse(self, robot: str, why: str) -> None:
        if robot in self._refused:      # told once a round, however often it tries
            return
        self._refused[robot] = why
        self._declined[robot] = why     # nobody waits for it any more
        limited_log(f"refused {robot}", f"an update of {robot} was refused: {why}")
        self._happened(robot, f"{self.plan.name}: an update of {robot} was refused: {why}")

    # -- rounds ----------------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """True once all rounds are done."""
        return self._state.version >= self.plan.rounds

    def left(self) -> float:
        """Seconds to the deadline of the open round."""
        if self._began is None or self.strategy.asynchronous:
            return self.plan.deadline_s
        return max(0.0, self._began + self.plan.deadline_s - self._seconds())

    def turn(self) -> float:
        """Ends the open round if that is due; returns the seconds until it may be due again."""
        with self._lock:
            if self.over or self._began is None or self.strategy.asynchronous:
                return 1.0
            lasted, count = self._seconds() - self._began, len(self._answers)
            if self.plan.enough is not None and count >= self.plan.enough:
                self._close("enough")
            elif lasted >= self.plan.deadline_s:
                self._close("deadline")
            elif (self.plan.enough is None and count >= self.plan.least and lasted >= self.plan.gather_s
                  and not self._missing()):
                self._close("all")
            return max(0.0, min(1.0, self.left()))

    def _missing(self) -> set[str]:
        """Robots that are asked, there or at it, and have not answered."""
        now = self._seconds()
        there = {robot for robot, at in self._heard.items() if now - at < HERE and self.asked(robot)}
        return (there | self._handed) - self._answers.keys() - self._declined.keys() - self._left_out

    def _left_out_for(self, robot: str) -> int:
        """Of how many rounds, the open one included, a robot is left out, since it let the last ones pass.

        Rounds that ended with enough are no measure: somebody is slower than the fastest in each. None is left out
        after a round with too few.
        """
        most, history = self.plan.late, self._state.history
        if not most or not history or history[-1]["ended"] == "too few":
            return 0
        passed = since = 0
        for entry in history[:-10 * most - 1:-1]:
            if robot in entry["missing"] and entry["ended"] != "enough":
                passed += 1
            elif robot in entry["robots"] or robot in entry["refused"] or robot in entry.get("declined", ()):
                break
            elif not passed:
                since += 1
        return max(0, most - since) if passed >= most else 0

    def _open(self, began: float) -> None:
        self._began = began
        try:
            self._records.write_opened(Opened(self._state.attempt, self._boot, began, sorted(self._handed)))
        except RecordsProblem as problem:   # after a kill it would have its whole time again
            limited_log("opened", str(problem))

    def _close(self, why: str) -> None:
        """Ends the round. What cannot be written is tried again; the weights in memory are those on the disk."""
        state, answers = self._state, self._answers
        enough = len(answers) >= max(self.plan.least, self.strategy.fewest)
        entry = self._entry(why if enough else "too few", answers)
        before = replace(state, history=list(state.history))
        try:
            if enough:
                state.model, state.kept = self.strategy.aggregate(
                    state.model, [update for update, _ in answers.values()], state.kept)
                state.version += 1
                state.average(self.plan)
                check(state.model, before.model)
            state.attempt += 1
            state.history.append(entry)
            self._told(entry)
            late = [robot for robot in entry["missing"] if 0 < self._left_out_for(robot) == self.plan.late]
            self._records.write_state()
        except (RecordsProblem, WeightsProblem) as problem:
            vars(state).update(vars(before))
            limited_log("close", f"the round cannot be ended: {problem}")
            if isinstance(problem, WeightsProblem):     # sums beyond float32; the updates of this round are no use
                self._answers.clear()
            return
        self._forget()
        counts = ", ".join(sorted(answers)) or "nobody"
        for robot in late:
            self._happened(robot, f"{self.plan.name}: {robot} was late in the last {self.plan.late} rounds, and is "
                                  f"left out of the next {self.plan.late} if there are enough without it")
        self._happened("", f"{self.plan.name}: round {entry['round']} ended ({entry['ended']}) with {counts}")
        log.info("round %d of %s ended (%s) with %s", entry["round"], self.plan.name, entry["ended"], counts)

    def _forget(self) -> None:
        self._handed, self._declined, self._answers, self._refused, self._digests = set(), {}, {}, {}, {}
        self._left_out = set()
        self._bytes, self._digest = model_bytes(self._state)
        self._began = None
        self._records.tidy()

    def _mix(self, update: Update, metrics: dict[str, float]) -> None:
        state = self._state
        before = replace(state, history=list(state.history))
        entry = self._entry("update", {update.robot: (update, metrics)})
        state.model, _ = self.strategy.aggregate(state.model, [update], {})
        state.version += 1
        state.average(self.plan)
        state.attempt += 1
        state.history.append({**entry, "staleness": update.staleness, "from": before.version - update.staleness})
        try:
            self._records.write_state()
        except RecordsProblem:
            vars(state).update(vars(before))
            raise
        self._bytes, self._digest = model_bytes(state)
        self._refused.pop(update.robot, None)
        self._declined.clear()      # this entry tells of them

    def _most_stale(self) -> int:
        return int(getattr(self.strategy, "most_stale", 0))

    def _entry(self, ended: str, answers: Mapping[str, tuple[Update, dict[str, float]]]) -> dict[str, Any]:
        lasted = 0.0 if self._began is None else self._seconds() - self._began
        return {"round": self._state.attempt, "version": self._state.version + (ended != "too few"), "ended": ended,
                "lasted_s": round(lasted, 3), "refused": dict(self._refused),
                "missing": [] if self.strategy.asynchronous else sorted(self._missing()),   # there nobody is waited for
                "declined": {robot: why for robot, why in sorted(self._declined.items()) if robot not in self._refused},
                "left_out": sorted(self._left_out),
                "updates": {robot: self._digests.get(robot, "") for robot in sorted(answers)},
                "robots": {robot: {**metrics, "examples": update.examples}
                           for robot, (update, metrics) in sorted(answers.items())}}

    def _told(self, entry: dict[str, Any]) -> None:
        spent = self.spent(self._state.attempt - 1)
        if spent is not None:
            entry["epsilon"] = round(spent, 4)

    def spent(self, rounds: int | None = None) -> float | None:
        """Epsilon so far, rounds that came to nothing counted; None: the strategy promises no privacy."""
        if not isinstance(self.strategy, DPFedAvg):
            return None
        return privacy.epsilon(self.strategy.noise, self.plan.fraction,
                               self._state.attempt - 1 if rounds is None else rounds, self.strategy.delta)

    def status(self) -> dict[str, Any]:
        """Returns the state of the training, as plain values."""
        with self._lock:
            found: dict[str, Any] = {
                "name": self.plan.name, "learner": self.plan.learner, "strategy": self.plan.strategy,
                "rounds": self.plan.rounds, "version": self._state.version, "round": self._state.attempt,
                "over": self.over, "digest": self._digest, "left_s": None if self._began is None else self.left(),
                "answered": sorted(self._answers), "missing": sorted(self._missing()), "refused": dict(self._refused),
                "left_out": sorted(self._left_out),
                "declined": {robot: quoted(why) for robot, why in self._declined.items()},
                "history": self._state.history[-100:]}
            spent = self.spent()
            if spent is not None and isinstance(self.strategy, DPFedAvg):
                found["privacy"] = {"epsilon": spent, "delta": self.strategy.delta}
            return found

    @property
    def model(self) -> dict[str, Any]:
        """The weights as they are now."""
        with self._lock:
            return dict(self._state.model)
