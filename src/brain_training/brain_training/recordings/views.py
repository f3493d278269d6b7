# SPDX-License-Identifier: Apache-2.0
"""Views of recorded pictures: objects as the network's own camera would see them, and labels of its columns."""
from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import numpy as np

from brain_observe.pictures import unpacked
from brain_regions.vision.fitting import fitted
from brain_regions.vision.network import COLUMNS, FOCAL, SLOTS, WIDTH
from brain_runtime.contract import images
from brain_sim.camera import SeenObject
from brain_sim.things import COLORS, SHAPES
from brain_training.recordings.bags import RecordingError
from brain_training.vision_data import CLEAR_PIXELS, NOTHING, UNSURE, Labels

SURE = 0.5              # confidence from which on an object of a label is asked for
WIDEST = math.radians(80.0)


class Mount(NamedTuple):
    """Mount of a camera in base_link: m ahead, the direction it looks in (rad), and whether it hangs upside down."""

    ahead: float = 0.15
    yaw: float = 0.0
    over: bool = False


class View(NamedTuple):
    """An object as the network's own camera would see it.

    Attributes:
        color, shape: numbers in COLORS and SHAPES.
        bearing: rad, of its center from the camera's axis.
        distance: m, from the camera.
        width: rad.
        sure: False: something may be there, about which nothing is asked.
    """

    color: int
    shape: int
    bearing: float
    distance: float
    width: float
    sure: bool


def picture_of(message: Any, path: Path, topic: str, over: bool = False) -> np.ndarray:
    """uint8 [HEIGHT, WIDTH, 3] of an Image or a CompressedImage (JPEG, PNG) of any size.

    Args:
        message: what was recorded.
        path, topic: of the recording, for messages to a person.
        over: the camera hangs upside down, and its picture is turned.

    Raises:
        RecordingError: it cannot be read; says which bag.
    """
    try:
        picture = images.rgb(message) if hasattr(message, "encoding") else unpacked(bytes(message.data), message.format)
        return fitted(picture[::-1, ::-1] if over else picture)
    except ValueError as error:
        raise RecordingError(f"{path}: a picture of {topic} cannot be used: {error}; record it as rgb8, bgr8, rgba8, "
                             f"bgra8, JPEG or PNG of at least {images.SMALLEST} x {images.SMALLEST} pixels, or take "
                             f"the recording out of the folder") from error


def focal_of(info: Any) -> float:
    """Focal length (px) of a picture of the network's width, from a CameraInfo; without one 90 degrees are taken.

    Raises:
        LensError: the CameraInfo contradicts itself.
    """
    if info is None or not info.k[0]:
        return FOCAL
    return images.lens(info, None, math.pi / 2).across(WIDTH)


def views(message: Any, mount: Mount, focal: float) -> list[View]:
    """Objects of a DetectedObjects, nearest first; those that are not wholly told, or not surely, are not asked for."""
    found = []
    for seen in message.objects:
        told = (1 <= seen.color <= len(COLORS) and 1 <= seen.shape <= len(SHAPES)
                and all(map(math.isfinite, (seen.distance, seen.width))) and seen.distance > 0.05 and seen.width > 0.0)
        if not math.isfinite(seen.bearing):
            continue
        distance = float(seen.distance) if told else 2.0
        width = float(seen.width) if told else 0.2
        found.append(seen_from(mount, focal, int(seen.color) - 1 if told else 0, int(seen.shape) - 1 if told else 0,
                               float(seen.bearing), distance, width, told and seen.confidence >= SURE))
    return sorted((view for view in found if view is not None), key=lambda view: view.distance)


def seen_from(mount: Mount, focal: float, color: int, shape: int, bearing: float, distance: float, width: float,
              sure: bool) -> View:
    """A :class:`View` of what is at (bearing, distance) of base_link, by a picture of another camera."""
    x, y = distance * math.cos(bearing) - mount.ahead, distance * math.sin(bearing)
    angle = _wrapped(math.atan2(y, x) - mount.yaw)
    away, scale = math.hypot(x, y), focal / FOCAL
    if abs(angle) < WIDEST and scale != 1.0:    # what the same picture means to the network's own camera
        angle, away, width = math.atan(math.tan(angle) * scale), away / scale, width * scale
    return View(color, shape, angle, away, min(width, WIDEST), sure)


def columns_of(view: View) -> np.ndarray:
    """Share of each column that an object covers, [COLUMNS], 0..1."""
    if abs(view.bearing) >= WIDEST:
        return np.zeros(COLUMNS)
    left, right = (WIDTH / 2 - FOCAL * math.tan(min(max(view.bearing + side * view.width / 2, -WIDEST), WIDEST))
                   for side in (1, -1))
    size = WIDTH / COLUMNS
    edges = np.arange(COLUMNS) * size
    return np.clip(np.minimum(right, edges + size) - np.maximum(left, edges), 0.0, size) / size


def labels(seen: Sequence[View] | None) -> Labels:
    """Labels [SLOTS, COLUMNS] of a picture; None: it has none, and nothing is asked.

    A column belongs to an object that covers at least half of it. About columns at an object's edge nothing is asked,
    nor about what is behind another: whether that can be seen a list of objects does not say.
    """
    color = np.full((SLOTS, COLUMNS), UNSURE if seen is None else NOTHING, np.int8)
    shape = np.zeros((SLOTS, COLUMNS), np.int8)
    bearing, distance, width = (np.zeros((SLOTS, COLUMNS), np.float32) for _ in range(3))
    taken = np.zeros(COLUMNS, bool)
    for view in seen or ():
        share = columns_of(view)
        touched, clear = share > 0.0, (share >= 0.5) & view.sure
        first = clear & ~taken & (color[0] == NOTHING)
        color[0, first], shape[0, first] = view.color, view.shape
        bearing[0, first], distance[0, first], width[0, first] = view.bearing, view.distance, view.width
        behind = touched & taken
        color[1, behind] = UNSURE
        color[0, touched & ~first & ~taken] = UNSURE
        color[1, touched & ~clear] = UNSURE
        taken |= first
    return Labels(color, shape, bearing, distance, width)


def asked(seen: Sequence[View]) -> list[SeenObject]:
    """Objects as the examination of vision takes them; those that are not asked for show too few pixels for it."""
    half = math.atan(WIDTH / 2 / FOCAL)
    return [SeenObject("", COLORS[v.color], SHAPES[v.shape], v.bearing, v.distance, v.bearing, v.distance,
                       CLEAR_PIXELS if v.sure else 1, 0.0, v.width)
            for v in seen if abs(v.bearing) - v.width / 2 < half]


def _wrapped(angle: float) -> float:
    return math.remainder(angle, 2.0 * math.pi)
