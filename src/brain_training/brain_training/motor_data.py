# SPDX-License-Identifier: Apache-2.0
"""Drives through rooms while the teacher labels: data for cloning, for DAgger, and held-out drives."""
from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import numpy as np

from brain_regions.motor import network
from brain_regions.motor.coding import encode
from brain_regions.motor.network import RatePolicy, SpikingPolicy
from brain_regions.room_map import FAR
from brain_sim.room import generate_room
from brain_sim.things import RoomObject
from brain_training.motor_courses import COARSE, Course, Maps
from brain_training.motor_world import HONEST, PERIOD, Fleet, Record, Trouble
from brain_training.task import stream

Start = tuple[float, float, float]
STEPS = 10              # micro-steps in 50 ms
BESIDE = 0.15           # share of the courses in which what is to be avoided stands beside the target
NEIGHBORS = 1.6         # m between the middles of both
AMONG = 0.7             # share of their starts that are close to both


class Dealer:
    """Deals courses in a pool of rooms.

    Args:
        rooms: how many.
        split, first_seed: of the rooms.
        progress: called with (done, of).

    Raises:
        ValueError: the split is ``test``.
    """

    def __init__(self, rooms: int, *, split: str = "train", first_seed: int = 0,
                 progress: Callable[[int, int], None] | None = None) -> None:
        if split == "test":
            raise ValueError("training refuses the split 'test': use 'train'")
        self.first_seed, self._maps = first_seed, []
        for k in range(rooms):
            low = 2 if k % 4 == 3 else 0
            self._maps.append(Maps(generate_room(split, first_seed + k, low_obstacles=low)))
            if progress:
                progress(k + 1, rooms)

    def __call__(self, rng: np.random.Generator, row: int, radius: float) -> tuple[Course, Start]:
        """A course for a robot of ``radius`` m, and where it starts."""
        while True:
            maps = self._maps[rng.integers(len(self._maps))]
            room = maps.room
            target = avoid = waypoint = None
            draw = rng.random()
            beside = draw < BESIDE and (pairs := _neighbors(room.objects))
            if beside:
                target, avoid = pairs[rng.integers(len(pairs))]
            elif draw < 0.68:
                target = room.objects[rng.integers(len(room.objects))]
                if rng.random() < 0.2:
                    avoid = room.objects[rng.integers(len(room.objects))]
                    avoid = None if avoid is target else avoid
            else:
                waypoint = tuple(rng.uniform(-0.5, 0.5, 2) * (np.array(room.size) - 0.8))
            course = maps.course(radius, target, avoid, waypoint, unseen=rng.random() < 0.5)
            if start := self._start(rng, course, radius, bool(beside)):
                return course, start

    def _start(self, rng: np.random.Generator, course: Course, radius: float, beside: bool) -> Start | None:
        cells = np.argwhere(course.cost < FAR / 2)
        if len(cells) < 30:
            return None
        if beside and rng.random() < AMONG:     # close to the target and to what is to be avoided
            x, y = ((cells + 0.5) * COARSE - course.size / 2).T
            cells = cells[(course.cost[cells[:, 0], cells[:, 1]] < 1.0)
                          & (np.hypot(x - course.avoid[0], y - course.avoid[1]) < 1.4)]
            if not len(cells):
                return None
        cells = cells[rng.integers(len(cells), size=40)]
        points = ((cells + 0.5) * COARSE - course.size / 2).astype(np.float32)
        cost, draw = course.cost[cells[:, 0], cells[:, 1]], rng.random()
        if draw < 0.2 and np.isfinite(course.target[0]):       # close to the target
            cost = np.where(cost < 0.8, cost, FAR)
        elif draw < 0.4:                                        # close to something
            fine = ((points + course.size / 2) / 0.05).astype(int)
            cost = np.where(course.clearance[fine[:, 0], fine[:, 1]] < radius + 0.10, cost, FAR)
        good = np.flatnonzero(cost < FAR / 2)
        if not len(good):
            return None
        return (*map(float, points[good[0]]), float(rng.uniform(-np.pi, np.pi)))


def _neighbors(objects: Sequence[RoomObject]) -> list[tuple[RoomObject, RoomObject]]:
    """Each object with each that stands beside it."""
    return [(a, b) for a in objects for b in objects
            if a is not b and math.hypot(a.x - b.x, a.y - b.y) < NEIGHBORS]


class Straight:
    """Deals the suite's way of starting: from the start of a room to its target, each robot in a room of its own."""

    def __init__(self, rooms: int, split: str, first_seed: int) -> None:
        self._rooms = [generate_room(split, first_seed + k, avoid=True if k % 6 == 5 else None) for k in range(rooms)]
        self._maps = [Maps(room) for room in self._rooms]

    def __call__(self, rng: np.random.Generator, row: int, radius: float) -> tuple[Course, Start]:
        """The row's; again and again."""
        room = self._rooms[row]
        course = self._maps[row].course(radius, room.target_object, room.avoid_object)
        at = ((np.array(room.start[:2]) + course.size / 2) / COARSE).astype(int)
        if course.cost[tuple(at)] >= FAR / 2:
            course = self._maps[row].course(radius, room.target_object, room.avoid_object, tight=True)
        return course, room.start


Driver = SpikingPolicy | RatePolicy | None
"""A network as it runs in a robot, or the teacher."""


class Seats:
    """Drivers of the robots, and their states: each network by itself, as it would run live.

    Args:
        drivers: of each robot.
    """

    def __init__(self, drivers: Sequence[Driver]) -> None:
        self._drivers = list(drivers)
        self._states: list[Any] = [None] * len(drivers)

    def answer(self, rows: np.ndarray, begins: np.ndarray, told: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Speed, turn (shares) and state of each robot, from its senses [n, SIZE] and what the teacher told."""
        linear, angular, state = (np.array(value, copy=True) for value in told)
        currents = encode(rows)
        for k, driver in enumerate(self._drivers):
            if driver is None:
                continue
            if isinstance(driver, SpikingPolicy):
                held = driver.rest() if begins[k] or self._states[k] is None else self._states[k]
                self._states[k], _ = driver.step(currents[k], held, STEPS)
                u = self._states[k]["u"]
            else:
                u = driver.answer(currents[k])
            linear[k], angular[k], state[k] = network.read(u)
        return linear, angular, state


def drive(seed: int, number: int, driver: Driver, share: float, robots: Sequence[int], dealer: Dealer, steps: int,
          progress: Callable[[int, int], None] | None = None) -> Record:
    """Drives robots for one round, and records what they sense and what would have been right.

    The record of a robot is a function of (seed, round, weights of the driver, robot): whoever drives the others.

    Args:
        seed: of the training.
        number: of the round.
        driver: a network.
        share: chance of a robot to be driven by it and not by the teacher.
        robots: their numbers.
        dealer: of courses.
        steps: of 50 ms.
        progress: called with (done, of).
    """
    rngs = [stream("motor drive", seed, number, robot) for robot in robots]
    seats = Seats([driver if rng.random() < share else None for rng in rngs])
    fleet, kept = Fleet(dealer, rngs, numbers=robots), []
    for step in range(steps):
        begins = fleet.begins | (step == 0)
        rows = fleet.tell()
        told = fleet.ask()
        kept.append((rows, told.linear, told.angular, told.state.astype(np.int8), begins.copy()))
        fleet.advance(*seats.answer(rows, begins, told))
        if progress and step % 20 == 19:
            progress(step + 1, steps)
    return Record(*(np.stack(values) for values in zip(*kept)))


def held_out(driver: Driver, rooms: int, *, split: str = "val", first_seed: int = 300_000, trouble: Trouble = HONEST,
             seed: int = 0, seconds: float = 60.0) -> dict[str, float]:
    """Drives from start to target in rooms that nobody was trained in.

    Args:
        driver: who.
        rooms, split, first_seed: which rooms.
        trouble: what goes wrong.
        seed: of what happens by chance.
        seconds: after which who has not arrived has failed.

    Returns:
        ``success`` and ``contact`` (shares of the rooms), ``contact_per_100m``, ``time`` (mean of the successes, s).
    """
    rngs = [stream("motor held out", seed, k) for k in range(rooms)]
    fleet = Fleet(Straight(rooms, split, first_seed), rngs, trouble)
    seats = Seats([driver] * rooms)
    outcome, length, times = np.zeros(rooms, int), 0.0, []
    nothing = np.zeros((3, rooms), np.float32)
    for _ in range(1 + round(seconds / PERIOD)):
        begins = fleet.begins.copy()
        rows = fleet.tell()
        time = fleet.time.copy()
        told = nothing if driver else fleet.ask()
        answers = seats.answer(rows, begins, told)
        open_ = outcome == 0
        length += float(np.abs(fleet.v[open_]).sum() * PERIOD)
        fleet.advance(*answers)
        ended = open_ & (fleet.outcome > 0)
        times += list(time[ended & (fleet.outcome == 1)])
        outcome[ended] = fleet.outcome[ended]
        if (outcome > 0).all():
            break
    return {"success": float((outcome == 1).mean()), "contact": float((outcome == 2).mean()),
            "contact_per_100m": 100 * float((outcome == 2).sum()) / max(length, 1e-9),
            "time": float(np.mean(times)) if times else float("nan")}
