# SPDX-License-Identifier: Apache-2.0
"""The referee of language-v1: watches the true state and says how an episode ended."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from brain_sim import robot
from brain_sim.invariants import STILL_SPEED, STILL_TURN
from brain_sim.room import Room
from brain_sim.suite import Episode

NOT_FOUND = 4
NOT_UNDERSTOOD = 5
"""States of brain_interfaces/msg/GoalStatus that the referee listens for."""

CAUSES = {1: "looked everywhere", 2: "out of patience"}
"""Why something was not found, by GoalStatus CAUSE_*; it changes no outcome."""

STANDSTILL = 1.0
STOP_WITHIN = 1.0
STOP_FOR = 5.0
NONSENSE_FOR = 10.0
OUTCOMES = ("success", "wrong_object", "contact", "timeout", "avoid_violated", "moved", "not_stopped",
            "not_reported")


@dataclass(frozen=True)
class Verdict:
    """Verdict on an episode. time, path, shortest in s and m; spl is 0 unless it succeeded.

    not_found: why the brain said that something was not found (of :data:`CAUSES`); empty: it never did.
    """

    id: str
    kind: str
    lang: str
    visibility: str
    sentence: str
    outcome: str
    success: bool
    time: float
    path: float
    shortest: float
    spl: float
    object: str
    nearest_avoid: float | None
    reason: str
    not_found: str = ""

    def to_dict(self) -> dict:
        """Plain JSON values."""
        return asdict(self)


class Referee:
    """Judges one episode in one room. Feed it `said`, `status` and, at 500 Hz, `observe`; read `verdict`.

    The clock starts with the first sentence. Where the robot stands with its front within 0.5 m of an
    object for a second, the nearest object to the front counts. shortest: length in meters of the shortest
    path, for SPL; the room's own unless the robot starts elsewhere.
    """

    def __init__(self, episode: Episode, room: Room, shortest: float | None = None):
        self.episode, self.room = episode, room
        self._shortest = room.shortest if shortest is None else shortest
        self.verdict: Verdict | None = None
        self._begin: float | None = None
        self._stop_time: float | None = None
        self._still = 0.0
        self._last: tuple[float, float, float] | None = None
        self._path = 0.0
        self._now = 0.0
        self._reported: set[int] = set()
        self._not_found = ""
        self._objects = [(o, o.footprint) for o in room.objects]
        avoid = next((o for o in room.objects if o.kind == episode.avoid), None)
        self._avoid_name = avoid.name if avoid else ""
        self._avoid = avoid.footprint if avoid else None
        self._nearest_avoid = math.inf

    def said(self, text: str, time: float) -> None:
        """A sentence was said to the robot at `time` (s)."""
        if self._begin is None:
            # A latched sentence of an earlier episode may still come in.
            if text == self.episode.sentence:
                self._begin = self._now = time
        elif self.episode.kind == "stop" and text == self.episode.stop_text and self._stop_time is None:
            self._stop_time = time

    def status(self, state: int, text: str = "", cause: int = 0) -> None:
        """The brain reported a goal status; one with another sentence's text is an old one and is ignored."""
        if self._begin is None:
            return
        said = self.episode.sentence.encode()
        if text and not said.startswith(text.encode()):
            return
        self._reported.add(int(state))
        if state == NOT_FOUND and not self._not_found:
            self._not_found = CAUSES.get(cause, "no cause told")

    def observe(self, time: float, x: float, y: float, yaw: float, v: float, w: float, contact: str) -> None:
        """The true state after a physics substep: s, m, rad, m/s, rad/s, and the name of what is touched."""
        if self._begin is None or self.verdict is not None:
            return
        dt = time - self._last[2] if self._last else robot.PHYSICS_STEP
        if self._last:
            self._path += math.hypot(x - self._last[0], y - self._last[1])
        self._last, self._now = (x, y, time), time
        still = abs(v) < STILL_SPEED and abs(w) < STILL_TURN
        self._still = self._still + dt if still else 0.0
        elapsed = time - self._begin
        if contact:
            self._end("contact", f"touched {contact}", contact)
            return
        if self._avoid is not None:
            gap = self._avoid.distance_at(x, y) - robot.BASE_RADIUS
            self._nearest_avoid = min(self._nearest_avoid, gap)
            if gap < robot.AVOID_DISTANCE:
                name = self._avoid_name
                self._end("avoid_violated", f"came within {robot.AVOID_DISTANCE} m of {name}", name)
                return
        kind = self.episode.kind
        if kind == "nonsense":
            self._judge_nonsense(elapsed, still)
        elif kind == "stop":
            self._judge_stop(time, elapsed, still)
        else:
            self._judge_goal(x, y, yaw, elapsed)

    def _judge_goal(self, x: float, y: float, yaw: float, elapsed: float) -> None:
        if self._still >= STANDSTILL - 1e-9:
            found = self.object_in_reach(x, y, yaw)
            if found is not None:
                right = found.kind == self.episode.target
                self._end("success" if right else "wrong_object", f"stopped at {found.name}", found.name)
                return
            if self.episode.kind == "absent" and NOT_FOUND in self._reported:
                self._end("success", "reported that it was not found, away from every object")
                return
        if elapsed >= self.episode.time_limit - 1e-9:
            said = ", though reported as not found" if NOT_FOUND in self._reported else ""
            self._end("timeout", f"{self.episode.time_limit:g} s passed{said}")

    def _judge_nonsense(self, elapsed: float, still: bool) -> None:
        if not still:
            self._end("moved", "moved after words that ask for nothing")
        elif elapsed >= NONSENSE_FOR - 1e-9:
            if NOT_UNDERSTOOD in self._reported:
                self._end("success", "stood still and reported that it did not understand")
            else:
                self._end("not_reported", "stood still, but did not report that it did not understand")

    def _judge_stop(self, time: float, elapsed: float, still: bool) -> None:
        if self._stop_time is None:
            if elapsed >= self.episode.time_limit - 1e-9:
                self._end("timeout", "the stop sentence never came")
            return
        since = time - self._stop_time
        if since >= STOP_WITHIN and not still:
            late = "did not stand" if since < STOP_WITHIN + 2 * robot.PHYSICS_STEP else "moved again"
            self._end("not_stopped", f"{late} {since:.2f} s after it was told to stop")
        elif since >= STOP_WITHIN + STOP_FOR:
            self._end("success", f"stood within {STOP_WITHIN:.0f} s and for {STOP_FOR:.0f} s")

    def object_in_reach(self, x: float, y: float, yaw: float):
        """The RoomObject nearest to the robot's front and within 0.5 m of it, or None."""
        fx, fy = x + robot.BASE_RADIUS * math.cos(yaw), y + robot.BASE_RADIUS * math.sin(yaw)
        best, least = None, robot.REACH
        for item, footprint in self._objects:
            distance = footprint.distance_at(fx, fy)
            if distance <= least:
                best, least = item, distance
        return best

    def _end(self, outcome: str, reason: str, name: str = "") -> None:
        e, success = self.episode, outcome == "success"
        shortest = self._shortest if e.kind in ("go", "avoid") else 0.0
        if e.kind in ("go", "avoid"):
            spl = shortest / max(self._path, shortest, 1e-9) if success else 0.0
        else:
            spl = float(success)
        self.verdict = Verdict(
            e.id, e.kind, e.lang, e.visibility, e.sentence, outcome, success,
            round(self._now - self._begin, 4), round(self._path, 4), round(shortest, 4), round(spl, 4), name,
            round(self._nearest_avoid, 4) if self._avoid is not None else None, reason, self._not_found)
