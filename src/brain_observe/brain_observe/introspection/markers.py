# SPDX-License-Identifier: Apache-2.0
"""Markers of the brain's beliefs for RViz: each in the frame and of the time of the message it was made from."""
from __future__ import annotations

import functools
import math
from typing import Any, Sequence

import numpy as np

from brain_observe.introspection import words
from brain_runtime.contract import azimuth
from brain_runtime.contract.constants import goal_state
from brain_runtime.interfaces import DetectedObject
from brain_runtime.contract.sights import thing
from brain_wire import messages

MARKER = "visualization_msgs/msg/Marker"
_MARKER: Any = messages.message_class(MARKER)
CUBE, SPHERE, CYLINDER = _MARKER.CUBE, _MARKER.SPHERE, _MARKER.CYLINDER
LINE_LIST, TEXT = _MARKER.LINE_LIST, _MARKER.TEXT_VIEW_FACING
BODIES = {DetectedObject.SHAPE_BALL: SPHERE, DetectedObject.SHAPE_CYLINDER: CYLINDER}      # all else is a cube
LIFE = 1.0                  # s after which a marker that is not made again vanishes
SIZE = 0.4                  # m, what an object is drawn as: its true size is not remembered
DISC = 0.02                 # m, height of what lies on the floor
KEPT_OFF = 1.4              # m across, of the floor round what is avoided
INNER, LENGTH = 0.25, 0.6   # m: where the lines of a map by azimuth begin, and how long the longest is
RED, BLUE, YELLOW, WHITE = (0.9, 0.2, 0.1), (0.2, 0.5, 1.0), (1.0, 0.85, 0.0), (1.0, 1.0, 1.0)
VIOLET = (0.8, 0.45, 1.0)

_make = functools.partial(messages.make, MARKER)


def _marker(header: Any, group: str, number: int, kind: int, rgb: tuple[float, float, float], alpha: float,
            size: Sequence[float], at: tuple[float, float, float] = (0.0, 0.0, 0.0), **more: Any) -> Any:
    found = _make(header=header, ns=group, id=number, type=kind, **more)
    found.pose.position.x, found.pose.position.y, found.pose.position.z = at
    found.pose.orientation.w = 1.0
    found.scale.x, found.scale.y, found.scale.z = size
    found.color.r, found.color.g, found.color.b = rgb
    found.color.a = alpha
    found.lifetime.sec = int(LIFE)
    return found


def _spot(bearing: float, distance: float, height: float) -> tuple[float, float, float]:
    return distance * math.cos(bearing), distance * math.sin(bearing), height


def remembered(memory: Any) -> list:
    """Objects of pfc/memory: a body, the fainter the less sure, and its name."""
    found = []
    for number, seen in enumerate(memory.objects):
        if not azimuth.sound(seen.bearing, seen.distance):
            continue
        sure = min(max(float(seen.confidence), 0.0), 1.0)
        name = f"{thing(seen.color, seen.shape)} {100 * sure:.0f} %"
        body = BODIES.get(seen.shape, CUBE)
        found += [
            _marker(memory.header, "remembered", number, body, words.paint(seen.color), 0.2 + 0.8 * sure, [SIZE] * 3,
                    _spot(seen.bearing, seen.distance, SIZE / 2)),
            _marker(memory.header, "names", number, TEXT, WHITE, 0.9, (0.0, 0.0, 0.12),
                    _spot(seen.bearing, seen.distance, SIZE + 0.15), text=name)]
    return found


def wanted(control: Any) -> list:
    """The target of pfc/control, the direction that is wanted now, and what is kept away from."""
    found = []
    if azimuth.sound(control.bearing, control.distance):
        found.append(_marker(control.header, "target", 0, CYLINDER, YELLOW, 0.6, (2 * SIZE, 2 * SIZE, DISC),
                             _spot(control.bearing, control.distance, DISC)))
    if azimuth.sound(control.heading, control.speed):
        long = INNER + LENGTH * max(float(control.speed), 0.2)
        ends = [_point(INNER, control.heading), _point(long, control.heading)]
        found.append(_marker(control.header, "heading", 0, LINE_LIST, YELLOW, 1.0, (0.05, 0.0, 0.0), points=ends,
                             frame_locked=True))
    for number, (bearing, distance) in enumerate(zip(control.avoid_bearing, control.avoid_distance)):
        if azimuth.sound(bearing, distance):
            found.append(_marker(control.header, "avoided", number, CYLINDER, RED, 0.35, (KEPT_OFF, KEPT_OFF, DISC),
                                 _spot(float(bearing), float(distance), DISC / 2)))
    return found


def by_azimuth(header: Any, group: str, values: np.ndarray, rgb: tuple[float, float, float], height: float) -> list:
    """A map float[36] as lines round the robot, the longer the higher the value; none where all are zero."""
    ends = [_point(start, float(azimuth.CENTERS[number]), height) for number in np.flatnonzero(values > 0.02)
            for start in (INNER, INNER + LENGTH * float(values[number]))]
    if not ends:
        return []
    return [_marker(header, group, 0, LINE_LIST, rgb, 0.8, (0.03, 0.0, 0.0), points=ends, frame_locked=True)]


def felt(features: Sequence[Any], control: Any | None) -> list:
    """The highest hazard and novelty of all sensors by azimuth, as pfc and motor read them."""
    if not features:
        return []
    hazard = [azimuth.sound_map(f.hazard) for f in features] + ([azimuth.sound_map(control.hazard)] if control else [])
    novelty = [azimuth.sound_map(f.novelty) for f in features]
    newest = max(features, key=lambda f: (f.header.stamp.sec, f.header.stamp.nanosec))
    return [*by_azimuth(newest.header, "hazard", np.max(hazard, axis=0), RED, 0.10),
            *by_azimuth(newest.header, "novelty", np.max(novelty, axis=0), BLUE, 0.05)]


def chosen(choice: Any) -> list:
    """The choice distribution of pfc/choice as lines round the robot, as long as the roots of the probabilities.

    All are short while nothing speaks for any heading; there is one long one when it is certain.
    """
    p = np.nan_to_num(np.clip(choice.probability, 0.0, 1.0))
    return by_azimuth(choice.header, "choice", np.sqrt(p), VIOLET, 0.15)


def said(status: Any, header: Any) -> list:
    """The sentence and how it stands, above the robot."""
    text = f'"{status.text}": {goal_state(status.state)}' if status.text else goal_state(status.state)
    return [_marker(header, "goal", 0, TEXT, WHITE, 1.0, (0.0, 0.0, 0.15), (0.0, 0.0, 0.75), text=text,
                    frame_locked=True)]


def _point(distance: float, angle: float, height: float = 0.05) -> Any:
    return messages.make("geometry_msgs/msg/Point", x=distance * math.cos(angle), y=distance * math.sin(angle),
                         z=height)
