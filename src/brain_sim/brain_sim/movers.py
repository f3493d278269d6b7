# SPDX-License-Identifier: Apache-2.0
"""Obstacles that walk to and fro, and the simulation of a room with some of them.

A mover walks at a constant speed between two points with nothing in between. It never walks into the robot or another
mover: it stops `STOP_GAP` before them, and turns back when it has stood for `PATIENCE`. So a contact with a mover is
the robot's doing. Lidar and camera see it; nothing gives it a name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from brain_sim import robot
from brain_sim.geometry import Footprint
from brain_sim.grid import Grid
from brain_sim.mjcf import GROUP_THING
from brain_sim.physics import Observer, Simulation
from brain_sim.planner import Planner
from brain_sim.room import Room

SPEEDS = (0.1, 0.3)         # m/s
SIZES = (0.10, 0.18)        # m, radius of a cylinder or half the side of a box
HEIGHTS = (0.35, 1.2)       # m
LEAST_WAY = 1.2             # m between the ends of a walk
SPARE = 0.06                # m kept between a walking mover and things
START_GAP = 0.6             # m between the robot's edge and a mover at the start
STOP_GAP = 0.10             # m before the robot or another mover at which it stops
PATIENCE = 1.0              # s of standing after which it turns back
TICK = 5                    # physics substeps (10 ms) between two moves
TRIES = 400


@dataclass(frozen=True)
class Mover:
    """Mover that walks a path: shape cylinder or box, `half` its radius or half side, lengths in meters, rgb in 0..1.

    It starts at `start` of the way from `a` to `b` (0..1), toward `b`, at `speed` m/s.
    """

    name: str
    shape: str
    half: float
    height: float
    yaw: float
    rgb: tuple[float, float, float]
    a: tuple[float, float]
    b: tuple[float, float]
    speed: float
    start: float

    @property
    def radius(self) -> float:
        """Radius of the circle that holds it, in meters."""
        return self.half if self.shape == "cylinder" else self.half * math.sqrt(2.0)

    def footprint(self, x: float, y: float) -> Footprint:
        """Its outline when it stands at (x, y)."""
        return Footprint("disk" if self.shape == "cylinder" else "rect", x, y, self.yaw, self.half, self.half)


def draw_movers(room: Room, count: int, rng: np.random.Generator) -> tuple[Mover, ...]:
    """Up to `count` movers for a room; two in three cross the robot's way to its target where that is possible.

    There are fewer where no free way is left for more.
    """
    grid = Grid(room.size, room.footprints)
    x, y, _ = room.start
    path = Planner(room).path((x, y), room.target_object, room.avoid_object) if room.target_object else None
    way = np.asarray(path or [(x, y)])
    found: list[Mover] = []
    for k in range(count):
        crossing = path is not None and rng.random() < 2 / 3
        tone, brown = rng.uniform(0.3, 0.6), rng.uniform(0.0, 0.25)
        mover = Mover(
            name=f"mover_{k}", shape=("cylinder", "box")[rng.integers(2)], half=float(rng.uniform(*SIZES)),
            height=float(rng.uniform(*HEIGHTS)), yaw=float(rng.uniform(-np.pi, np.pi)),
            rgb=(float(tone * (1 + brown)), float(tone), float(tone * (1 - brown))),
            a=(0.0, 0.0), b=(0.0, 0.0), speed=float(rng.uniform(*SPEEDS)), start=float(rng.uniform(0, 1)))
        walk = _walk(grid, mover, room, found, way, crossing, rng)
        if walk is not None:
            found.append(walk)
    return tuple(found)


def _walk(grid: Grid, mover: Mover, room: Room, others: Sequence[Mover], way: np.ndarray, crossing: bool,
          rng: np.random.Generator) -> Mover | None:
    """The mover with two ends between which it can walk, or None."""
    open_ = np.argwhere(grid.clearance > mover.radius + SPARE)
    if len(open_) < 2:
        return None
    for attempt in range(TRIES):
        (i, j), (k, m) = open_[rng.integers(len(open_), size=2)]
        a, b = np.array([grid.xs[i], grid.ys[j]]), np.array([grid.xs[k], grid.ys[m]])
        length = float(np.hypot(*(b - a)))
        if length < LEAST_WAY:
            continue
        points = a + np.linspace(0, 1, int(length / 0.03) + 2)[:, None] * (b - a)
        if min(f.distance(points[:, 0], points[:, 1]).min() for f in room.footprints) < mover.radius + SPARE:
            continue
        begin = a + mover.start * (b - a)
        if np.hypot(*(begin - room.start[:2])) < mover.radius + robot.BASE_RADIUS + START_GAP:
            continue
        starts = [(np.array(o.a) + o.start * (np.array(o.b) - o.a), o.radius) for o in others]
        if any(np.hypot(*(begin - at)) < mover.radius + r + STOP_GAP for at, r in starts):
            continue
        near = np.hypot(*np.moveaxis(points[:, None] - way, -1, 0)).min()
        if crossing and attempt < TRIES * 3 // 4 and near > 0.15:
            continue
        return Mover(**{**mover.__dict__, "a": tuple(map(float, a)), "b": tuple(map(float, b))})
    return None


def add_movers(xml: str, movers: Sequence[Mover]) -> str:
    """MJCF of a room with movers added: mocap bodies of the movers' names, each with a geom of the same name."""
    def body(m: Mover) -> str:
        at = np.array(m.a) + m.start * (np.array(m.b) - m.a)
        size = f"{m.half:.9g} {m.height / 2:.9g}" if m.shape == "cylinder" else (
            f"{m.half:.9g} {m.half:.9g} {m.height / 2:.9g}")
        color = " ".join(f"{c:.9g}" for c in m.rgb)
        turn = f"{math.cos(m.yaw / 2):.9g} 0 0 {math.sin(m.yaw / 2):.9g}"
        return (f'<body name="{m.name}" mocap="true" pos="{at[0]:.9g} {at[1]:.9g} {m.height / 2:.9g}" quat="{turn}">'
                f'<geom name="{m.name}" class="thing" group="{GROUP_THING}" type="{m.shape}" size="{size}" '
                f'rgba="{color} 1"/></body>')
    return xml.replace("</worldbody>", "\n    ".join(["", *map(body, movers)]) + "\n  </worldbody>")


def put_movers(model: mujoco.MjModel, data: mujoco.MjData, places: np.ndarray) -> None:
    """Put the movers of a model at `places` [n, 2] (m), in the order of their names; more or fewer are left out."""
    for k, (x, y) in enumerate(places[:model.nmocap]):
        data.mocap_pos[k, :2] = x, y
    mujoco.mj_kinematics(model, data)


class MovingSimulation(Simulation):
    """A room with movers; everything else is as in Simulation."""

    def __init__(self, room: Room, movers: Sequence[Mover], observer: Observer | None = None, noise_seed: int = 0):
        super().__init__(room, observer, noise_seed)
        self.movers = tuple(movers)
        self.xml = add_movers(self.xml, self.movers)
        self.model = mujoco.MjModel.from_xml_string(self.xml)
        self.data = mujoco.MjData(self.model)
        self.lidar = type(self.lidar)(self.model)
        self._base_geom = self.model.geom("base").id
        mujoco.mj_forward(self.model, self.data)
        ends = [(np.array(m.a), np.array(m.b)) for m in self.movers]
        self.places = np.array([a + m.start * (b - a) for m, (a, b) in zip(self.movers, ends, strict=True)]
                               ).reshape(-1, 2)
        """Where the movers are now: [n, 2] in meters."""
        self._to = [1] * len(self.movers)       # the end each walks to
        self._ends = ends
        self._stood = [0.0] * len(self.movers)

    @property
    def velocities(self) -> np.ndarray:
        """Velocities of the movers now, [n, 2] in m/s; zeros where one stands."""
        found = np.zeros_like(self.places)
        for k, m in enumerate(self.movers):
            to = self._ends[k][self._to[k]] - self.places[k]
            if not self._stood[k]:
                found[k] = m.speed * to / max(float(np.hypot(*to)), 1e-9)
        return found

    def advance(self, seconds: float) -> int:
        """Step on by `seconds` (to the nearest substep), movers and all; returns how many substeps that were."""
        begin = self.steps
        end = max(int(round((self.time + seconds) * robot.PHYSICS_RATE)), begin)
        while self.steps < end:
            if self.steps % TICK == 0:
                self._move()
            count = min(TICK - self.steps % TICK, end - self.steps)
            super().advance(count * robot.PHYSICS_STEP)
        return self.steps - begin

    def _move(self) -> None:
        h = TICK * robot.PHYSICS_STEP
        for k, m in enumerate(self.movers):
            to = self._ends[k][self._to[k]] - self.places[k]
            left = float(np.hypot(*to))
            if left < m.speed * h:
                self._to[k] = 1 - self._to[k]
                continue
            step = self.places[k] + m.speed * h / left * to
            if self._shut(k, step):
                self._stood[k] += h
                if self._stood[k] >= PATIENCE:
                    self._stood[k], self._to[k] = 0.0, 1 - self._to[k]
                continue
            self._stood[k], self.places[k] = 0.0, step
        put_movers(self.model, self.data, self.places)

    def _shut(self, k: int, step: np.ndarray) -> bool:
        """Tells whether a step would bring mover k too near to the robot or another mover, and nearer than it is."""
        m = self.movers[k]
        others = [((self.x, self.y), robot.BASE_RADIUS)] + [
            (tuple(self.places[i]), o.radius) for i, o in enumerate(self.movers) if i != k]
        for (x, y), radius in others:
            then = math.hypot(step[0] - x, step[1] - y)
            now = math.hypot(self.places[k][0] - x, self.places[k][1] - y)
            if then < m.radius + radius + STOP_GAP and then < now:
                return True
        return False
