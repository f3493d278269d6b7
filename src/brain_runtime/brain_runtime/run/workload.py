# SPDX-License-Identifier: Apache-2.0
"""Workloads: processes that are to be there, when they are started again, and how they end."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Protocol

from brain_runtime.run.called import Call
from brain_runtime.run.tree import Below
from brain_wire.backoff import Backoff

CANNOT_START = 2    # exit status of a process that no start in the same way will help
TRIES = 3           # times in a row that such a one is started
GRACE = 5.0         # s that a process gets to end in good order
SUBREAPER = 2.0     # s that a subreaper gets in addition


@dataclass(frozen=True)
class Restart:
    """Rule for starting a workload again that has ended by itself.

    Attributes:
        always: start it again after status 0 too.
        never: do not start it again at all.
        tries: failures in a row after which it is given up; 0: never.
        hopeless: exit statuses that count for ``tries``; empty: all do.
        backoff: how long to wait.
    """

    always: bool = True
    never: bool = False
    tries: int = 0
    hopeless: frozenset[int] = frozenset()
    backoff: Backoff = Backoff()


ALWAYS = Restart()
NEVER = Restart(never=True)
REGION = Restart(tries=TRIES, hopeless=frozenset({CANNOT_START}))


class Watching(Protocol):
    """Watch over one process of a workload."""

    def wrong(self, dt: float) -> str | None:
        """Returns the fault of the process, after ``dt`` s more in which it could have shown that it is well.

        Of a process with a channel it is called once more when it has ended, for what it said last.
        """


class Probe(Protocol):
    """Probe that sees whether a process that runs is well."""

    def watch(self, workload: Workload, process: int, loop: Any) -> Watching:
        """Begins to look at a process of a workload that a loop keeps."""


@dataclass(frozen=True)
class Workload:
    """A process that is to be there.

    Attributes:
        name: for people, and of the log.
        argv: command line.
        environment: added to that of all.
        restart: when it is started again.
        probe: sees that it is well; None: while it runs it is.
        restarts_told: it takes ``--restarts N``.
        after: names of those that have to run before it is started.
        stop_order: those with a lower number have ended before it is asked to end.
        grace: s that it gets to end after SIGTERM.
        spare: a second process is kept ready for it, since a gap matters; it takes ``--standby``.
        lingers: it ends by itself, in the turn that ``stop_order`` gives, where its keeper is gone
            (:func:`brain_runtime.run.keeper.end_with_keeper`); others are killed with that.
        channel: its standard input is one end of a pair of sockets, of which its probe has the other; see
            :mod:`brain_runtime.run.lines`.
        below: it may leave processes behind, and runs below a subreaper, which ends them too; see there for what is
            run, with which environment.
        call: run in place of a command, in a process with this one's environment.
    """

    name: str
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)
    restart: Restart = ALWAYS
    probe: Probe | None = None
    restarts_told: bool = False
    after: tuple[str, ...] = ()
    stop_order: int = 0
    grace: float = GRACE
    spare: bool = False
    lingers: bool = False
    channel: bool = False
    below: Below | None = None
    call: Call | None = None

    @property
    def patience(self) -> float:
        """S until it is ended by force: a subreaper ends what is below it itself."""
        return self.grace + (SUBREAPER if self.below else 0.0)


OVER = ("ended", "done", "given up")    # kinds of events by which a process has ended unasked


@dataclass(frozen=True)
class Event:
    """Something that happened: ``kind`` is started, ended, unhealthy, done, given up, stopped or warning."""

    time: float
    name: str
    kind: str
    text: str
