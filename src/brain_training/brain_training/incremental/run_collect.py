# SPDX-License-Identifier: Apache-2.0
"""The process that collects hard clips on a robot: ``brain fleet collect`` becomes it.

Status 0: ended in good order; 1: it cannot run, and says why.
"""
from __future__ import annotations

import argparse
import contextlib
import logging
import os
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from brain_runtime.contract.optics import Mount
from brain_runtime.run.ending import Ending, leave
from brain_training.incremental.chooser import Chooser, Chosen
from brain_training.incremental.clip_files import ClipFolder, ClipProblem, Kept
from brain_training.incremental.collecting import LENS, PICTURES, STANDING, USUAL, Collector
from brain_training.incremental.hearing import STATUS, TRACE
from brain_training.incremental.rules import UnknownRule, named
from brain_wire import Node, SessionProblem, messages, open_session, safe_text
from brain_wire.credentials import EDGE
from brain_wire.logs import survive_full_disk
from brain_wire.qos import FEATURE, LATCHED, SENSOR, STREAM
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.session import NoRouter
from brain_wire.wakeup import Flag

POLITE = 10         # what is added to its niceness: the brain's own processes come first
NODE = "fleet_collect"
DRIVE = 600.0       # s of collecting that count as one drive
LOOK = 0.5          # s
WAITING = 4         # clips that wait to be written

log = logging.getLogger("brain.collecting")
limited_log = RateLimitedLog(log)


class Live:
    """Hears a brain, and has its hard clips written.

    Args:
        robot: its name.
        folder: of the clips.
        chooser, threshold, teacher: see :class:`.collecting.Collector`.
        mount: of the camera, by which pictures are levelled; where nobody says it, that of the simulated robot's is
            taken: level, 0.15 m ahead of the base and 0.35 m above the floor. Of pictures without a CameraInfo a view
            of 90 degrees is taken.
    """

    def __init__(self, robot: str, folder: ClipFolder, chooser: Chooser, threshold: float, teacher: str | None,
                 mount: Mount = USUAL) -> None:
        self._robot, self._folder = robot, folder
        self._lock = threading.Lock()
        self._clips: queue.Queue[tuple[Chosen, Sequence[Kept]]] = queue.Queue(WAITING)
        self._collector = Collector(chooser, threshold, self._keep, teacher, mount)
        self._began, self._base = time.monotonic(), time.time_ns()
        # The name of a drive is not to be another's, whatever the clock says.
        self._name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}_{os.urandom(2).hex()}"

    def listen(self, node: Node) -> None:
        """Subscribes to what is needed."""
        for topic, kind in self._collector.topics.items():
            quality = (LATCHED if topic in STANDING and topic != LENS else
                       STREAM.with_depth(50) if topic == TRACE else SENSOR if topic in (PICTURES, LENS) else FEATURE)
            if topic == STATUS:
                quality = LATCHED.with_depth(10)
            found: list[Any] = []
            found.append(node.subscription(topic, kind, quality, arrived=lambda topic=topic, kind=kind, found=found:
                                           self._take(topic, kind, found)))

    def _take(self, topic: str, kind: str, found: list[Any]) -> None:
        for arrival in found[0].take() if found else ():
            try:
                message = messages.decode(arrival.data, kind)
            except messages.MessageError as problem:
                limited_log(topic, f"a message of {topic} cannot be read: {problem}")
                continue
            at = self._base + round((arrival.received - self._began) * 1e9)     # steady, whatever the clock does
            with self._lock:
                self._collector.hear(topic, at, message)

    def _keep(self, chosen: Chosen, kept: Sequence[Kept]) -> None:
        try:
            self._clips.put_nowait((chosen, kept))
        except queue.Full:
            limited_log("full", "a clip is not kept: the disk is too slow")

    def write(self) -> None:
        """Writes what waits, and says what could not be taken in."""
        if self._collector.unreadable:
            limited_log("pictures", f"{self._collector.unreadable} pictures of {PICTURES} cannot be read; publish "
                                    f"rgb8, bgr8, rgba8 or bgra8 of at least 16 x 16 pixels")
        while True:
            try:
                chosen, kept = self._clips.get_nowait()
            except queue.Empty:
                return
            drive = f"{self._name}_{int((time.monotonic() - self._began) / DRIVE)}"
            try:
                path = self._folder.add(self._robot, drive, chosen.rule, chosen.hardness, kept)
                log.info("kept %s", path.name)
            except ClipProblem as problem:
                limited_log("write", str(problem))

    def end(self) -> None:
        """Writes what there still is."""
        with self._lock:
            self._collector.end()
        self.write()


def main(argv: Sequence[str] | None = None) -> int:
    """Collects until SIGINT or SIGTERM; returns the exit status."""
    parser = argparse.ArgumentParser(prog="brain fleet collect", description=__doc__.split("\n")[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--keep", type=float, required=True, help="megabytes")
    parser.add_argument("--most", type=int, required=True, help="clips an hour")
    parser.add_argument("--threshold", type=float, required=True)
    parser.add_argument("--rules")
    parser.add_argument("--teacher")
    parser.add_argument("--router")
    parser.add_argument("--namespace", default="")
    options = parser.parse_args(argv)
    ending = Ending()
    survive_full_disk()
    safe_text.log_to(sys.stderr, logging.INFO, "%(asctime)s %(levelname)s collect: %(message)s")
    with contextlib.suppress(OSError):      # where the system does not let it, it is as any other process
        os.nice(POLITE)
    try:
        rules = named(options.rules)
        with ClipFolder(options.folder, options.keep * 1e6) as folder:
            live = Live(options.name, folder, Chooser(rules, options.most, np.random.default_rng()), options.threshold,
                        options.teacher)
            log.info("%s keeps up to %d clips an hour in %s, chosen by %s and by chance", options.name, options.most,
                     options.folder, ", ".join(rule.name for rule in rules) or "no rule")
            _run(live, options.router, options.namespace, ending.asked)
    except (ClipProblem, UnknownRule, SessionProblem, messages.MessageError) as problem:
        print(f"brain fleet collect: {safe_text.line(problem)}", file=sys.stderr)
        return 1
    return 0


def _run(live: Live, router: str | None, namespace: str, stop: Flag) -> None:
    """Hears the brain as soon as its router is reached; Zenoh itself links the session again after a cut."""
    import torch    # now: it takes seconds, in which pictures would go by

    from brain_training.recordings import views     # noqa: F401

    torch.set_num_threads(1)
    try:
        with open_session(router, identity=EDGE, patience=float("inf"), stop=stop) as session, \
                Node(session, NODE, namespace) as node:
            live.listen(node)
            while not stop.wait(LOOK):
                live.write()
    except NoRouter:
        if not stop.is_set():
            raise
    live.end()


if __name__ == "__main__":
    leave(main())
