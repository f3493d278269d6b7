# SPDX-License-Identifier: Apache-2.0
"""Outcomes of a robot's goals: those that it reached, and where it stood before something else.

A goal says what is sought, its status how it ended, and the odometry where. A thing right before a robot that has
reached its goal is what was sought, whatever earlier looks at it told: it stands there and has looked again. Before a
robot that ended at something wrong, the thing is not what was sought.
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Iterable, NamedTuple, Sequence

from brain_runtime.interfaces import GoalStatus

if TYPE_CHECKING:
    from brain_training.recordings.own_labels import Odometry, Thing

REACH = 1.3             # m from base_link to a thing's center, within which a robot stands before it
AHEAD = math.radians(40.0)
ENDS = (GoalStatus.STATE_REACHED, GoalStatus.STATE_WRONG)


class Outcome(NamedTuple):
    """End of a goal.

    Attributes:
        stamp: ns.
        reached: False: the robot stands before something else.
        kind: number of color and of shape of what was sought.
    """

    stamp: int
    reached: bool
    kind: tuple[int, int]


def outcomes(statuses: Iterable[tuple[int, Any]], features: Iterable[Any]) -> list[Outcome]:
    """Outcomes of goals that named a color and a shape.

    Args:
        statuses: GoalStatus with their stamps (ns), in order.
        features: LanguageFeatures of the same recording.
    """
    sought = {int(heard.goal_id): (int(heard.target_color) - 1, int(heard.target_shape) - 1) for heard in features
              if heard.understood and 1 <= heard.target_color <= 4 and 1 <= heard.target_shape <= 3}
    found, before = [], None
    for stamp, status in statuses:
        now = int(status.goal_id), int(status.state)
        if now != before and now[1] in ENDS and now[0] in sought:    # it is published again and again
            found.append(Outcome(stamp, now[1] == GoalStatus.STATE_REACHED, sought[now[0]]))
        before = now
    return found


def decided(things: Sequence[Thing], odometry: Odometry, ended: Sequence[Outcome]) -> list[Thing]:
    """The things that outcomes say something of; those have changed, so that they are what was found out."""
    kept: list[Thing] = []
    for outcome in ended:
        pose = odometry.at(outcome.stamp)
        if pose is None:
            continue
        before = [(away, thing) for thing in things if (away := _before(thing, pose)) is not None]
        if not before:
            continue
        thing = min(before, key=lambda pair: pair[0])[1]
        if outcome.reached:
            thing.kinds[:] = 0.0
            thing.kinds[outcome.kind] = thing.weight
        else:
            thing.kinds[outcome.kind] = 0.0
        if not any(thing is other for other in kept):
            kept.append(thing)
    return kept


def _before(thing: Thing, pose: tuple[float, float, float]) -> float | None:
    """Measures the distance to a thing (m); None where the robot does not stand before it."""
    x, y = thing.x - pose[0], thing.y - pose[1]
    away = math.hypot(x, y)
    aside = math.remainder(math.atan2(y, x) - pose[2], 2.0 * math.pi)
    return away if away < REACH and abs(aside) < AHEAD else None
