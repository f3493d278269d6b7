# SPDX-License-Identifier: Apache-2.0
"""Files of a robot's folder: what it is, the weights that it has, its goals, and the pictures that it took.

Its processes know each other by these files alone, so each may be killed at any moment and go on where it was.
"""
from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from brain_training.looks import Look

WEIGHTS = "vision.safetensors"  # of the robot; while there is none, it has those that ship
TEACHER = "simulator"           # says what each ray of a picture has met
SHEET = 8                       # pictures in a file
FIRST_SEEDS = 50_000_000        # of rooms that are driven in: split train, far from those that vision was trained in
_ABOUT, _GOALS, _DOING = "robot.json", "goals.jsonl", "doing.json"


@dataclass(frozen=True)
class Given:
    """A robot: its name, its number from 0 on, how its world looks, and see :class:`.script.Script`."""

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
        put(folder / _ABOUT, json.dumps(asdict(self)).encode())

    @staticmethod
    def read(folder: Path) -> Given:
        """Reads what was written.

        Raises:
            ValueError: it is not there, or is something else.
        """
        try:
            found = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
            return Given(**{**found, "look": look_of(found["look"])})
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{folder} is no robot's folder of `brain fleet demo` ({error})") from None


def look_of(found: dict[str, Any]) -> Look:
    """A look from plain values. Raises TypeError, ValueError, KeyError."""
    return Look(**{**found, "tint": tuple(found["tint"]), "kinds": tuple(map(tuple, found["kinds"]))})


def put(path: Path, data: bytes) -> None:
    """Writes a file that others read meanwhile: they find the old one or the new one, whole."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    beside.write_bytes(data)
    os.replace(beside, path)


def sheets(folder: Path) -> list[Path]:
    """Files of pictures, oldest first; see :mod:`.album`."""
    return sorted(path for path in (folder / "pictures").glob("*.npz") if path.stem.isdigit())


def begin_goal(folder: Path, number: int, sentence: str) -> None:
    """A robot is told to do something."""
    put(folder / _DOING, json.dumps({"goal": number, "sentence": sentence}).encode())


def end_goal(folder: Path, record: dict[str, Any]) -> None:
    """Adds a line with what became of a goal."""
    with (folder / _GOALS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def goals(folder: Path) -> list[dict[str, Any]]:
    """Goals that have ended; a last line that a kill has torn is left out."""
    try:
        lines = (folder / _GOALS).read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    except OSError:
        return []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def doing(folder: Path) -> str:
    """Returns the sentence that a robot is told to do; empty: none."""
    try:
        return str(json.loads((folder / _DOING).read_text(encoding="utf-8"))["sentence"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
