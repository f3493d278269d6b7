# SPDX-License-Identifier: Apache-2.0
"""What must hold at every one of the 500 steps a second, and how long each stop took."""

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
    _last: tuple[float, float, float] | None = None

    def add(self, set_v: np.ndarray, set_w: np.ndarray, v: np.ndarray, w: np.ndarray, contact: bool) -> None:
        """Take in a run of substeps (arrays [n]); with `contact` the body's acceleration is not judged."""
        if not len(v):
            return
        v0, w0, b0 = self._last if self._last is not None else (set_v[0], set_w[0], v[0])
        dv = np.abs(np.diff(set_v, prepend=v0)) / robot.PHYSICS_STEP
        dw = np.abs(np.diff(set_w, prepend=w0)) / robot.PHYSICS_STEP
        self.substeps += len(v)
        self.max_speed = max(self.max_speed, float(np.abs(v).max()))
        self.max_turn = max(self.max_turn, float(np.abs(w).max()))
        self.max_set_speed = max(self.max_set_speed, float(np.abs(set_v).max()))
        self.max_set_turn = max(self.max_set_turn, float(np.abs(set_w).max()))
        self.max_set_acceleration = max(self.max_set_acceleration, float(dv.max()))
        self.max_set_turn_acceleration = max(self.max_set_turn_acceleration, float(dw.max()))
        if not contact:
            body = float(np.abs(np.diff(v, prepend=b0)).max()) / robot.PHYSICS_STEP
            self.max_acceleration = max(self.max_acceleration, body)
        self.violations += int(np.sum(
            (np.abs(set_v) > robot.MAX_SPEED + SLACK) | (np.abs(set_w) > robot.MAX_TURN + SLACK)
            | (dv > robot.MAX_ACCELERATION + 1e-3) | (dw > robot.MAX_TURN_ACCELERATION + 1e-3)))
        self._last = float(set_v[-1]), float(set_w[-1]), float(v[-1])

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
