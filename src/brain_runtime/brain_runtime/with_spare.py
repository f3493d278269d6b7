# SPDX-License-Identifier: Apache-2.0
"""Keeps a region for launch, and a spare process beside it: ``python -m brain_runtime.with_spare COMMAND...``.

For what commands actuators, where a gap matters. Launch would start the region anew, which takes seconds on ROS 2; the
spare has loaded everything and takes over at once.
"""
from __future__ import annotations

import logging
import os
import sys
from typing import Sequence

from brain_runtime.run import keeper
from brain_runtime.run.loop import Loop
from brain_runtime.run.workload import REGION, Event, Workload
from brain_wire import safe_text
from brain_wire.endings import on_ending
from brain_wire.logs import Through
from brain_wire.wakeup import Flag

log = logging.getLogger("brain.launch")

GRACE = 9.0     # s that the region gets to come to rest and end; launch sends SIGTERM after 10


def main(argv: Sequence[str] | None = None) -> int:
    """Keeps the region running until it is told to end, or the launch is gone; returns the exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv:
        print(__doc__, file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    stop = Flag()
    on_ending(lambda *_: stop.set())
    keeper.end_with_keeper(end=stop.set)
    # Where launch starts this process again, what was ordered of the region still holds.
    os.environ.setdefault(keeper.OUTER, os.environ.get(keeper.VARIABLE) or keeper.mark())
    name = argv[argv.index("--name") + 1] if "--name" in argv[:-1] else os.path.basename(argv[0])
    kept = Workload(name, tuple(argv), restart=REGION, restarts_told=True, stop_order=keeper.MOVER, grace=GRACE,
                    spare=True, lingers=True)
    Loop([kept], Through(), on_event=_tell).run(stop)
    return 0


def _tell(event: Event) -> None:
    log.info("%s %s: %s", event.name, event.kind, safe_text.line(event.text))


if __name__ == "__main__":
    sys.exit(main())
