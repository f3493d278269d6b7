# SPDX-License-Identifier: Apache-2.0
"""Motor that has Nav2 drive: what pfc wants becomes a pose for the action ``NavigateToPose``.

Conventional by choice: it translates. The base gets its velocities from Nav2; the brainstem (``drive: nav2``) lets it
move, or holds it by a lock and by zeros. That lock comes first: goals are canceled once the lock is heard, so that a
Nav2 that hangs or has died does not matter for stopping.

``motor/command`` tells the brainstem how the base moves now, by odometry, while a goal is pursued; zeros are a stop.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from brain_regions import azimuth
from brain_regions.motor.body import (APPROACH, ARRIVED, BLOCKED, CONTROL_TIMEOUT, IDLE, MOVING, STANDING, STOP,
                                      AnyMotor, MotorParameters)
from brain_regions.motor.senses import LEAST_RADIUS
from brain_runtime import FEATURE, SENSOR, STREAM, Ask, In, parameter
from brain_runtime.contract.odometry import Odometry
from brain_runtime.interfaces import Trace
from brain_wire.definitions import register
from brain_wire.goals import Status
from brain_wire.messages import make

PACKAGE = "nav2_msgs"
STEP = 1.5              # m ahead that a pose lies where no target is known
TURN = 1.5              # rad that a turn on the spot asks for at most
NEW_POSE = 0.3, 0.5     # m, rad by which another pose is a new goal
THERE = 0.6             # m from the pose that is wanted, within which Nav2 has arrived once it says so
EVERY = 1.0             # s between two goals
AGAIN = 3.0             # s until one that failed, or that nobody answered, is given again
LOCK_HEARD = 0.3        # s after which goals are canceled though no lock was heard: the brainstem may be gone
OPENS = 0.5             # s in which the lock must open once Nav2 has taken a goal
FRESH = 0.5             # s, age of odometry and of the brainstem's word
HELD = Trace.ACTION_STALE, Trace.ACTION_ESTOP, Trace.ACTION_REFUSED     # of the brainstem: no goal is given then
GOING = 1e-3            # rad/s that stands for a base that Nav2 may move and that stands still


class Pose(NamedTuple):
    """Place (m) and direction (rad) in odometry's frame."""

    x: float
    y: float
    yaw: float


class Pursued(NamedTuple):
    """A goal that Nav2 was given.

    Attributes:
        id: 16 bytes.
        pose: that it is to reach.
        since: host clock (s).
        accepted: Nav2 has taken it.
        going: since when Nav2 may move the base (s), for this goal or one that it replaces; inf: it may not yet.
        target: it is where pfc's target is: to be there is to have arrived.
    """

    id: bytes
    pose: Pose
    since: float
    accepted: bool = False
    going: float = math.inf
    target: bool = False


@dataclass(frozen=True)
class Nav2MotorParameters(MotorParameters):
    """Distances, and which Nav2 it is."""

    distribution: str = parameter("jazzy", "whose definition of NavigateToPose Nav2 has: jazzy (Kilted too) or lyrical",
                                  choices=("jazzy", "lyrical"), live=False)
    behavior_tree: str = parameter("", "behavior tree that Nav2 is to take; empty: its own")
    answer_timeout: float = parameter(3.0, "time in which Nav2 must have taken a goal", unit="s", low=0.5, high=60.0)


class Nav2Motor(AnyMotor):
    """Gives Nav2 goals, follows them, and gives them up once the base is held."""

    Parameters = Nav2MotorParameters

    navigate = Ask("navigate_to_pose", "nav2_msgs/action/NavigateToPose")
    odom = In("odom", "nav_msgs/msg/Odometry", SENSOR, device=True)
    lock = In("drive/lock", "std_msgs/msg/Bool", FEATURE, trigger=True)
    trace = In("brain/trace", "brain_interfaces/msg/Trace", STREAM)

    def configure(self, parameters) -> None:
        """Takes the parameters and makes the action's definition known."""
        super().configure(parameters)
        register(PACKAGE, Path(__file__).parent / self.parameters.distribution)
        self._odometry = Odometry()
        self._goal: Pursued | None = None
        self._open = False              # the lock has opened since Nav2 may move the base
        self._running: dict[bytes, None] = {}   # goals that were given and have not ended
        self._given = -math.inf         # when a goal was given last (s)
        self._stopping = math.inf       # since when it is to stop (s)
        self._failed = ""               # why the newest goal came to nothing
        self._retry = -math.inf         # before which none is given after that
        self._frame = "odom"
        self._arrived = 0               # id of pfc's goal at which Nav2 has arrived
        self._feedback = ""

    def step(self, inbox, state, dt, rng):
        """One look at what pfc wants, what Nav2 says and whether the base is held."""
        now, orders = inbox.now, []
        control = inbox.get("control", within=CONTROL_TIMEOUT)
        pose = self._odometry.pose(inbox, FRESH)
        if pose is not None:
            self._frame = str(inbox.get("odom").header.frame_id) or self._frame
        for received in inbox.each("navigate"):
            if received.new:
                self._hear(received.message, control, now)
        wanted = None if control is None or pose is None else self._wanted(control, pose)
        if wanted is not None and self._is_there(control, wanted, pose):
            return self.messages(control, (0.0, 0.0), ARRIVED, math.nan, "Nav2 is there"), state
        self._stopping = math.inf if wanted is not None else min(self._stopping, now)
        if self._stop(inbox, now):
            orders += [self.navigate.cancel(number) for number in self._running]
            self._goal = None
            self._running.clear()
        if wanted is not None and self._due(inbox, wanted, now):
            number = rng.bytes(16)
            orders.append(self._order(number, wanted))
            self._goal = Pursued(number, wanted, now, going=math.inf if self._goal is None else self._goal.going,
                                 target=control.mode == APPROACH and math.isfinite(float(control.distance)))
            self._given, self._running[number] = now, None
        going = self._goal is not None and self._goal.going <= now
        velocity = self._velocity(inbox) if going and wanted is not None else (0.0, 0.0)
        kind, reason = (MOVING, self._feedback) if going and wanted is not None else (STANDING, "") if wanted is None \
            else (BLOCKED, self._failed) if self._failed else (STANDING, "waits for Nav2")
        if control is None:
            reason = "no fresh control"
        elif pose is None:
            reason = "no fresh odometry"
        return {"navigate": orders, **self.messages(control, velocity, kind, math.nan, reason)}, state

    def _is_there(self, control: Any, wanted: Pose, pose: tuple[float, float, float]) -> bool:
        """Tells whether Nav2 has arrived at what pfc wants, and what it wants is still there."""
        if self._arrived != control.goal_id or control.mode != APPROACH:
            return False
        if math.hypot(wanted.x - pose[0], wanted.y - pose[1]) > THERE:
            self._arrived = 0
        return self._arrived > 0

    def _stop(self, inbox: Any, now: float) -> bool:
        """Tells whether all goals are to be canceled: the base is held, Nav2 is silent, or nobody wants them.

        First the lock, then the cancellation. That the lock is shut until Nav2 has taken a goal is no reason.
        """
        goal, lock = self._goal, inbox.get("lock", within=LOCK_HEARD)
        if not self._running:
            return False
        if goal is None:                # the newest failed; those before it may go on
            return True
        if not goal.accepted and now - goal.since > self.parameters.answer_timeout:
            self._fail("Nav2 does not answer", now)
            return True
        if goal.going == math.inf:
            return now - self._stopping > LOCK_HEARD
        held = lock is not None and bool(lock.data)
        self._open |= lock is not None and not held
        if held and (self._open or now - goal.going > OPENS) or lock is None and now - goal.going > OPENS:
            self._failed, self._retry = "the base is held", now + EVERY
            return True
        return now - self._stopping > LOCK_HEARD

    # -- what is wanted --------------------------------------------------------------------------------------------

    def _wanted(self, control: Any, pose: tuple[float, float, float]) -> Pose | None:
        """Pose that pfc wants; None where the robot is to stand."""
        x, y, yaw = pose
        if control.mode in (IDLE, STOP):
            return None
        bearing, distance = float(control.bearing), float(control.distance)
        if control.mode == APPROACH and math.isfinite(bearing) and math.isfinite(distance) and distance > 0.0:
            p = self.parameters
            way = max(distance - LEAST_RADIUS - p.radius - p.stop_gap, 0.0)
            angle = azimuth.wrap(yaw + bearing)
            return Pose(x + way * math.cos(angle), y + way * math.sin(angle), float(angle))
        heading, speed = float(control.heading), float(np.nan_to_num(control.speed))
        if not math.isfinite(heading):
            return None
        if speed <= 0.0:        # look about
            return Pose(x, y, float(azimuth.wrap(yaw + min(max(heading, -TURN), TURN))))
        angle = float(azimuth.wrap(yaw + heading))
        return Pose(x + STEP * math.cos(angle), y + STEP * math.sin(angle), angle)

    def _due(self, inbox: Any, wanted: Pose, now: float) -> bool:
        """Tells whether a goal is to be given now."""
        trace = inbox.get("trace", within=FRESH)
        if now < self._retry or now - self._given < EVERY or trace is None or trace.action in HELD:
            return False
        if self._goal is None:
            return True
        if not self._goal.accepted:
            return False
        before = self._goal.pose
        return (math.hypot(wanted.x - before.x, wanted.y - before.y) > NEW_POSE[0]
                or abs(float(azimuth.wrap(wanted.yaw - before.yaw))) > NEW_POSE[1])

    def _order(self, number: bytes, wanted: Pose) -> Any:
        pose = make("geometry_msgs/msg/PoseStamped")
        pose.header.frame_id = self._frame      # the stamp stays zero: by the newest transforms
        pose.pose.position.x, pose.pose.position.y = wanted.x, wanted.y
        pose.pose.orientation.z, pose.pose.orientation.w = math.sin(wanted.yaw / 2), math.cos(wanted.yaw / 2)
        return self.navigate.order(number, pose=pose, behavior_tree=self.parameters.behavior_tree)

    def _velocity(self, inbox: Any) -> tuple[float, float]:
        """Velocity of the base now (m/s, rad/s), never quite zero."""
        twist = inbox.get("odom").twist.twist
        linear, angular = float(twist.linear.x), float(twist.angular.z)
        if not azimuth.sound(linear, angular):
            return 0.0, 0.0
        return linear, angular if abs(linear) + abs(angular) > GOING else GOING

    # -- what Nav2 says --------------------------------------------------------------------------------------------

    def _hear(self, news: Any, control: Any, now: float) -> None:
        goal = self._goal
        if news.status not in (Status.ACCEPTED, Status.EXECUTING):
            self._running.pop(news.goal, None)
        if goal is None or news.goal != goal.id:
            return
        if news.status == Status.ACCEPTED:
            if goal.going == math.inf:
                self._open = False
            self._goal, self._failed = goal._replace(accepted=True, going=min(goal.going, now)), ""
        elif news.status == Status.EXECUTING:
            self._feedback = f"{news.message.distance_remaining:.1f} m left, {news.message.number_of_recoveries} " \
                             f"recoveries"
        elif news.status == Status.SUCCEEDED:
            if goal.target and control is not None:
                self._arrived = control.goal_id
            self._goal = None
        elif news.status == Status.UNKNOWN:
            self._fail(f"Nav2 does not answer: {news.message}", now)
        else:
            told = getattr(news.message, "error_msg", news.message)
            self._fail(f"Nav2 gave it up{f': {told}' if told else ''}", now)

    def _fail(self, why: str, now: float) -> None:
        self._goal, self._failed, self._retry = None, why, now + AGAIN
