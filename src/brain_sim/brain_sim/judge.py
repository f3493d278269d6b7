# SPDX-License-Identifier: Apache-2.0
"""Requests to the world on sim/episode, and the judging of what then happens in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from brain_runtime import SILENCE
from brain_sim.grid import path_length
from brain_sim.hard_suite import HardEpisode
from brain_sim.movers import Mover
from brain_sim.physics import Simulation
from brain_sim.planner import Planner
from brain_sim.referee import Referee, Verdict
from brain_sim.room import SPLITS, Room, generate_room
from brain_sim.suite import Episode
from brain_sim.things import Kind

MAX_VERDICTS = 16


class RequestError(ValueError):
    """A request on sim/episode that cannot be served; says which field and what would do."""


@dataclass(frozen=True)
class Request:
    """Request on sim/episode: one suite episode, or a room with the sentences that are to be judged in it."""

    fields: dict[str, Any]
    room: Room
    episode: Episode | None
    goals: dict[str, Episode]
    movers: tuple[Mover, ...] = ()


def _kind(value: Any, field: str) -> Kind:
    if not (isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(v, str) for v in value)):
        raise RequestError(f"{field} is {value!r}: write [color, shape], such as [\"red\", \"ball\"]")
    return value[0], value[1]


def read_request(fields: Any) -> Request:
    """The request in parsed JSON.

    Either a suite episode (the fields of `Episode`, known by `kind`; with `movers` those of `HardEpisode`), or
    {"split", "seed"} and optionally "visibility", "low_obstacles", "include": [[color, shape], ...] and
    "goals": [{"text", "target": [color, shape], "avoid": [color, shape] or null}, ...], which are judged
    one after the other in the same room, each from the moment its text is said. RequestError says what is
    wrong.
    """
    if not isinstance(fields, dict):
        raise RequestError(f"it must be an object with split and seed, but is {fields!r}")
    try:
        if "kind" in fields:
            if "movers" not in fields:
                episode = Episode.from_dict(fields)
                return Request(fields, episode.room(), episode, {})
            episode = HardEpisode.from_dict(fields)
            room = episode.room()
            return Request(fields, room, episode, {}, episode.moving(room))
        return _room_with_goals(fields)
    except RequestError:
        raise
    except KeyError as error:
        raise RequestError(f"field {error} is missing") from error
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise RequestError(str(error)) from error


def _room_with_goals(fields: dict[str, Any]) -> Request:
    known = {"split", "seed", "visibility", "low_obstacles", "include", "goals"}
    if unknown := set(fields) - known:
        raise RequestError(f"unknown field {', '.join(sorted(unknown))}: use {', '.join(sorted(known))}")
    split, seed = fields.get("split", "train"), fields.get("seed", 0)
    if split not in SPLITS:
        raise RequestError(f"split {split!r} is unknown: use one of {', '.join(SPLITS)}")
    if type(seed) is not int:
        raise RequestError(f"seed is {seed!r}: use a whole number")
    goals = fields.get("goals", [])
    targets = [_kind(g["target"], "target of a goal") for g in goals]
    avoided = [_kind(g["avoid"], "avoid of a goal") for g in goals if g.get("avoid")]
    include = [_kind(k, "include") for k in fields.get("include", [])]
    room = generate_room(split, seed, target=targets[0] if targets else None,
                         include=tuple(targets[1:] + avoided + include),
                         visibility=fields.get("visibility"), low_obstacles=fields.get("low_obstacles", 0))
    episodes = {}
    for number, (goal, target) in enumerate(zip(goals, targets, strict=True)):
        avoid = _kind(goal["avoid"], "avoid of a goal") if goal.get("avoid") else None
        text = str(goal["text"])
        episodes[text] = Episode(
            f"room/{split}/{seed}/{number}", split, seed, "avoid" if avoid else "go", text,
            "en" if text.isascii() else "ja", target, avoid, room.visibility if number == 0 else "unknown")
    return Request(fields, room, None, episodes)


class Judge:
    """Runs the right referee for what is said, and keeps the verdicts."""

    def __init__(self, request: Request):
        self.request, self.room = request, request.room
        self.verdicts: list[Verdict] = []
        self._news = False
        self._referee = Referee(request.episode, request.room) if request.episode else None

    @property
    def judging(self) -> str:
        """The sentence that is being judged, or ""."""
        return self._referee.episode.sentence if self._referee and self._referee.verdict is None else ""

    def said(self, text: str, sim: Simulation) -> None:
        """A sentence was said; ``SILENCE`` is none. In a room with goals each goal's starts its own judging."""
        if text == SILENCE:
            return
        if self.request.episode is None:
            episode = self.request.goals.get(text)
            self._referee = None
            if episode is not None:
                self._referee = Referee(episode, self.room, self._shortest(episode, sim))
                self._news = True
        if self._referee is not None:
            self._referee.said(text, sim.time)

    def _shortest(self, episode: Episode, sim: Simulation) -> float:
        target = next(o for o in self.room.objects if o.kind == episode.target)
        avoid = next((o for o in self.room.objects if o.kind == episode.avoid), None)
        path = Planner(self.room).path((sim.x, sim.y), target, avoid)
        return path_length(path) if path else 0.0

    def status(self, state: int, text: str, cause: int = 0) -> None:
        """The brain reported a goal status."""
        if self._referee is not None:
            self._referee.status(state, text, cause)

    def observe(self, time: float, x: float, y: float, yaw: float, v: float, w: float, contact: str) -> None:
        """The true state after a substep; see Referee.observe."""
        referee = self._referee
        if referee is None or referee.verdict is not None:
            return
        referee.observe(time, x, y, yaw, v, w, contact)
        if referee.verdict is not None:
            self.verdicts = [*self.verdicts, referee.verdict][-MAX_VERDICTS:]
            self._news = True

    def take_news(self) -> bool:
        """Tells whether something changed since the last call."""
        news, self._news = self._news, False
        return news
