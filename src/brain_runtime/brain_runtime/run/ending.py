# SPDX-License-Identifier: Apache-2.0
"""Ending: a signal that ends a process does so in good order, also while its host is still being made."""
from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import Any, Iterator, NoReturn

from brain_runtime.run.second import First
from brain_wire.endings import on_ending
from brain_wire.wakeup import Flag


def leave(status: int) -> NoReturn:
    """Ends the process at once, when all that is open has been closed.

    To take apart the interpreter and torch takes half a second, in which launch may lose patience, for nothing.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


@contextmanager
def left_by_signals() -> Iterator[None]:
    """Has SIGTERM, SIGHUP and SIGQUIT raise SystemExit in the main thread, so that what is kept there ends too.

    The status is 128 and the signal's number. SIGINT raises KeyboardInterrupt by itself. A SIGHUP that is ignored stays
    so, and in other threads nothing happens.
    """
    def leave_by(number: int, frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT) if main}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, leave_by)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class End:
    """End that is asked for.

    Attributes:
        asked: set once it was.
        first: tells the second process of the end, where there is one.
    """

    def __init__(self) -> None:
        self.asked = Flag()
        self.first = First()
        self._host: Any = None

    def ends(self, host: Any) -> None:
        """Names what is to be ended: an object with ``stop()``, called at once if the end was asked for already."""
        self._host = host
        if self.asked.is_set():
            host.stop()

    def stop(self) -> None:
        """Asks for it, from any thread or a signal handler."""
        self.asked.set()
        self.first.begins()
        if self._host is not None:
            self._host.stop()


class Ending(End):
    """End that is asked for by the signals that end a process (:data:`brain_wire.endings.ENDINGS`).

    Make it in the main thread.
    """

    def __init__(self) -> None:
        super().__init__()
        on_ending(lambda number, frame: self.stop())
