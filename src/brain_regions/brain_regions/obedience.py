# SPDX-License-Identifier: Apache-2.0
"""A base that does not do what it is told, by odometry: it is blocked or switched off, or odometry has died.

The brainstem finds it, since it knows what the base was told, and the scan tells which of the two it is. Other regions
hear of it in the brainstem's heartbeats.
"""
from __future__ import annotations

import math
from typing import Any

from brain_regions.beams import Beams
from brain_regions.past import since
from brain_regions.scan_watch import changed
from brain_runtime import STREAM, In
from brain_runtime.contract.odometry import Pose

TOLD = (0.1, 0.2)           # m/s, rad/s: who is told so much moves
OBEYS = 2.0                 # s within which
STAYS = (0.005, 0.01)       # m, rad: a pose that moves less stays where it is
TELLS_AGAIN = 8.0, 16.0     # s after which the robot is told to move again: at first, and later
BEATS = 1.0                 # s, age up to which a heartbeat tells
NOT_BELIEVED = "odom is not believed"
DIED = f"{NOT_BELIEVED}: it stands still while the scan shows that the robot moves as it is told; has odometry died?"
STANDS = "the base stands still"
BLOCKED = (f"{STANDS}, as odom says, though it was told to move for {OBEYS:.0f} s; is it blocked or off, or has "
           "odometry died?")
HEARTBEATS = In("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM, key="name", epoch="epoch", device=True)
"""Port of a region that is to know why others refuse what comes."""


class Obedience:
    """Check by odometry that the base does what it is told.

    Attributes:
        fault: why the robot is not to move, for a person; empty where it may.
    """

    def __init__(self) -> None:
        self.fault = self._why = ""
        self._scan: Beams | None = None     # of when the robot was told to move
        self._stays(None)

    def _stays(self, pose: Pose | None) -> None:
        self._pose = pose           # that stays
        self._since = math.inf      # when the robot was told to move
        self._until = -math.inf     # when it is told again
        self._failed = False

    def take(self, pose: Pose | None, told: tuple[float, float], scan: Beams | None, now: float) -> str:
        """Takes in what odometry says and what the base was told last.

        Args:
            pose: the newest; None: there is none, and what it said before holds as soon as it comes again.
            told: m/s, rad/s.
            scan: the newest.
            now: s, on any steady clock.

        Returns:
            :attr:`fault`.
        """
        self.fault = ""
        if pose is None:
            self._since = math.inf
        elif self._pose is None or self._moved(self._pose, pose):
            self._stays(pose)
        elif now < self._until:
            self.fault = self._why
        elif abs(told[0]) < TOLD[0] and abs(told[1]) < TOLD[1]:
            self._since = math.inf
        else:
            if self._since == math.inf:
                self._since, self._scan = now, scan
            if now - self._since >= OBEYS:
                moved = self._scan is not None and scan is not None and changed(self._scan, scan)
                self.fault = self._why = DIED if moved else BLOCKED
                self._since, self._until = math.inf, now + TELLS_AGAIN[self._failed]
                self._failed = True
        return self.fault

    @staticmethod
    def _moved(then: Pose, pose: Pose) -> bool:
        ahead, left, turned = since(then, pose)
        return math.hypot(ahead, left) > STAYS[0] or abs(turned) > STAYS[1]


def disobeyed(inbox: Any) -> str:
    """Returns the reason why the base is not told to move, by the heartbeats of :data:`HEARTBEATS`; mostly empty."""
    reasons = (entry.message.reason for entry in inbox.each("heartbeats", BEATS))
    return next((why for why in reasons if why.startswith((NOT_BELIEVED, STANDS))), "")
