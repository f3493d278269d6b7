# SPDX-License-Identifier: Apache-2.0
"""Second opinions: what another network saw in a picture, and what that says of the pictures after it.

Objects are :class:`.decode.Found`, as the camera sees them. An opinion about one picture is carried to those that
follow by how the camera has moved since; of what the older picture could not show it says nothing. Opinions about
several pictures are put together: an object that a network sees in one picture and not in the next is half as sure.
"""
from __future__ import annotations

import math
from typing import Any, Sequence

from brain_regions.past import Pose, since
from brain_regions.vision.decode import ANY, Found
from brain_runtime.contract import sights
from brain_runtime.contract.optics import Mount

SAME = math.radians(8.0)    # between bearings of one object in two networks' answers
TELLS = 0.5                 # confidence in an answer from which on its network would tell the object
NEW = 0.5                   # weight of the newest picture where opinions are put together
FORGOTTEN = 0.05            # confidence below which an object is let go of
EDGE = math.radians(3.0)    # of a picture, in which an object may not be seen


def read(message: Any) -> list[Found] | None:
    """The objects of an answer, the surest first; None for one that cannot be used.

    Args:
        message: DetectedObjects, from anybody: bearings and distances as the camera has them, these in its heights
            above the floor.
    """
    if len(message.objects) > 32 or not all(map(sights.sound, message.objects)):
        return None
    if not all(math.isfinite(o.width) and 0.0 < o.width <= math.pi and abs(o.bearing) < math.pi / 2
               for o in message.objects):
        return None
    found = [Found(o.color - 1, o.shape - 1, min(float(o.confidence), 1.0), float(o.bearing), float(o.distance),
                   float(o.width)) for o in message.objects]
    return sorted(found, key=lambda one: -one.confidence)


def scaled(found: Sequence[Found], threshold: float) -> list[Found]:
    """Objects with confidences on the scale of answers, on which every network tells objects from :data:`TELLS` on.

    Args:
        found: as a network decodes them.
        threshold: from which on it tells them (0 to 1).
    """
    def scale(one: Found) -> Found:
        sure = min(one.confidence, 1.0)
        return one._replace(confidence=TELLS * sure / threshold if sure < threshold else
                            1.0 - (1.0 - TELLS) * (1.0 - sure) / max(1.0 - threshold, 1e-9))
    return [scale(one) for one in found]


def through(height: float, found: Sequence[Found]) -> list[Found]:
    """Objects of an answer with distances in m, of a camera ``height`` m above the floor."""
    return [one._replace(distance=one.distance * height) for one in found]


def camera(pose: Pose, mount: Mount) -> Pose:
    """Computes the pose of a camera that is mounted so on a robot's base."""
    c, s = math.cos(pose[2]), math.sin(pose[2])
    return pose[0] + c * mount.x - s * mount.y, pose[1] + s * mount.x + c * mount.y, pose[2] + mount.yaw


def carried(opinion: Sequence[Found], own: Sequence[Found], then: Pose, now: Pose, half: float) -> list[Found]:
    """Combines an opinion about an earlier picture with one's own look at this one.

    Args:
        opinion: of the earlier picture.
        own: the objects that the small network tells of this one.
        then, now: the camera's poses.
        half: of the picture's width (rad).

    Returns:
        The opinion's objects where they are now, without those that have left the picture, unless one's own look finds
        them. Of others of one's own only those that were outside of the earlier picture. The surest first.
    """
    left, found = list(own), []
    for one in opinion:
        moved = _from(one, then, now)
        near = _taken(moved, left)
        if near is not None or abs(moved.bearing) - moved.width / 2 < half:
            found.append(moved)
    found += [one for one in left if abs(_from(one, now, then).bearing) > half]
    return sorted(found, key=lambda one: -one.confidence)


def together(before: Sequence[Found], new: Sequence[Found], then: Pose, now: Pose, half: float) -> list[Found]:
    """One opinion of two about pictures one after the other: a fading mean of what was said of each object.

    Args:
        before: of the earlier picture, or all before it together.
        new: of the later one.
        then, now: the camera's poses.
        half: of the picture's width (rad).

    Returns:
        Objects where they are now, the surest first. Of one that both have the place is that of the later; one that
        only one has, though the other picture showed its place, is less sure.
    """
    left, found = list(new), []
    for one in before:
        moved = _from(one, then, now)
        if abs(moved.bearing) - moved.width / 2 >= half:
            continue
        seen = _taken(moved, left) or moved._replace(confidence=0.0)
        found.append(seen._replace(confidence=NEW * seen.confidence + (1.0 - NEW) * one.confidence))
    for one in left:
        shown = abs(_from(one, now, then).bearing) < half - EDGE
        found.append(one._replace(confidence=(NEW if shown else 1.0) * one.confidence))
    return sorted((one for one in found if one.confidence >= FORGOTTEN), key=lambda one: -one.confidence)


def _taken(moved: Found, left: list[Found]) -> Found | None:
    """The same object among others, the nearest, which is taken out of them; None: it is not there."""
    near = [k for k in left if k.color == moved.color and (k.shape == moved.shape or ANY in (k.shape, moved.shape))
            and abs(k.bearing - moved.bearing) < max(SAME, moved.width)]
    if not near:
        return None
    best = min(near, key=lambda k: abs(k.bearing - moved.bearing))
    left.remove(best)
    return best


def _from(seen: Found, then: Pose, now: Pose) -> Found:
    """An object that was seen from ``then``, as it is seen from ``now``."""
    ahead, aside, turned = since(then, now)
    x, y = seen.distance * math.cos(seen.bearing) - ahead, seen.distance * math.sin(seen.bearing) - aside
    away = max(math.hypot(x, y), 0.05)
    bearing = math.atan2(y, x) - turned
    return seen._replace(bearing=math.atan2(math.sin(bearing), math.cos(bearing)), distance=away,
                         width=min(seen.width * seen.distance / away, math.pi / 2))
