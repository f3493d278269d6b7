# SPDX-License-Identifier: Apache-2.0
"""Mounting of a camera of which nobody tells: height, pitch and roll by where walls meet the floor, as the robot goes.

A guess is better than none, but stays one: the robot crawls until a person confirms what is found.
"""
from __future__ import annotations

import logging
import math
import threading
from typing import Any

import numpy as np

from brain_regions.lidars import Scans
from brain_regions.past import Past
from brain_runtime.contract.camera_mount import USUAL, Mounted
from brain_runtime.contract.floor_edge import AGREED, FloorEdge, Tilt
from brain_runtime.contract.images import Lens
from brain_runtime.contract.odometry import Pose
from brain_wire.messages import time_seconds

NEAR, TURNED = 0.2, math.radians(9.0)   # m and rad from the last picture that was taken in, at least one of them
LATE = 0.3              # s between a picture and its scan, and from either to the newest odometry
TOGETHER = 6            # pictures that are looked at at once
MORE = 1.3              # times the pictures after which they are asked again, which takes a second

log = logging.getLogger(__name__)


class Tilting:
    """Estimate of one camera's mounting. The work is done in a thread, a second for some pictures.

    Args:
        live: time passes while the thread works; in lockstep nothing is estimated.
    """

    def __init__(self, live: bool) -> None:
        self._live = live
        self._lens: Lens | None = None
        self._start()

    def _start(self) -> None:
        self._edge, self._waiting = FloorEdge(USUAL), list[Any]()
        self._last: Pose | None = None
        self._next: Any = None      # picture that waits for odometry
        self._found: Tilt | None = None
        self._thread: threading.Thread | None = None
        self._taken, self._again = 0, 0.0       # pictures that were looked at, and from how many on they are asked

    def better(self, guess: Mounted) -> Mounted:
        """The mounting by what walls have shown, which is still guessed; as long as they have shown nothing, itself."""
        found = self._found
        if found is None:
            return guess
        mount = found.of(guess.mount)
        return Mounted(mount, (
            f"walls show that the camera is {mount.height:.2f} m high and pitched down by "
            f"{math.degrees(mount.pitch):.1f} degrees, which nobody tells, and the robot crawls; if it is so, in the "
            f"profile, shared: {{camera_height: {mount.height:.2f}, camera_pitch: {mount.pitch:.3f}, camera_roll: "
            f"{mount.roll:.3f}}}"), True)

    def take(self, picture: np.ndarray, stamp: float, lens: Lens, scans: Scans, past: Past) -> None:
        """Takes in a picture, where the robot has gone on since the last one and a scan tells of its walls.

        Args:
            picture: uint8 [rows, columns, 3].
            stamp: of it (s).
            lens: of the camera.
            scans: newest ones.
            past: where the robot was when.
        """
        if not self._live or self._found is not None:
            return
        if self._next is not None:
            self._next = self._placed(past, *self._next)
        elif scans.scan is not None:
            self._next = picture, stamp, lens, scans

    def _placed(self, past: Past, picture: np.ndarray, stamp: float, lens: Lens, scans: Scans) -> Any:
        """Has a picture looked at once odometry has come that is newer than it and its scan; until then, it waits."""
        scanned = time_seconds(scans.scan.header.stamp)
        times = stamp, scanned, past.newest
        if not max(times) - min(times) <= LATE:     # of another clock, or nobody tells where the robot is
            return None
        if past.newest < max(stamp, scanned):
            return picture, stamp, lens, scans
        here, there, (beams, _) = past.at(stamp), past.at(scanned), scans.beams()
        if here is None or there is None or beams is None or not self._gone(here):
            return None
        if lens != self._lens:
            self._lens = lens
            self._start()
        self._last = here
        angles, distances = beams.hits()
        order = np.argsort(angles)
        # from where the robot was at the scan to where it was at the picture
        walls = complex(*there[:2]) + (distances * np.exp(1j * (angles + there[2])))[order]
        walls = (walls - complex(*here[:2])) * np.exp(-1j * here[2])
        # a copy, since what comes by shared memory is wanted back
        self._waiting.append((picture.copy(), lens, np.column_stack([walls.real, walls.imag])))
        if len(self._waiting) >= TOGETHER and (self._thread is None or not self._thread.is_alive()):
            pictures, self._waiting = self._waiting, []
            self._thread = threading.Thread(target=self._look, args=(self._edge, pictures), daemon=True,
                                            name="camera's tilt")
            self._thread.start()
        del self._waiting[:-TOGETHER]
        return None

    def _gone(self, pose: Pose) -> bool:
        x, y, yaw = self._last or (math.inf, 0.0, 0.0)
        return (math.hypot(pose[0] - x, pose[1] - y) >= NEAR
                or abs(math.remainder(pose[2] - yaw, 2 * math.pi)) >= TURNED)

    def _look(self, edge: FloorEdge, pictures: list[Any]) -> None:
        for one in pictures:
            edge.add(*one)
        self._taken += len(pictures)
        if self._taken < self._again:
            return
        self._again = MORE * self._taken
        found = edge.found(high=True)
        if found is not None and found.spread <= AGREED and edge is self._edge:
            self._found = found
            log.info("walls show a camera %.2f m high, pitched down by %.1f and rolled by %.1f degrees", found.height,
                     math.degrees(found.pitch), math.degrees(found.roll))
