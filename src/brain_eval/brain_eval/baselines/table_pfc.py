# SPDX-License-Identifier: Apache-2.0
"""The conventional prefrontal cortex: a small state machine over a table of remembered objects.

It stands for what the spiking one has to equal; see :mod:`brain_regions.pfc`.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from brain_eval.baselines import object_memory
from brain_regions import azimuth
from brain_regions.lidars import Scanning
from brain_regions.obedience import HEARTBEATS
from brain_regions.past import Past, since
from brain_regions.pfc import eyes, in_front, last_look
from brain_regions.pfc.control import (APPROACH, GATED, IDLE, M_ARRIVED, S_APPROACHING, S_IDLE, S_NOT_FOUND,
                                       S_NOT_UNDERSTOOD, S_REACHED, S_SEARCHING, S_STOPPED, S_WAITING, SEARCH, STOP,
                                       TEXT, VERB_STOP, keep_away)
from brain_regions.pfc.heading import told
from brain_regions.pfc.parameters import CortexParameters
from brain_regions.pfc.region import PICTURES
from brain_regions.pfc.report import kind_of
from brain_regions.scan_watch import ScanWatch
from brain_runtime import FEATURE, In, LATCHED, Out, SENSOR, clip_utf8, parameter
from brain_runtime.contract.odometry import JUMP, Odometry, from_origin, origin_of
from brain_runtime.contract.sights import sound
from brain_wire import messages

ID, VERB, COLOR, SHAPE, AVOID_COLOR, AVOID_SHAPE, UNDERSTOOD = range(7)         # of state "goal"
ELAPSED, TURN, EMPTY, CLEAR, ARRIVED, STATUS, TOLD = range(7)                   # of state "progress"

NOWHERE = np.full(azimuth.BINS, -np.inf, np.float32), azimuth.CENTERS


@dataclass(frozen=True)
class TableParameters(CortexParameters):
    """Confidence."""

    evidence: float = parameter(1.2, "evidence (sum of weighted confidences) before a target is approached", low=0.1,
                                high=10.0)


class TablePrefrontalCortex(Scanning):
    """Chooses between search, approach, stop and idle."""

    rate = 10.0
    Parameters = TableParameters
    pictures = PICTURES

    objects = In("vision/objects", "brain_interfaces/msg/DetectedObjects", FEATURE.with_depth(4), trigger=True,
                 key="source")
    language = In("lang/features", "brain_interfaces/msg/LanguageFeatures", FEATURE, trigger=True)
    features = In("sensor/features", "brain_interfaces/msg/SensorFeatures", FEATURE.with_depth(10), key="source",
                  device=True)
    headings = In("place/headings", "brain_interfaces/msg/HeadingValues", FEATURE, key="source")
    odom = In("odom", "nav_msgs/msg/Odometry", SENSOR, device=True)
    motor = In("motor/status", "brain_interfaces/msg/MotorStatus", FEATURE)
    heartbeats = HEARTBEATS

    control = Out("pfc/control", "brain_interfaces/msg/Control", FEATURE, gated=GATED)
    status = Out("goal/status", "brain_interfaces/msg/GoalStatus", LATCHED)
    memory = Out("pfc/memory", "brain_interfaces/msg/DetectedObjects", FEATURE, on_demand=True)

    def configure(self, parameters):
        """Takes parameters; of the last seconds nothing is known yet."""
        super().configure(parameters)
        self._past, self._lidar, self._odometry = Past(), ScanWatch(), Odometry()

    def initial_state(self):
        return {"tracks": object_memory.empty(), "goal": np.zeros(7, np.float32), "progress": np.zeros(7, np.float32),
                **last_look.empty(), **in_front.empty(), "text": np.zeros(TEXT, np.float32),
                "pose": np.zeros(4, np.float32), "far": np.zeros(2, np.float32)}

    def step(self, inbox, state, dt, rng):
        state = dict(state)
        state["progress"] = state["progress"].copy()
        pose = self._pose(inbox, state)
        self.trouble = self._odometry.refusal(inbox, 0.5)
        self._hear(inbox, state)
        sight = eyes.look(inbox, self._past, pose, self._lidar, self.parameters, self.trouble)
        self._look(inbox, state, pose, sight.looks, dt)
        mode, status, heading, speed, row, reason = self._decide(inbox, state, pose, sight, min(dt, 0.5))
        outbox = {"control": self._control(state, pose, mode, heading, speed, row)}
        state["progress"][STATUS] = status + 1
        if status == S_REACHED:
            status, reason = in_front.look(
                state, [look.frame for look in sight.looks], sight.newest, int(state["goal"][COLOR]),
                int(state["goal"][SHAPE]), self.parameters.look, min(dt, 0.5))
        told = status + 1 + (kind_of(reason) if status == S_WAITING else 0.5 * (reason == in_front.LOOKING))
        if told != state["progress"][TOLD]:
            state["progress"][TOLD] = told
            outbox["status"] = self._status(state, status, reason)
        if "memory" in self.wanted and pose is not None:
            outbox["memory"] = self._memory(state, pose)
        return outbox, state

    # -- input -----------------------------------------------------------------------------------------------------

    def _pose(self, inbox, state):
        """Newest pose (x, y, yaw) from the origin ``far``, or None; after a jump memory is worth nothing."""
        told = self._odometry.pose(inbox, 0.5)
        if told is None:
            return None
        x, y, yaw, known = state["pose"]
        pose = from_origin(told, state["far"])
        if not known or math.hypot(pose[0] - x, pose[1] - y) > JUMP[0] or abs(azimuth.wrap(pose[2] - yaw)) > JUMP[1]:
            state["tracks"] = object_memory.empty()
            self._past.clear()
            state["far"] = origin_of(told)
            pose = from_origin(told, state["far"])
        state["pose"] = np.array([*pose, 1], np.float32)
        self._past.put(messages.time_seconds(inbox.get("odom").header.stamp), pose)
        return pose

    def _hear(self, inbox, state) -> None:
        language = inbox.get("language")
        if language is None or not inbox.new("language"):
            return
        number = float(language.goal_id % 2 ** 24)  # what a float32 holds exactly
        if number == 0 or number == state["goal"][ID]:
            return
        state["goal"] = np.array([number, language.verb, language.target_color, language.target_shape,
                                  language.avoid_color, language.avoid_shape, language.understood], np.float32)
        state["progress"] = np.zeros(7, np.float32)
        state.update({**last_look.empty(), **in_front.empty()})
        codes = language.text.encode()[:TEXT]
        state["text"] = np.zeros(TEXT, np.float32)
        state["text"][:len(codes)] = list(codes)

    def _seen(self, inbox):
        """Beams of the newest scan; None without one that can be believed."""
        return None if inbox.get("scan", within=0.5) is None or self._lidar.fault else self._lidar.beams

    def _look(self, inbox, state, pose, looks, dt) -> None:
        """Takes new pictures into memory, each from where it was taken."""
        if not looks:
            return
        seen = self._seen(inbox)
        beams = seen.hits() if seen is not None else None
        for frame, then in looks:
            turned = since(then, pose)[2]
            as_then = (azimuth.wrap(beams[0] + turned), beams[1]) if beams is not None and turned else beams
            state["tracks"] = object_memory.see(
                state["tracks"], [d for d in frame.objects if sound(d) and d.color and d.shape], then,
                (float(frame.azimuth_min), float(frame.azimuth_max)), as_then, self.parameters.fade,
                min(max(dt, 0.05), 0.2))

    # -- decision --------------------------------------------------------------------------------------------------

    def _decide(self, inbox, state, pose, sight, dt):
        """Mode, goal status, heading (rad or NaN), speed (0..1), remembered row of the target or -1, reason."""
        goal, progress = state["goal"], state["progress"]
        stand = (math.nan, 0.0, -1)
        if goal[ID] == 0:
            return IDLE, S_IDLE, *stand, "nothing was asked yet"
        if not goal[UNDERSTOOD]:
            language = inbox.get("language")
            return IDLE, S_NOT_UNDERSTOOD, *stand, language.reason if language else "the sentence was not understood"
        if goal[VERB] == VERB_STOP:
            return STOP, S_STOPPED, *stand, "told to stop"
        finished = int(progress[STATUS]) - 1
        if finished == S_REACHED or finished == S_NOT_FOUND:
            return IDLE, finished, *stand, ""
        if sight.blind:
            return IDLE, S_WAITING, *stand, sight.blind
        if not sight.late:
            progress[ELAPSED] += dt
        row, share = object_memory.find(state["tracks"], int(goal[COLOR]), int(goal[SHAPE]), pose,
                                        self.parameters.evidence, (int(goal[AVOID_COLOR]), int(goal[AVOID_SHAPE])))
        if row >= 0:
            return self._approach(inbox, state, pose, row, share)
        progress[ARRIVED] = 0
        return self._search(inbox, state, sight, dt)

    def _approach(self, inbox, state, pose, row, share):
        progress = state["progress"]
        bearing, distance = (float(v[row]) for v in object_memory.polar(state["tracks"], pose))
        motor = inbox.get("motor", within=0.3)
        if motor is not None and motor.state == M_ARRIVED and motor.goal_id == int(state["goal"][ID]):
            progress[ARRIVED] += 1
            # a moment to make sure, and longer where looks differ
            if progress[ARRIVED] >= (10 if share > 0.6 else 60):
                return IDLE, S_REACHED, math.nan, 0.0, row, "standing in front of it"
        else:
            progress[ARRIVED] = 0
        heading = bearing
        route = self._offer(inbox, "place/route")
        if distance > 1.1 and math.isfinite(route):
            heading = route
        return APPROACH, S_APPROACHING, heading, 1.0, row, f"{distance:.1f} m away"

    def _search(self, inbox, state, sight, dt):
        progress = state["progress"]
        view = self._map(inbox, "place/view")
        values, headings = told(inbox.each("headings", 1.0)) or NOWHERE
        way = float(headings[values.argmax()]) if np.isfinite(values).any() else math.nan
        nothing_left = view is not None and not math.isfinite(way) and view.sum() <= 0.3
        impatient = progress[ELAPSED] > self.parameters.search_time
        leave = last_look.look(state, [last_look.View.of(*look) for look in sight.looks], nothing_left=nothing_left,
                               impatient=impatient, late=sight.late, dt=dt)
        progress[EMPTY] = progress[EMPTY] + dt if nothing_left and not sight.late else 0.0
        if (everywhere := progress[EMPTY] > 1.5 and leave.everywhere) or impatient and leave.patience:
            last_look.remember_why(state, last_look.EVERYWHERE if everywhere else last_look.PATIENCE)
            return self._give_up(inbox, state, dt)
        if view is None:    # place is missing: turn on the spot, which shows what can be seen from here
            return SEARCH, S_SEARCHING, 1.0, 0.0, -1, "looking about"
        turning = self._turn(view, progress)
        if impatient and not sight.late:
            return SEARCH, S_SEARCHING, 1.2, 0.0, -1, "looking round once more before giving up"
        if turning or not math.isfinite(way):
            side = turning or 1.0
            return SEARCH, S_SEARCHING, side * 1.2, 0.0, -1, "looking about"
        return SEARCH, S_SEARCHING, way, 1.0, -1, "looking elsewhere"

    def _turn(self, view, progress) -> float:
        """Side to turn to (1 left, -1 right) while that shows enough, else 0. A turn once begun is finished."""
        side = np.sin(azimuth.CENTERS)
        behind = 0.15 + 0.85 * (np.cos(azimuth.CENTERS) < 0.8)
        left, right = float((view * behind)[side > 0.0].sum()), float((view * behind)[side <= 0.0].sum())
        worth = self.parameters.turn_worth
        if progress[TURN] != 0:
            if left + right > 0.25 * worth:
                return float(progress[TURN])
            progress[TURN] = 0
        elif left + right > worth:
            progress[TURN] = 1.0 if left >= right else -1.0
        return float(progress[TURN])

    def _give_up(self, inbox, state, dt):
        """Not found; but not in front of some other object, where standing would say "here it is"."""
        progress = state["progress"]
        seen = self._seen(inbox)
        if seen is not None and progress[CLEAR] < 7.0:
            angles, ranges = seen.hits()
            from_front = np.hypot(ranges * np.cos(angles) - self.parameters.radius, ranges * np.sin(angles))
            if from_front.min(initial=9.0) < 0.65:
                progress[CLEAR] += dt
                open_ = [ranges[np.abs(azimuth.wrap(angles - c)) < 0.5].min(initial=9.0) for c in azimuth.CENTERS]
                # toward open floor, and rather ahead than back
                worth = np.minimum(open_, 2.5) + 0.3 * np.cos(azimuth.CENTERS)
                return SEARCH, S_SEARCHING, float(azimuth.CENTERS[int(np.argmax(worth))]), 1.0, -1, "making room"
        return IDLE, S_NOT_FOUND, math.nan, 0.0, -1, last_look.in_words(state, self.parameters.search_time)

    @staticmethod
    def _map(inbox, source):
        for entry in inbox.each("features", 1.0):
            if entry.message.source == source:
                return azimuth.sound_map(entry.message.novelty)
        return None

    def _offer(self, inbox, source) -> float:
        novelty = self._map(inbox, source)
        return math.nan if novelty is None else azimuth.direction(novelty)

    # -- output ----------------------------------------------------------------------------------------------------

    def _control(self, state, pose, mode, heading, speed, row):
        goal = state["goal"]
        bearing = distance = math.nan
        confidence = 0.0
        tracks = state["tracks"]
        if row >= 0:
            bearing, distance = (float(v[row]) for v in object_memory.polar(tracks, pose))
            confidence = float(tracks[row, object_memory.STRENGTH])
        avoid = object_memory.like(tracks, int(goal[AVOID_COLOR]), int(goal[AVOID_SHAPE]), 0.4) if pose else []
        angles, away = object_memory.polar(tracks[avoid], pose) if len(avoid) else (np.zeros(0), np.zeros(0))
        control = self.control(
            goal_id=int(goal[ID]), mode=mode, target_color=int(goal[COLOR]), target_shape=int(goal[SHAPE]),
            confidence=confidence, bearing=bearing, distance=distance, heading=heading, speed=speed,
            avoid_bearing=angles, avoid_distance=away, hazard=keep_away(angles, away, self.parameters.radius))
        control.header.frame_id = self.parameters.base_frame
        return control

    def _memory(self, state, pose):
        """All that is remembered, as if it were seen now."""
        memory = self.memory(source=self.name, azimuth_min=-math.pi, azimuth_max=math.pi, objects=[
            messages.make("brain_interfaces/msg/DetectedObject", color=color, shape=shape, confidence=min(belief, 1.0),
                          bearing=bearing, distance=distance, width=math.nan)
            for color, shape, belief, bearing, distance in object_memory.recall(state["tracks"], pose)])
        memory.header.frame_id = self.parameters.base_frame
        return memory

    def _status(self, state, status, reason):
        codes = state["text"][state["text"] > 0].astype(np.uint8).tobytes()
        return self.status(goal_id=int(state["goal"][ID]), state=status, text=codes.decode("utf-8", "ignore"),
                           reason=clip_utf8(reason, 256), cause=last_look.cause(state, status))
