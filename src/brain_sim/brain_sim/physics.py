# SPDX-License-Identifier: Apache-2.0
"""The robot in a room at 500 Hz: drive, contacts, sensors, and the record of the invariants."""

from __future__ import annotations

import math
from collections.abc import Callable

import mujoco
import numpy as np

from brain_sim import robot
from brain_sim.geometry import wrap_angle
from brain_sim.invariants import Invariants
from brain_sim.mjcf import room_xml
from brain_sim.room import Room, stable_hash
from brain_sim.sensors import Imu, Lidar, Odometry, OdometryState

Observer = Callable[[float, float, float, float, float, float, str], None]


class Simulation:
    """One robot in one room. Times in seconds since the start, poses in meters and radians.

    The base takes (v, w), clips them to its limits, ramps at its accelerations, and stops by itself
    0.5 s after the last command. `observer(time, x, y, yaw, v, w, contact)` is called after every
    substep with the true state; contact is the name of what is touched, or "".
    """

    def __init__(self, room: Room, observer: Observer | None = None, noise_seed: int = 0):
        self.room = room
        self.xml = room_xml(room)
        self.model = mujoco.MjModel.from_xml_string(self.xml)
        self.data = mujoco.MjData(self.model)
        self.observer = observer
        entropy = [stable_hash(f"sensors/{room.split}"), room.seed, noise_seed]
        seeds = np.random.SeedSequence(entropy).spawn(3)
        self._scan_rng = np.random.default_rng(seeds[0])
        self.odometry = Odometry(np.random.default_rng(seeds[1]))
        self._imu = Imu(np.random.default_rng(seeds[2]))
        self.lidar = Lidar(self.model)
        self.invariants = Invariants()
        self._x0, self._y0, self._yaw0 = room.start
        self.x, self.y, self.yaw = room.start
        self.v = self.w = 0.0
        self.steps = 0
        self._set_v = self._set_w = 0.0
        self._want_v = self._want_w = 0.0
        self._command_time = -math.inf
        self._timed_out = True
        self.contact = ""
        """Name of the geom touched in the last substep, or ""."""
        self.contacts: list[tuple[float, str]] = []
        """(time, name) of the start of every contact so far."""
        self._base_geom = self.model.geom("base").id
        self._odom_pose, self._odom_time = (self.x, self.y, self.yaw), 0.0
        self._imu_v, self._imu_time = 0.0, 0.0
        mujoco.mj_forward(self.model, self.data)

    @property
    def time(self) -> float:
        """Seconds of simulated time."""
        return self.steps * robot.PHYSICS_STEP

    @property
    def pose(self) -> tuple[float, float, float]:
        """True (x, y, yaw) of base_link in the room."""
        return self.x, self.y, self.yaw

    @property
    def front(self) -> tuple[float, float]:
        """True position of the base's foremost point."""
        r = robot.BASE_RADIUS
        return self.x + r * math.cos(self.yaw), self.y + r * math.sin(self.yaw)

    def command(self, v: float, w: float) -> None:
        """Set the wanted speed (m/s) and turn (rad/s); clipped to the limits; NaN and inf are ignored."""
        if not (math.isfinite(v) and math.isfinite(w)):
            return
        self._want_v = min(max(float(v), -robot.MAX_SPEED), robot.MAX_SPEED)
        self._want_w = min(max(float(w), -robot.MAX_TURN), robot.MAX_TURN)
        self._command_time = self.time
        self._timed_out = False

    def trigger(self, name: str) -> None:
        """Note that the robot must come to a standstill from now on; the invariants time it."""
        self.invariants.trigger(self.time, name, self.v)

    def advance(self, seconds: float) -> int:
        """Step on by `seconds` (to the nearest substep); returns how many substeps that were."""
        count = max(int(round((self.time + seconds) * robot.PHYSICS_RATE)) - self.steps, 0)
        if not count:
            return 0
        h = robot.PHYSICS_STEP
        dv, dw = robot.MAX_ACCELERATION * h, robot.MAX_TURN_ACCELERATION * h
        set_v, set_w, body_v, body_w = (np.empty(count) for _ in range(4))
        data, model = self.data, self.model
        qpos, qvel, ctrl = data.qpos, data.qvel, data.ctrl
        step, cos, sin, touched = mujoco.mj_step, math.cos, math.sin, False
        begin = self.steps
        for i in range(count):
            if not self._timed_out and self.time - self._command_time >= robot.COMMAND_TIMEOUT - 1e-9:
                self._timed_out = True
                if self._want_v or self._want_w:
                    self.invariants.trigger(self._command_time, "command timeout", self.v)
                self._want_v = self._want_w = 0.0
            self._set_v += min(max(self._want_v - self._set_v, -dv), dv)
            self._set_w += min(max(self._want_w - self._set_w, -dw), dw)
            # The slides lie along the axes of the room: their joint axes undo the start heading.
            ctrl[0], ctrl[1], ctrl[2] = self._set_v * cos(self.yaw), self._set_v * sin(self.yaw), self._set_w
            step(model, data)
            self.steps += 1
            self.x, self.y = self._x0 + float(qpos[0]), self._y0 + float(qpos[1])
            self.yaw = self._yaw0 + float(qpos[2])
            self.v = float(qvel[0]) * cos(self.yaw) + float(qvel[1]) * sin(self.yaw)
            self.w = float(qvel[2])
            contact = self._touching() if data.ncon else ""
            if contact and contact != self.contact:
                self.contacts.append((self.time, contact))
            touched = touched or bool(contact)
            self.contact = contact
            set_v[i], set_w[i], body_v[i], body_w[i] = self._set_v, self._set_w, self.v, self.w
            if self.observer is not None:
                self.observer(self.time, self.x, self.y, self.yaw, self.v, self.w, contact)
        self.yaw = float(wrap_angle(self.yaw))
        self.invariants.add(set_v, set_w, body_v, body_w, touched)
        self.invariants.motion((begin + 1 + np.arange(count)) * h, body_v, body_w)
        return count

    def _touching(self) -> str:
        for k in range(self.data.ncon):
            c = self.data.contact[k]
            if self._base_geom in (c.geom1, c.geom2):
                other = c.geom2 if c.geom1 == self._base_geom else c.geom1
                return self.model.geom(other).name
        return ""

    def scan(self, noisy: bool = True) -> np.ndarray:
        """Lidar ranges float32[180] in meters, from -pi counter-clockwise; +inf where nothing returned."""
        return self.lidar.ranges(self.data, self.x, self.y, self.yaw, self._scan_rng if noisy else None)

    def read_odometry(self) -> OdometryState:
        """Odometry brought up to now; it starts at the origin, whatever the start pose, and drifts."""
        dt = self.time - self._odom_time
        if dt > 0:
            x, y, yaw = self._odom_pose
            dx, dy, turn = self.x - x, self.y - y, float(wrap_angle(self.yaw - yaw))
            middle = yaw + turn / 2
            self.odometry.update(dx * math.cos(middle) + dy * math.sin(middle), turn, dt)
            self._odom_pose, self._odom_time = (self.x, self.y, self.yaw), self.time
        return self.odometry.state

    def read_imu(self) -> tuple[np.ndarray, np.ndarray]:
        """Angular velocity float[3] (rad/s), mean specific force float[3] (m/s2) since the last reading."""
        dt = self.time - self._imu_time
        forward = (self.v - self._imu_v) / dt if dt > 0 else 0.0
        self._imu_v, self._imu_time = self.v, self.time
        return self._imu.read(self.w, forward, self.v)
