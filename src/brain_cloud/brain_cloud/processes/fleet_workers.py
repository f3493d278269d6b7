# SPDX-License-Identifier: Apache-2.0
"""Workers of jobs that a cloud's fleet carries out: programs ordered of robots, and rounds of learning together."""
from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from brain_cloud.jobs.job import MESSAGE
from brain_cloud.jobs.workers import OnRobot, Round
from brain_cloud.processes.cloud import Cloud
from brain_edge.messages.outbox import OutboxFull
from brain_edge.programs.program_manager import DONE
from brain_edge.state.manifests import Resource
from brain_edge.store import StoreProblem
from brain_wire import private
from brain_wire.safe_text import line

if TYPE_CHECKING:
    from brain_cloud.federated.report import Report
    from brain_cloud.federated.rounds import Rounds

PERSON = "jobs"     # who orders, in the log of orders; who has applied the job stands there before
KIND = "Job"        # of a program of a robot's


class FleetWorkers:
    """See :class:`brain_cloud.jobs.workers.Fleet`.

    Args:
        cloud: of the fleet.
    """

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def has(self, robot: str) -> bool:
        """Tells whether a robot belongs to the fleet: it was taken in, and not revoked."""
        return bool(self._cloud.store.read("SELECT 1 FROM peers WHERE name = ?", (robot,))) and not (
            self._cloud.barred(robot))

    def begin(self, what: OnRobot | Round, name: str, folder: Path) -> _Away:
        """Has a worker run; see there."""
        if isinstance(what, OnRobot):
            return _Program(self._cloud, folder, name, what)
        others = self._cloud.learning
        if others is not None and not others.over and not others.held:
            why = f"the fleet learns {others.plan.name}, and this waits until that is over"
            private.folder(folder)
            (folder / MESSAGE).write_text(json.dumps({"message": why}), encoding="utf-8")
            raise OSError(why)
        return _Learning(self._cloud, folder, what)


class _Away(ABC):
    """A worker that is no process of this machine."""

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        self._cloud, self._folder, self.asked = cloud, folder, False
        self._said = ""

    pid = None

    @abstractmethod
    def _look(self) -> int | None:
        """Does what is next; see :meth:`poll`. Raises StoreProblem, OutboxFull, OSError: not now."""

    @abstractmethod
    def _end(self) -> None:
        """Wants it no more. Raises StoreProblem, OutboxFull."""

    def poll(self) -> int | None:
        """Returns its exit status; None: it runs, or waits."""
        try:
            if self.asked:
                self._end()
                return 0
            return self._look()
        except (StoreProblem, OutboxFull, OSError) as problem:
            self._tell(str(problem))
            return None

    def stop(self) -> None:
        """Asks it to end, at the next look."""
        self.asked = True

    def let_go(self, patience: float) -> None:
        """Lets it go on; the next runner finds it."""

    def _tell(self, text: str) -> None:
        """Writes a line into the worker's log, where it is news."""
        if text == self._said:
            return
        self._said = text
        private.folder(self._folder)
        with open(self._folder / "log", "a", encoding="utf-8", opener=private.opener) as log:
            log.write(f"{line(text)}\n")


class _Program(_Away):
    """A program on a robot: an order to its edge, which is taken back in the end."""

    def __init__(self, cloud: Cloud, folder: Path, name: str, what: OnRobot) -> None:
        super().__init__(cloud, folder)
        self._name, self._robot = name, what.robot
        self._wanted = Resource(KIND, name, (what.robot,), {"program": what.program})
        self._ordered = False

    def _look(self) -> int | None:
        if not self._ordered:
            with self._cloud.store.change() as db:
                changed = self._cloud.desired.apply(db, self._wanted, PERSON)
            self._ordered = True
            self._wake(changed)
        found = self._cloud.store.read(
            "SELECT status FROM reported JOIN desired USING (robot, kind, name, version) WHERE robot = ? AND kind = ? "
            "AND name = ?", (self._robot, KIND, self._name))
        if not found:
            self._tell(f"{self._robot} has not heard of it yet")
            return None
        status = json.loads(found[0][0])
        self._tell(f"{self._robot}: {status['state']}" + (f": {status['why']}" if "why" in status else ""))
        if status["state"] != "refused" and status.get("why") != DONE:
            return None
        self._end()     # so that it runs anew where it is ordered again
        return int(status["state"] == "refused")

    def _end(self) -> None:
        with self._cloud.store.change() as db:
            self._wake(self._cloud.desired.delete(db, KIND, self._name, PERSON) or [])

    def _wake(self, robots: list[str]) -> None:
        for robot in robots:
            self._cloud.wake(robot)


class _Learning(_Away):
    """A training that the cloud leads, one at a time."""

    def __init__(self, cloud: Cloud, folder: Path, what: Round) -> None:
        super().__init__(cloud, folder)
        self._what = what
        self._rounds: Rounds | None = None
        self._report: Report | None = None

    def _look(self) -> int | None:
        if self._rounds is None or self._report is None:
            from brain_cloud.federated.plan import plan
            from brain_cloud.federated.records import RecordsProblem
            from brain_cloud.federated.report import Report

            private.folder(self._folder)
            try:
                self._rounds = self._cloud.learn(plan(dict(self._what.plan)))
            except RecordsProblem as problem:       # as its own process would end
                self._tell(str(problem))
                return 1
            self._report = Report(self._rounds, self._folder / MESSAGE, Path(self._what.model))
            self._tell(f"the fleet learns {self._rounds.plan.name}")
        return 0 if self._report.look() else None

    def _end(self) -> None:
        if self._rounds is not None:
            self._rounds.held = True
