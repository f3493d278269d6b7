# SPDX-License-Identifier: Apache-2.0
"""Regions in one process: ``python -m brain_runtime.one_process ARGUMENTS + ARGUMENTS ...``.

For small computers: Python and torch are there once. ARGUMENTS are a region's, as :mod:`brain_runtime.process` takes
them. Each region is a ROS 2 node of its own, with its session and rights, threads, parameters, lifecycle, heartbeat,
snapshots and lines in the log. They share one interpreter's lock, so what moves the robot is not among them: a lock
that is held, or a crash of native code, takes all of them, and the brainstem, which hears none of them, stops.

A region that fails begins anew alone, by the supervisor's rule for a process. Status: see there; 2: none could start.
"""
from __future__ import annotations

import logging
import math
import sys
import threading
import time
from typing import Sequence

from brain_runtime import process     # first of all: it says how many threads numpy and torch are to have
from brain_runtime.graph.command_lines import apart
from brain_runtime.run.ending import End, Ending, leave
from brain_runtime.hosts.ros_args import RosArgsError
from brain_runtime.run.keeper import end_with_keeper
from brain_runtime.run.reconcile import after_end
from brain_runtime.run.workload import CANNOT_START, REGION
from brain_wire import NoRouter, Session, open_session, owner, safe_text, threads
from brain_wire.logs import survive_full_disk
from brain_wire.sched_slice import ask_for_short_slices

TURN = 20.0     # s that a region gets to load and begin before the next one does
LOOK = 0.02     # s between looks at that

log = logging.getLogger(__name__)


class _Part(End):
    """A region, kept in a thread."""

    def __init__(self, asked: process.Asked) -> None:
        super().__init__()
        self._asked = asked
        self._session: Session | None = None
        self.status = CANNOT_START

    def open(self) -> threading.Thread | None:
        """Loads it and opens its session; the thread that is to run it, None where it cannot start.

        Raises:
            NoRouter: the end was asked for.
        """
        owner.OWNER.set(self._asked.declared)
        try:
            self._asked.load()
            self._session = open_session(self._asked.options.router, identity=self._asked.name, patience=math.inf,
                                         stop=self.asked)
            return owner.owned_thread(self._keep, "region")
        except process.REFUSED as problem:
            log.error("cannot start: %s", safe_text.line(problem))
            return None
        finally:
            owner.OWNER.set("")

    def begin(self, thread: threading.Thread) -> None:
        """Starts its thread, and waits until the region has begun.

        One after the other: what loads torch while others step has to wait for the interpreter again and again.
        """
        thread.start()
        until = time.monotonic() + TURN
        while thread.is_alive() and not (self.asked.is_set() or getattr(self._host, "begun", False)):
            if time.monotonic() > until:
                return
            time.sleep(LOOK)

    def _keep(self) -> None:
        """Runs it, and anew after it has failed."""
        assert self._session is not None, "it is opened first"
        failures, restarts = 0, self._asked.options.restarts
        with self._session as session:
            while True:
                began, status = time.monotonic(), 1
                try:
                    status = self._asked.run(session, self, restarts)
                except process.REFUSED as problem:
                    log.error("cannot start: %s", safe_text.line(problem))
                    status = CANNOT_START
                except BaseException:   # SystemExit too: it is one region's end, and not that of the others
                    log.exception("its host failed")
                self.status = status
                if not status or self.asked.is_set():
                    return
                verdict = after_end(REGION, failures, time.monotonic() - began, status, spare=False)
                log.error("ended with status %d; %s", status, verdict.text)
                if verdict.wait is None or self.asked.wait(verdict.wait):
                    return
                failures, restarts = verdict.failures, restarts + 1


class _All:
    """All regions, as what a signal ends."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts = parts

    def stop(self) -> None:
        """Asks for the end of all at once."""
        for part in self._parts:
            part.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs regions until they are told to end; returns the exit status."""
    ending = Ending()
    try:
        asked = [process.Asked(words) for words in apart(sys.argv[1:] if argv is None else argv)]
    except RosArgsError as problem:
        print(f"cannot start: {safe_text.line(problem)}", file=sys.stderr)
        return CANNOT_START
    survive_full_disk()
    ask_for_short_slices()
    levels = [one.ros.log_level for one in asked if one.ros.log_level]
    safe_text.log_to(sys.stderr, min(levels, default=logging.INFO), process.LINE.format("%(owner)s"))
    for handler in logging.getLogger().handlers:
        handler.addFilter(owner.mark)
    restarts = max(one.options.restarts for one in asked)   # is said once, to whichever comes first
    for one in asked:
        one.options.restarts = restarts
    parts = [_Part(one) for one in asked]
    ending.ends(_All(parts))
    end_with_keeper()
    try:
        with threads.threads(threads.REGION):
            running = [(part, thread) for part in parts if (thread := part.open()) is not None]
    except NoRouter:
        return 0
    for part, thread in running:
        part.begin(thread)
    for _, thread in running:
        thread.join()
    return max((part.status for part in parts if part.status != CANNOT_START), default=CANNOT_START)


if __name__ == "__main__":
    leave(main())
