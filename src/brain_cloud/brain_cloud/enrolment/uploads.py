# SPDX-License-Identifier: Apache-2.0
"""Storage of what robots' owners let the cloud have: files by robot, a byte quota for each, and days to keep a file.

Of hard clips there is a list besides, which trainings read: a text, a path a line. It only grows: what counts its
lines, as Sedna's jobs do, knows which are new. What a line names is a link to the file, which is deleted when its time
is over; the line then names nothing.
"""
from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, Callable, Mapping

from brain_cloud.blobs.serving import Collection
from brain_cloud.enrolment.authority import Refusal
from brain_edge.blobs.store import PART, SHA256, BlobProblem, Blobs, NoRoom, write_whole
from brain_edge.enrolment.upload import CLIP, in_order
from brain_edge.schema import check
from brain_security.fleet_keys import check_robot
from brain_wire.rate_limited_log import RateLimitedLog

DAYS = 90.0         # that anything is kept at most
SPARE = 500 * 10**6     # bytes of the disk that are left free
EVERY = 600.0       # s between two looks at what is too old
TIDY = 10.0         # s between two looks at a robot's files because there is no room for another
FILES = 20_000      # of each robot
UNFINISHED = 86400.0    # s since a piece has come, after which what has come of a file is let go of
CHUNK = 64 * 1024
DATA, ABOUT = ".data", ".json"
LIST = "clips.txt"
LARGEST = 10_000    # bytes of what is told of a file
FORM: dict[str, Any] = {"type": "object", "required": ["kind", "name", "days"], "properties": {
    "kind": {"type": "string", "pattern": "[a-z]+", "maxLength": 20},
    "name": {"type": "string", "pattern": "[A-Za-z0-9_][-A-Za-z0-9_.]*", "maxLength": 80},
    "days": {"type": "number", "minimum": 0, "maximum": 3650}}}

log = logging.getLogger("brain.cloud")
limited_log = RateLimitedLog(log)


class Uploads(Collection):
    """Files of robots, which hand them in.

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
        self._robots: dict[str, Blobs] = {}
        self._tidied: dict[str, float] = {}     # steady time, by robot
        self._over = threading.Event()
        threading.Thread(target=self._keep_tidy, name="uploads", daemon=True).start()

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
        """Deletes what is too old, and what nobody knows of."""
        for folder in self._folder.glob("*"):
            with self._lock:
                self._tidy(self._of(folder.name))

    def _of(self, robot: str) -> Blobs:
        if robot not in self._robots:
            self._robots[robot] = Blobs(self._folder / robot, DATA, int(self._most), SPARE)
        return self._robots[robot]

    def _tidy(self, blobs: Blobs) -> None:
        now = self._clock()
        for about in blobs.folder.glob(f"*{ABOUT}"):
            if _until(about) < now:
                about.unlink(missing_ok=True)
        for path in (*blobs.folder.glob(f"*{DATA}"), *blobs.folder.glob(f"*{PART}")):
            waits = path.suffix == PART and re.fullmatch("[0-9a-f]{64}", path.stem) and (
                path.stat().st_mtime + UNFINISHED > now)
            if not waits and not path.with_suffix(ABOUT).exists():
                path.unlink(missing_ok=True)
        blobs.recount()

    def take(self, robot: str, digest: str, offset: int, size: int, data: bytes, about: Mapping[str, Any]
             ) -> dict[str, Any]:
        """Takes a piece of a file; see :class:`Collection`. The answer has ``until`` once all of it is kept.

        Args:
            about: ``kind``, ``name``, ``days``.

        Raises:
            FormProblem: it is not told what it is. BlobProblem: it is not taken.
        """
        check(about, FORM, "about")
        with self._lock:
            blobs = self._of(check_robot(robot))
            told = blobs.folder / f"{digest.removeprefix(SHA256)}{ABOUT}"
            if told.exists():
                return {"have": size, "until": _until(told)}
            if any(blobs.missing(digest, size)) and time.monotonic() > self._tidied.get(robot, float("-inf")) + TIDY:
                self._tidied[robot] = time.monotonic()
                self._tidy(blobs)
            over, lacking = blobs.missing(digest, size)
            if over:
                raise NoRoom(f"of {robot} {(blobs.taken() - blobs.have(digest)) / 1e6:.1f} MB are kept, and of "
                             f"{self._most / 1e6:.1f} MB not enough is left for {size / 1e6:.1f}; they go when their "
                             f"time is over")
            if lacking:
                raise NoRoom("the cloud's disk has no room for it just now")
            if digest not in (sizes := blobs.sizes()) and len(sizes) >= FILES:
                raise NoRoom(f"of {robot} {FILES} files are kept; they go when their time is over")
            have = blobs.write(digest, offset, data)
            if have < size:
                return {"have": have}
            until = self._clock() + 86400.0 * min(about["days"], self._days)
            blobs.finish(digest, size)
            try:
                write_whole(told, json.dumps({"kind": about["kind"], "name": about["name"], "bytes": size,
                                              "robot": robot, "until": until}).encode())
            except OSError as error:
                raise NoRoom(f"the cloud's disk cannot be written just now ({error.strerror or error})") from None
        self._told(robot, "", f"{robot} has handed in {about['name']} ({about['kind']}, {size / 1e6:.1f} MB), "
                              f"which is kept until {time.strftime('%Y-%m-%d', time.gmtime(until))}")
        return {"have": size, "until": until}

    def take_in(self, robot: str, question: dict[str, Any], lines: BinaryIO, go: Callable[[], None]) -> dict[str, Any]:
        """Takes a file in over the door, from its first byte on, of a robot of the release before.

        Args:
            question: ``kind``, ``name``, ``bytes``, ``sha256``, ``days``.
            lines: where its bytes come from, once ``go`` was called.

        Raises:
            Refusal: it is not taken.
            OSError: the link has ended.
        """
        if missing := {"kind", "name", "bytes", "sha256", "days"} - question.keys():
            raise Refusal(f"{', '.join(sorted(missing))} must be told of a file")
        digest, size, place = SHA256 + question["sha256"], question["bytes"], 0
        about = {name: question[name] for name in FORM["required"]}
        try:
            found = self.take(robot, digest, 0, size, b"", about)
            if "until" not in found:
                go()
            while "until" not in found:
                some = lines.read(min(CHUNK, size - place))
                if not some:
                    raise Refusal(f"{size - place} of its {size} bytes have not come")
                skip = max(0, found["have"] - place)    # what had come before
                place += len(some)
                if skip < len(some):
                    found = self.take(robot, digest, found["have"], size, some[skip:], about)
        except BlobProblem as problem:
            raise Refusal(str(problem)) from None
        return {"kept": True, "until": found["until"]}


def _until(about: Path) -> float:
    """Reads until when a file is kept (s since the epoch); 0 where nobody knows how long it may be."""
    try:
        return float(json.loads(about.read_bytes())["until"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0.0


def gather(uploads: Path, into: Path, tell: Callable[[str], None]) -> list[str]:
    """Adds the clips that have come since the last time to the list; returns their names.

    Args:
        uploads: the cloud's folder of what robots have handed in.
        into: where the list is, and the links.
        tell: told what is left out, and why.

    Raises:
        OSError: the folder cannot be read, or the list not written.
    """
    into.mkdir(parents=True, exist_ok=True, mode=0o700)
    listed = into / LIST
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    known, new = set(lines), []
    for about in sorted(uploads.glob("*/*.json")):
        name, why = _clip(about)
        if why:
            tell(f"{about.parent.name}: {why}")
        if name and name not in known:
            link = into / name
            part = into / f".{name}.part"
            part.unlink(missing_ok=True)
            part.symlink_to(about.with_suffix(".data").absolute())
            os.replace(part, link)
            known.add(name)
            new.append(name)
    new.sort(key=in_order)    # those of a drive together: a list that is divided in two then divides few drives
    if new:
        # readable for all: jobs read it, as whoever they run
        write_whole(listed, "".join(f"{line}\n" for line in (*lines, *new)).encode(), 0o644)
    return new


def _clip(about: Path) -> tuple[str, str]:
    """Name of the clip that a robot has handed in, or else why something is none; both empty: it is something else."""
    try:
        with about.open("rb") as file:
            told = json.loads(file.read(LARGEST))
        name, kind = str(told["name"]), str(told["kind"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "", f"{about.name} does not tell what was handed in"
    found = CLIP.fullmatch(name)
    if found is None or kind != "recordings":
        return "", ""
    if found["robot"] != about.parent.name:
        return "", f"{name} says that it is {found['robot']}'s, and is left out: a robot speaks for itself only"
    return (name, "") if about.with_suffix(".data").exists() else ("", "")
