# SPDX-License-Identifier: Apache-2.0
"""Bringing to rest what a region moves, before it ends: see :meth:`brain_runtime.region.Region.come_to_rest`."""
from __future__ import annotations

import logging
import time
from typing import Any, Callable, Iterable

from brain_runtime import heartbeat
from brain_runtime.stepper import Stepper

PERIOD = 0.02   # s between two commands
LONGEST = 2.5   # s; launch sends SIGTERM after 5, and the supervisor takes a region without steps for stuck after 3

log = logging.getLogger(__name__)


def bring_to_rest(stepper: Stepper, send: Callable[[Iterable[tuple[Any, Any]]], None],
                  takers: Iterable[Callable[[], None]], clock: Callable[[], float], beat: Callable[[], Any]) -> None:
    """Has a region command rest until all is at rest, for :data:`LONGEST` at most. No step may be made meanwhile.

    Args:
        stepper: of the region.
        send: sends what the stepper gives.
        takers: what takes in what has arrived, of each port; none: nothing more is taken in.
        clock: time for headers (s).
        beat: tells others meanwhile that the region is there.

    Raises:
        RegionError: from the region's own code.
    """
    begin = told = now = time.monotonic()
    while True:
        for take in takers:
            take()
        published, done = stepper.come_to_rest(now, clock(), now - begin)
        send(published)
        if done:
            return
        if now - begin > LONGEST:
            log.error("what %s moves is not at rest %g s after it was told to", stepper.region.name, LONGEST)
            return
        if now - told >= heartbeat.PERIOD:
            beat()
            told = now
        time.sleep(PERIOD)
        now = time.monotonic()
