# SPDX-License-Identifier: Apache-2.0
"""Invariants that must hold at each of the 500 steps a second, and the time that each stop took."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np

from brain_sim import robot

STILL_SPEED = 0.02
STILL_TURN = 0.05
# Set values keep the limits exactly; the body follows them through springy contacts and a 5 ms lag.
SLACK = 1e-6
MAX_STOPS = 256


@dataclass
class Stop:
    """One stop: when its trigger came, why, and the seconds from it to standstill (NaN while moving)."""

    time: float
    trigger: str
    speed: float
    standstill_after: float = float("nan")


@dataclass
class Invariants:
    """Running record over all substeps: largest values (SI), broken limits, and the stops.

    speed, turn: of the body. set_*: of the base's controller, whose limits count as broken when passed.
    """

    substeps: int = 0
    max_speed: float = 0.0
    max_turn: float = 0.0
    max_set_speed: float = 0.0
    max_set_turn: float = 0.0
    max_set_acceleration: float = 0.0
    max_set_turn_acceleration: float = 0.0
    max_acceleration: float = 0.0
    violations: int = 0
    stops: list[Stop] = field(default_factory=list)
    _last: tuple[float, ...] | None = None

    def add(self, set_v: np.ndarray, set_w: np.ndarray, v: np.ndarray, w: np.ndarray, contact: bool) -> None:
        """Take in a run of substeps (arrays [n]); with `contact` the body's acceleration is not judged."""
        if not len(v):
            return
        run = np.empty((4, len(v) + 1))     # with the substep before the run in front
        run[:, 1:] = set_v, set_w, v, w
        run[:, 0] = self._last if self._last is not None else run[:, 1]
        self._last = tuple(run[:, -1])
        most = np.abs(run[:, 1:])
        change = np.abs(run[:, 1:] - run[:, :-1]) / robot.PHYSICS_STEP
        speeds, changes = most.max(axis=1).tolist(), change.max(axis=1).tolist()
        self.substeps += len(v)
        self.max_set_speed, self.max_set_turn = max(self.max_set_speed, speeds[0]), max(self.max_set_turn, speeds[1])
        self.max_speed, self.max_turn = max(self.max_speed, speeds[2]), max(self.max_turn, speeds[3])
        self.max_set_acceleration = max(self.max_set_acceleration, changes[0])
        self.max_set_turn_acceleration = max(self.max_set_turn_acceleration, changes[1])
        if not contact:
            self.max_acceleration = max(self.max_acceleration, changes[2])
        bounds = (robot.MAX_SPEED + SLACK, robot.MAX_TURN + SLACK, robot.MAX_ACCELERATION + 1e-3,
                  robot.MAX_TURN_ACCELERATION + 1e-3)
        found = (*speeds[:2], *changes[:2])
        if any(value > bound for value, bound in zip(found, bounds)):
            beyond = np.concatenate([most[:2], change[:2]]) > np.array(bounds)[:, None]
            self.violations += int(beyond.any(axis=0).sum())

    def trigger(self, time: float, name: str, speed: float) -> None:
        """Something happened at `time` (s) after which the robot is to stand still; `speed` in m/s then."""
        self.stops.append(Stop(time, name, speed))
        del self.stops[:-MAX_STOPS]

    def motion(self, times: np.ndarray, v: np.ndarray, w: np.ndarray) -> None:
        """Close the open stops: the first substep at standstill after each trigger (arrays [n])."""
        pending = [s for s in self.stops if np.isnan(s.standstill_after)]
        if not pending:
            return
        still = times[(np.abs(v) < STILL_SPEED) & (np.abs(w) < STILL_TURN)]
        for stop in pending:
            after = still[still >= stop.time]
            if len(after):
                stop.standstill_after = float(after[0] - stop.time)

    def report(self) -> dict:
        """The record as plain JSON values; a stop still open has null for its duration."""
        d = asdict(self)
        d.pop("_last")
        for stop in d["stops"]:
            if np.isnan(stop["standstill_after"]):
                stop["standstill_after"] = None
        return d
