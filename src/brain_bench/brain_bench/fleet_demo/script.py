# SPDX-License-Identifier: Apache-2.0
"""How much of what there is in the demo, and what each of its robots is given in a file of its own folder."""
from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from brain_training.looks import Look, fleet

TEACHER = "sim/objects"         # says what truly stands in a picture: the simulator
CUT, DEATH = "cut", "death"
ABOUT = "robot.json"
FIRST_SEEDS = 50_000_000        # of rooms that are driven in: split train, far from those that vision was trained in


@dataclass(frozen=True)
class Script:
    """The course of a demo.

    Attributes:
        seed: of looks, rooms and goals.
        robots: how many, at least 3: two troubles, and one who has none.
        rounds: of the fleet. The last one examines what those before it made.
        cut_at, kill_at: rounds that are done when the link of the second robot is cut, and when the third is killed.
        deadline_s, gather_s: of a round.
        steps, batch, rate: of a robot's training in a round.
        eta: of FedAdam.
        held, way: rooms that each robot is examined in, and pictures in each; half as many choose the threshold.
        goal_s: s that a goal may take.
        pace: simulated seconds in a second, at most.
        limit_s: s after which the demo ends, wherever it is.
    """

    seed: int = 0
    robots: int = 4
    rounds: int = 10
    cut_at: int = 2
    kill_at: int = 4
    deadline_s: float = 30.0
    gather_s: float = 3.0
    steps: int = 3
    batch: int = 8
    rate: float = 0.1
    eta: float = 0.003
    held: int = 4
    way: int = 12
    goal_s: float = 40.0
    pace: float = 1.0
    limit_s: float = 300.0

    @property
    def cut_robot(self) -> str:
        """Whose link is cut."""
        return "robot2"

    @property
    def killed_robot(self) -> str:
        """Who is killed."""
        return "robot3"

    def plan(self, start: Path) -> dict[str, Any]:
        """What the cloud is told to have the fleet learn, as in ``brain cloud --learn``."""
        return {"name": "demo", "learner": "driving", "start": str(start), "strategy": "FedAdam",
                "settings": {"eta": self.eta, "tau": 1e-7}, "rounds": self.rounds, "deadline_s": self.deadline_s,
                "gather_s": self.gather_s, "least": 2,
                "config": {"steps": self.steps, "batch": self.batch, "rate": self.rate}}

    def given(self) -> list[Given]:
        """What each robot is given."""
        return [Given(f"robot{number + 1}", number, self.seed, look, self.held, self.way, self.goal_s, self.pace)
                for number, look in enumerate(fleet(self.robots, self.seed))]


@dataclass(frozen=True)
class Given:
    """A robot: its name, its number from 0 on, how its world looks, and see :class:`Script`."""

    name: str
    number: int
    seed: int
    look: Look
    held: int
    way: int
    goal_s: float
    pace: float

    def room(self, goal: int) -> int:
        """The seed of the room of its goal of that number."""
        return FIRST_SEEDS + 1_000_000 * (self.seed % 1000) + 10_000 * self.number + goal

    def write(self, folder: Path) -> None:
        """Writes it into the robot's folder."""
        folder.mkdir(parents=True, exist_ok=True)
        put(folder / ABOUT, json.dumps(asdict(self)).encode())

    @staticmethod
    def read(folder: Path) -> Given:
        """What was written.

        Raises:
            ValueError: it is not there, or is something else.
        """
        try:
            found = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            return Given(**{**found, "look": look_of(found["look"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{folder} is no robot's folder of `brain fleet demo` ({error})") from None


def look_of(found: dict[str, Any]) -> Look:
    """A look from plain values. Raises TypeError, ValueError."""
    return Look(**{**found, "tint": tuple(found["tint"]), "kinds": tuple(map(tuple, found["kinds"]))})


def put(path: Path, data: bytes) -> None:
    """Writes a file that others read meanwhile: they find the old one or the new one, whole."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    beside.write_bytes(data)
    os.replace(beside, path)
