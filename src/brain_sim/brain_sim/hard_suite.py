# SPDX-License-Identifier: Apache-2.0
"""The suite language-v1-hard: rooms, sentences and judging of language-v1, and one to three obstacles that move.

What language-v1 is made of is not touched: an episode here is one of language-v1 with movers. The suite has a hash of
its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path

from brain_sim.movers import Mover, draw_movers
from brain_sim.room import Room, split_rng
from brain_sim.suite import TIME_LIMIT, Episode, code_of, identity
from brain_sim.suite import episode as plain_episode
from brain_sim.suite import suite_hash as plain_hash

SUITE = "language-v1-hard"
VERSION = "language-v1.1-hard"
MOST_MOVERS = 3
HASHED = ("hard_suite.py", "movers.py")


@dataclass(frozen=True)
class HardEpisode(Episode):
    """An episode of language-v1 with moving obstacles.

    movers: how many; in a room that is too full for them there are fewer.
    """

    movers: int = 1

    @staticmethod
    def from_dict(fields: dict) -> HardEpisode:
        """The episode from parsed JSON. TypeError names a field that is unknown or missing."""
        movers = fields.get("movers")
        if type(movers) is not int or not 1 <= movers <= MOST_MOVERS:
            raise ValueError(f"movers is {movers!r}: use 1 to {MOST_MOVERS}")
        plain = Episode.from_dict({name: value for name, value in fields.items() if name != "movers"})
        return _hardened(plain, movers)

    def moving(self, room: Room) -> tuple[Mover, ...]:
        """The movers in the episode's room; the same for ever."""
        return draw_movers(room, self.movers, split_rng(self.split, self.seed, "hard movers"))


def _hardened(plain: Episode, movers: int) -> HardEpisode:
    return HardEpisode(**{f.name: getattr(plain, f.name) for f in fields(plain)}, movers=movers)


def episode(split: str, index: int, seed: int = 0, low_obstacles: int = 0,
            time_limit: float = TIME_LIMIT) -> HardEpisode:
    """Episode number `index` of a split and suite seed: that of language-v1, with movers."""
    plain = plain_episode(split, index, seed, low_obstacles, time_limit)
    movers = int(split_rng(split, seed * 1_000_003 + index, "hard suite").integers(1, MOST_MOVERS + 1))
    named = {f.name: getattr(plain, f.name) for f in fields(plain)}
    return HardEpisode(**{**named, "id": identity(SUITE, split, seed, index, time_limit)}, movers=movers)


def episodes(split: str, n: int, seed: int = 0, low_obstacles: int = 0,
             time_limit: float = TIME_LIMIT) -> list[HardEpisode]:
    """The first `n` episodes; mixed as language-v1's are."""
    return [episode(split, i, seed, low_obstacles, time_limit) for i in range(n)]


def suite_hash() -> str:
    """SHA-256 (hex) over language-v1's hash and the code of what moves."""
    digest = hashlib.sha256(f"{VERSION}\0{plain_hash()}".encode())
    for name in HASHED:
        digest.update(name.encode() + b"\0" + code_of(Path(__file__).parent / name) + b"\0")
    return digest.hexdigest()
