# SPDX-License-Identifier: Apache-2.0
"""Storage of what robots' owners let the cloud have: files by robot, a byte quota for each, and days to keep a file."""
from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, Callable

from brain_fleet.belonging.authority import Refusal
from brain_security.fleet_keys import check_robot
from brain_security.folder import rewrite
from brain_wire.rate_limited_log import RateLimitedLog

DAYS = 90.0         # that anything is kept at most
SPARE = 500e6       # bytes of the disk that are left free
EVERY = 600.0       # s between two looks at what is too old
PART = 64 * 1024

log = logging.getLogger("brain.cloud")
limited_log = RateLimitedLog(log)


class Depot:
    """Files of robots.

    Args:
        folder: made where it is missing.
        most: bytes of each robot.
        days: that anything is kept at most.
        told: called with each thing that happens: robot, nobody, and what it is.
        clock: dates (s since the epoch).
    """

    def __init__(self, folder: Path, most: float, days: float = DAYS,
                 told: Callable[[str, str, str], None] = lambda robot, person, text: None,
                 clock: Callable[[], float] = time.time) -> None:
        self._folder, self._most, self._days, self._told, self._clock = folder, most, days, told, clock
        self._lock = threading.RLock()
        self._coming: dict[str, float] = {}     # bytes that are on their way, by robot
        self._over = threading.Event()
        threading.Thread(target=self._keep_tidy, name="depot", daemon=True).start()

    def close(self) -> None:
        """Looks after the files no more."""
        self._over.set()

    def _keep_tidy(self) -> None:
        while True:
            try:
                self.tidy()
            except OSError as error:
                limited_log("tidy", f"what is too old cannot be deleted: {error}")
            if self._over.wait(EVERY):
                return

    def tidy(self) -> None:
        """Deletes what is too old, and what came in half."""
        with self._lock:
            for about in self._folder.glob("*/*.json"):
                try:
                    until = float(json.loads(about.read_bytes())["until"])
                except (OSError, ValueError, KeyError, TypeError):
                    until = 0.0     # nobody knows how long it may be kept
                if until < self._clock():
                    about.with_suffix(".data").unlink(missing_ok=True)
                    about.unlink(missing_ok=True)
            if not self._coming:    # what a kill has left
                for part in (*self._folder.glob("*/*.part"), *self._folder.glob("*/*.data")):
                    if part.suffix == ".part" or not part.with_suffix(".json").exists():
                        part.unlink(missing_ok=True)

    def take_in(self, robot: str, question: dict[str, Any], lines: BinaryIO, go: Callable[[], None]) -> dict[str, Any]:
        """Takes a file in; answers until when it is kept (s since the epoch).

        Args:
            question: ``kind``, ``name``, ``bytes``, ``sha256``, ``days``.
            lines: where its bytes come from, once ``go`` was called.

        Raises:
            Refusal: it is not taken.
            OSError: the link has ended, or the disk is full.
        """
        if missing := {"kind", "name", "bytes", "sha256", "days"} - question.keys():
            raise Refusal(f"{', '.join(sorted(missing))} must be told of a file")
        size, folder = int(question["bytes"]), self._folder / check_robot(robot)
        about, data = (folder / f"{question['sha256']}.{end}" for end in ("json", "data"))
        until = self._clock() + 86400.0 * min(float(question["days"]), self._days)
        with self._lock:
            self.tidy()
            if about.exists():
                return {"kept": True, "until": float(json.loads(about.read_bytes())["until"])}
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            kept = sum(one.stat().st_size for one in folder.glob("*.data")) + self._coming.get(robot, 0.0)
            if kept + size > self._most:
                raise Refusal(f"of {robot} {kept / 1e6:.1f} MB are kept, and of {self._most / 1e6:.1f} MB not enough "
                              f"is left for {size / 1e6:.1f}; they go when their time is over")
            if shutil.disk_usage(folder).free < size + SPARE:
                raise Refusal("the cloud's disk has no room for it just now")
            self._coming[robot] = self._coming.get(robot, 0.0) + size
        try:
            go()
            self._receive(data, lines, size, question["sha256"])
            rewrite(about, json.dumps({key: question[key] for key in ("kind", "name", "bytes")} | {
                "robot": robot, "until": until}).encode())
        finally:
            with self._lock:
                self._coming[robot] -= size
                if self._coming[robot] <= 0.0:
                    del self._coming[robot]
        self._told(robot, "", f"{robot} has handed in {question['name']} ({question['kind']}, {size / 1e6:.1f} MB), "
                              f"which is kept until {time.strftime('%Y-%m-%d', time.gmtime(until))}")
        return {"kept": True, "until": until}

    @staticmethod
    def _receive(data: Path, lines: BinaryIO, size: int, expected: str) -> None:
        part, digest, left = data.with_suffix(f".{threading.get_ident()}.part"), hashlib.sha256(), size
        try:
            with part.open("wb") as file:
                os.chmod(part, 0o600)
                while left:
                    some = lines.read(min(PART, left))
                    if not some:
                        raise Refusal(f"{left} of its {size} bytes have not come")
                    digest.update(some)
                    file.write(some)
                    left -= len(some)
                file.flush()
                os.fsync(file.fileno())
            if digest.hexdigest() != expected:
                raise Refusal("what has come is not what was told: its digest is another")
            os.replace(part, data)
        finally:
            part.unlink(missing_ok=True)
