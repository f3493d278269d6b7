# SPDX-License-Identifier: Apache-2.0
"""The conventional motor, an alternative to the spiking one and its control.

Short arcs are tried against scan and hazard maps and the best is taken (the dynamic window approach: Fox, Burgard,
Thrun, IEEE Robotics & Automation Magazine 4(1), 1997, with the goal's heading, clearance and speed as the three terms
of its equation 13).
"""
from __future__ import annotations

import math

import numpy as np

from brain_regions import azimuth
from brain_regions.motor.body import (APPROACH, ARRIVED, BLOCKED, CONTROL_TIMEOUT, FEATURES_TIMEOUT, IDLE, MOVING,
                                      STANDING, STOP, TRUSTED, AnyMotor)
from brain_regions.motor.region import PICTURES

HORIZON = 1.2                                       # s that an arc is looked ahead
SAMPLES = 6                                         # positions tried along an arc


class DynamicWindowMotor(AnyMotor):
    """From control, scan and hazard maps to a velocity, by trying arcs."""

    pictures = PICTURES

    def initial_state(self):
        return {"velocity": np.zeros(2, np.float32),    # m/s, rad/s commanded last
                "arrived": np.zeros(2, np.float32),     # 1 while standing at the target of goal [1]
                "blocked": np.zeros(1, np.float32)}     # s without a way on

    def step(self, inbox, state, dt, rng):
        control = inbox.get("control", within=CONTROL_TIMEOUT)
        scan, why = self.scanned(inbox)
        why = "no fresh control" if control is None else why
        if why or control.mode in (IDLE, STOP):
            return self._answer(control, (0.0, 0.0), STANDING, math.nan, why, state, arrived=0.0, blocked=0.0)
        points = self._points(inbox, scan, control)
        clearance = self._clearance_ahead(points)
        if control.mode == APPROACH and self._arrived(control, scan, state):
            return self._answer(control, (0.0, 0.0), ARRIVED, clearance, "", state, arrived=1.0, blocked=0.0)
        heading = float(control.heading)
        if not math.isfinite(heading):
            return self._answer(control, (0.0, 0.0), STANDING, clearance, "no heading", state, arrived=0.0, blocked=0.0)
        speed = min(max(float(np.nan_to_num(control.speed)), 0.0), 1.0) * self.parameters.max_linear
        velocity, blocked = self._choose(heading, speed, points, control, scan, float(state["blocked"][0]))
        lost = float(state["blocked"][0]) + dt if blocked else 0.0
        return self._answer(control, velocity, BLOCKED if lost > 1.0 else MOVING, clearance,
                            "no way on in the wanted direction" if lost > 1.0 else "", state, arrived=0.0, blocked=lost)

    # -- what is near ----------------------------------------------------------------------------------------------

    def _points(self, inbox, scan, control) -> np.ndarray:
        """Points (m, base_link) within reach that must not be touched. float32[n, 2]."""
        angles, ranges = scan.hits()
        near = ranges < 1.6
        points = [np.stack([ranges[near] * np.cos(angles[near]), ranges[near] * np.sin(angles[near])], -1)]
        for received in inbox.each("features", FEATURES_TIMEOUT):
            if received.message.confidence >= TRUSTED:
                points.append(azimuth.hazard_points(azimuth.sound_map(received.message.hazard), self.parameters.radius))
        points.append(azimuth.hazard_points(azimuth.sound_map(control.hazard), self.parameters.radius))
        return np.concatenate(points).astype(np.float32)

    def _clearance_ahead(self, points) -> float:
        x, y = points[:, 0], np.abs(points[:, 1])
        ahead = (x > 0) & (y < self.parameters.radius)
        if not ahead.any():
            return math.inf
        return max(0.0, float((x[ahead] - np.sqrt(self.parameters.radius ** 2 - y[ahead] ** 2)).min()))

    def _gap(self, control, scan) -> float:
        """Gap (m) between the robot's edge and what stands in the target's direction."""
        angles, ranges = scan.hits()
        toward = np.abs(azimuth.wrap(angles - float(control.bearing))) < 0.15
        measured = float(ranges[toward].min()) if toward.any() else math.inf
        # something in front of the target is not the target
        if measured < float(control.distance) - 0.55:
            measured = float(control.distance) - 0.25
        return measured - self.parameters.radius

    def _arrived(self, control, scan, state) -> bool:
        if not (math.isfinite(control.bearing) and math.isfinite(control.distance)):
            return False
        was = state["arrived"][0] > 0 and state["arrived"][1] == control.goal_id % 2 ** 24
        gap = self._gap(control, scan)
        facing = abs(azimuth.wrap(float(control.bearing))) < (0.6 if was else 0.3)
        return facing and control.distance < 1.2 and gap < self.parameters.stop_gap + (0.12 if was else 0.0)

    # -- choosing an arc -------------------------------------------------------------------------------------------

    def _choose(self, heading, speed, points, control, scan, blocked_for):
        """Velocity (m/s, rad/s), and whether no way leads on."""
        p = self.parameters
        turn = float(np.clip(2.2 * heading, -p.max_angular, p.max_angular))
        if speed < 0.02:
            return (0.0, float(np.clip(2.2 * heading, -p.turn_speed, p.turn_speed))), False
        if control.mode == APPROACH and math.isfinite(control.distance) and control.distance < 2.0 \
                and abs(azimuth.wrap(float(control.bearing))) < 0.5:
            room = max(self._gap(control, scan) - p.stop_gap + 0.03, 0.0)
            speed = min(speed, max(math.sqrt(2 * p.braking * room), 0.08))
        if abs(heading) > 1.0:
            return (0.0, turn), False
        linear = np.array([0.25, 0.5, 0.75, 1.0]) * speed
        angular = np.concatenate([np.linspace(-1.5, 1.5, 13), [turn]])
        angular = np.unique(np.clip(angular, -p.max_angular, p.max_angular))
        v, w = (a.ravel() for a in np.meshgrid(linear, angular))
        clearance = self._along(v, w, points)
        final = w * HORIZON * 0.6
        aligned = 1 - np.abs(azimuth.wrap(heading - final)) / math.pi
        room = np.clip((clearance - p.margin) / 0.25, 0, 1)
        score = 2.0 * aligned + 0.7 * room + 0.8 * v / p.max_linear
        score[clearance < p.margin] = -math.inf
        best = int(np.argmax(score))
        if math.isfinite(score[best]):
            return (float(v[best]), float(w[best])), False
        if blocked_for > 1.5:
            back = self._along(np.array([-0.12]), np.array([0.0]), points)[0]
            if back > 0.03:
                return (-0.12, 0.0), True
        # nothing fits: turn where it is wanted, and if that way is shut, toward the open side
        side = heading if abs(heading) > 0.15 else self._open_side(points)
        return (0.0, math.copysign(0.8, side)), True

    def _along(self, v, w, points):
        """Least distance (m) between the robot's edge and any point along each arc. float[n]."""
        if len(points) == 0:
            return np.full(len(v), math.inf)
        t = np.linspace(HORIZON / SAMPLES, HORIZON, SAMPLES)
        turned = w[:, None] * t
        small = np.abs(w) < 1e-3
        radius = np.where(small, 0.0, v / np.where(small, 1.0, w))[:, None]
        x = np.where(small[:, None], v[:, None] * t, radius * np.sin(turned))
        y = np.where(small[:, None], 0.0, radius * (1 - np.cos(turned)))
        apart = (x[..., None] - points[:, 0]) ** 2 + (y[..., None] - points[:, 1]) ** 2
        return np.sqrt(apart.min((1, 2))) - self.parameters.radius

    @staticmethod
    def _open_side(points):
        left, right = points[points[:, 1] > 0], points[points[:, 1] <= 0]
        nearest = [float(np.hypot(*side.T).min()) if len(side) else math.inf for side in (left, right)]
        return 1.0 if nearest[0] >= nearest[1] else -1.0

    # -- output ----------------------------------------------------------------------------------------------------

    def _answer(self, control, velocity, kind, clearance, reason, state, *, arrived, blocked):
        goal = 0 if control is None else control.goal_id
        return self.messages(control, velocity, kind, clearance, reason), {
            "velocity": np.array(velocity, np.float32), "arrived": np.array([arrived, goal % 2 ** 24], np.float32),
            "blocked": np.array([blocked], np.float32)}
