# SPDX-License-Identifier: Apache-2.0
"""Controls that know the true state: `oracle` shows what can be reached, `tour` what needs no words.

They are no part of the brain. `python -m brain_sim.controls oracle --episodes 200` measures one.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Callable

import numpy as np

from brain_sim import hard_suite, robot
from brain_sim.geometry import Footprint
from brain_sim.hard_suite import HardEpisode
from brain_sim.intervals import wilson
from brain_sim.movers import MovingSimulation
from brain_sim.physics import Simulation
from brain_sim.planner import Planner, PurePursuit, turn_to
from brain_sim.referee import NOT_FOUND, NOT_UNDERSTOOD, Referee, Verdict
from brain_sim.suite import SUITE, Episode, episodes, suite_hash
from brain_sim.things import RoomObject

CONTROL_PERIOD = 0.05


class _Visit:
    """Drive to one object, turn to it, and be done."""

    def __init__(self, planner: Planner, sim: Simulation, target: RoomObject, avoid: RoomObject | None):
        path = planner.path((sim.x, sim.y), target, avoid)
        self.possible = path is not None
        self._pursuit = PurePursuit(path) if path else None
        self._target, self._avoid = target, avoid

    def replan(self, sim: Simulation, blocks: list[Footprint]) -> bool:
        """Take another way, round `blocks`, if there is one."""
        path = Planner(sim.room, blocks).path((sim.x, sim.y), self._target, self._avoid) if self._pursuit else None
        if path:
            self._pursuit = PurePursuit(path)
        return bool(path)

    def command(self, sim: Simulation) -> tuple[float, float] | None:
        """(v, w), or None when standing before the object."""
        if self._pursuit is not None:
            command = self._pursuit.command(sim.x, sim.y, sim.yaw)
            if command is not None:
                return command
            self._pursuit = None
        w = turn_to(sim.yaw, math.atan2(self._target.y - sim.y, self._target.x - sim.x))
        return None if w is None else (0.0, w)


class Oracle:
    """True map, true goal: what the suite allows at best."""

    def __init__(self, episode: Episode, sim: Simulation):
        self._episode, self._sim = episode, sim
        self._stopped = False
        self._visit = None
        if episode.kind in ("go", "avoid", "stop"):
            room = sim.room
            self._visit = _Visit(Planner(room), sim, room.target_object, room.avoid_object)

    def said(self, text: str) -> int | None:
        """Take in a sentence; returns a goal status to report, if any."""
        self._stopped = bool(self._episode.stop_text) and text == self._episode.stop_text
        return {"absent": NOT_FOUND, "nonsense": NOT_UNDERSTOOD}.get(self._episode.kind)

    def command(self) -> tuple[float, float]:
        """(v, w) for now."""
        if self._visit is None or self._stopped or not self._visit.possible:
            return 0.0, 0.0
        return self._visit.command(self._sim) or (0.0, 0.0)


class Tour:
    """Visits the objects, nearest first, and stands 1.2 s at each, whatever is said."""

    def __init__(self, episode: Episode, sim: Simulation):
        self._sim, self._planner = sim, Planner(sim.room)
        self._left = list(sim.room.objects)
        self._visit = None
        self._wait_until = 0.0

    def said(self, text: str) -> int | None:
        """Words do not matter to a tour."""
        return None

    def command(self) -> tuple[float, float]:
        """(v, w) for now."""
        sim = self._sim
        if sim.time < self._wait_until:
            return 0.0, 0.0
        while self._visit is None:
            if not self._left:
                return 0.0, 0.0
            nearest = min(self._left, key=lambda o: o.footprint.distance_at(sim.x, sim.y))
            self._left.remove(nearest)
            visit = _Visit(self._planner, sim, nearest, None)
            self._visit = visit if visit.possible else None
        command = self._visit.command(sim)
        if command is None:
            self._visit = None
            self._wait_until = sim.time + 1.2
            return 0.0, 0.0
        return command


class Wary:
    """A control among movers: it waits for what is in its way, and plans round what stays there."""

    WAIT = 1.5          # s, after which another way is looked for
    LOOK = 0.9          # s ahead
    SWAY = 0.3          # rad/s
    ROOM = 0.06         # m kept between the robot's edge and a mover

    def __init__(self, make: Callable, episode: Episode, sim: MovingSimulation):
        self._make, self._episode, self._sim = make, episode, sim
        self._control, self._waited = make(episode, sim), 0.0

    def said(self, text: str) -> int | None:
        """Take in a sentence; returns a goal status to report, if any."""
        return self._control.said(text)

    def command(self) -> tuple[float, float]:
        """(v, w) for now."""
        v, w = self._control.command()
        if not self._in_the_way(v):
            self._waited = 0.0
            return v, w
        self._waited += CONTROL_PERIOD
        if self._waited > self.WAIT and self._replan():
            self._waited = 0.0
        # swaying, since to stand for a second in front of an object is to say "here it is"
        return 0.0, self.SWAY if self._waited % 1.0 < 0.5 else -self.SWAY

    def _in_the_way(self, v: float) -> bool:
        sim = self._sim
        if v <= 0:
            return False
        t = np.linspace(0.15, self.LOOK, 6)[:, None]
        x, y = sim.x + v * t * math.cos(sim.yaw), sim.y + v * t * math.sin(sim.yaw)
        places, walk = sim.places, sim.velocities
        radii = np.array([m.radius for m in sim.movers]) + robot.BASE_RADIUS + self.ROOM
        then = np.hypot(x - places[:, 0] - walk[:, 0] * t, y - places[:, 1] - walk[:, 1] * t)
        now = np.hypot(sim.x - places[:, 0], sim.y - places[:, 1])
        return bool(((then < radii) & (then < now - 1e-3)).any())

    def _replan(self) -> bool:
        """Plans a way round the movers as they stand; tells whether there is one."""
        visit = getattr(self._control, "_visit", None)
        return visit is not None and visit.replan(
            self._sim, [m.footprint(*map(float, at)) for m, at in zip(self._sim.movers, self._sim.places)])


POLICIES: dict[str, Callable] = {"oracle": Oracle, "tour": Tour}


def run_control(policy: str, episode: Episode) -> Verdict:
    """Run one episode without camera or brain; KeyError for an unknown policy."""
    room = episode.room()
    referee = Referee(episode, room)
    if isinstance(episode, HardEpisode):
        sim = MovingSimulation(room, episode.moving(room), referee.observe)
        control = Wary(POLICIES[policy], episode, sim)
    else:
        sim = Simulation(room, referee.observe)
        control = POLICIES[policy](episode, sim)
    script = list(episode.script)
    while referee.verdict is None:
        while script and sim.time >= script[0][0] - 1e-9:
            text = script.pop(0)[1]
            referee.said(text, sim.time)
            state = control.said(text)
            if state is not None:
                referee.status(state)
        sim.command(*control.command())
        sim.advance(CONTROL_PERIOD)
    return referee.verdict


def summary(verdicts: list[Verdict], suite: str = SUITE) -> dict:
    """Shares with Wilson intervals, by kind, language and visibility too; SPL and time of successes."""
    def share(some: list[Verdict]) -> dict:
        k, n = sum(v.success for v in some), len(some)
        low, high = wilson(k, n)
        success = round(k / n, 4) if n else None
        return {"n": n, "success": success, "wilson95": [round(low, 4), round(high, 4)]}

    out = {"suite_hash": (hard_suite.suite_hash if suite == hard_suite.SUITE else suite_hash)(), **share(verdicts)}
    out["outcomes"] = dict(Counter(v.outcome for v in verdicts))
    for field in ("kind", "lang", "visibility"):
        out[field] = {value: share([v for v in verdicts if getattr(v, field) == value])
                      for value in sorted({getattr(v, field) for v in verdicts})}
    driven = [v for v in verdicts if v.kind in ("go", "avoid")]
    reached = [v.time for v in driven if v.success]
    out["spl"] = round(sum(v.spl for v in driven) / len(driven), 4) if driven else None
    out["mean_time"] = round(sum(reached) / len(reached), 2) if reached else None
    return out


def main(arguments: list[str] | None = None) -> int:
    """Measure a control and print a summary as JSON."""
    parser = argparse.ArgumentParser(prog="python -m brain_sim.controls", description=main.__doc__)
    parser.add_argument("policy", choices=sorted(POLICIES))
    parser.add_argument("--suite", default=SUITE, choices=(SUITE, hard_suite.SUITE))
    parser.add_argument("--split", default="val")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failures", action="store_true", help="print each episode that failed")
    a = parser.parse_args(arguments)
    some = (hard_suite.episodes if a.suite == hard_suite.SUITE else episodes)(a.split, a.episodes, a.seed)
    verdicts = [run_control(a.policy, e) for e in some]
    if a.failures:
        for v in verdicts:
            if not v.success:
                print(json.dumps(v.to_dict(), ensure_ascii=False))
    print(json.dumps({"policy": a.policy, "suite": a.suite, "split": a.split, "seed": a.seed,
                      **summary(verdicts, a.suite)}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
