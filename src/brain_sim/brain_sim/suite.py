# SPDX-License-Identifier: Apache-2.0
"""The suite language-v1: which room, which sentence, and what counts as having done it.

Its episodes stay as they are and are called by ``SUITE``. ``VERSION`` names the rules and the simulator that decide how
they end, whose code the hash covers; results say it. 1.1 has the episodes of 1.0, to the bit; its hash covers more.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import math
import tokenize
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from brain_sim.room import Room, generate_room, split_rng
from brain_sim.sentences import sentence
from brain_sim.things import COLORS, SHAPES, Kind

SUITE = "language-v1"
VERSION = "language-v1.1"
KINDS = ("go", "avoid", "stop", "absent", "nonsense")
# One block of 20 episodes; with a target are 18 of them: 6 hidden, 6 behind, 6 in front.
_BLOCK_KINDS = ("go",) * 14 + ("avoid",) * 3 + ("stop", "absent", "nonsense")
_BLOCK_VISIBILITY = ("hidden",) * 6 + ("behind",) * 6 + ("front",) * 6
TIME_LIMIT = 60.0
"""Seconds from the first sentence to the referee's verdict at the latest."""
SHORTEST_LIMIT, LONGEST_LIMIT = 10.0, 3600.0
NOT_DECIDING = {
    "__init__.py": "is empty",
    "blind_camera.py": "is an ablation of the camera, which results name",
    "chase.py": "draws the robot from behind, for films",
    "controls.py": "drives in place of a brain; results name the policy",
    "hard_suite.py": "is of language-v1-hard, whose hash covers it",
    "intervals.py": "counts what came out",
    "movers.py": "is of language-v1-hard, whose hash covers it; in language-v1 nothing moves",
    "photography.py": "makes pictures that vision is trained on",
    "pictures.py": "draws rooms",
    "raycast.py": "makes pictures that vision is trained on",
    "scenery.py": "makes pictures that vision is trained on",
    "textures.py": "makes pictures that vision is trained on",
}
"""Modules of this package that decide no episode's course, and why. The hash covers all others, new ones too."""


@dataclass(frozen=True)
class Episode:
    """One episode. `seed` is the room's; target and avoid are (color, shape).

    kind: go, avoid, stop (a go sentence, then `stop_text` after `stop_after` seconds), absent or nonsense.
    visibility: hidden, behind, front, or none where there is no target in the room.
    time_limit: s after which the referee ends it, SHORTEST_LIMIT to LONGEST_LIMIT: a halt is said within 6 s, and
    nonsense is watched for 10 s.
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
    time_limit: float = TIME_LIMIT

    @property
    def script(self) -> list[tuple[float, str]]:
        """Script of the sentences: (seconds since the episode's start, text)."""
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
        check_limit(fields.get("time_limit", TIME_LIMIT))
        for name in ("target", "avoid"):
            if fields.get(name) is not None:
                fields[name] = tuple(fields[name])
        return Episode(**fields)


def check_limit(seconds: Any) -> None:
    """Raises ValueError where this is no time limit of an episode."""
    sound = isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and math.isfinite(seconds)
    if not (sound and SHORTEST_LIMIT <= seconds <= LONGEST_LIMIT):
        raise ValueError(f"time_limit is {seconds!r}: use {SHORTEST_LIMIT:g} to {LONGEST_LIMIT:g} seconds")


def identity(suite: str, split: str, seed: int, index: int, time_limit: float) -> str:
    """An episode's id, with its time limit unless that is the suite's: other limits make no pairs."""
    return f"{suite}/{split}/{seed}/{index}" + (f"/{time_limit:g}s" if time_limit != TIME_LIMIT else "")


def episode(split: str, index: int, seed: int = 0, low_obstacles: int = 0, time_limit: float = TIME_LIMIT) -> Episode:
    """Episode number `index` of a split and suite seed; the same for ever.

    Raises:
        ValueError: a time limit that is none.
    """
    check_limit(time_limit)
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
    return Episode(identity(SUITE, split, seed, index, time_limit), split, room_seed, kind, text, lang, target, avoid,
                   visibility[place], stop_text, stop_after, low_obstacles, time_limit)


def episodes(split: str, n: int, seed: int = 0, low_obstacles: int = 0,
             time_limit: float = TIME_LIMIT) -> list[Episode]:
    """The first `n` episodes: 70 % go or find, 15 % with something to avoid, 5 % each of the others.

    Half English, half Japanese; 30 % each with the target hidden, behind and in front at the start.
    low_obstacles: how many blocks that the lidar's plane misses are in each room.
    time_limit: s, of each.
    """
    return [episode(split, i, seed, low_obstacles, time_limit) for i in range(n)]


def hashed() -> list[str]:
    """Names of this package's modules that the hash covers: all but those that are named as not deciding."""
    return sorted({path.name for path in Path(__file__).parent.glob("*.py")} - set(NOT_DECIDING))


def suite_hash() -> str:
    """SHA-256 (hex) over the suite's version and the code of everything that decides an episode's course."""
    digest = hashlib.sha256(VERSION.encode())
    for name in hashed():
        digest.update(name.encode() + b"\0" + code_of(Path(__file__).parent / name) + b"\0")
    return digest.hexdigest()


def code_of(path: Path) -> bytes:
    """Source of a module without comments, docstrings and blank lines, the same on each release of Python."""
    text = path.read_text(encoding="utf-8")
    rows = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            rows[token.start[0] - 1] = rows[token.start[0] - 1][:token.start[1]]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            rows[node.lineno - 1:node.end_lineno] = [""] * (1 + (node.end_lineno or node.lineno) - node.lineno)
    return "".join(f"{row.rstrip()}\n" for row in rows if row.strip()).encode()
