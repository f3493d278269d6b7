# SPDX-License-Identifier: Apache-2.0
"""What a supervisor keeps running, how it waits before it starts it again, and what it tells of it."""
from __future__ import annotations

from dataclasses import dataclass

CANNOT_START = 2    # exit status of a region's process that no start in the same way will help
TRIES = 3           # times in a row that such a one is started


@dataclass(frozen=True)
class Backoff:
    """Waiting before a restart: ``first`` s, doubling up to ``most`` s; forgotten after ``healthy`` s without fault."""

    first: float = 0.2
    most: float = 10.0
    healthy: float = 10.0

    def delay(self, failures: int) -> float:
        """Wait (s) after so many failures in a row (at least 1)."""
        return min(self.most, self.first * 2.0 ** min(failures - 1, 30))


@dataclass(frozen=True)
class Child:
    """A process to be kept running.

    Attributes:
        name: for people and for the log file's name.
        argv: command line.
        node: name in its heartbeats, as ``/robot1/vision``; empty if it sends none.
        restart: start it again when it ends by itself.
        counts_restarts: it takes ``--restarts N``.
        rate: steps a second that it makes by itself (Hz), or None.
        triggers: topics that make it step.
        stop_after: children with a lower number are ended first.
        spare: a second process is kept ready for it, since a gap matters; it takes ``--standby``.
        lingers: it ends by itself, in the turn that ``stop_after`` gives, where its supervisor is gone
            (:func:`brain_runtime.run.keeper.end_with_keeper`); others are killed with that.
    """

    name: str
    argv: tuple[str, ...]
    node: str = ""
    restart: bool = True
    counts_restarts: bool = False
    rate: float | None = None
    triggers: tuple[str, ...] = ()
    stop_after: int = 0
    spare: bool = False
    lingers: bool = False


@dataclass(frozen=True)
class Event:
    """Something that happened: ``kind`` is started, ended, unhealthy, given up, stopped or warning."""

    time: float
    child: str
    kind: str
    text: str
