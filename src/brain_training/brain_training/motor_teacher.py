# SPDX-License-Identifier: Apache-2.0
"""The motor's teacher: cheapest ways on the true map, things that move included, and pure pursuit along them.

What it is told is what the motor is told (mode, heading, speed); what it knows beyond is where everything is. From
each pose it plans afresh, over a window of 2.4 m, to where the heading points, so that the right answer depends on what
can be seen from there alone, and can be learned from it. The route through the whole room is in the heading already.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from brain_regions.azimuth import wrap
from brain_regions.motor.body import APPROACH, ARRIVED, BLOCKED, IDLE, MOVING, STANDING, STOP
from brain_training.motor_courses import price

CELL, HALF = 0.10, 12       # m; cells to each side of the window
POINT = 0.9                 # m, where the heading points to
AIM = 0.55                  # m, how far along its way the robot aims at most
PULL = 7.0                  # what a meter less to the wanted point is worth, in the unit of price()
KEEP = 0.05                 # m that an arc leaves to everything
CREEP = 0.16            # of the top speed: the least in front of a target
NEAR = 1.1                  # m from a target, within which the robot goes to it and no longer where the heading points
SIDE = 0.35             # by how much the other side's way is dearer
SWEEPS = 32
_OFFSETS = (np.stack(np.meshgrid(*[np.arange(-HALF, HALF + 1)] * 2, indexing="ij"), -1) * CELL).astype(np.float32)


class Asked(NamedTuple):
    """Commands to n robots, and their state: arrays [n].

    Attributes:
        x, y, yaw: pose (m, rad).
        mode, heading, speed: of Control; heading in rad, NaN: none.
        was_arrived: whether the robot said last that it had arrived.
        max_linear, max_angular, braking, radius, stop_gap: of the robot (m/s, rad/s, m/s^2, m, m).
        movers: x, y (m), velocity (m/s) and radius (m) of what moves, NaN where nothing does. [n, k, 5]
    """

    x: np.ndarray
    y: np.ndarray
    yaw: np.ndarray
    mode: np.ndarray
    heading: np.ndarray
    speed: np.ndarray
    was_arrived: np.ndarray
    max_linear: np.ndarray
    max_angular: np.ndarray
    braking: np.ndarray
    radius: np.ndarray
    stop_gap: np.ndarray
    movers: np.ndarray


class Told(NamedTuple):
    """The right answers, [n] each: shares of the top speeds, and states."""

    linear: np.ndarray
    angular: np.ndarray
    state: np.ndarray


def teach(ask: Asked, ground) -> Told:
    """Computes the right answer for each robot on a :class:`brain_training.motor_courses.Ground` of as many rows."""
    n, rows = len(ask.x), np.arange(len(ask.x))
    here = np.stack([ask.x, ask.y], -1).astype(np.float32)
    gap_here = _gap(ground, ask, rows, here[:, None])[:, 0]
    linear, angular = np.zeros(n), np.zeros(n)
    state = np.full(n, MOVING)
    still = np.isin(ask.mode, (IDLE, STOP)) | ~np.isfinite(ask.heading)
    state[still] = STANDING
    turning = ~still & (ask.speed < 0.02)
    angular[turning] = np.clip(2.2 * ask.heading[turning], -0.87 * ask.max_angular[turning],
                               0.87 * ask.max_angular[turning])
    target = ground.target[:, :2] - here
    to_target = ground.to_target(here[:, None], rows)[:, 0] - ask.radius    # gap
    bearing = wrap(np.arctan2(target[:, 1], target[:, 0]) - ask.yaw)
    approach = (ask.mode == APPROACH) & ~still & ~turning & np.isfinite(to_target)
    free = _line(ground, ask, rows, here, ground.target[:, :2], False) > 0
    near = approach & (np.hypot(*target.T) < NEAR) & (np.abs(wrap(ask.heading - bearing)) < 0.5)
    was = ask.was_arrived
    there = near & free & (to_target < ask.stop_gap + np.where(was, 0.10, 0.0)) & (
        np.abs(bearing) < np.where(was, 0.5, 0.25))
    state[there] = ARRIVED
    # it creeps on until it has said so: else it would come to a stop where it is not yet sure
    first = there & ~was & (to_target > ask.stop_gap - 0.10)
    linear[first], angular[first] = CREEP * ask.max_linear[first], np.clip(2.5 * bearing[first], -0.5, 0.5)
    go = np.flatnonzero(~still & ~turning & ~there)
    if len(go):
        part = Asked(*(value[go] for value in ask))
        v, w, blocked = _drive(part, ground, go, here[go], gap_here[go], near[go], free[go], to_target[go], bearing[go])
        linear[go], angular[go] = v, w
        state[go[blocked]] = BLOCKED
    return Told((linear / ask.max_linear).astype(np.float32), (angular / ask.max_angular).astype(np.float32), state)


def _gap(ground, ask: Asked, rows: np.ndarray, points: np.ndarray, ahead: float | np.ndarray = 0.0) -> np.ndarray:
    """Gap (m) at points [n, ..., 2], to what moves as it will stand ``ahead`` s from now."""
    shape = (len(rows), *(1,) * (points.ndim - 2))
    found = ground.clear(points, rows)
    for k in range(ask.movers.shape[1]):
        m = ask.movers[:, k]
        if np.isnan(m[:, 0]).all():
            continue
        x, y, vx, vy, r = (m[:, i].reshape(shape) for i in range(5))
        for t in (ahead,) if np.ndim(ahead) else (0.0, 0.5):
            away = np.hypot(points[..., 0] - x - vx * t, points[..., 1] - y - vy * t) - r
            found = np.fmin(found, away)
    return found - ask.radius.reshape(shape)


def _line(ground, ask, rows, start, end, as_robot: bool = True, parts: int = 7) -> np.ndarray:
    """Least gap of the robot (or clearance of a point) along lines from ``start`` to ``end`` [n, ..., 2]."""
    t = np.linspace(1 / parts, 1, parts, dtype=np.float32)[:, None]
    start = start.reshape(len(rows), *(1,) * (end.ndim - 2), 2)
    points = start[..., None, :] + t * (end - start)[..., None, :]
    return _gap(ground, ask, rows, points).min(-1) if as_robot else ground.clear(points[..., :-1, :], rows).min(-1)


def _drive(ask: Asked, ground, rows, here, gap_here, near, free, to_target, bearing):
    """Velocity (m/s, rad/s) of robots that are to drive, and which of them are blocked."""
    n = len(rows)
    wanted = ask.yaw + ask.heading
    point = here + POINT * np.stack([np.cos(wanted), np.sin(wanted)], -1)
    straight = _line(ground, ask, rows, here, point)
    easy = ~near & (straight > 0.10)
    aim, stays = point.copy(), np.zeros(n, bool)
    hard = np.flatnonzero(~easy & ~(near & free & (to_target < ask.stop_gap)))
    if len(hard):
        some = Asked(*(value[hard] for value in ask))
        aim[hard], stays[hard] = _plan(some, ground, rows[hard], here[hard], gap_here[hard], point[hard], near[hard])
    close = near & free & ((to_target < ask.stop_gap) | stays)
    error = wrap(np.arctan2(aim[:, 1] - here[:, 1], aim[:, 0] - here[:, 0]) - ask.yaw)
    blocked = stays & ~near & (straight < 0.10)
    error = np.where(close, bearing, np.where(stays, ask.heading, error))
    w = np.clip(2.5 * error, -ask.max_angular, ask.max_angular)
    v = ask.speed * ask.max_linear * np.clip(1.15 - np.abs(error), 0, 1)
    room = np.maximum(to_target - ask.stop_gap + 0.05, 0)
    with np.errstate(invalid="ignore"):
        v = np.where(near & free, np.minimum(v, np.maximum(np.sqrt(2 * ask.braking * room), CREEP * ask.max_linear)), v)
    v = np.where(close | stays | (np.abs(error) > 0.8), 0.0, v)
    return _safe(ask, ground, rows, here, gap_here, v, w), w, blocked


def _plan(ask: Asked, ground, rows, here, gap_here, point, near):
    """Point to aim at along the cheapest way [n, 2], and whether the best place is the one where the robot is."""
    n = len(rows)
    cells = here[:, None, None] + _OFFSETS
    gap = _gap(ground, ask, rows, cells)
    surface = ground.to_target(cells, rows) - ask.radius[:, None, None]
    from_target = np.where(near[:, None, None], surface, np.inf)
    hard_limit = np.minimum(0.03, 0.5 * gap_here)[:, None, None]
    shut = (gap < hard_limit) | (np.nan_to_num(surface, nan=np.inf) < 0.08)
    shut[:, HALF, HALF] = False
    step = np.where(shut, 1e4, price(gap) * _sided(ask, here, cells, near)).astype(np.float32)
    goal = PULL * np.hypot(*np.moveaxis(cells - point[:, None, None], -1, 0))
    if near.any():
        k = np.flatnonzero(near)
        off = np.abs(from_target[k] - (ask.stop_gap[k] - 0.07)[:, None, None])
        target = np.broadcast_to(ground.target[rows[k], None, None, :2], (*off.shape, 2))
        t = np.linspace(0.1, 0.9, 6, dtype=np.float32)[:, None]
        lines = cells[k][..., None, :] + t * (target - cells[k])[..., None, :]
        cut = ground.clear(lines.reshape(len(k), -1, 2), rows[k]).reshape(*off.shape, -1).min(-1) <= 0
        goal[k] = PULL * np.maximum(off - 0.03, 0) + 3.0 * cut
    goal = np.where(shut, 1e4, goal).astype(np.float32)
    value = np.full((n, 2 * HALF + 3, 2 * HALF + 3), 1e4, np.float32)
    inner = value[:, 1:-1, 1:-1]
    inner[:] = goal
    cost, diagonal = step * np.float32(CELL), step * np.float32(CELL * 2 ** 0.5)
    side = 2 * HALF + 1
    for _ in range(SWEEPS):
        b = np.minimum(np.minimum(value[:, :-2, 1:-1], value[:, 2:, 1:-1]),
                       np.minimum(value[:, 1:-1, :-2], value[:, 1:-1, 2:])) + cost
        d = np.minimum(np.minimum(value[:, :-2, :-2], value[:, 2:, 2:]),
                       np.minimum(value[:, :-2, 2:], value[:, 2:, :-2])) + diagonal
        np.minimum(inner, np.minimum(b, d), out=inner)
    return _follow(ask, ground, rows, here, value, goal, step, gap_here, side)


def _sided(ask, here, cells, near):
    """Ways past the side to which the robot is turned already are cheaper: else nobody could learn which side to take.

    A robot that faces what stands in its way squarely goes past it on the left.
    """
    wanted = ask.yaw + ask.heading
    left = (-np.sin(wanted)[:, None, None] * (cells[..., 0] - here[:, 0, None, None])
            + np.cos(wanted)[:, None, None] * (cells[..., 1] - here[:, 1, None, None]))
    side = np.where(ask.heading > 0.08, -1.0, 1.0)[:, None, None]
    return np.where(near[:, None, None], 1.0, 1.0 + SIDE * np.clip(-side * left / 0.3, 0.0, 1.0))


def _follow(ask, ground, rows, here, value, goal, step, gap_here, side):
    n = len(rows)
    at, path = np.full((n, 2), HALF, np.int32), np.zeros((n, 7, 2), np.float32)
    moves = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [1, -1], [-1, 1], [-1, -1]], np.int32)
    length = np.hypot(*moves.T).astype(np.float32) * CELL
    index = np.arange(n)[:, None]
    for k in range(path.shape[1]):
        near = at[:, None] + moves
        price_here = step[index, np.clip(at[:, :1], 0, side - 1), np.clip(at[:, 1:], 0, side - 1)]
        through = value[index, near[..., 0] + 1, near[..., 1] + 1] + length * price_here
        through[:, 0] = goal[index[:, 0], np.clip(at[:, 0], 0, side - 1), np.clip(at[:, 1], 0, side - 1)]
        at = np.clip(np.take_along_axis(near, through.argmin(1)[:, None, None], 1)[:, 0], 0, side - 1)
        path[:, k] = here + (at - HALF) * np.float32(CELL)
    stays = np.hypot(*(path[:, -1] - here).T) < 0.05
    gaps = _line(ground, ask, rows, here, path, parts=5)
    along = np.minimum.accumulate(_gap(ground, ask, rows, path), axis=1)
    allowed = np.minimum(np.minimum(0.12, gap_here[:, None] - 0.02), along - 0.02)
    reach = np.hypot(*np.moveaxis(path - here[:, None], -1, 0))
    good = (gaps >= allowed) & (reach <= AIM)
    good[:, 0] = True
    last = path.shape[1] - 1 - good[:, ::-1].argmax(1)
    return path[np.arange(n), last], stays


def _safe(ask, ground, rows, here, gap_here, v, w):
    """The largest share of ``v`` with which the arc keeps clear until the robot could stand."""
    shares = np.array([1.0, 0.8, 0.6, 0.4, 0.2], np.float32)
    speed = v[:, None] * shares
    until = 0.35 + speed / ask.braking[:, None]
    t = until[..., None] * np.linspace(0.2, 1, 5)
    turn = (ask.yaw[:, None, None] + w[:, None, None] * t / 2)
    points = here[:, None, None] + (speed[..., None] * t)[..., None] * np.stack([np.cos(turn), np.sin(turn)], -1)
    gap = _gap(ground, ask, rows, points.astype(np.float32), t)
    least = np.minimum(gap.min(-1), np.inf)
    ok = least > np.minimum(KEEP, gap_here - 0.01)[:, None]
    # what leads away from what is near is allowed, however near that is
    ok |= (gap[..., -1] > gap_here[:, None] + 0.005) & (least > np.minimum(0.0, gap_here[:, None]) + 0.008)
    best = np.where(ok.any(1), shares[ok.argmax(1)], 0.0)
    return v * best
