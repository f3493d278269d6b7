# SPDX-License-Identifier: Apache-2.0
"""Threads that bring about what is wanted of a robot; what is wanted anew wakes them."""
from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import Any, Callable, Mapping

from brain_edge.messages.outbox import OutboxFull
from brain_edge.state.desired_state import DesiredState, Wanted
from brain_edge.store import StoreProblem
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.wakeup import Flag, Signal

log = logging.getLogger("brain.edge")


class Woken(ABC):
    """One thread.

    Args:
        what: it is for, for people.
        patience: s that its end may take.
        held: what is wanted.
        reported: called when something was reported.
        stop: ends it.
    """

    def __init__(self, what: str, patience: float, held: DesiredState, reported: Callable[[], None], stop: Flag
                 ) -> None:
        self._what, self._patience, self._stop = what, patience, stop
        self._held, self._reported = held, reported
        self._wake = Signal()
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def wake(self) -> None:
        """Something else is wanted: look now."""
        self._wake.set()

    def join(self) -> None:
        """Waits for its end, once ``stop`` is set."""
        self._wake.set()
        self._thread.join(self._patience)

    @abstractmethod
    def _run(self) -> None:
        """Runs in the thread until ``stop`` is set; waits for ``_wake``."""

    def _report(self, one: Wanted, status: Mapping[str, Any]) -> bool:
        """Reports how a resource is done, where that is news; whether it was. Raises StoreProblem, OutboxFull."""
        if not self._held.report(one, status):
            return False
        if status["state"] == "refused":
            log.warning("%s %s cannot be done: %s", one.kind, one.name, status["why"])
        self._reported()
        return True


class Worker(Woken):
    """Looks again and again, whatever goes wrong at one look; at its end, so does all that it looks after.

    Args:
        what: it looks after, for people.
        every: s between two looks.
        patience: s that its end may take.
        limited_log: tells what goes wrong.
        held, reported, stop: see the base.
    """

    def __init__(self, what: str, every: float, patience: float, limited_log: RateLimitedLog, held: DesiredState,
                 reported: Callable[[], None], stop: Flag) -> None:
        super().__init__(what, patience, held, reported, stop)
        self._every, self._limited_log = every, limited_log

    def _pause(self) -> None:
        """Waits until it is time for the next look, or :meth:`wake`."""
        self._wake.wait(self._every)

    @abstractmethod
    def _look(self) -> None:
        """Brings about what is wanted, and reports. May raise StoreProblem and OutboxFull."""

    @abstractmethod
    def _end(self) -> None:
        """Ends what runs."""

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._look()
            except (StoreProblem, OutboxFull) as problem:
                self._limited_log("look", f"of {self._what} nothing is reported: {problem}")
            except Exception:   # whatever it brings about, the robot's side of the fleet goes on
                self._limited_log("tending", f"the {self._what} could not be looked after", trace=True,
                                  level=logging.ERROR)
            self._pause()
        self._end()
