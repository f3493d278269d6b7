# SPDX-License-Identifier: Apache-2.0
"""Workers of a job on this machine: their groups and commands, what each waits for, and what its fleet carries out.

Programs on robots, and the fleet's own round of learning together, are no processes of this machine: a fleet's cloud
carries them out (:mod:`brain_cloud.processes.fleet_workers`); a runner without one has none of them.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Protocol

from brain_runtime.run.tree import Command

COMPLETE, READY = "Complete", "Ready"
BACKOFF = 6         # failures of a group that are survived, as of a Kubernetes Job
GRACE = 30.0        # s that a worker gets to end
_VARIABLE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


@dataclass(frozen=True)
class Step:
    """A command of a worker.

    Attributes:
        argv: of it, with ``$(NAME)`` for variables.
        env: variables in the order in which they may refer to each other.
        cwd: folder that it runs in.
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str

    def resolved(self, more: Mapping[str, str], base: Mapping[str, str]) -> Command:
        """As a tree takes it, with ``$(NAME)`` filled in as Kubernetes does.

        Args:
            more: variables that are known only when it starts; they win.
            base: those of the machine.
        """
        own: dict[str, str] = dict(more)
        for name, value in self.env:
            if name not in more:
                own[name] = expand(value, own)
        return Command(argv=[expand(word, own) for word in self.argv], env={**base, **own}, cwd=self.cwd)


def expand(text: str, env: Mapping[str, str]) -> str:
    """``$(NAME)`` filled in; what is not known stays, and ``$$`` is a dollar."""
    return _VARIABLE.sub(lambda found: "$" if found[0] == "$$" else env.get(found[1], found[0]), text)


@dataclass(frozen=True)
class Load:
    """Download that a loader fetches and checks.

    Attributes:
        uri: of it; a path is taken as it lies.
        sha256: that it must have; None: it is computed and told.
        to: folder that it is put into; None: it stays where it is, and is only checked.
    """

    uri: str
    sha256: str | None = None
    to: str | None = None


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


@dataclass(frozen=True)
class Worker:
    """A process, as a pod would be.

    Attributes:
        name: within the job.
        steps: one after the other; the last is the work, those before are its init containers.
        load: runs a loader in their place.
        needs: workers that must have succeeded before.
        slots: of the queue.
        grace: s that it gets to end.
        fleet: what it is, where the fleet carries it out in place of processes here.
    """

    name: str
    steps: tuple[Step, ...] = ()
    load: Load | None = None
    needs: tuple[str, ...] = ()
    slots: int = 1
    grace: float = GRACE
    fleet: OnRobot | Round | None = None


@dataclass(frozen=True)
class Group:
    """Workers of one kind.

    Attributes:
        name: of it.
        workers: of it.
        after: groups, and what must be true of each before: :data:`COMPLETE` or :data:`READY`.
        backoff: failures that are survived; None: any number.
        together: workers that run only together: where one fails, all are started again.
        elastic: workers may come and go: least and most of them.
        policy: by whose variables its workers find each other, with a port that is new each time; empty: by none.
        service: it does not end by itself; a worker that ends is started again.
        procs: processes of a worker; of torchrun's also ``auto``.
        jobs: that a cluster would make of it, of as many workers each; 0: none, but something within another.
        ends_with: group with whose success it is done, and ends; empty: it ends by itself.
    """

    name: str
    workers: tuple[Worker, ...]
    after: tuple[tuple[str, str], ...] = ()
    backoff: int | None = BACKOFF
    together: bool = False
    elastic: tuple[int, int] | None = None
    policy: str = ""
    service: bool = False
    procs: str = "1"
    jobs: int = 1
    ends_with: str = ""


@dataclass(frozen=True)
class Plan:
    """All of a job.

    Attributes:
        groups: in order.
        notes: of what the manifest says, that which has no effect here.
        restarts: of the whole job, where a group has failed too often.
        deadline: s that it may run; None: any time.
        ttl: s after which it is deleted once it has ended; None: never.
    """

    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()
    restarts: int = 0
    deadline: float | None = None
    ttl: float | None = None

    @property
    def slots(self) -> int:
        """That it needs in the queue: loaders, services and what others run need none."""
        return sum(worker.slots for group in self.groups if not group.service for worker in group.workers
                   if worker.load is None and worker.fleet is None)


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


@dataclass
class Places:
    """Folders, ports and address of a job's parts on this machine.

    Attributes:
        folder: of the job.
        volumes: of all jobs: what claims of volumes stand for.
        ports: by name; those that are asked for are given the next time too.
        reports: address that Sedna's workers report to.
        fleet: beside whose cloud jobs run; None: there is none.
    """

    folder: Path
    volumes: Path
    ports: dict[str, int] = field(default_factory=dict)
    reports: str = "http://127.0.0.1:0"
    fleet: Fleet | None = None

    @property
    def work(self) -> Path:
        """The folder that workers run in."""
        return self.folder / "work"

    def port(self, name: str) -> int:
        """A free port."""
        if name not in self.ports:
            self.ports[name] = free_port()
        return self.ports[name]


def free_port() -> int:
    """A port that nobody listens on now."""
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def noted(notes: list[str], *found: str) -> None:
    """Adds what is not there yet."""
    notes.extend(one for one in found if one not in notes)
