# SPDX-License-Identifier: Apache-2.0
"""Troubles of the robots, and their times: by what the cloud says of the rounds, not by a clock.

A trouble begins in the middle of a round that its robot takes part in, if a look finds one; it ends when a round has
ended without that robot, and is over when the robot has taken part in a round again.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Mapping


@dataclass
class Trouble:
    """One cut, or one death.

    Attributes:
        kind: ``cut`` or ``death``.
        robot: whose.
        at: rounds that are done when it may begin.
        begin, end: bring it about, and undo it.
        began_s, ended_s, back_s: when it began, was undone, and when the robot had taken part again (s); None: not yet.
        began, ended, back: rounds that were done then.
    """

    kind: str
    robot: str
    at: int
    begin: Callable[[], None]
    end: Callable[[], None]
    began_s: float | None = None
    ended_s: float | None = None
    back_s: float | None = None
    began: int | None = None
    ended: int | None = None
    back: int | None = None
    _round: int = 0         # attempt in which it began, and then the last one before it ended

    def look(self, learning: Mapping[str, Any], now: float) -> bool:
        """Does what is due; whether something was.

        Args:
            learning: as the cloud tells it.
            now: s since the demo began.
        """
        done, history = int(learning["version"]), learning["history"]
        if self.began_s is None:
            amid = learning["left_s"] is not None and self.robot in learning["missing"]
            if done < self.at or not (amid or done > self.at):      # where a round was too short to see it in its midst
                return False
            self._round = int(learning["round"])
            self.begin()
            self.began_s, self.began = now, done
            return True
        if self.ended_s is None:
            if not any(one["round"] >= self._round and self.robot not in one["robots"] for one in history):
                return False
            self._round = int(history[-1]["round"])
            self.end()
            self.ended_s, self.ended = now, done
            return True
        if self.back_s is None and any(one["round"] > self._round and self.robot in one["robots"] for one in history):
            self.back_s, self.back = now, done
            return True
        return False

    def told(self) -> str:
        """Returns the state of the trouble in words; of a robot in trouble only, else nothing."""
        if self.began_s is None or self.back_s is not None:
            return ""
        if self.ended_s is None:
            return "link cut" if self.kind == "cut" else "killed"
        return "link back" if self.kind == "cut" else "started again"

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {name: getattr(self, name) for name in
                ("kind", "robot", "began_s", "ended_s", "back_s", "began", "ended", "back")}


def examined(history: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Collects what robots said of each version of the weights: those that came of so many rounds, and began the next.

    Args:
        history: of the cloud.

    Returns:
        By version, oldest first: ``version``, ``robots`` (by name what each has told), ``ended`` and ``lasted_s`` of
        the round. A version with which several rounds began has the figures of all of them.
    """
    found: dict[int, dict[str, Any]] = {}
    for one in history:
        version = int(one["version"]) - (one["ended"] != "too few")
        entry = found.setdefault(version, {"version": version, "robots": {}, "ended": "", "lasted_s": 0.0})
        entry["robots"] |= {robot: dict(told) for robot, told in one["robots"].items() if "f1" in told}
        entry["ended"] = one["ended"]
        entry["lasted_s"] += float(one["lasted_s"])
    return [found[version] for version in sorted(found)]


def weights_of(robot: str, versions: list[dict[str, Any]]) -> int | None:
    """The version that a robot drives with, as far as the cloud has heard; None: the weights that ship."""
    taken = [one["version"] for one in versions if one["robots"].get(robot, {}).get("taken")]
    return taken[-1] if taken else None
