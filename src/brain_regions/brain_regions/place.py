# SPDX-License-Identifier: Apache-2.0
"""Place: remembers which part of the room was looked at, and offers headings to what was not, or to a known target.

Floor counts as looked at from where a picture was taken, which under load is not where the robot is when vision tells
of it (see :mod:`brain_regions.past`). Where that cannot be known, since clocks disagree, it does not count at all.

Conventional by choice (see :mod:`brain_regions.room_map`): it spikes nowhere and counts nothing. It chooses no way: it
tells with each scan what each heading is worth, on ``place/headings``: the unseen floor that is reached best after
setting out that way, less the way there and the turn that it begins with. Floor that was headed for in vain for
``persistence`` counts no more, so every search comes to an end. With a new goal, what was looked at long ago is to be
looked at again.

Two SensorFeatures come with it, with ``hazard`` zero, since the scan itself is read by who avoids:

* ``place/view``: unseen floor (1 is half a square meter in a bin or more) that turning on the spot would show;
* ``place/route``: a bump at the heading along the cheapest way to the target that ``pfc/control`` names.
"""
from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace

import numpy as np

from brain_regions import azimuth, room_map, ways
from brain_regions.body import Body
from brain_regions.lidars import Scanning
from brain_regions.obedience import HEARTBEATS, NOT_BELIEVED, disobeyed
from brain_regions.past import AHEAD, Past
from brain_regions.room_map import CELL, FAR, SIZE
from brain_regions.scan_watch import ScanWatch
from brain_runtime import FEATURE, Gated, In, Out, SENSOR, parameter
from brain_runtime.interfaces import Control
from brain_runtime.contract.odometry import JUMP, Odometry, from_origin, origin_of
from brain_wire import messages

log = logging.getLogger(__name__)

FEATURES = "brain_interfaces/msg/SensorFeatures"
WORTH = 30.0                    # m, weighted: a dearer way leads through what is not to be crossed
AS_NOW = 0.06                   # s, a picture's period: what is no older than that counts as taken with the scan
EDGE = 0.95                     # share of the camera's sector in which it would have known an object
LOST = 20                       # pictures one after the other of which it is not known where they were taken
KEEP_OUT = 0.40                 # m that the robot's edge keeps from the surface of an avoided object
FINE = 3                        # directions that are tried in each bin
SAME = 0.9                      # m: frontiers that are no farther apart are one
DIRECTIONS = azimuth.wrap(np.arange(azimuth.BINS * FINE) * (azimuth.WIDTH / FINE))     # rad, in odometry's frame


@dataclass(frozen=True)
class PlaceParameters(Body):
    """Parameters of the robot, of objects, and of planning where to look."""

    look_range: float = parameter(4.0, "distance up to which the camera would have known an object", unit="m", low=0.5,
                                  high=20.0)
    object_radius: float = parameter(0.30, "radius of the largest object", unit="m", low=0.02, high=2.0)
    plan_every: int = parameter(3, "scans between two plans", low=1, high=50)
    turn_cost: float = parameter(0.5, "way that a turn of one radian is worth", unit="m/rad", low=0.0, high=10.0)
    gain: float = parameter(1.2, "way that a square meter of unseen floor is worth", unit="m/m^2", low=0.0, high=100.0)
    commitment: float = parameter(0.8, "way that keeping to the last choice is worth", unit="m", low=0.0, high=10.0)
    persistence: float = parameter(20.0, "time for which floor is headed for in vain, at a max_linear of 0.5 m/s and "
                                   "longer for a slower robot, after which it counts no more", unit="s", low=1.0,
                                   high=3600.0)
    max_linear: float = parameter(0.5, "the robot's top speed; persistence follows from it", unit="m/s", low=0.0,
                                  high=2.0, live=False)
    forget: float = parameter(120.0, "time after which a new goal makes floor be looked at again", unit="s", low=0.0,
                              high=36000.0)
    lookahead: float = parameter(0.7, "distance of the point on the way that is headed for", unit="m", low=0.1,
                                 high=5.0)


class Place(Scanning):
    """Coverage and ways from odometry and scan."""

    Parameters = PlaceParameters
    ablations = {"off": "brain_eval.baselines.no_place:NoPlace"}

    scan = replace(Scanning.scan, trigger=True)
    odom = In("odom", "nav_msgs/msg/Odometry", SENSOR, device=True)
    objects = In("vision/objects", "brain_interfaces/msg/DetectedObjects", FEATURE.with_depth(4), key="source")
    others = In("sensor/features", FEATURES, FEATURE.with_depth(10), key="source", device=True)
    control = In("pfc/control", "brain_interfaces/msg/Control", FEATURE)
    heartbeats = HEARTBEATS

    features = Out("sensor/features", FEATURES, FEATURE.with_depth(10), stamp_from="scan",
                   gated=Gated(urgent=azimuth.hazardous, key="source"))
    headings = Out("place/headings", "brain_interfaces/msg/HeadingValues", FEATURE, stamp_from="scan", gated=Gated())

    def configure(self, parameters):
        """Takes parameters; of the last seconds nothing is known yet."""
        super().configure(parameters)
        self._lidar = ScanWatch()
        self._past = Past()     # with each scan, since what was to be seen then is not what is to be seen now
        self._lost, self._unplaced, self._odometry = 0, "", Odometry()

    def initial_state(self):
        return {
            "solid": np.zeros((SIZE, SIZE), np.float32),    # evidence
            "seen": np.zeros((SIZE, SIZE), np.float32),     # 1 where the camera has looked
            "looked": np.zeros((SIZE, SIZE), np.float32),   # when it did last, by the clock
            "tried": np.zeros((SIZE, SIZE), np.float32),    # s for which unseen floor there was headed for
            "felt": np.zeros((SIZE, SIZE), np.float32),     # evidence of other sensors than the lidar
            "far": np.zeros(2, np.float32),                 # x, y in odometry's frame (m) from which all else is told
            "origin": np.zeros(3, np.float32),              # x, y of the map's middle in odom (m); 1 when it is set
            "pose": np.zeros(3, np.float32),                # last x, y, yaw in odom
            "target": np.zeros(3, np.float32),              # x, y in odom; 1 when known
            "avoid": np.zeros((8, 3), np.float32),          # x, y in odom; 1 when known
            "route": np.zeros(3, np.float32),               # x, y in odom headed for; 1 when there is one
            "ways": np.zeros((azimuth.BINS, 4), np.float32),    # x, y in odom headed for, worth (m); 1 if there is one
            "driven": np.zeros(2, np.float32),              # rad in odom in which a search drives; 1 when it does
            "followed": np.zeros(3, np.float32),            # frontier to which it leads: x, y in odom; 1 when there is
            "goal": np.zeros(1, np.float32),                # number of the goal
            "scans": np.zeros(1, np.float32),
            "clock": np.zeros(1, np.float32),               # s since this map was begun
        }

    def step(self, inbox, state, dt, rng):
        told = self._odometry.pose(inbox, 0.5)
        self.trouble = self._odometry.refusal(inbox, 0.5) or self._unplaced
        if self._lidar.hear(inbox, told, self.parameters, self._odometry.stamp) is None or told is None or (
                self._lidar.fault):
            return {}, state
        if disobeyed(inbox).startswith(NOT_BELIEVED):       # the robot may be anywhere: as if it had been carried
            return {}, self.initial_state()
        state = dict(state)
        state["clock"] = state["clock"] + np.float32(dt)
        pose = from_origin(told, state["far"])
        if state["origin"][2] == 0 or self._carried(state, pose):
            state = self.initial_state()
            self._past.clear()
            state["far"] = origin_of(told)
            pose = from_origin(told, state["far"])
            state["origin"] = np.array([pose[0], pose[1], 1], np.float32)
        state["pose"] = np.array(pose, np.float32)
        seen = self._lidar.beams
        angles, ranges = seen.hits() if self._lidar.doubtful else seen.rays()
        self._past.put(messages.time_seconds(inbox.get("odom").header.stamp), pose, (angles, ranges))
        self._hear_control(inbox, state, pose)
        here = self._on_map(state, pose)
        looks, late = self._looks(inbox)
        self._see(state, here, angles, ranges, looks, late)
        if looks or late:
            self._persist(state, dt)
        self._feel(inbox, state, here, angles, ranges)
        state["scans"] = state["scans"] + 1
        control = inbox.get("control", within=1.0)
        mode = control.mode if control is not None else Control.MODE_IDLE
        due = (int(state["scans"][0]) - 1) % self.parameters.plan_every == 0
        if due and mode in (Control.MODE_SEARCH, Control.MODE_APPROACH):
            self._plan(state, here, mode)
        return {"features": self._features(state, pose, here, angles, ranges),
                "headings": self._headings(state, pose)}, state

    # -- input -----------------------------------------------------------------------------------------------------

    def _looks(self, inbox):
        """Sectors of pictures that were taken now; and of those before: from where, the sector, and the scan then."""
        looks, late = [], []
        for received in inbox.each("objects"):
            if not received.new:
                continue
            stamp = messages.time_seconds(received.message.header.stamp)
            look = float(received.message.azimuth_min) * EDGE, float(received.message.azimuth_max) * EDGE
            if stamp > 0.0 and -AHEAD <= self._past.newest - stamp <= AS_NOW:
                looks.append(look)
            elif (eye := self._past.at(stamp)) is not None and (then := self._past.nearest(stamp)) is not None:
                late.append((eye, look, then))
            else:
                self._complain(received.message.source, self._past.newest - stamp)
                continue
            self._lost, self._unplaced = 0, ""
        return looks, late

    def _see(self, state, here, angles, ranges, looks, late) -> None:
        """Takes in a scan, the sectors of pictures that were taken with it, and pictures that came late."""
        solid, now = state["solid"].copy(), np.zeros((SIZE, SIZE), np.float32)
        room_map.add_scan(solid, now, here, angles, ranges, looks=looks, look_range=self.parameters.look_range)
        state["solid"] = solid
        seen = np.maximum(state["seen"], now)
        for eye, look, then in late:
            before = np.zeros((SIZE, SIZE), np.float32)
            room_map.add_look(before, self._on_map(state, eye), look, self.parameters.look_range,
                              self._on_map(state, then.pose), *then.kept)
            seen, now = np.minimum(seen + before, np.float32(1.0)), now + before
        state["seen"] = seen
        state["looked"] = np.where(now > 0, state["clock"], state["looked"])

    def _persist(self, state, dt) -> None:
        """Counts how long the frontier that is followed was headed for while pictures came."""
        x, y, there = state["followed"]
        if there:
            row, column = (int(v) for v in room_map.cells(x - state["origin"][0], y - state["origin"][1]))
            state["tried"] = state["tried"].copy()
            state["tried"][max(row - ways.AREA, 0):row + ways.AREA + 1,
                           max(column - ways.AREA, 0):column + ways.AREA + 1] += np.float32(dt)

    def _complain(self, source, behind) -> None:
        """Says that pictures do not count; a few that are older than what is remembered are nothing odd."""
        self._lost += 1
        if self._lost == LOST:
            apart = (f"{abs(behind):.1f} s {'before' if behind > 0 else 'after'}" if math.isfinite(behind) else
                     "otherwise than")
            self._unplaced = (f"floor does not count as seen: vision/objects of {source} is stamped {apart} odom, and "
                              f"where it was taken is not known; stamp camera and odometry by one clock (chrony or NTP "
                              f"between machines)")
            log.warning("%s", self._unplaced)

    @staticmethod
    def _on_map(state, pose):
        return pose[0] - float(state["origin"][0]), pose[1] - float(state["origin"][1]), pose[2]

    @staticmethod
    def _carried(state, pose) -> bool:
        last = state["pose"]
        return (math.hypot(pose[0] - last[0], pose[1] - last[1]) > JUMP[0]
                or abs(azimuth.wrap(pose[2] - float(last[2]))) > JUMP[1])

    def _feel(self, inbox, state, here, angles, ranges) -> None:
        """Takes in the hazard maps of whoever feels what the lidar's plane misses."""
        felt = None
        for received in inbox.each("others", 0.3):
            if received.new and received.message.confidence >= 0.3:
                hazard = azimuth.sound_map(received.message.hazard)
                if hazard.any():
                    felt = state["felt"].copy() if felt is None else felt
                    room_map.add_hazard(felt, here, hazard, self.parameters.radius, angles, ranges)
        if felt is not None:
            state["felt"] = felt

    def _hear_control(self, inbox, state, pose) -> None:
        control = inbox.get("control", within=1.0)
        if control is None or not inbox.new("control"):
            return
        pose = self._past.at(messages.time_seconds(control.header.stamp)) or pose

        def spot(bearing, distance):
            angle = pose[2] + bearing
            sound = math.isfinite(bearing) and math.isfinite(distance) and 0 <= distance < 20
            return ((pose[0] + distance * math.cos(angle), pose[1] + distance * math.sin(angle), 1.0) if sound
                    else (0.0, 0.0, 0.0))
        state["target"] = np.array(spot(float(control.bearing), float(control.distance)), np.float32)
        avoid = np.zeros((8, 3), np.float32)
        for i, (bearing, distance) in enumerate(zip(control.avoid_bearing, control.avoid_distance)):
            avoid[i] = spot(float(bearing), float(distance))
        state["avoid"] = avoid
        if float(control.goal_id % 2 ** 24) != state["goal"][0]:
            state["goal"] = np.array([control.goal_id % 2 ** 24], np.float32)
            old = state["looked"] < state["clock"] - self.parameters.forget
            state["seen"] = np.where(old, np.float32(0.0), state["seen"])
            state["tried"] = np.zeros((SIZE, SIZE), np.float32)
        heading = float(control.heading)
        drives = control.mode == Control.MODE_SEARCH and azimuth.sound(heading) and control.speed > 0
        state["driven"] = np.array([azimuth.wrap(pose[2] + heading), 1.0] if drives else [0.0, 0.0], np.float32)

    # -- ways ------------------------------------------------------------------------------------------------------

    def _step_cost(self, state, box, solid_cells):
        """Cost per cell of the box (m, weighted): free floor 1, dearer near what is solid or to be avoided."""
        p = self.parameters
        away = room_map.distances(solid_cells)
        cost = np.ones(away.shape, np.float32)
        cost[state["solid"][box] == 0] = 1.3                                # never looked at: perhaps not free
        cost[away < p.radius + 0.28] += 0.8
        cost[away < p.radius + 0.16] += 3.0
        cost[away < p.radius + 0.06] += 40.0
        for x, y, known in state["avoid"]:
            if known:
                distance = self._distance(state, box, x, y)
                keep = p.radius + KEEP_OUT + p.object_radius
                cost[distance < keep + 0.30] += 1.5
                cost[distance < keep + 0.10] += 80.0
        cost[solid_cells] = FAR
        return cost * CELL, away

    @staticmethod
    def _distance(state, box, x, y):
        """Distance (m) of the cells of a box to the cell that holds a point (m, odom)."""
        row, column = room_map.cells(x - state["origin"][0], y - state["origin"][1])
        return np.hypot(*np.ogrid[box[0].start - row:min(box[0].stop, SIZE) - row,
                                  box[1].start - column:min(box[1].stop, SIZE) - column]) * CELL

    def _explore(self, state, box, solid_cells, away, at, here, step) -> None:
        """Plans ways to unseen floor.

        Weighed are the way there, the turn that it begins with, how much is unseen there, and not to dither.
        """
        p, seen = self.parameters, state["seen"][box] >= 0.5
        patience = p.persistence * 0.5 / max(p.max_linear, 0.02)
        found = ways.frontiers(~seen & (state["tried"][box] < patience), solid_cells, seen, away > p.radius + 0.04)
        x, y = self._odom(state, found.rows + box[0].start, found.columns + box[1].start)
        worth = p.gain * np.minimum(found.area, ways.MOST_AREA)
        if state["followed"][2]:
            worth = worth + p.commitment * (np.hypot(x - state["followed"][0], y - state["followed"][1]) < SAME)
        most = p.gain * ways.MOST_AREA + p.commitment       # so that no cost is negative
        seeds = np.full(step.shape, FAR, np.float32)
        seeds[found.rows, found.columns] = most - worth
        costs = room_map.cost_to_go(seeds, step, limit=WORTH + most)
        state["followed"] = np.zeros(3, np.float32)
        if not costs[at] < WORTH + most:
            return
        offset = np.array([box[0].start, box[1].start])
        exact = SIZE / 2 + np.array([here[1], here[0]]) / CELL - offset
        tried = ways.fan(costs, step, tuple(exact), DIRECTIONS, p.lookahead)
        best = ways.headed_for(room_map.follow(costs, *at, 400), away, p.radius, p.lookahead)
        rows, columns = np.append(tried.rows, best[0]), np.append(tried.columns, best[1])
        ahead = np.stack(self._odom(state, rows + offset[0], columns + offset[1]), 1)
        angles = np.arctan2(ahead[:, 1] - state["pose"][1], ahead[:, 0] - state["pose"][0])
        value = most - np.append(tried.costs, costs[at]) - p.turn_cost * np.abs(azimuth.wrap(angles - here[2]))
        bins = np.rint(angles / azimuth.WIDTH).astype(int) % azimuth.BINS
        for number in np.argsort(value):        # the best of each bin comes last
            if value[number] > -WORTH:
                state["ways"][bins[number]] = (*ahead[number], value[number], 1.0)
        if state["driven"][1]:
            driven = ways.fan(costs, step, tuple(exact), state["driven"][:1], p.lookahead)
            begin = (int(driven.rows[0]), int(driven.columns[0])) if driven.costs[0] < WORTH + most else at
            end = room_map.follow(costs, *begin, 400)[-1]
            state["followed"] = np.array([*self._odom(state, *(end + offset)), 1.0], np.float32)

    def _target_ring(self, state, box, solid_cells):
        """Seeds at floor round the target from where nothing solid but the target itself stands between."""
        p = self.parameters
        x, y = state["target"][:2] - state["origin"][:2]
        seeds = np.full(solid_cells.shape, FAR, np.float32)
        angle = np.arange(0, 2 * math.pi, math.pi / 24)[:, None]
        radii = np.arange(p.object_radius + 0.08, p.object_radius + p.radius + 0.38, CELL / 2)
        rows, columns = room_map.cells(x + radii * np.cos(angle), y + radii * np.sin(angle))
        rows, columns = rows - box[0].start, columns - box[1].start
        ok = (rows >= 0) & (rows < solid_cells.shape[0]) & (columns >= 0) & (columns < solid_cells.shape[1])
        ok &= ~solid_cells[np.where(ok, rows, 0), np.where(ok, columns, 0)]
        there = ok.all(axis=1)[:, None] & (radii > p.object_radius + p.radius + 0.12)
        seeds[rows[there], columns[there]] = 0.0
        if not there.any():  # walled in, or the estimate is off: as near as one can get
            seeds[(self._distance(state, box, *state["target"][:2]) < 0.9) & ~solid_cells] = 0.5
        return seeds

    def _plan(self, state, here, mode) -> None:
        state["route"], state["ways"] = np.zeros(3, np.float32), np.zeros((azimuth.BINS, 4), np.float32)
        row, column = (int(v) for v in room_map.cells(here[0], here[1]))
        if not room_map.inside(np.array(row), np.array(column)):
            return
        known = state["solid"] != 0
        known[row, column] = True
        route = mode == Control.MODE_APPROACH and state["target"][2] > 0
        if route:
            known[tuple(np.clip(room_map.cells(*(state["target"][:2] - state["origin"][:2])), 0, SIZE - 1))] = True
        box = room_map.box_round(known, ways.AREA + 1)
        at = (row - box[0].start, column - box[1].start)
        solid_cells = (state["solid"][box] > room_map.SOLID) | (state["felt"][box] > room_map.SOLID)
        step, away = self._step_cost(state, box, solid_cells)
        # standing in a dear cell must not hide the way out of it
        near = step[max(at[0] - 2, 0):at[0] + 3, max(at[1] - 2, 0):at[1] + 3]
        np.minimum(near, np.float32(6 * CELL), out=near)
        if route:
            values = room_map.cost_to_go(self._target_ring(state, box, solid_cells), step, start=at, limit=WORTH)
            if values[at] < WORTH:
                row, column = ways.headed_for(room_map.follow(values, *at, 400), away, self.parameters.radius,
                                              self.parameters.lookahead)
                ahead = self._odom(state, row + box[0].start, column + box[1].start)
                state["route"] = np.array([*ahead, 1], np.float32)
        else:
            self._explore(state, box, solid_cells, away, at, here, step)

    @staticmethod
    def _odom(state, row, column):
        return ((column - SIZE // 2 + 0.5) * CELL + state["origin"][0],
                (row - SIZE // 2 + 0.5) * CELL + state["origin"][1])

    # -- output ----------------------------------------------------------------------------------------------------

    def _features(self, state, pose, here, angles, ranges):
        x, y, there = state["route"]
        route = (azimuth.bump(math.atan2(y - pose[1], x - pose[0]) - pose[2]) if there
                 else np.zeros(azimuth.BINS, np.float32))
        return [self._message("place/view", "coverage", ways.view(
                    state["seen"], here, angles, ranges, self.parameters.look_range)),
                self._message("place/route", "route", route)]

    def _headings(self, state, pose):
        """Computes the worth of each heading now, from where the robot is and how it stands."""
        value, heading = np.full((2, azimuth.BINS), np.nan, np.float32)
        for x, y, worth, _ in state["ways"][state["ways"][:, 3] > 0]:
            angle = azimuth.wrap(math.atan2(y - pose[1], x - pose[0]) - pose[2])
            bin_ = round(angle / azimuth.WIDTH) % azimuth.BINS
            if not value[bin_] >= worth:
                value[bin_], heading[bin_] = worth, angle
        message = self.headings(source=self.name, value=value, heading=heading)
        message.header.frame_id = self.parameters.base_frame
        return message

    def _message(self, source, modality, novelty):
        message = self.features(source=source, modality=modality, confidence=1.0, novelty=novelty)
        message.header.frame_id = self.parameters.base_frame
        return message
