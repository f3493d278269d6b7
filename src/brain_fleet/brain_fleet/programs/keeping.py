# SPDX-License-Identifier: Apache-2.0
"""Keeps the programs that are wanted of this robot running, and reports how they are."""
from __future__ import annotations

import logging
import secrets
import time
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from brain_fleet.jobs.processes import Process, base_env, tail
from brain_fleet.messages.pace import pause
from brain_fleet.schema import FormProblem
from brain_fleet.state.held import Held, Wanted
from brain_fleet.state.kinds import PROGRAMS, check_spec
from brain_fleet.state.tending import Tending
from brain_wire.seldom import Seldom
from brain_wire.shown import quoted
from brain_wire.waking import Flag

LOOK = 1.0          # s between two looks
GRACE = 10.0        # s that a program gets to end
SETTLED = 5.0       # s that one that had failed has to run before it is said to run
STEADY = 60.0       # s after which one that ran so long is started again as fast as at first
RUNS = "it runs"
DONE = "it has ended, with status 0; order it inactive, then active, to run it again"

log = logging.getLogger("brain.programs")
seldom = Seldom(log)


class Kept:
    """One program that is wanted.

    Args:
        name: of the order.
        words: of its command.
        folder: for its log.
    """

    def __init__(self, name: str, words: Sequence[str], folder: Path) -> None:
        self.words, self._folder = tuple(words), folder
        self._token = f"program-{name}-{secrets.token_hex(8)}"
        self._process: Process | None = None
        self._failures, self._since, self._again, self._why = 0, 0.0, 0.0, ""
        self.done = False

    def look(self, now: float) -> dict[str, Any]:
        """Starts it where it does not run and should; how it is, as it is reported."""
        if self.done:
            return {"state": "applied", "why": DONE}
        if self._process is None and now >= self._again:
            self._start(now)
        if self._process is not None:
            status = self._process.status()
            if status is None:
                if now - self._since > STEADY:
                    self._failures = 0
                if not self._failures or now - self._since > SETTLED:
                    return {"state": "applied", "why": RUNS}
                return self._waiting()
            self._process = None
            if status == 0:
                self.done = True
                return {"state": "applied", "why": DONE}
            lines = tail(self._folder / "log", 2000).strip().splitlines()
            self._fail(now, f"it ended with status {status}" + (f": {quoted(lines[-1][:200])}" if lines else ""))
        return self._waiting()

    def _waiting(self) -> dict[str, Any]:
        return {"state": "waiting", "why": f"{self._why}; it is started again"}

    def _start(self, now: float) -> None:
        try:
            step = {"argv": list(self.words), "env": base_env(), "cwd": str(Path.home())}
            self._process, self._since = Process(self._folder, self._token, [step], GRACE), now
        except OSError as error:
            self._fail(now, f"it cannot be started: {error.strerror or error}")

    def _fail(self, now: float, why: str) -> None:
        self._failures += 1
        self._again, self._why = now + pause(self._failures), why

    def stop(self) -> None:
        """Asks it to end."""
        if self._process is not None:
            self._process.stop()

    def end(self) -> None:
        """Ends it, and waits."""
        if self._process is not None:
            self._process.let_go(2 * GRACE)
            self._process = None


class Programs(Tending):
    """One thread that keeps a robot's programs.

    Args:
        held: what is wanted.
        programs: that its owner lets the cloud run, by name.
        folder: for their logs.
        reported: called when something was reported.
        stop: ends it.
    """

    def __init__(self, held: Held, programs: Mapping[str, Sequence[str]], folder: Path, reported: Callable[[], None],
                 stop: Flag) -> None:
        super().__init__("programs", LOOK, 3 * GRACE, seldom, stop)
        self._held, self._programs, self._folder = held, dict(programs), folder
        self._reported = reported
        self._kept: dict[str, Kept] = {}        # by order

    def _end(self) -> None:
        self._let_go(list(self._kept))

    def _let_go(self, names: Sequence[str]) -> None:
        for name in names:      # all at once first, so that their times to end do not add up
            self._kept[name].stop()
        for name in names:
            self._kept.pop(name).end()

    def _look(self) -> None:
        wanted = {one.name: one for one in self._held.wanted() if one.kind in PROGRAMS}
        words = {name: self._words(one) for name, one in wanted.items()}
        self._let_go([name for name, kept in self._kept.items() if words.get(name) != kept.words])
        for name, one in wanted.items():
            found = words[name]
            status = {"state": "refused", "why": found[:500]} if isinstance(found, str) else self._keep(one, found)
            if self._held.report(one, status):
                log.info("Job %s: %s%s", name, status["state"], f", {status['why']}" if "why" in status else "")
                self._reported()

    def _words(self, one: Wanted) -> tuple[str, ...] | str:
        """Its command, or why it cannot be run; nothing, where it is wanted to be at rest."""
        try:
            check_spec(one.kind, one.spec)
        except FormProblem as problem:      # the cloud is of another version
            return f"this robot's brain_fleet does not know it so: {problem}"
        if not one.spec.get("active", True):
            return ()
        found = self._programs.get(one.spec["program"])
        if found is None:
            there = f"there are {', '.join(sorted(self._programs))}" if self._programs else "it lets the cloud run none"
            return (f"this robot has no program {quoted(one.spec['program'])}; {there}: see --programs of `brain edge`")
        return tuple(found)

    def _keep(self, one: Wanted, words: tuple[str, ...]) -> dict[str, Any]:
        if not words:
            return {"state": "applied"}
        kept = self._kept.get(one.name)
        if kept is None:
            kept = self._kept[one.name] = Kept(one.name, words, self._folder / one.name)
            kept.done = (self._held.reported(one) or {}).get("why") == DONE     # before this robot was started again
        return kept.look(time.monotonic())
