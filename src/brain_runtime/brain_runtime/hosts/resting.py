# SPDX-License-Identifier: Apache-2.0
"""Bringing to rest what a region moves, before it ends: see :meth:`brain_runtime.Region.come_to_rest`."""
from __future__ import annotations

import logging
import math
import time
from typing import Any, Callable, Iterable

from brain_runtime.contract import heartbeat
from brain_runtime.contract.stepper import Stepper

PERIOD = 0.02   # s between two commands
LONGEST = 2.5   # s; launch sends SIGTERM after 5, and the supervisor takes a region without steps for stuck after 3
SPOKEN = 0.5    # s
UNHEARD = 10.0  # s that the last word of a process that is gone waits for who hears it; ROS 2 may find nodes late
FOUND = 1.0     # s that it is said from the first who hears it: others are found after that one

log = logging.getLogger(__name__)


def bring_to_rest(stepper: Stepper, send: Callable[[Iterable[tuple[Any, Any]]], None],
                  takers: Iterable[Callable[[], None]], clock: Callable[[], float], beat: Callable[[], Any],
                  heard: Callable[[], bool] = lambda: True, replaced: Callable[[], bool] = lambda: False,
                  unheard: float = 0.0, least: float = 0.0) -> None:
    """Has a region command rest until all is at rest, for :data:`LONGEST` at most. No step may be made meanwhile.

    Args:
        stepper: of the region.
        send: sends what the stepper gives.
        takers: what takes in what has arrived, of each port; none: nothing more is taken in.
        clock: time for headers (s).
        beat: tells others meanwhile that the region is there.
        heard: whether somebody hears what is sent; it goes on until somebody has.
        replaced: whether another process has taken over what the region moves; it is left to that after
            :data:`SPOKEN` s that somebody heard.
        unheard: s in which nobody needs to hear yet; :data:`LONGEST` counts from the first who does.
        least: s that it goes on from then.

    Raises:
        RegionError: from the region's own code.
    """
    begin = told = now = time.monotonic()
    reached = math.inf      # since when somebody has heard
    while True:
        for take in takers:
            take()
        if heard():
            reached = min(reached, now)
        published, done = stepper.come_to_rest(now, clock(), now - begin)
        send(published)
        if done and now - reached >= least or now - reached >= SPOKEN and replaced():
            return
        if now - min(reached, begin + unheard) > LONGEST:
            log.error("what %s moves is not at rest %.1f s after it was told to%s", stepper.region.name, now - begin,
                      "" if reached <= now else "; nobody hears it")
            return
        if now - told >= heartbeat.PERIOD:
            beat()
            told = now
        time.sleep(PERIOD)
        now = time.monotonic()
