# SPDX-License-Identifier: Apache-2.0
"""Random rooms: `generate_room(split, seed)` gives the same room for ever, and one that can be solved."""

from __future__ import annotations

import colorsys
import hashlib
import json
from dataclasses import asdict, dataclass, field

import numpy as np

from brain_sim.geometry import Footprint
from brain_sim.layout import RoomPlan
from brain_sim.things import COLORS, SHAPES, Kind, Obstacle, RoomObject

SPLITS = ("train", "val", "test")
VISIBILITIES = ("hidden", "behind", "front")

GENERATOR_VERSION = 1
# One block of 20 seeds holds each class this often; see `visibility_of_seed`.
VISIBILITY_BLOCK = ("hidden",) * 7 + ("behind",) * 7 + ("front",) * 6
MAX_ATTEMPTS = 3000


@dataclass(frozen=True)
class Room:
    """A room centered on the origin. `target` and `avoid` are (color, shape); start is (x, y, yaw).

    With `absent` the target is not in the room. `shortest` is the length in meters of the guaranteed
    contact-free path (0 when absent), `visibility` one of hidden, behind, front, or none when absent.
    """

    split: str
    seed: int
    size: tuple[float, float]
    wall_height: float
    wall_rgb: tuple[tuple[float, float, float], ...]
    floor_rgb: tuple[tuple[float, float, float], ...]
    floor_tile: float
    ceiling_rgb: tuple[float, float, float]
    ambient: float
    directional: float
    light: tuple[float, float, float]
    obstacles: tuple[Obstacle, ...]
    objects: tuple[RoomObject, ...]
    start: tuple[float, float, float]
    target: Kind
    avoid: Kind | None
    absent: bool
    visibility: str
    shortest: float
    attempts: int = field(default=1, compare=False)

    @property
    def target_object(self) -> RoomObject | None:
        """The object named by `target`, or None when it is absent."""
        return next((o for o in self.objects if o.kind == self.target), None)

    @property
    def avoid_object(self) -> RoomObject | None:
        """The object named by `avoid`, or None."""
        return next((o for o in self.objects if o.kind == self.avoid), None)

    @property
    def footprints(self) -> list[Footprint]:
        """Outlines of all obstacles (low ones too) and objects."""
        return [o.footprint for o in self.obstacles] + [o.footprint for o in self.objects]

    def to_json(self) -> str:
        """The room as JSON; `Room.from_json` gives it back."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Room:
        """The room written by `to_json`."""
        d = _tuples(json.loads(text))
        d["obstacles"] = tuple(Obstacle(**o) for o in d["obstacles"])
        d["objects"] = tuple(RoomObject(**o) for o in d["objects"])
        return Room(**d)


def _tuples(value):
    if isinstance(value, list):
        return tuple(_tuples(v) for v in value)
    if isinstance(value, dict):
        return {k: _tuples(v) for k, v in value.items()}
    return value


def stable_hash(text: str) -> int:
    """A 63 bit number from a text, the same in every process and on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def split_rng(split: str, seed: int, purpose: str) -> np.random.Generator:
    """The random stream of one purpose in one split. ValueError for an unknown split or a negative seed."""
    if split not in SPLITS:
        raise ValueError(f"split {split!r} is unknown: use one of {', '.join(SPLITS)}")
    if seed < 0:
        raise ValueError(f"seed {seed} is negative: use 0 or more")
    return np.random.default_rng(np.random.SeedSequence([stable_hash(f"brain/{split}/{purpose}"), seed]))


def visibility_of_seed(split: str, seed: int) -> str:
    """The class a seed must have: every block of 20 seeds holds 7 hidden, 7 behind and 6 front, shuffled."""
    order = split_rng(split, seed // len(VISIBILITY_BLOCK), "visibility").permutation(len(VISIBILITY_BLOCK))
    return VISIBILITY_BLOCK[order[seed % len(VISIBILITY_BLOCK)]]


def generate_room(split: str, seed: int, *, target: Kind | None = None, avoid: Kind | bool | None = None,
                  absent: bool = False, visibility: str | None = None, include: tuple[Kind, ...] = (),
                  low_obstacles: int = 0,
                  n_objects: int | None = None, n_obstacles: int | None = None) -> Room:
    """The room of a split and a seed.

    target: (color, shape), drawn when None. avoid: (color, shape), True to draw one, or None. absent: the
    target is left out. visibility: hidden, behind or front; by the seed's quota when None. include: further
    (color, shape) that are there once each and can be reached. low_obstacles: how many blocks below the
    lidar's plane lie beside the obstacles. n_objects (4..8) and n_obstacles
    (2..6) are drawn when None. Raises ValueError for arguments out of range and RuntimeError when no room
    was found.
    """
    include = tuple(k for k in dict.fromkeys(include) if k not in (target, avoid))
    for kind in (target, avoid if isinstance(avoid, tuple) else None, *include):
        if kind is not None and (kind[0] not in COLORS or kind[1] not in SHAPES):
            raise ValueError(f"{kind} is no (color, shape): colors are {COLORS}, shapes {SHAPES}")
    if visibility is not None and visibility not in VISIBILITIES:
        raise ValueError(f"visibility {visibility!r} is unknown: use one of {VISIBILITIES}")
    if not 0 <= low_obstacles <= 4:
        raise ValueError(f"low_obstacles is {low_obstacles}: use 0 to 4")
    if n_objects is not None and not 4 <= n_objects <= 8:
        raise ValueError(f"n_objects is {n_objects}: use 4 to 8")
    if n_obstacles is not None and not 2 <= n_obstacles <= 6:
        raise ValueError(f"n_obstacles is {n_obstacles}: use 2 to 6")
    if target is not None and avoid == target:
        raise ValueError(f"target and avoided object are both {target}: they must differ")
    rng = split_rng(split, seed, "room")
    target = target or (COLORS[rng.integers(4)], SHAPES[rng.integers(3)])
    include = tuple(k for k in include if k != target)
    if len(include) > 4:
        raise ValueError(f"{len(include)} objects are to be included: 4 at most fit")
    if avoid is True:
        others = [(c, s) for c in COLORS for s in SHAPES if (c, s) != target and (c, s) not in include]
        avoid = others[rng.integers(len(others))]
    avoid = avoid or None
    if absent:
        visibility = "none"
    visibility = visibility or visibility_of_seed(split, seed)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        plan = RoomPlan(rng, visibility, target, avoid, absent, include, low_obstacles, n_objects,
                        n_obstacles)
        if plan.build():
            break
    else:
        raise RuntimeError(f"no room for {split} seed {seed} ({visibility}) in {MAX_ATTEMPTS} attempts: "
                           "use another seed, fewer objects or fewer obstacles")
    wall = colorsys.hsv_to_rgb(rng.random(), rng.uniform(0.02, 0.18), rng.uniform(0.55, 0.85))
    floor = colorsys.hsv_to_rgb(rng.uniform(0.05, 0.6), rng.uniform(0.0, 0.15), rng.uniform(0.35, 0.6))
    azimuth, height = rng.uniform(-np.pi, np.pi), rng.uniform(0.5, 1.3)
    flat = np.cos(height)
    light = (float(np.cos(azimuth) * flat), float(np.sin(azimuth) * flat), float(np.sin(height)))
    return Room(
        split=split, seed=int(seed), size=plan.size, wall_height=2.4,
        wall_rgb=tuple(_scaled(wall, rng.uniform(0.85, 1.1)) for _ in range(4)),
        floor_rgb=(_scaled(floor, 1.0), _scaled(floor, float(rng.uniform(0.75, 0.95)))),
        floor_tile=float(rng.uniform(0.3, 0.8)), ceiling_rgb=_scaled((0.9, 0.9, 0.88), rng.uniform(0.8, 1.0)),
        ambient=float(rng.uniform(0.4, 0.65)), directional=float(rng.uniform(0.3, 0.6)), light=light,
        obstacles=tuple(plan.obstacles), objects=tuple(plan.objects), start=plan.start, target=target,
        avoid=avoid, absent=absent, visibility=visibility, shortest=plan.shortest, attempts=attempt)


def _scaled(rgb, factor: float) -> tuple[float, float, float]:
    return tuple(float(min(max(c * factor, 0.0), 1.0)) for c in rgb)
