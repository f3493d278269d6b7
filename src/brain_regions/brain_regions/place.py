# SPDX-License-Identifier: Apache-2.0
"""Place: remembers which part of the room was looked at, and offers headings to what was not, or to a known target.

Floor counts as looked at from where a picture was taken, which under load is not where the robot is when vision tells
of it (see :mod:`brain_regions.past`). Where that cannot be known, since clocks disagree, it does not count at all.

Conventional by choice (see :mod:`brain_regions.room_map`): it spikes nowhere and counts nothing. It publishes up to
three SensorFeatures per scan, all with ``hazard`` zero, since the scan itself is read by who avoids:

* ``place/view``: unseen floor (1 is half a square meter in a bin or more) that turning on the spot would show;
* ``place/frontier``: a bump at the heading along the cheapest way to unseen floor; all zero when none can be reached;
* ``place/route``: a bump at the heading along the cheapest way to the target that ``pfc/control`` names.
"""
from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import numpy as np

from brain_regions import azimuth, room_map
from brain_regions.body import Body
from brain_regions.past import AHEAD, Past
from brain_regions.room_map import CELL, FAR, SIZE
from brain_runtime import FEATURE, Gated, In, Out, Region, SENSOR, parameter
from brain_runtime.interfaces import Control
from brain_wire import messages

log = logging.getLogger(__name__)

FEATURES = "brain_interfaces/msg/SensorFeatures"
JUMP = (0.5, 1.0)               # m, rad between two scans: the robot was carried, the map is worth nothing
WORTH = 30.0                    # m, weighted: a dearer way leads through what is not to be crossed
AREA = 7                        # cells to each side of a frontier in which unseen floor counts for it
AS_NOW = 0.06                   # s, a picture's period: what is no older than that counts as taken with the scan
EDGE = 0.95                     # share of the camera's sector in which it would have known an object
LOST = 20                       # pictures one after the other of which it is not known where they were taken
KEEP_OUT = 0.40                 # m that the robot's edge keeps from the surface of an avoided object


@dataclass(frozen=True)
class PlaceParameters(Body):
    """What is known of robot and objects."""

    look_range: float = parameter(4.0, "distance up to which the camera would have known an object", unit="m", low=0.5,
                                  high=20.0)
    object_radius: float = parameter(0.30, "radius of the largest object", unit="m", low=0.02, high=2.0)
    plan_every: int = parameter(3, "scans between two plans", low=1, high=50)
    turn_cost: float = parameter(0.5, "way that a turn of one radian is worth", unit="m/rad", low=0.0, high=10.0)
    gain: float = parameter(1.2, "way that a square meter of unseen floor is worth", unit="m/m^2", low=0.0, high=100.0)
    commitment: float = parameter(0.8, "way that keeping to the last choice is worth", unit="m", low=0.0, high=10.0)
    lookahead: float = parameter(0.7, "distance of the point on the way that is headed for", unit="m", low=0.1,
                                 high=5.0)


class Place(Region):
    """Coverage and ways from odometry and scan."""

    Parameters = PlaceParameters

    scan = In("scan", "sensor_msgs/msg/LaserScan", SENSOR, trigger=True, device=True)
    odom = In("odom", "nav_msgs/msg/Odometry", SENSOR, device=True)
    objects = In("vision/objects", "brain_interfaces/msg/DetectedObjects", FEATURE.with_depth(4), key="source")
    others = In("sensor/features", FEATURES, FEATURE.with_depth(10), key="source", device=True)
    control = In("pfc/control", "brain_interfaces/msg/Control", FEATURE)

    features = Out("sensor/features", FEATURES, FEATURE.with_depth(10), stamp_from="scan",
                   gated=Gated(urgent=azimuth.hazardous, key="source"))

    def configure(self, parameters):
        """Takes parameters; of the last seconds nothing is known yet."""
        super().configure(parameters)
        self._past = Past()     # with each scan, since what was to be seen then is not what is to be seen now
        self._lost = 0

    def initial_state(self):
        return {
            "solid": np.zeros((SIZE, SIZE), np.float32),    # evidence
            "seen": np.zeros((SIZE, SIZE), np.float32),     # 1 where the camera has looked
            "felt": np.zeros((SIZE, SIZE), np.float32),     # evidence of other sensors than the lidar
            "origin": np.zeros(3, np.float32),              # x, y of the map's middle in odom (m); 1 when it is set
            "pose": np.zeros(3, np.float32),                # last x, y, yaw in odom
            "target": np.zeros(3, np.float32),              # x, y in odom; 1 when known
            "avoid": np.zeros((8, 3), np.float32),          # x, y in odom; 1 when known
            "way": np.zeros((2, 3), np.float32),            # frontier, route: x, y in odom headed for; 1 when there is
            "goal": np.zeros(3, np.float32),                # frontier cell that was chosen: x, y in odom; 1 when set
            "scans": np.zeros(1, np.float32),
        }

    def step(self, inbox, state, dt, rng):
        scan, odom = inbox.get("scan"), inbox.get("odom", within=0.5)
        pose = azimuth.sound_pose(odom) if odom is not None else None
        if pose is None or scan is None or not azimuth.sound_scan(scan):
            return {}, state
        state = dict(state)
        if state["origin"][2] == 0 or self._carried(state, pose):
            state = self.initial_state()
            self._past.clear()
            state["origin"] = np.array([pose[0], pose[1], 1], np.float32)
        state["pose"] = np.array(pose, np.float32)
        angles, ranges = self._beams(scan)
        self._past.put(messages.time_seconds(odom.header.stamp), pose, (angles, ranges))
        self._hear_control(inbox, state, pose)
        here = self._on_map(state, pose)
        solid, seen = state["solid"].copy(), state["seen"].copy()
        looks, late = self._looks(inbox)
        room_map.add_scan(solid, seen, here, angles, ranges, looks=looks, look_range=self.parameters.look_range)
        for eye, look, then in late:
            room_map.add_look(seen, self._on_map(state, eye), look, self.parameters.look_range,
                              self._on_map(state, then.pose), *then.kept)
        state["solid"], state["seen"] = solid, seen
        self._feel(inbox, state, here, angles, ranges)
        state["scans"] = state["scans"] + 1
        control = inbox.get("control", within=1.0)
        mode = control.mode if control is not None else Control.MODE_IDLE
        due = (int(state["scans"][0]) - 1) % self.parameters.plan_every == 0
        if due and mode in (Control.MODE_SEARCH, Control.MODE_APPROACH):
            self._plan(state, here, mode)
        return {"features": self._messages(state, pose, here, angles, ranges, mode)}, state

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
            self._lost = 0
        return looks, late

    def _complain(self, source, behind) -> None:
        """Says once that pictures do not count; a few that are older than what is remembered are nothing odd."""
        self._lost += 1
        if self._lost == LOST:
            log.warning("floor does not count as seen: vision/objects of %s is stamped %s odom, and where it was taken "
                        "is not known; stamp camera and odometry by one clock (chrony or NTP between machines)",
                        source, f"{abs(behind):.1f} s {'before' if behind > 0 else 'after'}"
                        if math.isfinite(behind) else "otherwise than")

    @staticmethod
    def _on_map(state, pose):
        return pose[0] - float(state["origin"][0]), pose[1] - float(state["origin"][1]), pose[2]

    @staticmethod
    def _carried(state, pose) -> bool:
        last = state["pose"]
        return (math.hypot(pose[0] - last[0], pose[1] - last[1]) > JUMP[0]
                or abs(azimuth.wrap(pose[2] - float(last[2]))) > JUMP[1])

    def _beams(self, scan):
        ranges = np.asarray(scan.ranges, np.float32)
        angles = (scan.angle_min + scan.angle_increment * np.arange(len(ranges))).astype(np.float32)
        open_ = np.isposinf(ranges) | (ranges > scan.range_max)
        # one beam that does not come back between others that do was lost, and tells of no free floor
        open_ &= np.roll(open_, 1) | np.roll(open_, -1)
        good = open_ | (np.isfinite(ranges) & (ranges >= scan.range_min))
        return azimuth.from_base(azimuth.wrap(angles[good]), np.where(open_, np.inf, ranges)[good].astype(np.float32),
                                 self.parameters)

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

    def _choose_frontier(self, state, solid_cells, away, here, box, cost_from_here):
        """Cell (of the box) of seen floor beside the unseen floor that is most worth going to, or None.

        Weighed are the way there, the turn that it begins with, how much is unseen there, and not to dither.
        """
        p, seen = self.parameters, state["seen"][box]
        walls = room_map.grow(solid_cells, 1, np.ones_like(solid_cells))
        patch = room_map.shrink((seen < 0.5) & ~solid_cells, 2)             # an object fits there
        edge = room_map.grow(patch, 5, ~walls) & (seen > 0.5) & (away > p.radius + 0.04)
        rows, columns = np.nonzero(edge & (cost_from_here < WORTH))
        if not len(rows):
            return None
        area = (room_map.box_sum(patch, AREA) * CELL ** 2)[rows, columns]
        x = (columns + box[1].start - SIZE // 2 + 0.5) * CELL
        y = (rows + box[0].start - SIZE // 2 + 0.5) * CELL
        turn = np.abs(azimuth.wrap(np.arctan2(y - here[1], x - here[0]) - here[2]))
        cost = cost_from_here[rows, columns] + p.turn_cost * turn - p.gain * np.minimum(area, 1.2)
        if state["goal"][2]:
            gx, gy = state["goal"][:2] - state["origin"][:2]
            cost = cost - p.commitment * (np.hypot(x - gx, y - gy) < 0.9)
        best = int(np.argmin(cost))
        return int(rows[best]), int(columns[best])

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
        state["way"] = np.zeros((2, 3), np.float32)
        row, column = (int(v) for v in room_map.cells(here[0], here[1]))
        if not room_map.inside(np.array(row), np.array(column)):
            return
        known = state["solid"] != 0
        known[row, column] = True
        route = mode == Control.MODE_APPROACH and state["target"][2] > 0
        if route:
            known[tuple(np.clip(room_map.cells(*(state["target"][:2] - state["origin"][:2])), 0, SIZE - 1))] = True
        box = room_map.box_round(known, AREA + 1)
        at = (row - box[0].start, column - box[1].start)
        solid_cells = (state["solid"][box] > room_map.SOLID) | (state["felt"][box] > room_map.SOLID)
        step, away = self._step_cost(state, box, solid_cells)
        # standing in a dear cell must not hide the way out of it
        near = step[max(at[0] - 2, 0):at[0] + 3, max(at[1] - 2, 0):at[1] + 3]
        np.minimum(near, np.float32(6 * CELL), out=near)
        if route:
            values = room_map.cost_to_go(self._target_ring(state, box, solid_cells), step, start=at, limit=WORTH)
            path = room_map.follow(values, *at, 400) if values[at] < WORTH else None
        else:
            seeds = np.full(step.shape, FAR, np.float32)
            seeds[at] = 0.0
            values = room_map.cost_to_go(seeds, step, limit=WORTH)
            goal = self._choose_frontier(state, solid_cells, away, here, box, values)
            path = room_map.follow(values, *goal, 400)[::-1] if goal else None
            state["goal"] = np.zeros(3, np.float32)
            if goal:
                state["goal"][:] = (*self._odom(state, goal[0] + box[0].start, goal[1] + box[1].start), 1)
        if path:
            ahead = self._lookahead(path, away)
            state["way"][int(route)] = (*self._odom(state, ahead[0] + box[0].start, ahead[1] + box[1].start), 1.0)

    def _lookahead(self, path, away):
        """Farthest cell of the way within the lookahead that can be headed for in a straight line."""
        p = self.parameters
        narrow = (away < p.radius + 0.04).astype(np.float32)
        start = path[0]
        best = path[min(1, len(path) - 1)]
        length = 0.0
        for before, cell in zip(path, path[1:]):
            length += CELL * math.hypot(cell[0] - before[0], cell[1] - before[1])
            if length > p.lookahead:
                break
            if room_map.line_is_free(narrow, *start, *cell):
                best = cell
        if len(path) == 1:
            return path[0]
        return best

    @staticmethod
    def _odom(state, row, column):
        return ((column - SIZE // 2 + 0.5) * CELL + state["origin"][0],
                (row - SIZE // 2 + 0.5) * CELL + state["origin"][1])

    # -- output ----------------------------------------------------------------------------------------------------

    def _messages(self, state, pose, here, angles, ranges, mode):
        view = self._view(state, here, angles, ranges)
        sent = [self._message("place/view", "coverage", view)]
        for index, (source, modality) in enumerate((("place/frontier", "coverage"), ("place/route", "route"))):
            x, y, there = state["way"][index]
            novelty = np.zeros(azimuth.BINS, np.float32)
            if there:
                novelty = azimuth.bump(math.atan2(y - pose[1], x - pose[0]) - pose[2])
            sent.append(self._message(source, modality, novelty))
        return sent

    def _message(self, source, modality, novelty):
        message = self.features(source=source, modality=modality, confidence=1.0, novelty=novelty)
        message.header.frame_id = self.parameters.base_frame
        return message

    def _view(self, state, here, angles, ranges):
        """Unseen floor (m^2) in the free part of each bin, over 0.5 m^2, cut to 1. float32[36]."""
        look = self.parameters.look_range
        along = np.arange(0.3, look, CELL, dtype=np.float32)
        x = here[0] + along * np.cos(angles + here[2])[:, None]
        y = here[1] + along * np.sin(angles + here[2])[:, None]
        rows, columns = room_map.cells(x, y)
        free = (along < (np.minimum(ranges, look) - 0.05)[:, None]) & room_map.inside(rows, columns)
        rows, columns = np.where(free, rows, 0), np.where(free, columns, 0)
        unseen = free & (state["seen"][rows, columns] < 0.5)
        area = (unseen * along).sum(1) * CELL * (2 * math.pi / max(len(angles), 1))
        bins = np.rint(angles / azimuth.WIDTH).astype(int) % azimuth.BINS
        return np.minimum(np.bincount(bins, area, azimuth.BINS) / 0.5, 1.0).astype(np.float32)
