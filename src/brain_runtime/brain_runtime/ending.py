# SPDX-License-Identifier: Apache-2.0
"""Ending: SIGINT and SIGTERM end a region's process in good order, also while its host is still being made."""
from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Any, NoReturn

from brain_wire.waking import Flag


def leave(status: int) -> NoReturn:
    """Ends the process at once, when all that is open has been closed.

    To take apart the interpreter and torch takes half a second, in which launch may lose patience, for nothing.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


class Ending:
    """Waits for SIGINT and SIGTERM from its making on. Make it in the main thread.

    Attributes:
        asked: set once one of them has come.
    """

    def __init__(self) -> None:
        self.asked = Flag()
        self._host: Any = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._end)
        # A terminal that is closed sends it to launch and all its nodes at once; nohup has it ignored.
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._end)

    def ends(self, host: Any) -> None:
        """Names what is to be ended: an object with ``stop()``, called at once if a signal has come already."""
        self._host = host
        if self.asked.is_set():
            host.stop()

    def _end(self, number: int, frame: object) -> None:
        self.asked.set()
        if self._host is not None:
            self._host.stop()
