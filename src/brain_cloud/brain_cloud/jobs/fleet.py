# SPDX-License-Identifier: Apache-2.0
"""Workers that no process of this machine is: programs on robots, and the fleet's own round of learning together.

A fleet's cloud carries them out (:mod:`brain_cloud.processes.fleet_workers`); a runner without one has none of them.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Protocol


@dataclass(frozen=True)
class OnRobot:
    """A program that a robot's owner lets the cloud run, ordered of the robot's edge.

    Attributes:
        robot: whose.
        program: by its name there.
    """

    robot: str
    program: str


@dataclass(frozen=True)
class Round:
    """Training that the robots of the fleet do together.

    Attributes:
        plan: of the training, as :func:`brain_cloud.federated.plan.plan` takes it.
        model: file that has the weights in the end.
    """

    plan: Mapping[str, Any] = field(hash=False)
    model: str


class Running(Protocol):
    """A worker that runs, as a tree of processes does (:class:`brain_runtime.run.tree.Tree`).

    Attributes:
        asked: it has been asked to end.
        pid: of its process; None: it is none of this machine's.
    """

    asked: bool

    @property
    def pid(self) -> int | None:
        """See there."""

    def stop(self) -> None:
        """Asks it to end; may be called again and again."""

    def poll(self) -> int | None:
        """Returns its exit status; None: it runs."""

    def let_go(self, patience: float) -> None:
        """The runner ends: a process ends with it, what the fleet runs goes on."""


class Fleet(Protocol):
    """A fleet beside whose cloud jobs run."""

    def has(self, robot: str) -> bool:
        """Tells whether a robot belongs to it."""

    def begin(self, what: OnRobot | Round, name: str, folder: Path) -> Running:
        """Has a worker run.

        Args:
            what: it is.
            name: no other worker of any job has it; where one of that name runs already, it goes on.
            folder: for its log, and what it leaves behind.

        Raises:
            OSError: it cannot be just now; it is to be tried again.
        """
