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
import subprocess
import sys
import time
from pathlib import Path
from typing import Sequence

from brain_runtime import end_with_parent
from brain_runtime.run import keeper, second
from brain_wire.endings import on_ending
from brain_wire.waking import Signal

IDLE = 1.0              # s between looks at the program, which the kernel tells of at once
KILL_AFTER = 3.0        # s that the program gets to end on SIGTERM
AGAIN = 0.2             # s before a router is started again
SHORT = 5.0             # s; a router that ends sooner than this could not run
TRIES = 3               # times in a row that it may

log = logging.getLogger("brain.launch")


class Kept:
    """Runs a program until it is asked to end, or its launch is gone.

    Args:
        command: of the program.
        router: it is started again, and outlives the launch's regions.
    """

    def __init__(self, command: Sequence[str], *, router: bool) -> None:
        self._command, self._router = list(command), router
        self._signal = Signal()     # unlike an Event, it may be set in a signal handler at any moment
        self._ending = self._now = False

    def ask(self, number: int = 0, frame: object = None) -> None:
        """Ends the program: a router when its launch's regions have ended, on SIGTERM at once."""
        self._now = self._now or number == signal.SIGTERM or not self._router
        self._ending = True
        self._signal.set()

    def look(self, number: int = 0, frame: object = None) -> None:
        """Has the program looked at."""
        self._signal.set()

    def run(self) -> int:
        """The exit status: the program's, or 0 where it was asked to end."""
        short = 0
        while True:
            began = time.monotonic()
            # With SIGKILL for this process the program dies too, but for a router: who moves the robot speaks by it. A
            # terminal's Ctrl-C is not the program's, but ours.
            tie = () if self._router else (sys.executable, end_with_parent.__file__, str(os.getpid()))
            child = subprocess.Popen([*tie, *self._command], start_new_session=True)
            while child.poll() is None and not self._ending:
                self._signal.wait(IDLE)
            if self._ending:
                self._end(child)
                return 0
            short = short + 1 if time.monotonic() - began < SHORT else 0
            if not self._router or short >= TRIES:
                if self._router:
                    log.error("%s ended %d times in a row, at last with status %d, and is not started again; what it "
                              "wrote says why", Path(self._command[0]).name, short, child.returncode)
                return child.returncode if child.returncode >= 0 else 128 - child.returncode
            self._signal.wait(AGAIN)

    def _end(self, child: subprocess.Popen) -> None:
        if not self._now:   # launch sends SIGTERM after 10 s
            keeper.linger(keeper.ROUTER, os.environ.get(keeper.VARIABLE, ""), self._signal.wait, lambda: self._now)
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        try:
            child.wait(KILL_AFTER)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


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
    kept = Kept(command, router=router)
    on_ending(kept.ask)
    signal.signal(signal.SIGCHLD, kept.look)
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
