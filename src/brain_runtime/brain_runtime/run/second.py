# SPDX-License-Identifier: Apache-2.0
"""A second process behind one that moves a robot: it says the last word where the first cannot any more.

SIGKILL, a segmentation fault, abort() and the kernel's want of memory leave a process no time to bring to rest what it
moves, and no handler of its own could be trusted to. So it forks once it has loaded all that it needs, before it opens
anything. The second process waits, at no cost but a few pages of memory, until the first is gone. If that has said
that something moves, and not that it is at rest again, the second goes on from where it was forked, to bring it to
rest, and ends.

It also sees to it that a first process that hangs ends when its keeper is gone (:mod:`brain_runtime.run.keeper`).
"""
from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import time
from typing import Callable

from brain_runtime.run import keeper

BEGUN, MOVES, RESTS = b"b", b"m", b"r"
HUNG = 0.5      # s after its keeper's end in which the first process must have begun to end
LEAVE = 10      # s to leave in; SIGALRM ends it then
LAST_PATIENCE = 5.0     # s that a router is waited for to bring to rest what was left moving

log = logging.getLogger(__name__)


class First:
    """Reports of the first process to the second, by a pipe that closes with the first.

    Args:
        pipe: file descriptor; negative: there is no second process.
    """

    def __init__(self, pipe: int = -1) -> None:
        self._pipe = pipe

    def begins(self) -> None:
        """The end was asked for, and has begun. May be called in a signal handler."""
        self._tell(BEGUN)

    def moving(self, moves: bool) -> None:
        """Tells whether this process moves something from now on, or all is at rest and nothing is left to say."""
        self._tell(MOVES if moves else RESTS)

    def _tell(self, word: bytes) -> None:
        if self._pipe >= 0:
            with contextlib.suppress(OSError):      # the second was killed: nobody is there to be told
                os.write(self._pipe, word)


def stand_behind(join: Callable[[], Callable[[], None]] | None = None) -> First | None:
    """Forks. Call it before the first thread is started and before anything is opened that others see.

    Args:
        join: called in the second process before it waits, where to be found by others takes long; gives what it leaves
            with if there is nothing left to say.

    Returns:
        In the first process, at once, what it tells the second. In the second None, once the first is gone and has left
        something moving; where all is at rest the second ends here.
    """
    if not hasattr(os, "fork"):
        return First()
    hear, tell = os.pipe()
    first = os.getpid()
    if os.fork():
        os.close(hear)
        return First(tell)
    os.close(tell)
    with contextlib.suppress(OSError):
        os.setsid()     # what ends the first one's process group is not meant for this one
    leave = _nothing if join is None else join()
    if _wait(hear, first):
        signal.alarm(LEAVE)     # to leave must not take for ever
        leave()
        os._exit(0)
    log.warning("process %d is gone and has not brought to rest what it moves; process %d does", first, os.getpid())
    return None


def _nothing() -> None:
    """There is nothing to leave."""


def _wait(hear: int, first: int) -> bool:
    """Waits until the first process is gone; whether all was at rest then."""
    moves = begun = False
    name, patience = os.environ.get(keeper.VARIABLE, ""), None
    until = float("inf")        # when the first is ended by force
    watched = None
    try:
        watched = keeper.handle(name) if name else None
    except ProcessLookupError:  # it is gone already
        until = time.monotonic() + HUNG
    except ValueError:
        log.debug("%r is no keeper's mark, as the first process says", name)
    poll = select.poll()
    poll.register(hear, select.POLLIN)
    if watched is not None:
        poll.register(watched, select.POLLIN)
    while True:
        wait = None if until == float("inf") else max(0.0, until - time.monotonic())
        ready = [descriptor for descriptor, _ in poll.poll(None if wait is None else 1000.0 * wait + 1.0)]
        if hear in ready:
            word = os.read(hear, 64)
            if not word:
                return not moves
            begun = begun or BEGUN in word
            if MOVES in word or RESTS in word:
                moves = word.rfind(MOVES) > word.rfind(RESTS)
        if watched is not None and watched in ready:
            poll.unregister(watched)
            os.close(watched)
            watched, until = None, time.monotonic() + HUNG
        if until < float("inf") and begun and patience is None:
            patience = until = until - HUNG + keeper.LINGER + keeper.PATIENCE
        if time.monotonic() > until and os.getppid() == first:
            os.kill(first, signal.SIGKILL)
            until = float("inf")
