# SPDX-License-Identifier: Apache-2.0
"""Who drives through which rooms while the teacher labels: data for cloning, for DAgger, and held-out drives."""
from __future__ import annotations

from typing import Callable, Sequence

import numpy as np

from brain_regions.motor import network
from brain_regions.motor.coding import encode
from brain_regions.room_map import FAR
from brain_sim.room import generate_room, split_rng
from brain_training.motor_courses import COARSE, Course, Maps
from brain_training.motor_world import HONEST, PERIOD, Fleet, Record, Trouble

Start = tuple[float, float, float]
STEPS = 10              # micro-steps in 50 ms


class Dealer:
    """Deals courses in a pool of rooms.

    Args:
        rooms: how many.
        split, first_seed: of the rooms.
        rng: of all choices.

    Raises:
        ValueError: the split is ``test``.
    """

    def __init__(self, rooms: int, rng: np.random.Generator, *, split: str = "train", first_seed: int = 0,
                 progress: Callable[[int, int], None] | None = None) -> None:
        if split == "test":
            raise ValueError("training refuses the split 'test': use 'train'")
        self.rng, self._maps = rng, []
        for k in range(rooms):
            low = 2 if k % 4 == 3 else 0
            self._maps.append(Maps(generate_room(split, first_seed + k, low_obstacles=low)))
            if progress:
                progress(k + 1, rooms)

    def __call__(self, row: int, radius: float) -> tuple[Course, Start]:
        """A course for a robot of ``radius`` m, and where it starts."""
        rng = self.rng
        while True:
            maps = self._maps[rng.integers(len(self._maps))]
            room = maps.room
            target = avoid = waypoint = None
            if rng.random() < 0.68:
                target = room.objects[rng.integers(len(room.objects))]
                if rng.random() < 0.2:
                    avoid = room.objects[rng.integers(len(room.objects))]
                    avoid = None if avoid is target else avoid
            else:
                waypoint = tuple(rng.uniform(-0.5, 0.5, 2) * (np.array(room.size) - 0.8))
            course = maps.course(radius, target, avoid, waypoint, unseen=rng.random() < 0.5)
            if start := self._start(course, radius):
                return course, start

    def _start(self, course: Course, radius: float) -> Start | None:
        rng = self.rng
        cells = np.argwhere(course.cost < FAR / 2)
        if len(cells) < 30:
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


class Straight:
    """Deals the suite's way of starting: from the start of a room to its target."""

    def __init__(self, rooms: int, split: str, first_seed: int) -> None:
        self._rooms = [generate_room(split, first_seed + k, avoid=True if k % 6 == 5 else None) for k in range(rooms)]
        self._maps = [Maps(room) for room in self._rooms]
        self.dealt: list[int] = []

    def __call__(self, row: int, radius: float) -> tuple[Course, Start]:
        """The next room's; the last one again and again when all were dealt."""
        k = min(len(self.dealt), len(self._rooms) - 1)
        self.dealt.append(k)
        room = self._rooms[k]
        return self._maps[k].course(radius, room.target_object, room.avoid_object), room.start


Driver = tuple[str, object]     # teacher, spiking or rate, with its network


class Seats:
    """Which of several drivers drives which robot, and their states."""

    def __init__(self, drivers: Sequence[Driver], shares: Sequence[float], robots: int,
                 rng: np.random.Generator) -> None:
        self._drivers = drivers
        self._seat = rng.choice(len(drivers), robots, p=np.asarray(shares) / np.sum(shares))
        self._states = [net.rest(robots) if kind == "spiking" else None for kind, net in drivers]

    def answer(self, rows: np.ndarray, begins: np.ndarray, told) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Speed, turn (shares) and state of each robot, from its senses [n, SIZE]."""
        linear, angular, state = (np.array(value, copy=True) for value in told)
        currents = encode(rows)
        for k, (kind, net) in enumerate(self._drivers):
            if kind == "teacher":
                continue
            mine = self._seat == k
            if kind == "spiking":
                held = self._states[k]
                for value in held.values():
                    value[begins] = 0.0
                self._states[k], _ = net.step(currents, held, STEPS)
                found = network.read(self._states[k]["u"])
            else:
                found = network.read(net.answer(currents))
            linear[mine], angular[mine], state[mine] = found.linear[mine], found.angular[mine], found.state[mine]
        return linear, angular, state


def roll(fleet: Fleet, seats: Seats, steps: int, progress: Callable[[int, int], None] | None = None) -> Record:
    """Lets a fleet drive and records what was sensed and what would have been right."""
    kept = []
    for step in range(steps):
        begins = fleet.begins | (step == 0)
        rows = fleet.tell()
        told = fleet.ask()
        kept.append((rows, told.linear, told.angular, told.state.astype(np.int8), begins.copy()))
        fleet.advance(*seats.answer(rows, begins, told))
        if progress and step % 20 == 19:
            progress(step + 1, steps)
    return Record(*(np.stack(values) for values in zip(*kept)))


def held_out(drivers: dict[str, Driver], rooms: int, *, split: str = "val", first_seed: int = 300_000,
             trouble: Trouble = HONEST, seed: int = 0, seconds: float = 60.0) -> dict[str, dict[str, float]]:
    """Drives from start to target in rooms that nobody was trained in: per driver success, contacts, time, length.

    Args:
        drivers: by name.
        rooms, split, first_seed: which rooms.
        trouble: what goes wrong.
        seed: of what happens by chance.
        seconds: after which who has not arrived has failed.

    Returns:
        Per driver: ``success`` and ``contact`` (shares of the rooms), ``contact_per_100m``, ``time`` (mean of the
        successes, s).
    """
    found = {}
    for name, driver in drivers.items():
        dealer = Straight(rooms, split, first_seed)
        fleet = Fleet(rooms, dealer, np.random.default_rng(seed), trouble)
        seats = Seats([driver], [1.0], rooms, np.random.default_rng(seed))
        outcome, length, times = np.zeros(rooms, int), 0.0, []
        nothing = np.zeros((3, rooms), np.float32)
        for _ in range(1 + round(seconds / PERIOD)):
            begins = fleet.begins.copy()
            rows = fleet.tell()
            time = fleet.time.copy()
            told = fleet.ask() if driver[0] == "teacher" else nothing
            answers = seats.answer(rows, begins, told)
            open_ = outcome == 0
            length += float(np.abs(fleet.v[open_]).sum() * PERIOD)
            fleet.advance(*answers)
            ended = open_ & (fleet.outcome > 0)
            times += list(time[ended & (fleet.outcome == 1)])
            outcome[ended] = fleet.outcome[ended]
            if (outcome > 0).all():
                break
        found[name] = {"success": float((outcome == 1).mean()), "contact": float((outcome == 2).mean()),
                       "contact_per_100m": 100 * float((outcome == 2).sum()) / max(length, 1e-9),
                       "time": float(np.mean(times)) if times else float("nan")}
    return found


def rng_of(seed: int, purpose: str) -> np.random.Generator:
    """A random stream of the training."""
    return split_rng("train", seed, f"motor {purpose}")
