# SPDX-License-Identifier: Apache-2.0
"""Reconciling what is wanted with what is seen: pure functions, so that each rule is one line of a table of tests.

The loop (:mod:`brain_runtime.run.loop`) sees, has it decided here what is to be done, and does it.
"""
from __future__ import annotations

import math
import signal
from dataclasses import dataclass
from typing import Iterable, Mapping

from brain_runtime.run.workload import Restart, Workload

SETTLED = 3.0       # s after which a process has started, so that a spare one may take processor time for its own start
SETTLED_AGAIN = 1.0     # the same where it was started again, alone


@dataclass
class Seen:
    """Observed state of a workload and its process. Times are of the loop's clock (s).

    Attributes:
        workload: as it was when its process was started.
        began: when the process was started that runs; None: none does.
        due: when it is to be started; None: it is not.
        starts: how often it was started.
        failures: how often it failed in a row.
        wrong: what its probe says of it.
        asked: when it was asked to end (SIGTERM).
        killed: it was sent SIGKILL, and has not gone yet.
        spare: a spare process waits.
        spare_due: when the next one is to be started.
    """

    workload: Workload
    began: float | None = None
    due: float | None = 0.0
    starts: int = 0
    failures: int = 0
    wrong: str | None = None
    asked: float | None = None
    killed: bool = False
    spare: bool = False
    spare_due: float = 0.0


@dataclass(frozen=True)
class Action:
    """Something to be done: start a process (``number`` None), a spare one, or send a signal; ``why``, for a kill."""

    name: str
    number: int | None = None
    spare: bool = False
    why: str = ""


def reconcile(wanted: Iterable[Workload], seen: Mapping[str, Seen], now: float) -> list[Action]:
    """Decides what is to be done now.

    What is not wanted any more, or otherwise than it runs, is asked to end, in the order of ``stop_order``: each once
    all before it have ended. What is wanted and due is started.

    Args:
        wanted: workloads that are to be there.
        seen: of each that was ever wanted, by its name.
        now: time of the loop's clock (s).
    """
    by_name = {workload.name: workload for workload in wanted}
    leaving = {name: one for name, one in seen.items() if one.began is not None and by_name.get(name) != one.workload}
    turn = min((one.workload.stop_order for one in leaving.values()), default=0)
    found = [action for name, one in leaving.items() if one.workload.stop_order == turn
             for action in _ending(name, one, now)]
    for name in by_name:
        one = seen[name]
        if one.began is not None:
            if name not in leaving:
                found += _running(name, one, now)
        elif one.due is not None and now >= one.due and all(
                other in seen and seen[other].began is not None for other in by_name[name].after):
            found.append(Action(name))
    return found


def due_in(seen: Iterable[Seen], now: float) -> float:
    """Time until something has to be done although nothing happens (s)."""
    found = math.inf
    for one in seen:
        if one.began is None:
            at = one.due
        elif one.asked is not None and not one.killed:
            at = one.asked + one.workload.patience
        else:
            at = one.spare_due if one.workload.spare and not one.spare and not one.killed else None
        found = found if at is None else min(found, at - now)
    return max(0.0, found)


def _ending(name: str, one: Seen, now: float) -> list[Action]:
    if one.asked is None:
        return [] if one.killed else [Action(name, signal.SIGTERM)]
    if one.killed or now < one.asked + one.workload.patience:
        return []
    return [Action(name, signal.SIGKILL, why=f"it did not end within {one.workload.grace:g} s of SIGTERM")]


def _running(name: str, one: Seen, now: float) -> list[Action]:
    if one.wrong and not one.killed:
        return [Action(name, signal.SIGKILL, why=one.wrong)]
    if one.workload.spare and not one.spare and now >= one.spare_due:
        return [Action(name, spare=True)]
    return []


@dataclass(frozen=True)
class Verdict:
    """Decision after a process has ended by itself: whether and when it is started again.

    Attributes:
        failures: in a row.
        wait: s until it is started again; None: it is not.
        kind: of the event.
        text: that says what follows.
    """

    failures: int
    wait: float | None
    kind: str
    text: str


def after_end(restart: Restart, failures: int, ran: float, status: int | None, spare: bool) -> Verdict:
    """Decides what follows where a process has ended by itself.

    Args:
        restart: rule of its workload.
        failures: in a row, before this one.
        ran: how long it ran (s).
        status: its exit status, negative for a signal; None: it could not be started, or was ended since it was not
            well.
        spare: a spare process waits, which goes on at once.
    """
    if restart.never:
        return Verdict(failures, None, "given up", "it is not to be restarted")
    if status == 0 and not restart.always:
        return Verdict(0, None, "done", "it is not started again")
    failures = 1 if ran > restart.backoff.healthy else failures + 1
    if restart.tries and failures >= restart.tries and (not restart.hopeless or status in restart.hopeless):
        return Verdict(failures, None, "given up", f"that was {failures} times in a row, and it is not started again: "
                       f"correct it, and start anew what keeps it")
    # A spare process is there only where the one before had run for a while: that is no row of failures.
    wait = 0.0 if spare else restart.backoff.delay(failures)
    return Verdict(failures, wait, "ended", f"starting it again in {wait:g} s")
