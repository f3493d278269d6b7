# SPDX-License-Identifier: Apache-2.0
"""Bringing to rest what a region moves, before it ends: see :meth:`brain_runtime.region.Region.come_to_rest`."""
from __future__ import annotations

import time
from typing import Callable

from brain_runtime import heartbeat

PERIOD = 0.02   # s between two commands
LONGEST = 2.5   # s; launch sends SIGTERM after 5, and the supervisor takes a region without steps for stuck after 3


def bring_to_rest(command: Callable[[float], bool], beat: Callable[[], None]) -> bool:
    """Commands rest until all is at rest, for :data:`LONGEST` at most.

    Args:
        command: commands it once, given the time since the first command (s); whether all is at rest.
        beat: tells others meanwhile that the region is there.

    Returns:
        Whether all is at rest.
    """
    begin = told = time.monotonic()
    while not command(time.monotonic() - begin):
        now = time.monotonic()
        if now - begin > LONGEST:
            return False
        if now - told >= heartbeat.PERIOD:
            beat()
            told = now
        time.sleep(PERIOD)
    return True
