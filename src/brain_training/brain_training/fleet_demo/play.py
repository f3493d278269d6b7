# SPDX-License-Identifier: Apache-2.0
"""Plays the demo: starts all, looks at the cloud, lets the troubles happen, and tells what came of it."""
from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, Sequence

from brain_training.fleet_demo.processes import Cloud, Robot, kept
from brain_training.fleet_demo.robot_folder import SHEET, TEACHER, doing, goals, sheets
from brain_training.fleet_demo.script import CUT, DEATH, Script
from brain_training.fleet_demo.story import Trouble, examined
from brain_training.fleet_demo.table import rooms, row
from brain_regions.vision import weights
from brain_wire.wakeup import Flag

LOOK = 0.5          # s between two looks at the cloud
SHEETS = 3          # files of pictures that each robot has before the rounds begin: the last of them is kept back
_WORDS = {CUT: ("the link of {} is cut", "the link of {} is there again", "{} takes part again"),
          DEATH: ("{} is killed", "{} is started again", "{} takes part again")}


class DemoProblem(RuntimeError):
    """The demo cannot go on; says why."""


class Play:
    """A demo.

    Args:
        script: how much of what.
        folder: of its own, empty.
        tell: told each thing that happens, in a line.

    Attributes:
        processes: all that it has started.
        lines: all that was told.
    """

    def __init__(self, script: Script, folder: Path, tell: Callable[[str], None]) -> None:
        self.script, self.folder = script, folder
        self.processes = kept(folder)
        self.lines: list[str] = []
        self._tell = tell
        self._begun = time.monotonic()
        self._learning: dict[str, Any] = {"version": 0, "history": [], "over": False, "left_s": None, "missing": [],
                                          "answered": [], "round": 0}
        self._links: dict[str, str] = {}
        self._ends: list[float] = []        # s, of rounds
        self._learns = False
        self._cloud = Cloud(self.processes, folder)
        self.robots = [Robot(given, folder / given.name, self.processes, self._cloud.port) for given in script.given()]
        by_name = {robot.name: robot for robot in self.robots}
        cut, killed = by_name[script.cut_robot], by_name[script.killed_robot]
        self.troubles = [
            Trouble(CUT, cut.name, script.cut_at, lambda: _cut(cut), cut.link.mend),
            Trouble(DEATH, killed.name, script.kill_at, killed.die, killed.rise)]

    @property
    def now(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begun

    def run(self, stop: Flag, show: Callable[[], None] = lambda: None) -> None:
        """Plays until all rounds are done and who had trouble is back, the time is up, or it is stopped.

        Args:
            stop: ends it.
            show: called after each look.

        Raises:
            DemoProblem: a process has ended that should not.
        """
        self._say(f"a cloud, and {len(self.robots)} robots that begin to drive")
        self._cloud.start(self.script.plan(weights.SHIPPED))
        for robot in self.robots:
            robot.drive()
        while not stop.is_set() and self.now < self.script.limit_s and not self.over:
            self._look()
            show()
            stop.wait(LOOK)

    @property
    def over(self) -> bool:
        """True once all is done that was to be."""
        done = self._learning["version"] >= self.script.rounds and all(one.back_s is not None for one in self.troubles)
        return done or self._learning["over"]

    def _look(self) -> None:
        down = {name for robot in self.robots if robot.down for name in robot.parts}
        for name in self.processes.statuses().keys() - down:
            status = self.processes.statuses()[name]
            raise DemoProblem(f"the process `{name}` has ended with status {status}; its log in {self.folder} says why")
        if not self._learns and all(len(sheets(robot.folder)) >= SHEETS for robot in self.robots):
            self._learns = True
            for robot in self.robots:
                robot.learn()
            self._say("each has seen enough to learn from; the rounds begin")
        found = self._cloud.look()
        if found is None:
            return
        before = len(self._learning["history"])
        self._learning, self._links = found
        for one in self._learning["history"][before:]:
            self._ends.append(self.now)
            away = [robot.name for robot in self.robots if robot.name not in one["robots"]]
            self._say(f"round {one['round']} ended after {one['lasted_s']:.0f} s with " + (
                ", ".join(one["robots"]) or "nobody") + (f"; without {', '.join(away)}" if away else ""))
        for trouble in self.troubles:
            if trouble.look(self._learning, self.now):
                words = _WORDS[trouble.kind][(trouble.ended_s is not None) + (trouble.back_s is not None)]
                self._say(words.format(trouble.robot))

    def _say(self, text: str) -> None:
        line = f"{self.now:5.0f} s  {text}"
        self.lines.append(line)
        self._tell(line)

    def head(self) -> str:
        """Returns a line with the progress of the play."""
        one = self._learning
        told = f"{self.now:.0f} s; {one['version']} rounds done, of {self.script.rounds} or more"
        if one["left_s"] is not None:
            told += (f"; {len(one['answered'])} have answered in the next, which waits {one['left_s']:.0f} s more at "
                     f"most")
        return told

    def rows(self) -> list[dict[str, Any]]:
        """Of each robot what the table shows."""
        versions = examined(self._learning["history"])
        found = []
        for robot in self.robots:
            trouble = next((told for one in self.troubles if one.robot == robot.name and (told := one.told())), "")
            own = {"goals": goals(robot.folder), "doing": doing(robot.folder), "pictures":
                   SHEET * len(sheets(robot.folder))}
            found.append(row(robot.name, robot.given.look, self._links.get(robot.name, "not yet"), own, versions,
                             trouble))
        return found

    def summary(self) -> dict[str, Any]:
        """Returns the results as plain values; times are s since it began."""
        versions = examined(self._learning["history"])
        robots = [{"robot": one.name, "rooms": rooms(one.given.look), "look": asdict(one.given.look), "goals": [
            {**goal, "at_s": round(goal["at"] - self._begun, 1)} for goal in goals(one.folder)]} for one in self.robots]
        whole = [one for one in versions if len(one["robots"]) == len(self.robots)]
        means = [sum(told["f1"] for told in one["robots"].values()) / len(one["robots"]) for one in whole]
        return {"seed": self.script.seed, "labels": TEACHER, "rounds": self.script.rounds,
                "done": int(self._learning["version"]), "wall_s": round(self.now, 1), "versions": versions,
                "f1_first": means[0] if means else None, "f1_last": means[-1] if means else None,
                "last_version": whole[-1]["version"] if whole else None,
                "ends": [round(one, 1) for one in self._ends], "troubles": [one.record() for one in self.troubles],
                "robots": robots, "script": asdict(self.script)}

    def close(self) -> None:
        """Ends all that it has started."""
        self._cloud.close()
        self.processes.end()
        for robot in self.robots:
            robot.link.close()


def complete(found: dict[str, Any]) -> bool:
    """Checks that all rounds came about, and that each robot in trouble was back in one."""
    return found["done"] >= found["rounds"] and all(one["back_s"] is not None for one in found["troubles"])


def lines(found: dict[str, Any]) -> Sequence[str]:
    """Formats the results for a person."""
    told = []
    if found["f1_first"] is not None and found["last_version"]:
        told.append(f"held-out F1 of vision, in the mean of all robots' rooms: {found['f1_first']:.2f} with the "
                    f"weights that ship, {found['f1_last']:.2f} after {found['last_version']} rounds")
    for one in found["robots"]:
        own = [version["robots"][one["robot"]]["f1"] for version in found["versions"] if one["robot"] in
               version["robots"]]
        told.append(f"{one['robot']} ({one['rooms']}): " + (f"F1 {own[0]:.2f}, then {own[-1]:.2f}; " if own else "") + (
            f"{sum(goal['reached'] for goal in one['goals'])} of {len(one['goals'])} goals reached"))
    for one in found["troubles"]:
        if one["back_s"] is not None:
            told.append(f"{_WORDS[one['kind']][0].format(one['robot'])} after {one['began_s']:.0f} s, and it took part "
                        f"again after {one['back_s']:.0f} s")
        elif one["began_s"] is not None:
            told.append(f"{_WORDS[one['kind']][0].format(one['robot'])} after {one['began_s']:.0f} s, and it was not "
                        f"back at the end")
    return told


def _cut(robot: Robot) -> None:
    robot.link.cut(stay=True)
