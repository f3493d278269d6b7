# SPDX-License-Identifier: Apache-2.0
"""Ending: a signal that ends a process does so in good order, also while its host is still being made."""
from __future__ import annotations

import logging
import os
import sys
from typing import Any, NoReturn

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


class Ending:
    """Waits for the signals that end a process (:data:`brain_wire.endings.ENDINGS`). Make it in the main thread.

    Attributes:
        asked: set once one of them has come.
        first: tells the second process of the end, where there is one.
    """

    def __init__(self) -> None:
        self.asked = Flag()
        self.first = First()
        self._host: Any = None
        on_ending(self._end)

    def ends(self, host: Any) -> None:
        """Names what is to be ended: an object with ``stop()``, called at once if a signal has come already."""
        self._host = host
        if self.asked.is_set():
            host.stop()

    def _end(self, number: int, frame: object) -> None:
        self.asked.set()
        self.first.begins()
        if self._host is not None:
            self._host.stop()
