# SPDX-License-Identifier: Apache-2.0
"""What the regions of a brain believed, moment by moment, kept while an episode runs in lockstep."""
from __future__ import annotations

import json
import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from brain_runtime.local_host import LocalHost
from brain_runtime.sights import thing

PERIOD = 0.2            # s between two moments
WINDOW = 1.0            # s of motor's spikes that a moment keeps
SEARCH, APPROACH = 1, 2             # Control MODE_*
ROLES = ("target", "avoid", "action")


@dataclass(frozen=True)
class Reading:
    """How far language has read a sentence.

    Attributes:
        text: as the network hears it, without its frames.
        evidence: that spikes have brought so far for each role of each byte, float32[bytes, len(ROLES)].
        share: of the bytes that have been read, 0..1.
    """

    text: str
    evidence: np.ndarray
    share: float


@dataclass(frozen=True)
class Moment:
    """What there was to see at one time. What a region does not have is None or empty.

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
        spikes: of motor's output in the last second: s before now, and the neuron; float[n, 2].
        status: state of GoalStatus, or -1.
        reading: what language reads.
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
    mode: int = 0
    wants: str = ""
    avoids: str = ""
    distance: float = math.nan
    velocity: tuple[float, float] = (0.0, 0.0)
    spikes: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    status: int = -1
    reading: Reading | None = None


class Watcher:
    """An :class:`brain.episodes.Onlooker` that keeps a moment every :data:`PERIOD`.

    Attributes:
        moments: so far.
        room: a ``brain_sim.room.Room``, once the world has told of it.
    """

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.room: Any | None = None
        self._next = 0.0
        self._spikes: deque[tuple[float, np.ndarray]] = deque()
        self._newest: dict[str, Any] = {}

    def begin(self, host: LocalHost, episode: Any) -> None:
        """Listens; what is made on demand is made from now on."""
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
        if message.population != "motor/output":
            return
        bins = message.bin.astype(float)
        count = bins.max(initial=0.0) + 1.0
        self._spikes.append((now, np.stack([now - (count - bins) * message.bin_width, message.neuron], 1)))
        while self._spikes and self._spikes[0][0] < now - WINDOW:
            self._spikes.popleft()

    def look(self, host: LocalHost, since: float) -> None:
        """Keeps a moment, if it is time."""
        if since < self._next - 1e-6:
            return
        self._next = since + PERIOD
        states = {name: host.stepper(name).state for name in host.regions}
        pfc, motor = states.get("pfc", {}), host.latest("motor/command")
        truth, control, status = (host.latest(t) for t in ("sim/ground_truth", "pfc/control", "goal/status"))
        goal, seen = host.latest("lang/features"), host.latest("vision/objects")
        choice, picture = self._newest.get("pfc/choice"), self._newest.get("inside/image")
        found: dict[str, Any] = {}
        if picture is not None:
            found["picture"] = picture.data.reshape(picture.height, picture.width, 3).copy()
        if truth is not None:
            at, q = truth.pose.pose.position, truth.pose.pose.orientation
            found["pose"] = (at.x, at.y, 2 * math.atan2(q.z, q.w))
        if "trace" in pfc:      # the spiking cortex and its twin; a table of objects has none
            found |= {"evidence": pfc["trace"].copy(), "turned": float(pfc["owed"][0]),
                      "commitment": pfc["commitment_s"].copy()}
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
        if self._spikes:
            spikes = np.concatenate([s for _, s in self._spikes]) - (host.now, 0.0)
            found["spikes"] = spikes[spikes[:, 0] > -WINDOW]
        if status is not None:
            found["status"] = int(status.state)
        self.moments.append(Moment(since, reading=reading_of(states.get("language", {})), **found))


def _named(color: int, shape: int) -> str:
    return thing(color, shape) if color or shape else ""


def reading_of(state: dict[str, Any]) -> Reading | None:
    """What a spiking language region reads, or has read last; None of any other, and before the first sentence."""
    if "reader_evidence" not in state or not state["reader_length"][0]:
        return None
    from brain_regions.language import sizes

    length = int(state["reader_length"][0])
    text = state["reader_sentence"][1:length - 1].astype(np.uint8).tobytes().decode("utf-8", "replace")
    steps = int(state["reader_place"][1])       # of the recall, so far
    evidence = np.zeros((len(state["reader_sentence"]), sizes.OUTPUTS), np.float32)
    evidence[:sizes.STRIDE * steps] = np.repeat(state["reader_evidence"][:steps], sizes.STRIDE, axis=0)[:len(evidence)]
    evidence = evidence[1:length - 1]
    of = {"target": [sizes.TARGET], "avoid": [sizes.AVOID], "action": sizes.ACTION}
    told = np.stack([evidence[:, of[role]].max(1) for role in ROLES], 1)
    return Reading(text, told, float(state["reader_place"][0]) / length)


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
