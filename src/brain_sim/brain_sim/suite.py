# SPDX-License-Identifier: Apache-2.0
"""The suite language-v1: which room, which sentence, and what counts as having done it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from brain_sim.room import Room, generate_room, split_rng
from brain_sim.sentences import sentence
from brain_sim.things import COLORS, SHAPES, Kind

SUITE = "language-v1"
KINDS = ("go", "avoid", "stop", "absent", "nonsense")
# One block of 20 episodes; with a target are 18 of them: 6 hidden, 6 behind, 6 in front.
_BLOCK_KINDS = ("go",) * 14 + ("avoid",) * 3 + ("stop", "absent", "nonsense")
_BLOCK_VISIBILITY = ("hidden",) * 6 + ("behind",) * 6 + ("front",) * 6
_HASHED = ("geometry.py", "grid.py", "layout.py", "mjcf.py", "physics.py", "referee.py", "robot.py",
           "room.py", "sentences.py", "suite.py", "things.py")


@dataclass(frozen=True)
class Episode:
    """One episode. `seed` is the room's; target and avoid are (color, shape).

    kind: go, avoid, stop (a go sentence, then `stop_text` after `stop_after` seconds), absent or nonsense.
    visibility: hidden, behind, front, or none where there is no target in the room.
    """

    id: str
    split: str
    seed: int
    kind: str
    sentence: str
    lang: str
    target: Kind | None
    avoid: Kind | None
    visibility: str
    stop_text: str = ""
    stop_after: float = 0.0
    low_obstacles: int = 0

    @property
    def script(self) -> list[tuple[float, str]]:
        """What is said when: (seconds since the episode's start, text)."""
        return [(0.0, self.sentence)] + ([(self.stop_after, self.stop_text)] if self.stop_text else [])

    def room(self) -> Room:
        """The episode's room (10 ms or so to generate)."""
        placed = self.visibility != "none"
        return generate_room(self.split, self.seed, target=self.target, avoid=self.avoid,
                             absent=self.kind == "absent", low_obstacles=self.low_obstacles,
                             visibility=self.visibility if placed else None)

    def to_json(self) -> str:
        """The episode as JSON, as the world takes it on sim/episode."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def from_dict(fields: dict) -> Episode:
        """The episode from parsed JSON. TypeError names a field that is unknown or missing."""
        fields = dict(fields)
        for name in ("target", "avoid"):
            if fields.get(name) is not None:
                fields[name] = tuple(fields[name])
        return Episode(**fields)


def episode(split: str, index: int, seed: int = 0, low_obstacles: int = 0) -> Episode:
    """Episode number `index` of a split and suite seed; the same for ever."""
    block, place = divmod(index, len(_BLOCK_KINDS))
    order = split_rng(split, seed * 1_000_003 + block, "suite block")
    kinds = [_BLOCK_KINDS[i] for i in order.permutation(len(_BLOCK_KINDS))]
    seen = iter([_BLOCK_VISIBILITY[i] for i in order.permutation(len(_BLOCK_VISIBILITY))])
    visibility = [next(seen) if k in ("go", "avoid", "stop") else "none" for k in kinds]
    # Half of a block is English; which half does not depend on kind or visibility.
    langs = ["en" if i % 2 else "ja" for i in order.permutation(len(_BLOCK_KINDS))]
    kind, lang = kinds[place], langs[place]
    rng = split_rng(split, seed * 1_000_003 + index, "suite episode")
    room_seed = int(rng.integers(2**31))
    target = avoid = None
    if kind != "nonsense":
        target = (COLORS[rng.integers(4)], SHAPES[rng.integers(3)])
    if kind == "avoid":
        others = [(c, s) for c in COLORS for s in SHAPES if (c, s) != target]
        avoid = others[rng.integers(len(others))]
    text = sentence(kind, lang, split, rng, target, avoid)
    stop_text, stop_after = "", 0.0
    if kind == "stop":
        stop_text = sentence("halt", lang, split, rng)
        stop_after = round(float(rng.uniform(3.0, 6.0)), 2)
    return Episode(f"{SUITE}/{split}/{seed}/{index}", split, room_seed, kind, text, lang, target, avoid,
                   visibility[place], stop_text, stop_after, low_obstacles)


def episodes(split: str, n: int, seed: int = 0, low_obstacles: int = 0) -> list[Episode]:
    """The first `n` episodes: 70 % go or find, 15 % with something to avoid, 5 % each of the others.

    Half English, half Japanese; 30 % each with the target hidden, behind and in front at the start.
    low_obstacles: how many blocks that the lidar's plane misses are in each room.
    """
    return [episode(split, i, seed, low_obstacles) for i in range(n)]


def suite_hash() -> str:
    """SHA-256 (hex) over the suite's name and the code of everything that decides an episode's course."""
    digest = hashlib.sha256(SUITE.encode())
    for name in _HASHED:
        digest.update(name.encode() + b"\0" + (Path(__file__).parent / name).read_bytes() + b"\0")
    return digest.hexdigest()


def wilson(successes: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; (0, 1) when n is 0."""
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))
