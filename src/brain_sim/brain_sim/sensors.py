# SPDX-License-Identifier: Apache-2.0
"""Sensors of the simulated robot: lidar by rays, wheel odometry that drifts, and an IMU with a bias."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from brain_sim import robot
from brain_sim.geometry import wrap_angle
from brain_sim.mjcf import GROUP_SHELL, GROUP_THING


class Lidar:
    """Rays in a plane at `height` meters about the base's center; `angles[i]` in radians from base_link's x.

    Beams start at -pi and go counter-clockwise, as LaserScan has it. No return is +inf (REP 117).
    """

    def __init__(self, model: mujoco.MjModel, height: float = robot.LIDAR_HEIGHT,
                 beams: int = robot.LIDAR_BEAMS, noise: float = robot.LIDAR_NOISE,
                 dropout: float = 0.002, far: float = robot.LIDAR_MAX):
        self._model, self.height, self.beams = model, height, beams
        self.noise, self.dropout, self.far = noise, dropout, far
        self.angles = -np.pi + np.arange(beams) * (2 * np.pi / beams)
        self._groups = np.zeros(6, np.uint8)
        self._groups[[GROUP_SHELL, GROUP_THING]] = 1
        self._body = model.body("base_link").id
        self._geom, self._dist = np.empty(beams, np.int32), np.empty(beams)

    def ranges(self, data: mujoco.MjData, x: float, y: float, yaw: float,
               rng: np.random.Generator | None = None) -> np.ndarray:
        """float32[beams] in meters from (x, y) with heading `yaw`; clean without `rng`."""
        a = self.angles + yaw
        vec = np.stack([np.cos(a), np.sin(a), np.zeros(self.beams)], axis=1)
        mujoco.mj_multiRay(self._model, data, np.array([x, y, self.height]), vec.reshape(-1), self._groups, 1,
                           self._body, self._geom, self._dist, None, self.beams, mujoco.mjMAXVAL)
        r = np.where(self._geom >= 0, self._dist, np.inf)
        if rng is not None:
            r = r + rng.normal(0.0, self.noise, self.beams)
            r[rng.random(self.beams) < self.dropout] = np.inf
        r = np.where(r > self.far, np.inf, np.maximum(r, robot.LIDAR_MIN))
        return r.astype(np.float32)


@dataclass
class OdometryState:
    """Pose (m, rad) that the wheels believe, starting at the origin, and their velocity (m/s, rad/s)."""

    x: float = 0.0
    y: float = 0.0
    yaw: float = 0.0
    v: float = 0.0
    w: float = 0.0


class Odometry:
    """Dead reckoning with errors drawn once (wheel scale, turn scale, pull) and noise in every reading."""

    def __init__(self, rng: np.random.Generator):
        self._rng = rng
        self._scale = 1.0 + rng.normal(0.0, 0.01)
        self._turn_scale = 1.0 + rng.normal(0.0, 0.015)
        self._pull = rng.normal(0.0, 0.005)
        self.state = OdometryState()

    def update(self, forward: float, turn: float, dt: float) -> OdometryState:
        """Take in the true motion of the last `dt` seconds: `forward` m along the heading, `turn` rad."""
        rng, s = self._rng, self.state
        moved = forward * self._scale + rng.normal() * 0.01 * abs(forward)
        slip = rng.normal() * (0.01 * abs(turn) + 0.005 * abs(forward))
        turned = turn * self._turn_scale + self._pull * forward + slip
        middle = s.yaw + turned / 2
        s.x += moved * float(np.cos(middle))
        s.y += moved * float(np.sin(middle))
        s.yaw = float(wrap_angle(s.yaw + turned))
        s.v, s.w = moved / dt, turned / dt
        return s


class Imu:
    """Gyroscope and accelerometer with a bias drawn once and white noise."""

    def __init__(self, rng: np.random.Generator):
        self._rng = rng
        self._gyro_bias = rng.normal(0.0, 0.003)
        self._acc_bias = rng.normal(0.0, 0.02, 3)

    def read(self, w: float, forward_acceleration: float, v: float) -> tuple[np.ndarray, np.ndarray]:
        """Angular velocity float[3] (rad/s) and specific force float[3] (m/s2) in base_link's axes."""
        gyro = self._rng.normal(0.0, 0.002, 3)
        gyro[2] += w + self._gyro_bias
        force = np.array([forward_acceleration, v * w, 9.81]) + self._acc_bias
        force += self._rng.normal(0.0, 0.03, 3)
        return gyro, force
