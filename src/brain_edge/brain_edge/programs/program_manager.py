# SPDX-License-Identifier: Apache-2.0
"""Keeps the programs that are wanted of this robot running, and reports how they are."""
from __future__ import annotations

import logging
import secrets
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from brain_edge.schema import FormProblem
from brain_edge.state.desired_state import DesiredState, Wanted
from brain_edge.state.kinds import PROGRAMS, check_spec
from brain_edge.state.worker import Worker
from brain_runtime.run.loop import Loop
from brain_runtime.run.tree import Below, Command, base_env
from brain_runtime.run.workload import Backoff, Restart, Workload
from brain_wire.logs import Through
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import line, quoted
from brain_wire.wakeup import Flag

LOOK = 1.0          # s between two looks
GRACE = 10.0        # s that a program gets to end
SETTLED = 5.0       # s that one that had failed has to run before it is said to run
RESTART = Restart(always=False, backoff=Backoff(first=0.05, most=5.0, healthy=60.0, drawn=0.5))
RUNS = "it runs"
DONE = "it has ended, with status 0; order it inactive, then active, to run it again"

log = logging.getLogger("brain.programs")
limited_log = RateLimitedLog(log)


class Programs(Worker):
    """One thread that keeps a robot's programs.

    Args:
        held: what is wanted.
        programs: that its owner lets the cloud run, by name.
        folder: for their logs.
        reported: called when something was reported.
        stop: ends it.
    """

    def __init__(self, held: DesiredState, programs: Mapping[str, Sequence[str]], folder: Path,
                 reported: Callable[[], None], stop: Flag) -> None:
        super().__init__("programs", LOOK, 3 * GRACE, limited_log, held, reported, stop)
        self._programs, self._folder = dict(programs), folder
        self._token = secrets.token_hex(8)
        self._loop = Loop((), Through())

    def wake(self) -> None:
        """See the base."""
        self._loop.wake()

    def _pause(self) -> None:
        self._loop.round(LOOK)

    def _end(self) -> None:
        self._loop.stop()

    def _look(self) -> None:
        wanted = {one.name: one for one in self._held.wanted() if one.kind in PROGRAMS}
        words = {name: self._words(one) for name, one in wanted.items()}
        done = {name for name, one in wanted.items() if (self._held.reported(one) or {}).get("why") == DONE}
        self._loop.want(self._workload(name, found) for name, found in words.items()
                        if found and not isinstance(found, str) and name not in done)
        self._loop.round(0.0)
        for name, one in wanted.items():
            found = words[name]
            if isinstance(found, str):
                status = {"state": "refused", "why": found[:500]}
            elif not found:
                status = {"state": "applied"}
            else:
                status = {"state": "applied", "why": DONE} if name in done else how_it_is(self._loop, name)
            if self._report(one, status) and status["state"] != "refused":
                log.info("Job %s: %s%s", name, status["state"], f", {status['why']}" if "why" in status else "")

    def _workload(self, name: str, words: tuple[str, ...]) -> Workload:
        step = Command(argv=list(words), env=base_env(), cwd=str(Path.home()))
        return Workload(name, words, restart=RESTART, grace=GRACE, below=Below(
            self._folder / name, f"program-{name}-{self._token}", (step,)))

    def _words(self, one: Wanted) -> tuple[str, ...] | str:
        """Its command, or why it cannot be run; nothing, where it is wanted to be at rest."""
        try:
            check_spec(one.kind, one.spec)
        except FormProblem as problem:      # the cloud is of another version
            return f"this robot's brain_edge does not know it so: {problem}"
        if not one.spec.get("active", True):
            return ()
        found = self._programs.get(one.spec["program"])
        if found is None:
            there = f"there are {', '.join(sorted(self._programs))}" if self._programs else "it lets the cloud run none"
            return (f"this robot has no program {quoted(one.spec['program'])}; {there}: see --programs of `brain edge`")
        return tuple(found)


def how_it_is(loop: Loop, name: str) -> dict[str, Any]:
    """Returns the state of a program that is wanted, as it is reported."""
    ran = loop.runs_for(name)
    if loop.over(name):
        return {"state": "applied", "why": DONE}
    if ran is not None and (ran > SETTLED or not loop.failures(name)):
        return {"state": "applied", "why": RUNS}
    return {"state": "waiting", "why": f"it {line(loop.fault(name), 300)}; it is started again"}
