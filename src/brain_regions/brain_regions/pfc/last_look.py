# SPDX-License-Identifier: Apache-2.0
"""The look round before it is said that something was not found, and why that is said.

A search ends when place has nothing left to look at, or when patience has run out. Where pictures came late since the
goal was told, everything round the robot must have been looked at once more before, by pictures that came in time: what
was looked at late may have been looked at by few. While vision is late or missing nothing is given up, and patience
does not run.
"""
from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from brain_regions.azimuth import BINS, CENTERS, wrap
from brain_regions.past import Pose
from brain_runtime.interfaces import GoalStatus

LONGEST = 20.0          # s that it takes at most after patience has run out: the robot may be unable to turn
SPENT, WHY, LATE = BINS, BINS + 1, BINS + 2     # of state "last_look", behind a number for each direction in odom
EVERYWHERE, PATIENCE = 1.0, 2.0         # why it was given up


class View(NamedTuple):
    """Part of the surroundings that a picture covers.

    Attributes:
        yaw: of the robot when it was taken (rad, odometry's frame).
        sector: right and left edge of what the camera covers (rad).
    """

    yaw: float
    sector: tuple[float, float]

    @classmethod
    def of(cls, frame: Any, then: Pose) -> View:
        """Of DetectedObjects, and where the robot was when the picture was taken."""
        return cls(then[2], (float(frame.azimuth_min), float(frame.azimuth_max)))


class Leave(NamedTuple):
    """Permission to end a search now: since ``everywhere`` was looked, and since it took too long."""

    everywhere: bool = True
    patience: bool = True


def empty() -> dict[str, np.ndarray]:
    """State of a goal of which nothing was given up yet."""
    return {"last_look": np.zeros(BINS + 3, np.float32)}


def look(state: dict[str, np.ndarray], views: Sequence[View], *, nothing_left: bool, impatient: bool, late: bool,
         dt: float) -> Leave:
    """Takes in new pictures.

    Args:
        state: ``last_look`` is replaced.
        views: of the pictures since the last call.
        nothing_left: there is nothing that was not looked at.
        impatient: patience has run out.
        late: vision is late or missing.
        dt: s since the last call.
    """
    if late or not (nothing_left or impatient):
        doubt = late and bool(views)
        if state["last_look"][:BINS].any() or doubt and not state["last_look"][LATE]:
            state["last_look"] = np.concatenate((np.zeros(BINS, np.float32), state["last_look"][BINS:]))
            state["last_look"][LATE] = max(state["last_look"][LATE], doubt)
        return Leave(False, False)
    looked = state["last_look"].copy()
    for view in views:
        bearing = wrap(CENTERS - view.yaw)
        looked[:BINS][(bearing >= view.sector[0]) & (bearing <= view.sector[1])] = 1.0
    if impatient:
        looked[SPENT] += dt
    state["last_look"] = looked
    looked_round = not looked[LATE] or bool(looked[:BINS].all())
    return Leave(looked_round, looked_round or bool(looked[SPENT] > LONGEST))


def remember_why(state: dict[str, np.ndarray], why: float) -> None:
    """Keeps why the search was given up, of several reasons the first; 0: it goes on."""
    if bool(why) != bool(state["last_look"][WHY]):
        state["last_look"] = state["last_look"].copy()
        state["last_look"][WHY] = why


def cause(state: dict[str, np.ndarray], status: int) -> int:
    """``GoalStatus.CAUSE_*`` of a state of the goal: why the target was not found, where that is the state."""
    if status != GoalStatus.STATE_NOT_FOUND:
        return GoalStatus.CAUSE_NONE
    return GoalStatus.CAUSE_PATIENCE if state["last_look"][WHY] == PATIENCE else GoalStatus.CAUSE_COVERED


def in_words(state: dict[str, np.ndarray], search_time: float) -> str:
    """Explains to a person why the target was not found."""
    if state["last_look"][WHY] == PATIENCE:
        return f"I ran out of patience after {search_time:.0f} s of search and did not look everywhere"
    return "I looked everywhere I can get to and did not find it"
