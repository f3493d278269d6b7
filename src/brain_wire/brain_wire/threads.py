# SPDX-License-Identifier: Apache-2.0
"""Zenoh's threads in a process: how many there are, and which does what. ``ZENOH_RUNTIME``, where it is set, wins.

Zenoh has pools of threads: *rx* reads links and hands out what comes, *tx* writes them and keeps them alive, *acc* and
*app* wait for the sockets of links that came in or went out. It takes their sizes from the environment when its first
session is opened, and a process cannot change them afterwards.
"""
from __future__ import annotations

import contextlib
import os
from typing import Iterator

VARIABLE = "ZENOH_RUNTIME"

# Few links, and nothing that waits in Zenoh's threads but for Python's interpreter. Whoever waits for the socket reads
# it too, instead of waking one of two other threads, which wakes the second. There and back between two regions
# through a router took 353 us instead of 410 (200 B, medians of 15 blocks by turns, two cores).
REGION = "(rx: (handover: app))"

# Who sends to a link that is full and may not drop waits up to 5 s in a thread of rx, and the end of that link waits
# for it in one of tx. By default Zenoh has two of rx and one of tx: then nobody's link is read or kept alive meanwhile.
# Of 22 ranks that stood still while two others sent them megabytes, 18 were named when their lease of 5 s was over, the
# others later; with these numbers 72 of 74. With rx handed over to acc, as a region's is to app, 12 of 22: a thread
# that waits keeps all sockets from being looked at.
ROUTER = "(rx: (worker_threads: 16), tx: (worker_threads: 8))"


@contextlib.contextmanager
def threads(pools: str) -> Iterator[None]:
    """Within it the first session of this process is opened with these pools. It changes nothing for a later one.

    Args:
        pools: as ``ZENOH_RUNTIME`` has them.
    """
    if os.environ.get(VARIABLE, "").strip():
        yield
        return
    os.environ[VARIABLE] = pools
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)  # not for processes that are started by this one
