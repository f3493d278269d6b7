# SPDX-License-Identifier: Apache-2.0
"""Ends a process in good order when the launch that started it is gone, however that went.

Our launch files name themselves in the environment of what they start; what `ros2 run` started has no such name and
goes on. The kernel's own death signal will not do: it comes when the *thread* ends that started the process.
"""
from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
from pathlib import Path
from typing import Callable

VARIABLE = "BRAIN_LAUNCH"       # process id and start time of the launch, as 4711:8154309
LOOK = 0.25                     # s between looks, where the kernel cannot say when a process ends
PATIENCE = 15.0                 # s to end in good order: the brainstem holds on until the robot stands
LEFT = 71                       # exit status of what did not end in that time
# A signal that comes after the interpreter looked for one and before the kernel sleeps wakes nobody. Its handler runs
# at the next signal: this one, which does nothing of its own. A second SIGTERM could cut a good end short.
NUDGE = signal.SIGURG

log = logging.getLogger(__name__)


def mark(process: int | None = None) -> str:
    """The name of a process that no later one has: its id and when it started; None: of this process.

    Raises:
        OSError: there is no such process.
    """
    process = os.getpid() if process is None else process
    return f"{process}:{_fields(process)[19]}"


def _fields(process: int) -> list[str]:
    """What the kernel tells of a process: its state first, when it started (in ticks since the machine did) at 19."""
    return Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def lives(name: str) -> bool:
    """Whether the process of a :func:`mark` is there still; one that has ended and was not asked for its status is not.

    Raises:
        ValueError: it is no mark.
    """
    process, _, started = name.partition(":")
    number, begin = int(process), int(started)
    try:
        fields = _fields(number)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(fields[19]) == begin and fields[0] not in "ZX"


def wait(name: str) -> None:
    """Returns when the process of a :func:`mark` is gone.

    Raises:
        ValueError: it is no mark.
    """
    try:
        handle = os.pidfd_open(int(name.partition(":")[0]))
    except ProcessLookupError:
        return
    except (AttributeError, OSError):   # an old kernel, or a container that forbids it
        while lives(name):
            time.sleep(LOOK)
        return
    try:
        if lives(name):     # else the id is another process's by now
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll()
    finally:
        os.close(handle)


def end_with_launch(name: str | None = None, end: Callable[[], None] | None = None) -> threading.Thread | None:
    """Has this process ended when its launch is gone; does nothing where none started it. Call it in the main thread.

    Args:
        name: mark of the launch; None: as the environment has it.
        end: what ends this process; None: SIGTERM, and where that has not done it after :data:`PATIENCE` s, the end.

    Returns:
        The thread that waits, or None.
    """
    name = os.environ.get(VARIABLE, "") if name is None else name
    if not name:
        return None
    try:
        lives(name)
    except ValueError:
        log.warning("%s is %r, which names no process; launch sets it, so leave it away", VARIABLE, name)
        return None
    if end is None and signal.getsignal(NUDGE) in (signal.SIG_DFL, signal.SIG_IGN):
        signal.signal(NUDGE, _nudged)
    thread = threading.Thread(target=_attend, args=(name, end or _end), name="launch", daemon=True)
    thread.start()
    return thread


def _attend(name: str, end: Callable[[], None]) -> None:
    wait(name)
    log.warning("the launch that started this process (pid %s) is gone; it ends", name.partition(":")[0])
    end()


def _nudged(number: int, frame: object) -> None:
    pass    # that the wait was interrupted is all


def _end() -> None:
    # To the main thread itself, which the signal then wakes whatever it waits for.
    main = threading.main_thread().ident
    assert main is not None, "it runs, or nothing would"
    signal.pthread_kill(main, signal.SIGTERM)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        time.sleep(LOOK)
        signal.pthread_kill(main, NUDGE)
    logging.shutdown()
    os._exit(LEFT)      # nobody is left who would kill it
