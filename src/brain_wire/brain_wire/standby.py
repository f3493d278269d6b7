# SPDX-License-Identifier: Apache-2.0
"""A process that stands by: it has loaded what it needs, and waits on its standard input to be put to work.

Most of a region's start is loading code. Where a gap matters (the brainstem, the router) the supervisor keeps a second
process ready, so that what died is back in a fraction of that time.
"""
from __future__ import annotations

import contextlib
import select
import subprocess
import sys
import threading
from typing import Any, Callable

from brain_wire.wakeup import Flag

OPTION = "--standby"
LOOK = 0.5      # s between looks whether the end was asked for meanwhile


class Standby:
    """The supervisor's side: a process that waits.

    Args:
        start: starts it, with the given settings of :class:`subprocess.Popen`; may raise OSError.
    """

    def __init__(self, start: Callable[..., subprocess.Popen]) -> None:
        self._process: subprocess.Popen | None = start(stdin=subprocess.PIPE)

    @property
    def waits(self) -> bool:
        """True while its process is there."""
        return self._process is not None and self._process.poll() is None

    def put_to_work(self, restarts: int) -> subprocess.Popen | None:
        """Lets it begin, as a process that was started again so many times; None where it is gone."""
        process, self._process = self._process, None
        if process is None or process.stdin is None or process.poll() is not None:
            return None
        try:
            process.stdin.write(f"{restarts}\n".encode())
            process.stdin.close()
        except OSError:     # it ended in between
            process.kill()
            process.wait()
            return None
        return process

    def end(self) -> None:
        """Ends it, if it still waits."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):      # it may have ended by itself, with what was to be said unsaid
                process.stdin.close()
            process.kill()
            process.wait()


def wait_for_work(stop: threading.Event | Flag, source: Any = None) -> int | None:
    """The process's side: waits until it is put to work.

    Args:
        stop: ends the waiting when set.
        source: where the word comes from; None: standard input.

    Returns:
        How often it was started again; None where it is not needed any more.
    """
    source = source or sys.stdin
    while not stop.is_set():
        if select.select([source], [], [], LOOK)[0]:
            line = source.readline().strip()
            return int(line) if line.isdecimal() and len(line) < 10 else None
    return None
