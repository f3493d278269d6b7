# SPDX-License-Identifier: Apache-2.0
"""Passes on to a region's process what was ordered of those before it, so that an order outlives a crash.

Launch and the supervisor start a process again without telling it anything of the last one. Both name themselves in the
environment (:data:`brain_runtime.run.keeper.VARIABLE`); below that name each command line has its records: how often it
was started, and where in its life it was ordered to stay. They end with the launch or the ``brain up``. What stands
between launch and a region, and may be started again itself, hands the launch's name on
(:data:`brain_runtime.run.keeper.OUTER`).
"""
from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Sequence

from brain_runtime.run.workload import TRIES, Backoff
from brain_runtime.run.keeper import OUTER, VARIABLE, end_with_keeper, lives
from brain_wire.standby import OPTION
from brain_wire.wakeup import Flag

BACKOFF = Backoff()
MOST = 10**9        # starts that a heartbeat can tell, and more than anybody waits for
RENEWED = 60.0      # s after which records are written again: whoever tidies temporary files takes them for old ones
ACTIVE, INACTIVE, UNCONFIGURED, FINALIZED = "active", "inactive", "unconfigured", "finalized"
ORDERED = {"configure": INACTIVE, "activate": ACTIVE, "deactivate": INACTIVE, "cleanup": UNCONFIGURED,
           "shutdown": FINALIZED}
"""By a transition's label, where who ordered it wants the region."""

log = logging.getLogger(__name__)


def folder() -> Path:
    """Returns the folder of the records: of this user alone, and gone after the machine's next start."""
    import tempfile

    return Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"brain-launch-{os.getuid()}"


class Predecessors:
    """The processes that one launch or ``brain up`` started with one command line.

    Args:
        launch: its mark, as the environment has it.
        argv: the command line; how often it was started again, and as a spare, does not count.

    Attributes:
        starts: how many there were before this one; 0 where nothing can be kept.
        failures: how many of them, in a row, ended soon.
        ordered: where in its life the region was ordered to stay: ``active`` where nobody ordered anything.
    """

    def __init__(self, launch: str, argv: Sequence[str]) -> None:
        line = "\0".join([os.environ.get("ROS_DOMAIN_ID", ""), *_same(argv)])
        self._here = folder()
        self._path = self._here / launch.replace(":", "-") / hashlib.sha256(
            line.encode("utf-8", "replace")).hexdigest()[:32]
        self._order = self._path.with_suffix(".order")
        self.starts, self.failures, self.ordered = 0, 0, ACTIVE
        self._written = self._began = time.monotonic()
        self._well = False
        try:
            self._make()
            _forget(self._here, launch)
            if self._order.exists():
                self.ordered = self._read()
            text = self._path.read_bytes().decode("ascii", "replace") if self._path.exists() else ""
            counts = [min(int(word), MOST) for word in text.split() if word.isdecimal() and len(word) < 12]
            self.starts, self.failures = counts if len(counts) == 2 else (0, 0)
            self._count(self.failures + 1)
        except OSError as error:
            log.warning("what is ordered of this region will not outlive its process, and restarts are not counted: %s",
                        error)

    @classmethod
    def named(cls, argv: Sequence[str]) -> Predecessors | None:
        """Those that the environment names; None for a process that nobody would start again."""
        launch = os.environ.get(OUTER) or os.environ.get(VARIABLE, "")
        return cls(launch, argv) if launch else None

    @property
    def storage(self) -> Path:
        """Folder for what a region must not forget, where no folder of snapshots was named."""
        return self._path.with_suffix(".kept")

    def _make(self) -> None:
        self._here.mkdir(mode=0o700, exist_ok=True)
        if self._here.is_symlink() or self._here.stat().st_uid != os.getuid():
            raise PermissionError(f"{self._here} is somebody else's")
        self._path.parent.mkdir(exist_ok=True)

    def _read(self) -> str:
        """The order on record. One that cannot be read was one: the region stays where nothing moves."""
        text = self._order.read_bytes().decode("ascii", "replace").strip()
        if text in ORDERED.values():
            return text
        log.error("the order on record in %s is %.40r: the region stays inactive until it is started by order",
                  self._order, text)
        return INACTIVE

    def order(self, state: str) -> None:
        """Records where the region was ordered to stay, before it goes there."""
        self.ordered = state
        self._written = time.monotonic()
        temporary = self._order.with_suffix(".tmp")
        try:
            self._make()
            temporary.write_text(state, encoding="ascii")
            os.replace(temporary, self._order)
        except OSError as error:
            log.error("cannot record that %s was ordered (%s): it holds now, but may not survive a crash", state, error)

    def _count(self, failures: int) -> None:
        self._path.write_text(f"{self.starts + 1} {failures}", encoding="ascii")

    def hold_back(self, over: Flag) -> None:
        """Waits, for longer the more of those before it ended soon: who starts it again may do so at once, for ever.

        Args:
            over: the process is to end.
        """
        if self.failures:
            wait = BACKOFF.delay(self.failures)
            print(f"ended {self.failures} times in a row within {BACKOFF.healthy:g} s; starting in {wait:g} s",
                  file=sys.stderr, flush=True)
            over.wait(wait)

    def give_up(self, over: Flag) -> None:
        """Stays until the process is to end (``over``), where it could not start :data:`TRIES` times in a row.

        To whoever would start it again it looks alive; it does nothing.
        """
        if self.failures + 1 >= TRIES:
            print(f"that was {self.failures + 1} times in a row, and it is not tried again: correct it, and launch it "
                  f"anew", file=sys.stderr, flush=True)
            end_with_keeper()
            over.wait()

    def renew(self) -> None:
        """To be called now and then: writes an order again that was written long ago, and that this process is well."""
        if not self._well and time.monotonic() - self._began > BACKOFF.healthy:
            self._well = True
            with contextlib.suppress(OSError):  # told at the start
                self._count(0)
        if self.ordered != ACTIVE and time.monotonic() - self._written > RENEWED:
            self.order(self.ordered)


def _same(argv: Sequence[str]) -> list[str]:
    """A command line without what differs from start to start."""
    words = list(argv)
    while "--restarts" in words:
        at = words.index("--restarts")
        del words[at:at + 2]
    return [word for word in words if word != OPTION]


def _forget(here: Path, launch: str) -> None:
    """Removes the records of launches that are gone."""
    for other in here.iterdir():
        name = other.name.replace("-", ":")
        try:
            gone = name != launch and not lives(name)
        except ValueError:
            continue    # nothing of ours
        if gone:
            shutil.rmtree(other, ignore_errors=True)
