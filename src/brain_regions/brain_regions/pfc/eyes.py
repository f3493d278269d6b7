# SPDX-License-Identifier: Apache-2.0
"""What vision tells, with where the robot was when each picture was taken, and whether vision is late."""
from __future__ import annotations

from typing import Any, NamedTuple

from brain_regions import past
from brain_regions.past import Past, Pose
from brain_wire import messages


class Look(NamedTuple):
    """A picture that has just been told of.

    Attributes:
        frame: DetectedObjects.
        then: where the robot was when it was taken; where that cannot be known, where it is now.
    """

    frame: Any
    then: Pose


class Sight(NamedTuple):
    """What vision tells now.

    Attributes:
        looks: new pictures.
        newest: DetectedObjects, the newest of each camera.
        blind: what is missing to see by; empty: nothing.
        late: what is seen is older than it should be.
    """

    looks: list[Look]
    newest: list[Any]
    blind: str
    late: bool


def look(inbox: Any, before: Past, pose: Pose | None, missing: float, late: float) -> Sight:
    """Takes what is new from the ports ``objects`` and ``odom``.

    A late picture is left out of which it is not remembered where it was taken. One whose stamp cannot be compared (it
    has none, or clocks of two machines disagree) is taken as if it showed what is to be seen now.

    Args:
        before: where the robot was.
        pose: where it is.
        missing, late: ages (s) from which on vision is missing or late.
    """
    received = inbox.each("objects", missing)
    newest = [entry.message for entry in received]
    if pose is None:
        return Sight([], newest, "no fresh odometry", True)
    ages = [past.age(frame.header, inbox.stamp) for frame in newest]
    looks = []
    for entry, age in zip(received, ages):
        then = before.at(messages.time_seconds(entry.message.header.stamp))
        if entry.new and not (then is None and age > late):
            looks.append(Look(entry.message, then or pose))
    if not received:
        return Sight([], [], "no fresh picture from vision", True)
    if all(age > past.HORIZON for age in ages):     # where it is known
        return Sight([], newest, f"what vision tells is {min(ages):.1f} s old, or its clock disagrees with odometry's",
                     True)
    return Sight(looks, newest, "", any(age > late for age in ages))
