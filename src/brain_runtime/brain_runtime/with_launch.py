# SPDX-License-Identifier: Apache-2.0
"""Runs a program that is not ours for a launch: ``python -m brain_runtime.with_launch [--router] COMMAND...``.

The program ends when its launch is gone, like our own. A router (``--router``) ends after the regions of its launch, so
that the brainstem's last words get through, and is started again by this process: launch would do so for ever.
"""
from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Sequence

from brain_runtime.run import keeper, second
from brain_runtime.run.loop import Loop
from brain_runtime.run.workload import NEVER, Backoff, Event, Restart, Workload
from brain_wire import safe_text
from brain_wire.endings import on_ending
from brain_wire.logs import Through

IDLE = 1.0              # s between looks at the program, which the kernel tells of at once
KILL_AFTER = 3.0        # s that the program gets to end on SIGTERM
# A router that ends within 5 s could not run.
ROUTER = Restart(tries=3, backoff=Backoff(first=0.2, most=0.2, healthy=5.0))

log = logging.getLogger("brain.launch")


class Kept:
    """Runs a program until it is asked to end, or its launch is gone.

    Args:
        command: of the program.
        router: it is started again, and outlives the launch's regions.
    """

    def __init__(self, command: Sequence[str], *, router: bool) -> None:
        self._router, self._ending, self._now = router, False, False
        self._name = Path(command[0]).name
        # With SIGKILL for this process the program dies too, but for a router: who moves the robot speaks by it.
        workload = Workload(self._name, tuple(command), restart=ROUTER if router else NEVER, grace=KILL_AFTER,
                            stop_order=keeper.ROUTER if router else 0, lingers=router)
        self._loop = Loop([workload], Through(), on_event=_tell)

    def ask(self, number: int = 0, frame: object = None) -> None:
        """Ends the program: a router when its launch's regions have ended, on SIGTERM at once."""
        self._now = self._now or number == signal.SIGTERM or not self._router
        self._ending = True
        self._loop.wake()

    def run(self) -> int:
        """The exit status: the program's, or 0 where it was asked to end."""
        while not self._ending:
            self._loop.round(IDLE)
            if self._loop.over(self._name):
                status = self._loop.status(self._name)
                return 127 if status is None else status if status >= 0 else 128 - status
        if not self._now:   # launch sends SIGTERM after 10 s
            keeper.linger(keeper.ROUTER, os.environ.get(keeper.VARIABLE, ""), self._loop.round, lambda: self._now)
        self._loop.stop()
        return 0


def _tell(event: Event) -> None:
    if event.kind in ("ended", "given up", "warning") and "not to be restarted" not in event.text:
        log.warning("%s %s: %s", event.name, event.kind, safe_text.line(event.text))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program until SIGINT, SIGTERM or the end of its launch; returns the exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    router = argv[:1] == ["--router"]
    command = argv[1:] if router else argv
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    first = second.stand_behind() if router else second.First()
    if first is None:
        return _end_later(os.environ.get(keeper.VARIABLE, ""))
    # Who ends a router in this one's place finds it by its launch.
    os.environ.setdefault(keeper.OUTER, os.environ.get(keeper.VARIABLE) or keeper.mark())
    kept = Kept(command, router=router)
    on_ending(kept.ask)
    keeper.end_with_keeper(end=kept.ask)
    first.moving(True)      # what moves the robot speaks by the router
    status = kept.run()
    first.moving(False)
    return status


def _end_later(name: str) -> int:
    """Ends the router of a keeper that was killed: once its launch is gone, and what moves the robot."""
    with contextlib.suppress(ValueError):
        keeper.wait(name)
        keeper.linger(keeper.ROUTER, name)
    for process in set(keeper.before(keeper.ROUTER + 1, name)) - {os.getpid()}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    return 0


if __name__ == "__main__":
    sys.exit(main())
