# SPDX-License-Identifier: Apache-2.0
"""Brainstem: the only publisher of ``cmd_vel``. Nothing moves unless everything that is needed is there and sound.

Conventional by choice, and without torch: limits, staleness, a reflex on near obstacles, the emergency stop.
It is **not** a certified safety function; a base must have a command timeout of its own.
"""
from __future__ import annotations

import logging
import math
import operator
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from brain_regions import azimuth
from brain_regions.base import Base
from brain_regions.hand import Hand, HandParameters, Steered, hand_of
from brain_regions.lidars import Scanning
from brain_regions.obedience import Obedience
from brain_regions.scan_watch import ScanWatch
from brain_runtime import FEATURE, Gated, In, LATCHED, Out, SENSOR, STREAM, parameter
from brain_runtime.interfaces import Heartbeat, Trace
from brain_runtime.contract.odometry import Odometry
from brain_wire import messages, private

log = logging.getLogger(__name__)

PASSED, LIMITED, REFLEX = Trace.ACTION_PASSED, Trace.ACTION_LIMITED, Trace.ACTION_REFLEX
STALE, ESTOP, REFUSED = Trace.ACTION_STALE, Trace.ACTION_ESTOP, Trace.ACTION_REFUSED
CALM = PASSED, LIMITED                                      # actions that need no look
REACTION = 0.15             # s from a command to the base that follows it
FRESH_ODOMETRY = 0.3        # s, age at which odometry no longer tells whether the robot stands
BY_HAND = "by hand"         # reason in a trace where a person steers, and nothing is limited
TELL_EVERY = 60.0           # s between two lines of the log about the same trouble
HEARD_ODOMETRY = 0.5        # s, age up to which one that is refused stops the robot; none at all does not
STANDS = (0.01, 0.03)       # m/s, rad/s, below which it does


@dataclass(frozen=True)
class BrainstemParameters(HandParameters, Base):
    """Limits of the base and of patience."""

    max_linear: float = parameter(0.5, "top speed ahead", unit="m/s", low=0.0, high=2.0)
    crawl: float = parameter(0.15, "top speed while a region asks for care, as vision does where nobody tells how the "
                                   "camera is mounted", unit="m/s", low=0.0, high=2.0)
    max_angular: float = parameter(1.5, "top turning speed", unit="rad/s", low=0.0, high=4.0)
    linear_acceleration: float = parameter(0.9, "how fast speed may grow", unit="m/s^2", low=0.05, high=5.0)
    angular_acceleration: float = parameter(3.5, "how fast turning may grow", unit="rad/s^2", low=0.1, high=20.0)
    braking: float = parameter(0.9, "deceleration that the base reaches", unit="m/s^2", low=0.05, high=5.0)
    margin: float = parameter(0.05, "free space kept in the direction of travel", unit="m", low=0.0, high=1.0)
    command_timeout: float = parameter(0.3, "age at which motor's command is stale", unit="s", low=0.05, high=0.5)
    scan_timeout: float = parameter(0.4, "age at which the scan is stale", unit="s", low=0.05, high=0.5)
    heartbeat_timeout: float = parameter(0.4, "age at which a critical heartbeat is stale", unit="s", low=0.15,
                                         high=0.5)
    stuck_after: float = parameter(0.45, "a critical region's step that takes longer is stuck", unit="s", low=0.1,
                                   high=0.5)
    critical: tuple = parameter(("pfc", "motor"), "names of the regions without which nothing moves", live=False)
    camera: str = parameter("camera/image_raw", "source whose age is reported as latency")
    drive: str = parameter("cmd_vel", "who moves the base: the brain by cmd_vel, or Nav2, which the brainstem lets "
                           "drive, or holds by drive/lock and zeros on cmd_vel", choices=("cmd_vel", "nav2"),
                           live=False)
    stamped: bool = parameter(True, "cmd_vel is a geometry_msgs/TwistStamped; false: a Twist, as older bases want",
                              live=False)


class Brainstem(Steered, Scanning):
    """Passes a hand's command on, where there is one, else motor's, limited, or stops."""

    rate = 50.0
    Parameters = BrainstemParameters
    ablations = {"passive": "brain_eval.baselines.passive_brainstem:PassiveBrainstem"}

    command = In("motor/command", "brain_interfaces/msg/MotorCommand", FEATURE, trigger=True)
    heartbeat = In("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM, key="name", epoch="epoch",
                   device=True)
    features = In("sensor/features", "brain_interfaces/msg/SensorFeatures", FEATURE.with_depth(10), key="source",
                  device=True)
    odom = In("odom", "nav_msgs/msg/Odometry", SENSOR, device=True)
    estop = In("estop", "std_msgs/msg/Bool", LATCHED.with_depth(10), trigger=True, every=True, device=True)
    release = In("estop/release", "std_msgs/msg/Empty", FEATURE, device=True)

    cmd_vel = Out("cmd_vel", "geometry_msgs/msg/TwistStamped", FEATURE, alone=True)
    lock = Out("drive/lock", "std_msgs/msg/Bool", FEATURE)
    trace = Out("brain/trace", "brain_interfaces/msg/Trace", STREAM, gated=Gated(
        urgent=lambda message: message.action not in CALM, gist=lambda message: message.action))
    estop_status = Out("estop/status", "std_msgs/msg/Bool", LATCHED)

    def configure(self, parameters):
        super().configure(parameters)
        stamped = type(self).cmd_vel
        self.cmd_vel = stamped if self.parameters.stamped else replace(stamped, type="geometry_msgs/msg/Twist")
        self._heard: list = []  # messages that the points were made of
        self._lidar, self._odometry, self._base = ScanWatch(), Odometry(), Obedience()
        self._told = ("", -math.inf)    # what was logged last, and when
        self._noted = ""                # of how lidars are mounted
        if self.parameters.cannot:
            log.info("%s", self.parameters.cannot)

    def initial_state(self):
        # what was published last: velocity (m/s, rad/s), and to the left (m/s)
        return {"velocity": np.zeros(2, np.float32), "sideways": np.zeros(1, np.float32),
                "stopped": np.array([self._recorded()], np.float32), "told": np.array([-1.0], np.float32),
                "hand": np.zeros(1, np.float32)}

    def restore(self, state):
        # Only the emergency stop outlives a restart, and the record on disk is newer than any snapshot.
        return self.initial_state()

    # -- the emergency stop's record -------------------------------------------------------------------------------

    def _record(self) -> Path | None:
        return None if self.storage is None else Path(self.storage) / f"{self.name}.estop"

    def _recorded(self) -> bool:
        path = self._record()
        if path is None:
            return False
        try:
            text = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return False
        except (OSError, UnicodeDecodeError) as error:
            log.error("the emergency stop's record %s is unreadable (%s): stopped until `brain release`", path, error)
            return True
        if text == "released":
            return False
        if text != "stopped":
            log.error("the emergency stop's record %s says %r: stopped until `brain release`", path, text[:40])
        return True

    def _write_record(self, stopped: bool) -> None:
        path = self._record()
        if path is None:
            return
        temporary = path.with_name(path.name + ".tmp")
        try:
            private.folder(path.parent)
            with open(temporary, "w", encoding="ascii", opener=private.opener) as file:
                file.write("stopped\n" if stopped else "released\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            log.error("cannot record the emergency stop in %s (%s): it holds now, but may not survive a restart",
                      path, error)

    # -- the step --------------------------------------------------------------------------------------------------

    def step(self, inbox, state, dt, rng):
        stopped, outbox = self._emergency(inbox, state)
        hand = hand_of(inbox, bool(state["hand"][0]), self.parameters)
        command = inbox.get("command") if hand is None else None
        wanted = (0.0, 0.0, 0.0) if hand is None else hand.wanted
        if command is not None:
            twist = command.twist
            wanted = (float(twist.linear.x), float(twist.linear.y), float(twist.angular.z))
        before = float(state["velocity"][0]), float(state["sideways"][0]), float(state["velocity"][1])
        self._watch(inbox, (math.hypot(*before[:2]), before[2]))
        action, reason = self._refusal(inbox, stopped, wanted, hand)
        if action == REFUSED:
            self.trouble = reason
        if reason:
            linear = sideways = angular = 0.0
        else:
            linear, sideways, angular, action, reason = self._limit(
                inbox, wanted, before, min(max(dt, 0.0), 0.1), self._careful(inbox) if hand is None else "")
        sound = azimuth.sound(*wanted)
        if hand is not None and action == PASSED:
            reason = BY_HAND
        if self.parameters.drive == "nav2" and hand is None:
            outbox |= self._hold(not any(wanted) or action not in CALM)
        else:
            outbox["cmd_vel"] = self._command(linear, angular, sideways)
            if self.parameters.drive == "nav2":
                outbox["lock"] = self.lock(data=True)
        outbox["trace"] = self._trace(inbox.stamp, command, action, reason, wanted[::2] if sound else (0.0, 0.0),
                                      (linear, angular))
        return outbox, {"velocity": np.array([linear, angular], np.float32),
                        "sideways": np.array([sideways], np.float32),
                        "stopped": np.array([stopped], np.float32), "told": np.array([stopped], np.float32),
                        "hand": np.array([hand is not None], np.float32)}

    def _hold(self, held):
        """Holds a base that Nav2 drives, or lets it go: the lock first, then zeros.

        It is said in each step, so that a twist_mux whose lock has a timeout holds the base when this process dies.
        """
        return {"lock": self.lock(data=held), **({"cmd_vel": self._command(0.0, 0.0)} if held else {})}

    def _command(self, linear, angular, sideways=0.0):
        cmd = twist = self.cmd_vel()
        if self.parameters.stamped:
            cmd.header.frame_id, twist = self.parameters.base_frame, cmd.twist
        twist.linear.x, twist.linear.y, twist.angular.z = linear, sideways, angular
        return cmd

    def come_to_rest(self, inbox, state, since):
        """Zeros until the robot stands: by odometry, or without it for the time that braking from top speed takes."""
        held = self._hold(True) if self.parameters.drive == "nav2" else {"cmd_vel": self._command(0.0, 0.0)}
        outbox = {**held, "trace": self._trace(inbox.stamp, None, STALE, "ending: the robot is brought to rest",
                                               (0.0, 0.0), (0.0, 0.0))}
        p = self.parameters
        odom = inbox.get("odom", within=min(since, FRESH_ODOMETRY))     # of after the first zero
        by_time = since >= REACTION + max(p.max_linear / p.braking, p.max_angular / p.angular_acceleration)
        moves = (math.nan, math.nan) if odom is None else (
            math.hypot(odom.twist.twist.linear.x, odom.twist.twist.linear.y), abs(float(odom.twist.twist.angular.z)))
        if not all(map(math.isfinite, moves)):
            return outbox, by_time
        stands = moves[0] < STANDS[0] and moves[1] < STANDS[1]
        doubted = self._odometry.refusal(inbox, FRESH_ODOMETRY) or self._base.fault
        if stands and doubted:      # it says that, and cannot be right
            return outbox, by_time
        # where it was told to move a moment ago, it may not have begun yet
        return outbox, stands and since >= (REACTION if state["velocity"].any() or state["sideways"].any() else 0.0)

    def _trace(self, stamp, command, action, reason, wanted, given):
        trace = self.trace(action=action, reason=reason[:128], wanted_linear=wanted[0], wanted_angular=wanted[1],
                           linear=given[0], angular=given[1], latency=math.nan)
        if command is not None:
            trace.origins = command.origins  # of the command alone: a scan that came since did not make it
            seen = [stamp - messages.time_seconds(o.stamp) for o in command.origins
                    if o.source == self.parameters.camera]
            if seen and 0.0 <= seen[0] < 10.0:  # clocks of two machines that disagree tell nothing
                trace.latency = seen[0]
        return trace

    def _watch(self, inbox, velocity) -> None:
        """Looks at the newest scan, and at what became of the newest command; tells people what is wrong."""
        self._lidar.hear(inbox, self._odometry.pose(inbox, FRESH_ODOMETRY), self.parameters, self._odometry.stamp)
        self._base.take(self._odometry.pose(inbox, HEARD_ODOMETRY), velocity, self._lidar.beams, inbox.now)
        worse, note = self._lidar.fault or self._base.fault or self._lidar.hint, self._lidar.lidars.note
        self.trouble = worse or note
        if worse and (worse != self._told[0] or inbox.now - self._told[1] > TELL_EVERY):
            self._told = worse, inbox.now
            log.warning("%s", worse)
        if note != self._noted:     # it stops nothing, and is told once
            self._noted = note
            if note:
                log.warning("%s", note)

    def _emergency(self, inbox, state):
        stopped = bool(state["stopped"][0])
        before = stopped
        if inbox.new("release"):
            stopped = False
        if any(r.new and r.message.data for r in inbox.each("estop")):
            stopped = True  # a stop and a release in the same instant: the stop wins. False is no release: a latched
            #                 one may be old
        if stopped != before:
            self._write_record(stopped)
            log.warning("emergency stop %s", "pressed" if stopped else "released")
        if float(stopped) != state["told"][0]:
            return stopped, {"estop_status": self.estop_status(data=stopped)}
        return stopped, {}

    def _refusal(self, inbox, stopped, wanted, hand: Hand | None):
        p = self.parameters
        if stopped:
            return ESTOP, "emergency stop; `brain release` ends it"
        if inbox.age("scan") > p.scan_timeout:
            return STALE, "no fresh scan"
        if self._lidar.fault:
            return REFUSED, self._lidar.fault
        if refusal := self._odometry.refusal(inbox, HEARD_ODOMETRY):
            return REFUSED, refusal
        if self._base.fault:
            return REFUSED, self._base.fault
        if hand is None:
            stale = self._stale(inbox)
        else:
            stale = "the hand on the wheel is silent" if hand.silent else ""
        if stale:
            return STALE, stale
        if not azimuth.sound(*wanted):
            return REFUSED, "the command holds no sound numbers"
        return PASSED, ""

    def _stale(self, inbox) -> str:
        """Tells what of the brain that drives is missing; empty: nothing is."""
        p = self.parameters
        beats = {r.message.name.rpartition("/")[2]: r for r in inbox.each("heartbeat", p.heartbeat_timeout)}
        for name in p.critical:
            beat = beats.get(name)
            if beat is None:
                return f"no fresh heartbeat of {name}"
            if beat.message.state != Heartbeat.STATE_ACTIVE:
                return f"{name} is not active"
            if beat.message.stepping and beat.message.step_age > p.stuck_after:
                return f"{name} is stuck in a step"
        if inbox.age("command") > p.command_timeout:    # none ever came: infinite
            return "no fresh command from motor"
        return ""

    def _careful(self, inbox) -> str:
        """Name of a region that asks for care; empty: none does."""
        return next((r.message.name.rpartition("/")[2] for r in inbox.each(
            "heartbeat", self.parameters.heartbeat_timeout) if r.message.careful), "")

    def _limit(self, inbox, wanted, previous, dt, careful):
        p = self.parameters
        slow = min(self._lidar.slow, p.crawl) if careful else self._lidar.slow
        linear = min(max(wanted[0], -p.max_reverse, -slow), p.max_linear, slow)
        most = min(p.max_lateral, slow)
        sideways = min(max(wanted[1], -most), most)
        angular = min(max(wanted[2], -p.max_angular), p.max_angular)
        action = LIMITED if (linear, sideways, angular) != wanted else PASSED
        reason = "" if not action else (
            f"{careful} asks for care" if careful and math.hypot(*wanted[:2]) > p.crawl else
            "speed limit" if most or not wanted[1] else "the base cannot move sideways")
        if speed := math.hypot(linear, sideways):
            way = math.atan2(sideways, linear)
            free = self._free_path(inbox, way)
            # v such that v * reaction + v^2 / 2a fits into the free path
            unseen = self._lidar.unseen(way)
            room = 0.0 if unseen else max(free - p.margin - self._lidar.repeated, 0.0)
            fit = p.braking * (math.sqrt(REACTION ** 2 + 2 * room / p.braking) - REACTION)
            if fit < speed:
                fit = fit if fit > 0.02 else 0.0
                linear, sideways = (fit * linear / speed, fit * sideways / speed) if sideways else (
                    math.copysign(fit, linear), 0.0)
                action, reason = REFLEX, unseen or (self._lidar.outline if not free else "") or (
                    f"{free:.2f} m of free path")
        for_linear, for_angular = p.linear_acceleration * dt, p.angular_acceleration * dt
        # braking for an obstacle is not softened
        eased, aside = (wish if action == REFLEX and abs(wish) < abs(soft) else soft for wish, soft in (
            (linear, _eased(previous[0], linear, for_linear)), (sideways, _eased(previous[1], sideways, for_linear))))
        turned = previous[2] + min(max(angular - previous[2], -for_angular), for_angular)
        if action == PASSED and (eased, aside, turned) != (linear, sideways, angular):
            action, reason = LIMITED, "acceleration limit"
        if p.turn(eased, turned) != turned:
            turned, (action, reason) = p.turn(eased, turned), (action, reason) if action == REFLEX else (
                LIMITED, f"curves of {p.turning_radius:.2f} m or wider")
        return eased, aside, turned, action, reason

    def _points(self, inbox) -> np.ndarray:
        """Collects points to run into, float32[n, 2] (m, base_link); computes them anew only after a new message."""
        heard = [inbox.get("scan"), *(received.message for received in inbox.each("features", 0.5))]
        if len(heard) == len(self._heard) and all(map(operator.is_, heard, self._heard)):
            return self._xy
        angles, ranges = self._lidar.beams.hits()
        points = [np.column_stack([ranges * np.cos(angles), ranges * np.sin(angles)])]
        for features in heard[1:]:
            if features.confidence >= 0.3:  # NaN is not
                points.append(azimuth.hazard_points(azimuth.sound_map(features.hazard), self.parameters.radius))
        self._heard, self._xy = heard, np.concatenate(points)
        return self._xy

    def _free_path(self, inbox, way):
        """Free distance (m) of the robot's edge in the direction of travel (rad), by scan and hazard maps."""
        p, xy = self.parameters, self._points(inbox)
        cos, sin = (1.0, 0.0) if way == 0.0 else (-1.0, 0.0) if abs(way) == math.pi else (math.cos(way), math.sin(way))
        x, y = cos * xy[:, 0] + sin * xy[:, 1], np.abs(cos * xy[:, 1] - sin * xy[:, 0])
        near = (x > 0) & (y < p.radius)
        if not near.any():
            return math.inf
        # distance along x until the round base touches the point
        return max(0.0, float((x[near] - np.sqrt(p.radius ** 2 - y[near] ** 2)).min()))


def _eased(speed: float, wanted: float, growth: float) -> float:
    """Speed (m/s) that comes next: it grows by ``growth`` at most, either way, and falls twice as fast."""
    if speed * wanted < 0.0:
        wanted = 0.0    # through a standstill
    most = growth if abs(wanted) > abs(speed) else 2 * growth
    return speed + min(max(wanted - speed, -most), most)
