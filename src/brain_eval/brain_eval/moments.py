# SPDX-License-Identifier: Apache-2.0
"""Moments of an episode in lockstep: what the regions of a brain believed, kept while it runs."""
from __future__ import annotations

import json
import math
from collections import deque
from dataclasses import dataclass, field, fields
from typing import Any, Mapping

import numpy as np

from brain_regions.pfc.control import APPROACH
from brain_runtime.hosts.local import LocalHost
from brain_runtime.interfaces import Control
from brain_runtime.contract.region import Region
from brain_runtime.contract.sights import thing

PERIOD = 0.2            # s between two moments
WINDOW = 1.0            # s of motor's spikes that a moment keeps


@dataclass(frozen=True)
class Moment:
    """State to be seen at one time. What a region does not have is None or empty.

    Attributes:
        t: s since the first word.
        picture: the camera's, with what vision tells of drawn in, uint8 [H, W, 3].
        detected: how many objects vision tells of.
        pose: where the robot truly is (m, m, rad).
        evidence: of pfc's memory, float32[classes, bins, rings], and ``turned``: rad since it was shifted last.
        p: choice distribution over headings, float[bins].
        entropy, alpha: of pfc's feedback (nat; 0..1).
        actions: how much fires for stop, idle, search, approach and avoid, 0..1 each.
        commitment: of pfc's ring, float32[bins].
        heading: rad; NaN: none.
        mode: of Control.
        wants, avoids: objects, in words; empty: none.
        distance: m to the target; NaN where it is not known.
        velocity: that motor wants (m/s, rad/s).
        spikes: of the last second, by population (``region/name``), of those that have named parts: s before now, and
            the neuron; float[n, 2].
        status: state of GoalStatus, or -1.
        reading: what language reads, a :class:`brain_regions.language.region.Reading`.
        views: by region, what it shows of its state; the best known parts of it stand above, too.
    """

    t: float
    picture: np.ndarray | None = None
    detected: int = 0
    pose: tuple[float, float, float] = (0.0, 0.0, 0.0)
    evidence: np.ndarray | None = None
    turned: float = 0.0
    p: np.ndarray | None = None
    entropy: float = math.nan
    alpha: float = math.nan
    actions: tuple[float, ...] = ()
    commitment: np.ndarray | None = None
    heading: float = math.nan
    mode: int = Control.MODE_IDLE
    wants: str = ""
    avoids: str = ""
    distance: float = math.nan
    velocity: tuple[float, float] = (0.0, 0.0)
    spikes: Mapping[str, np.ndarray] = field(default_factory=dict)
    status: int = -1
    reading: Any | None = None
    views: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def has(self, region: str, what: str) -> bool:
        """Tells whether a region showed something of that name; or anything, if no name is given."""
        view = self.views.get(region, {})
        return what in view if what else bool(view)


_FIELDS = {known.name for known in fields(Moment)} - {"t", "views"}


class Watcher:
    """An :class:`brain_eval.episodes.Onlooker` that keeps a moment every :data:`PERIOD`.

    Attributes:
        moments: so far.
        room: a ``brain_sim.room.Room``, once the world has told of it.
        regions: classes of the brain's regions, by name.
    """

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.room: Any | None = None
        self.regions: dict[str, type[Region]] = {}
        self._next = 0.0
        self._spikes: dict[str, deque[tuple[float, np.ndarray]]] = {}
        self._newest: dict[str, Any] = {}

    def begin(self, host: LocalHost, episode: Any) -> None:
        """Listens; what is made on demand is made from now on."""
        self.regions = {name: type(region) for name, region in host.regions.items()}
        self._spikes = {f"{name}/{p.name}": deque() for name, cls in self.regions.items() for p in cls.populations
                        if p.told and p.parts}
        for topic in ("inside/image", "pfc/choice"):
            host.listen(topic, lambda message, topic=topic: self._newest.__setitem__(topic, message))
        host.listen("brain/spikes", lambda message: self._hear(message, host.now))
        host.listen("sim/world", self._see_room)

    def _see_room(self, message: Any) -> None:
        from brain_sim.room import Room

        world = json.loads(message.data)
        if world.get("room"):
            self.room = Room.from_json(json.dumps(world["room"]))

    def _hear(self, message: Any, now: float) -> None:
        if message.population not in self._spikes:
            return
        kept = self._spikes[message.population]
        bins = message.bin.astype(float)
        count = bins.max(initial=0.0) + 1.0
        kept.append((now, np.stack([now - (count - bins) * message.bin_width, message.neuron], 1)))
        while kept and kept[0][0] < now - WINDOW:
            kept.popleft()

    def look(self, host: LocalHost, since: float) -> None:
        """Keeps a moment, if it is time."""
        if since < self._next - 1e-6:
            return
        self._next = since + PERIOD
        views = {name: region.view(host.stepper(name).state) for name, region in host.regions.items()}
        motor = host.latest("motor/command")
        truth, control, status = (host.latest(t) for t in ("sim/ground_truth", "pfc/control", "goal/status"))
        goal, seen = host.latest("lang/features"), host.latest("vision/objects")
        choice, picture = self._newest.get("pfc/choice"), self._newest.get("inside/image")
        found: dict[str, Any] = {}
        if picture is not None:
            found["picture"] = picture.data.reshape(picture.height, picture.width, 3).copy()
        if truth is not None:
            at, q = truth.pose.pose.position, truth.pose.pose.orientation
            found["pose"] = (at.x, at.y, 2 * math.atan2(q.z, q.w))
        for view in views.values():
            found |= {name: value for name, value in view.items() if name in _FIELDS}
        if choice is not None:
            found |= {"p": np.array(choice.probability), "entropy": float(choice.entropy),
                      "alpha": float(choice.alpha), "actions": tuple(map(float, choice.actions))}
        if control is not None:
            found |= {"heading": float(control.heading), "mode": int(control.mode), "distance": float(control.distance)}
        if goal is not None and goal.understood:
            found |= {"wants": _named(goal.target_color, goal.target_shape),
                      "avoids": _named(goal.avoid_color, goal.avoid_shape)}
        if seen is not None:
            found["detected"] = len(seen.objects)
        if motor is not None:
            found["velocity"] = (float(motor.twist.linear.x), float(motor.twist.angular.z))
        found["spikes"] = {population: _since(kept, host.now) for population, kept in self._spikes.items() if kept}
        if status is not None:
            found["status"] = int(status.state)
        self.moments.append(Moment(since, views=views, **found))


def _since(kept: deque, now: float) -> np.ndarray:
    """Spikes of the last second as s before now, and the neuron; float[n, 2]."""
    spikes = np.concatenate([train for _, train in kept]) - (now, 0.0)
    return spikes[spikes[:, 0] > -WINDOW]


def _named(color: int, shape: int) -> str:
    return thing(color, shape) if color or shape else ""


def choosing(moments: list[Moment]) -> Moment:
    """The moment of choice: of the first second of an approach that is no longer undecided, the one with most in view.

    Without such an approach, the least undecided moment.

    Raises:
        ValueError: there is no moment.
    """
    if not moments:
        raise ValueError("nothing was seen of the episode")
    sure = [m for m in moments if m.mode == APPROACH and not m.alpha <= 0.5]    # NaN: it tells of no doubt
    if sure:
        return max((m for m in sure if m.t <= sure[0].t + 1.0), key=lambda m: m.detected)
    return min(moments, key=lambda m: m.entropy if math.isfinite(m.entropy) else math.inf)
