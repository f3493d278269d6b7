# SPDX-License-Identifier: Apache-2.0
"""Input from vision, with where the robot was when each picture was taken, and the state of camera and lidar."""
from __future__ import annotations

import math
from typing import Any, NamedTuple

from brain_regions import past
from brain_regions.obedience import BEATS, disobeyed
from brain_regions.past import Past, Pose
from brain_regions.pfc.parameters import CortexParameters
from brain_regions.scan_watch import ScanWatch
from brain_wire import messages

MISSING = 1.0       # s without a scan, after which the lidar counts as missing


class Look(NamedTuple):
    """A picture that has just been told of.

    Attributes:
        frame: DetectedObjects.
        then: where the robot was when it was taken; where that cannot be known, where it is now.
    """

    frame: Any
    then: Pose


class Sight(NamedTuple):
    """Newest input from vision.

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


def look(inbox: Any, before: Past, pose: Pose | None, watch: ScanWatch, parameters: CortexParameters,
         refused: str = "") -> Sight:
    """Takes what is new from the ports ``objects``, ``odom`` and those of :class:`brain_regions.lidars.Scanning`.

    Where the lidar is not to be believed, nothing is gone to, found or given up: the robot is as good as blind.

    Args:
        before: where the robot was.
        pose: where it is.
        watch: on the lidar.
        parameters: of the region.
        refused: why odometry that comes is not used; empty: it is, or none comes.
    """
    watch.hear(inbox, pose, parameters, before.newest)
    sight = _pictures(inbox, before, pose, parameters.view_timeout, parameters.late, refused)
    if why := disobeyed(inbox):
        return Sight([], sight.newest, refused or why, True)
    if inbox.age("scan") == math.inf:       # there is no lidar
        return sight
    why = "no fresh scan" if inbox.age("scan") > MISSING else watch.fault or watch.fixed
    return sight._replace(blind=sight.blind or why, late=True) if why else sight


def _pictures(inbox: Any, before: Past, pose: Pose | None, missing: float, late: float, refused: str) -> Sight:
    """Takes what is new from the ports ``objects`` and ``odom``.

    A late picture is left out of which it is not remembered where it was taken. One whose stamp cannot be compared (it
    has none, or clocks of two machines disagree) is taken as if it showed what is to be seen now.

    Args:
        before, pose, refused: see :func:`look`.
        missing, late: ages (s) from which on vision is missing or late.
    """
    received = inbox.each("objects", missing)
    newest = [entry.message for entry in received]
    if pose is None:
        return Sight([], newest, refused or "no fresh odometry", True)
    ages = [past.age(frame.header, inbox.stamp) for frame in newest]
    looks = []
    for entry, age in zip(received, ages):
        then = before.at(messages.time_seconds(entry.message.header.stamp))
        if entry.new and not (then is None and age > late):
            looks.append(Look(entry.message, then or pose))
    if not received:
        return Sight([], [], _unseen(inbox), True)
    if all(age > past.HORIZON for age in ages):     # where it is known
        return Sight([], newest, f"what vision tells is {min(ages):.1f} s old, or its clock disagrees with odometry's",
                     True)
    return Sight(looks, newest, "", any(age > late for age in ages))


def _unseen(inbox: Any) -> str:
    """Returns the reason why nobody tells of pictures: by the heartbeats of those that hear some and refuse them."""
    beats = [entry.message for entry in inbox.each("heartbeats", BEATS)]
    why = [beat.reason for beat in beats if "is refused" in beat.reason and any(
        "image" in topic and age <= BEATS for topic, age in zip(beat.inputs, beat.input_ages))]
    return "; ".join(why) or "no fresh picture from vision"
