# SPDX-License-Identifier: Apache-2.0
"""Many robots at once in rooms of the simulator, with what their motors are told: the motor's training ground.

Each robot is a disk that keeps to its limits and accelerations; its lidar casts rays at the outlines of things. Place
and prefrontal cortex are imitated by their errors: the heading points to a place on the cheapest way that is some
tenths of a second old, and is off; where the target is thought to be is off as well. What goes wrong in a brain goes
wrong here: headings through obstacles, sensors that are missing, pushes, a start too close to things, and robots with
other limits. Things that move walk to and fro and stop for the robot.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, NamedTuple, Sequence

import numpy as np

from brain_regions.azimuth import BINS, WIDTH, wrap
from brain_regions.motor import senses as s
from brain_regions.motor.body import APPROACH, ARRIVED, AVOID, IDLE, SEARCH, STOP
from brain_sim import robot
from brain_training.motor_courses import DRAWN, Course, Ground, cast
from brain_training.motor_teacher import Asked, Told, teach

PERIOD = 0.05           # s between two words of the prefrontal cortex
BEAMS = 180
ANGLES = (-np.pi + np.arange(BEAMS) * (2 * np.pi / BEAMS)).astype(np.float32)
BEAM_BINS = np.rint(ANGLES / WIDTH).astype(int) % BINS
MOVERS = 2
ROUTE = 7               # cells of the way within which a place to head for is looked for
HOLD = 12               # steps (0.6 s) that ARRIVED has to last
TIME_LIMIT = 60.0       # s
PROFILES = np.array([    # share, max_linear, max_angular, braking, acceleration, turning acceleration, radius
    (0.62, 0.50, 1.5, 0.70, 0.9, 3.5, 0.18), (0.10, 0.22, 1.5, 0.30, 0.4, 2.0, 0.13),
    (0.10, 0.26, 1.5, 0.30, 0.4, 2.0, 0.24), (0.10, 0.20, 0.8, 0.25, 0.3, 1.0, 0.28),
    (0.08, 0.70, 2.0, 0.90, 1.2, 4.0, 0.18)], np.float32)


@dataclass(frozen=True)
class Trouble:
    """Noise and disturbances of the simulated world. Rates are per second."""

    bearing: float = 0.04       # rad, and distance: share; bias and jitter of the target's place
    distance: float = 0.08
    heading: float = 0.05       # rad
    wrong: float = 0.06         # headings that point anywhere
    turns: float = 0.04         # turning on the spot
    halts: float = 0.05         # IDLE and STOP
    pushes: float = 0.03
    profiles: bool = True
    movers: float = 0.35        # share of the episodes with things that move
    actions: float = 0.15       # share of the robots whose commands are off


HONEST = Trouble(0.03, 0.05, 0.03, 0, 0, 0, 0, False, 0.0, 0.0)


class Record(NamedTuple):
    """Recording of a number of steps: senses [steps, robots, SIZE], right answers, and where episodes begin."""

    senses: np.ndarray
    linear: np.ndarray
    angular: np.ndarray
    state: np.ndarray
    begins: np.ndarray


class Dice:
    """The random streams of robots, one each: draws for some of them at once, a row for each robot."""

    def __init__(self, rngs: Sequence[np.random.Generator]) -> None:
        self.rngs = list(rngs)

    def _of(self, rows: np.ndarray | None) -> list[np.random.Generator]:
        return self.rngs if rows is None else [self.rngs[row] for row in rows]

    def random(self, rows: np.ndarray | None = None, *shape: int) -> np.ndarray:
        """From 0 to 1, [rows, *shape]."""
        rngs = self._of(rows)
        return np.array([rng.random(shape or None) for rng in rngs]).reshape(len(rngs), *shape)

    def normal(self, rows: np.ndarray | None = None, *shape: int) -> np.ndarray:
        """Of mean 0 and deviation 1, [rows, *shape]."""
        rngs = self._of(rows)
        return np.array([rng.standard_normal(shape or None) for rng in rngs]).reshape(len(rngs), *shape)

    def integers(self, low: int, high: int, rows: np.ndarray) -> np.ndarray:
        """From ``low`` to below ``high``, [rows]."""
        return np.array([rng.integers(low, high) for rng in self._of(rows)], int)

    def uniform(self, low: float, high: float, rows: np.ndarray) -> np.ndarray:
        """Between both, [rows]."""
        return np.array([rng.uniform(low, high) for rng in self._of(rows)], float)


class Fleet:
    """Robots side by side. What becomes of one depends on its own random stream and number alone, not on the others.

    Args:
        deal: gives the next course: called with (random stream, row, radius), returns a Course and a start (x, y, yaw).
        rngs: of everything that happens to each robot by chance; there are as many robots.
        trouble: what goes wrong.
        numbers: of the robots, which some habits depend on; default: counted from 0.
    """

    def __init__(self, deal: Callable[[np.random.Generator, int, float], tuple[Course, tuple[float, float, float]]],
                 rngs: Sequence[np.random.Generator], trouble: Trouble = Trouble(),
                 numbers: Sequence[int] | None = None) -> None:
        n = self.n = len(rngs)
        self.dice, self.trouble, self._deal = Dice(rngs), trouble, deal
        self._numbers = np.arange(n) if numbers is None else np.asarray(numbers)
        self.ground, self.rows = Ground(n), np.arange(n)
        f = lambda *shape: np.zeros((n, *shape), np.float32)  # noqa: E731 - shorter thirty times over
        self.x, self.y, self.yaw, self.v, self.w = f(), f(), f(), f(), f()
        self.max_v, self.max_w, self.braking, self.acc, self.turn_acc, self.radius = f(), f(), f(), f(), f(), f()
        self.stop_gap, self.time, self.noise, self.drop, self.felt = f(), f(), f(), f(), f()
        self.last = np.zeros((n, 3), np.float32)
        self.slow, self.ranges = f(BINS), f(BEAMS)
        self.bias, self.mode = f(3), np.zeros(n, int)
        self.point, self.point_left = f(2), np.zeros(n, int)
        self.heading, self.speed = f(), f()
        self.special, self.special_left, self.special_heading = np.zeros(n, int), np.zeros(n, int), f()
        self.movers = np.full((n, MOVERS, 5), np.nan, np.float32)   # x, y, velocity, radius
        self._walk = np.zeros((n, MOVERS, 6), np.float32)           # two ends, speed, s waited
        self.held, self.off, self.begins = np.zeros(n, int), f(2), np.zeros(n, bool)
        self.outcome = np.zeros(n, int)     # of the step: 0 goes on, 1 reached, 2 contact, 3 timeout
        self.contacts = self.reached = self.timeouts = 0
        self._parity = 0
        for row in range(n):
            self._begin(row)

    # -- episodes --------------------------------------------------------------------------------------------------

    def _begin(self, row: int) -> None:
        rng, t = self.dice.rngs[row], self.trouble
        profile = PROFILES[rng.choice(len(PROFILES), p=PROFILES[:, 0] / PROFILES[:, 0].sum()) if t.profiles else 0]
        (self.max_v[row], self.max_w[row], self.braking[row], self.acc[row], self.turn_acc[row],
         self.radius[row]) = profile[1:]
        self.stop_gap[row] = 0.28 if not t.profiles or rng.random() < 0.7 else rng.uniform(0.2, 0.4)
        course, (self.x[row], self.y[row], self.yaw[row]) = self._deal(rng, row, float(self.radius[row]))
        self.ground.put(row, course)
        self.v[row] = self.w[row] = self.time[row] = 0.0
        self.last[row] = 0.0
        self.noise[row] = 0.01 if not t.profiles else rng.uniform(0.0, 0.025)
        self.drop[row] = 0.002 if not t.profiles else rng.choice([0.002, 0.02])
        self.felt[row] = rng.random() < 0.25 or np.isin(0.0, course.shapes[:, 5])
        self.slow[row] = s.REACH
        self.bias[row] = rng.normal(size=3) * (t.bearing / 2, t.distance, t.heading)
        self.point_left[row] = self.special_left[row] = self.special[row] = self.held[row] = 0
        self.off[row] = rng.normal(size=2) * (0.15, 0.25) if rng.random() < t.actions else 0.0
        self.begins[row] = True
        self._begin_movers(row)

    def _begin_movers(self, row: int) -> None:
        rng = self.dice.rngs[row]
        self.movers[row] = np.nan
        if rng.random() >= self.trouble.movers:
            return
        half, here = self.ground.size[row] / 2, np.array([self.x[row], self.y[row]])
        at = np.array([row])
        for k in range(rng.integers(1, MOVERS + 1)):
            r = rng.uniform(0.1, 0.2)
            for _ in range(12):
                ends = rng.uniform(-half, half, (2, 2)).astype(np.float32)
                line = ends[0] + np.linspace(0, 1, 12)[:, None].astype(np.float32) * (ends[1] - ends[0])
                if (self.ground.clear(line[None], at).min() > r + 0.05 and np.hypot(*(ends[0] - here)) > r + 0.6
                        and np.hypot(*(ends[1] - ends[0])) > 0.8
                        and not self.ground.to_target(line[None], at).min() < r + 0.1):
                    speed = rng.uniform(0.1, 0.3)
                    self.movers[row, k] = (*ends[0], *(speed * (ends[1] - ends[0]) / np.hypot(*(ends[1] - ends[0]))), r)
                    self._walk[row, k] = (*ends.ravel(), speed, 0.0)
                    break

    # -- what is told ----------------------------------------------------------------------------------------------

    def tell(self) -> np.ndarray:
        """Makes the senses of each motor now: float32[n, SIZE]. Call it once a step, before :meth:`advance`."""
        dice = self.dice
        self._parity ^= 1
        here = np.stack([self.x, self.y], -1)
        self._change_minds(here)
        stale = (self._numbers % 2 == self._parity) | self.begins        # lidars turn ten times a second
        self._scan(np.flatnonzero(stale), here)
        target = self.ground.target[:, :2] - here
        bearing = wrap(np.arctan2(target[:, 1], target[:, 0]) - self.yaw + self.bias[:, 0]
                       + self.trouble.bearing / 2 * dice.normal())
        away = np.hypot(*target.T) * np.exp(self.bias[:, 1] / (1 + np.exp(2 * (1.0 - np.hypot(*target.T))))
                                            + self.trouble.distance / 3 * dice.normal())
        known = (self.mode == APPROACH) & np.isfinite(away)
        bearing, away = (np.where(known, value, np.nan).astype(np.float32) for value in (bearing, away))
        self._head(here, bearing, away)
        angles = np.broadcast_to(ANGLES, self.ranges.shape)
        own = s.of_target(angles, self.ranges, bearing[:, None], away[:, None])
        gaps = s.ring(np.broadcast_to(BEAM_BINS, self.ranges.shape),
                      np.where(own, np.inf, self.ranges - self.radius[:, None]))
        gaps = np.minimum(gaps, self._hazards(here, bearing, away))
        left = s.target_gap(angles, self.ranges, bearing[:, None], away[:, None]) - self.radius - self.stop_gap
        closing, self.slow = s.shrunk(gaps, np.where(self.begins[:, None], gaps, self.slow), self.w * PERIOD, PERIOD)
        limits = np.stack([self.max_v, self.max_w, self.braking, self.radius], -1)
        self.senses = np.concatenate([gaps, closing, np.stack([
            self.heading, self.speed, self.mode, bearing, away, left], -1), self.last, limits], -1).astype(np.float32)
        return self.senses

    def _change_minds(self, here: np.ndarray) -> None:
        """Draws what the prefrontal cortex wants: mostly the goal, and now and then something else for a while."""
        t, dice = self.trouble, self.dice
        self.special_left -= 1
        free = self.special_left <= 0
        self.special[free] = 0
        draw = dice.random()
        edges = np.cumsum([t.wrong, t.wrong / 2, t.turns, t.halts]) * PERIOD
        kind = np.where(free, np.searchsorted(edges, draw) + 1, 0)
        for number, (low, high) in ((1, (8, 50)), (2, (20, 80)), (3, (10, 60)), (4, (8, 25))):
            chosen = np.flatnonzero(kind == number)
            self.special[chosen] = number
            self.special_left[chosen] = dice.integers(low, high, chosen)
            self.special_heading[chosen] = (
                dice.uniform(-np.pi, np.pi, chosen) if number == 1 else
                np.array([-1.2, 1.2])[dice.integers(0, 2, chosen)] * dice.uniform(0.7, 1, chosen))
            if number == 4:
                self.special_heading[chosen] = np.array([IDLE, STOP])[dice.integers(0, 2, chosen)]
        has = np.isfinite(self.ground.target[:, 0])
        goal = np.where(has, APPROACH, np.where(self._numbers % 3 == 0, AVOID, SEARCH))
        self.mode = np.where(self.special == 4, self.special_heading.astype(int), np.where(
            (self.special == 3) | ((self.special == 1) & (self._numbers % 2 == 0)), SEARCH, goal))

    def _head(self, here: np.ndarray, bearing: np.ndarray, away: np.ndarray) -> None:
        dice = self.dice
        self.point_left -= 1
        new = np.flatnonzero((self.point_left <= 0) | self.begins)
        self.point_left[new] = dice.integers(3, 7, new)
        way = self.ground.downhill(here[new], new, ROUTE)
        t = np.linspace(0.2, 1.0, 5, dtype=np.float32)[:, None]
        lines = here[new, None, None] + t * (way - here[new, None])[:, :, None]
        fits = self.ground.clear(lines, new).min(-1) > self.radius[new, None] + 0.04
        fits[:, 0] = True
        self.point[new] = way[np.arange(len(new)), ROUTE - 1 - fits[:, ::-1].argmax(1)]
        to = self.point - here
        heading = np.arctan2(to[:, 1], to[:, 0]) - self.yaw + self.bias[:, 2]
        heading = np.where(np.hypot(*to.T) < 0.03, 0.0, heading) + self.trouble.heading / 2 * dice.normal()
        heading = np.where((self.mode == APPROACH) & (away < 1.1), bearing, heading)
        heading = np.where(self.special == 1, self.special_heading, heading)
        target = self.ground.target[:, :2] - here
        at_it = np.where(np.isfinite(target[:, 0]), np.arctan2(target[:, 1], target[:, 0]) - self.yaw, heading)
        heading = np.where(self.special == 2, at_it, heading)       # straight to it, through what is between
        heading = np.where(self.special == 3, self.special_heading, heading)
        self.heading = np.where(self.special == 4, np.nan, wrap(heading)).astype(np.float32)
        self.speed = np.where((self.special == 3) | (self.special == 4), 0.0, 1.0).astype(np.float32)

    def _scan(self, rows: np.ndarray, here: np.ndarray) -> None:
        if not len(rows):
            return
        dice, shapes = self.dice, self.ground.shapes[rows]
        seen = np.where(shapes[..., 5:] == 1, shapes[..., :5], np.nan)
        ranges = cast(here[rows], ANGLES + self.yaw[rows, None], self._with_movers(seen, rows), self.ground.size[rows])
        ranges = ranges + dice.normal(rows, BEAMS) * self.noise[rows, None]
        ranges[dice.random(rows, BEAMS) < self.drop[rows, None]] = np.inf
        self.ranges[rows] = np.maximum(ranges, robot.LIDAR_MIN)

    def _with_movers(self, shapes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        m = self.movers[rows]
        disks = np.stack([m[..., 0], m[..., 1], 0 * m[..., 0], m[..., 4], 0 * m[..., 0]], -1)
        return np.concatenate([shapes, disks], 1)

    def _hazards(self, here: np.ndarray, bearing: np.ndarray, away: np.ndarray) -> np.ndarray:
        """Gaps [n, 36] (m) that hazard maps tell of: a ring of other sensors, and what is to be avoided."""
        found = np.full((self.n, BINS), s.REACH, np.float32)
        rows = np.flatnonzero(self.felt > 0)
        if len(rows):
            angles = (np.arange(BINS)[:, None] + np.array([-0.35, 0, 0.35])).reshape(-1) * WIDTH
            reach = cast(here[rows], angles + self.yaw[rows, None], self._with_movers(
                self.ground.shapes[rows, :, :5], rows), self.ground.size[rows])
            near = reach.reshape(len(rows), BINS, 3).min(-1) + 0.015 * self.dice.normal(rows, BINS)
            centers = np.broadcast_to(np.arange(BINS) * WIDTH, near.shape)
            own = s.of_target(centers, near, bearing[rows, None], away[rows, None])
            found[rows] = np.where(own, s.REACH, np.clip(near - self.radius[rows, None], 0, s.REACH))
        rows = np.flatnonzero(self.ground.avoid[:, 3] > 0)
        if len(rows):   # as the prefrontal cortex draws it: the largest object and what is kept from it
            to = self.ground.avoid[rows, :2] - here[rows]
            # off by as much as where the target is believed to be, the other way
            far = np.hypot(*to.T) * np.exp(-self.bias[rows, 1] + self.trouble.distance / 3 * self.dice.normal(rows))
            angle = np.arctan2(to[:, 1], to[:, 0]) - self.yaw[rows] - self.bias[rows, 0]
            spread = np.arcsin(np.minimum(DRAWN / np.maximum(far, DRAWN), 1.0))
            inside = np.abs(wrap(np.arange(BINS) * WIDTH - angle[:, None])) <= spread[:, None]
            gap = np.clip(far - DRAWN - self.radius[rows], 0.1, s.REACH)
            found[rows] = np.where(inside, np.minimum(found[rows], gap[:, None]), found[rows])
        return found

    # -- the teacher -----------------------------------------------------------------------------------------------

    def ask(self) -> Told:
        """The teacher's answers to what was told last."""
        return teach(Asked(self.x, self.y, self.yaw, self.mode, self.heading, self.speed, self.last[:, 2] == ARRIVED,
                           self.max_v, self.max_w, self.braking, self.radius, self.stop_gap, self.movers), self.ground)

    # -- motion ----------------------------------------------------------------------------------------------------

    def advance(self, linear: np.ndarray, angular: np.ndarray, state: np.ndarray) -> None:
        """Drives for 50 ms as answered (shares of the top speeds, states); episodes that ended begin anew."""
        n, h, parts = self.n, PERIOD / 5, 5
        self.begins[:] = False
        self.last = np.stack([np.clip(linear, -0.3, 1), np.clip(angular, -1, 1), state], -1).astype(np.float32)
        moving = np.abs(self.off).sum(1) > 0
        v = (self.last[:, 0] + np.where(moving & (linear > 0.05), self.off[:, 0], 0)) * self.max_v
        w = (self.last[:, 1] + np.where(moving & (linear > 0.05), self.off[:, 1], 0)) * self.max_w
        v, w = np.clip(v, -0.3 * self.max_v, self.max_v), np.clip(w, -self.max_w, self.max_w)
        touched = np.zeros(n, bool)
        for _ in range(parts):
            self.v += np.clip(v - self.v, -self.acc * h, self.acc * h)
            self.w += np.clip(w - self.w, -self.turn_acc * h, self.turn_acc * h)
            self.yaw = wrap(self.yaw + self.w * h).astype(np.float32)
            self.x += self.v * h * np.cos(self.yaw)
            self.y += self.v * h * np.sin(self.yaw)
            self._move_movers(h)
        pushed = np.flatnonzero(self.dice.random() < self.trouble.pushes * PERIOD)
        self._push(pushed)
        self.time += PERIOD
        here = np.stack([self.x, self.y], -1)[:, None]
        touched = self._clear_at(here, self.rows) < self.radius
        holds = state == ARRIVED
        self.held = np.where(holds, self.held + 1, 0)
        front = here[:, 0] + self.radius[:, None] * np.stack([np.cos(self.yaw), np.sin(self.yaw)], -1)
        there = (self.held >= HOLD) & (self.ground.to_target(front[:, None], self.rows)[:, 0] < robot.REACH)
        there |= np.isnan(self.ground.target[:, 0]) & (self.ground.cost_at(here[:, 0], self.rows) < 0.25)
        out = np.where(touched, 2, np.where(there, 1, np.where(self.time > TIME_LIMIT, 3, 0)))
        self.outcome = out
        self.reached, self.contacts = self.reached + int((out == 1).sum()), self.contacts + int((out == 2).sum())
        self.timeouts += int((out == 3).sum())
        for row in np.flatnonzero(out):
            self._begin(row)

    def _clear_at(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Least distance (m) to anything, of points [k, 1, 2]."""
        found = np.fmin(self.ground.clear(points, rows), self.ground.to_target(points, rows))[:, 0]
        felt = self.ground.avoid[rows]      # the clearance keeps off what is avoided, which is no contact
        near = np.hypot(points[:, 0, 0] - felt[:, 0], points[:, 0, 1] - felt[:, 1]) < 1.2
        found = np.where((felt[:, 3] > 0) & near, np.maximum(found, 0.9), found)
        m = self.movers[rows]
        return np.fmin(found, (np.hypot(points[:, :1, 0] - m[..., 0], points[:, :1, 1] - m[..., 1]) - m[..., 4]).min(
            -1, initial=np.inf, where=np.isfinite(m[..., 0])))

    def _push(self, rows: np.ndarray) -> None:
        dice = self.dice
        if len(rows):
            to = np.stack([self.x[rows], self.y[rows]], -1) + (0.07 * dice.normal(rows, 2)).astype(np.float32)
            free = self._clear_at(to[:, None].astype(np.float32), rows) > self.radius[rows] + 0.02
            rows, to = rows[free], to[free]
            self.x[rows], self.y[rows] = to[:, 0], to[:, 1]
            self.yaw[rows] = wrap(self.yaw[rows] + 0.4 * dice.normal(rows))

    def _move_movers(self, h: float) -> None:
        m, walk = self.movers, self._walk
        x, y = m[..., 0] + m[..., 2] * h, m[..., 1] + m[..., 3] * h
        with np.errstate(invalid="ignore"):
            to_robot = np.hypot(x - self.x[:, None], y - self.y[:, None])
            now = np.hypot(m[..., 0] - self.x[:, None], m[..., 1] - self.y[:, None])
            waits = (to_robot < m[..., 4] + self.radius[:, None] + 0.08) & (to_robot < now)
            back = waits & (walk[..., 5] > 1.0)
            ends = np.hypot(x - walk[..., 2], y - walk[..., 3]) < 0.03
        walk[..., 5] = np.where(waits, walk[..., 5] + h, 0)
        m[..., 0], m[..., 1] = np.where(waits, m[..., 0], x), np.where(waits, m[..., 1], y)
        turn = back | ends
        if turn.any():
            m[..., 2:4] = np.where(turn[..., None], -m[..., 2:4], m[..., 2:4])
            walk[..., :4] = np.where(turn[..., None], walk[..., [2, 3, 0, 1]], walk[..., :4])
