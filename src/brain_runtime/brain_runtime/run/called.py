# SPDX-License-Identifier: Apache-2.0
"""Calls of Python's functions in processes of their own, which tell what they do by whatever can be pickled."""
from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from brain_runtime.run.end_with_parent import die_with
from brain_wire import private

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


@dataclass(frozen=True)
class Call:
    """A call, in place of a command.

    Attributes:
        function: called with ``args()``, and with a function by which it tells something; all of it can be pickled.
        args: makes the arguments, for each start anew.
    """

    function: Callable[..., None]
    args: Callable[[], tuple[Any, ...]]


class Called:
    """A call that runs.

    Args:
        call: see there.
        hear: takes in what it tells.
        log: file that it writes to; None: it has this process's standard output and standard error.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, call: Call, hear: Callable[[Any], None], log: Path | None = None) -> None:
        import multiprocessing      # a region's process, which is to be back at once, has no call

        context = multiprocessing.get_context("spawn")
        self._hear = hear
        self._news, theirs = context.Pipe(duplex=False)
        with theirs:
            args = call.function, call.args(), theirs, log, os.getpid()
            self._process = context.Process(target=_run, args=args)
            self._process.start()

    @property
    def pid(self) -> int:
        """Of its process."""
        assert self._process.pid is not None, "it was started"
        return self._process.pid

    def fileno(self) -> int:
        """File descriptor that can be read where something is told; -1: there will be nothing more."""
        return -1 if self._news.closed else self._news.fileno()

    def send_signal(self, number: int) -> None:
        """Sends it a signal, if it is there still."""
        if self._process.exitcode is None:
            with contextlib.suppress(ProcessLookupError):   # its status may come later than its end
                os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Takes in what was told; returns the exit status, negative for a signal, or None: it runs."""
        status = self._process.exitcode     # before the news, so that none is left
        try:
            while not self._news.closed and self._news.poll():
                self._hear(self._news.recv())
        except (EOFError, OSError):     # it has ended, maybe in the middle of a word
            self._news.close()
        if status is not None:
            self._news.close()
        return status


def _run(function: Callable[..., None], args: tuple[Any, ...], news: Connection, log: Path | None,
         parent: int) -> None:
    die_with(parent)
    os.setsid()     # Ctrl-C is for who has started it, who then ends it
    if log is not None:
        with open(log, "ab", opener=private.opener) as file:
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)
    lock = threading.Lock()

    def tell(what: Any) -> None:
        with lock:
            news.send(what)

    function(*args, tell)
