# SPDX-License-Identifier: Apache-2.0
"""Views of recorded pictures: level pictures, objects as the camera sees them, and labels of the columns."""
from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import numpy as np

from brain_runtime.contract.pictures import unpacked
from brain_regions.vision.levelling import level_mount, sight
from brain_regions.vision.network import COLUMNS, HEIGHT, RESOLUTION, SLOTS, WIDTH
from brain_runtime.contract import images
from brain_runtime.contract.optics import Mount, OpticsError
from brain_sim.camera import SeenObject
from brain_sim.things import COLORS, SHAPES
from brain_training.recordings.bags import RecordingError
from brain_training.vision_data import CLEAR_PIXELS, NOTHING, UNSURE, Labels

SURE = 0.5              # confidence from which on an object of a label is asked for
WIDEST = math.radians(80.0)
WIDE = 0.8              # of what the camera sees in the widest row of a level picture: in those of a rectangle


class View(NamedTuple):
    """An object as the camera sees it.

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


def picture_of(message: Any, path: Path, topic: str, mount: Mount, info: Any = None) -> np.ndarray:
    """Level picture uint8 [HEIGHT, WIDTH, 3] of an Image or a CompressedImage (JPEG, PNG) of any size.

    Args:
        message: what was recorded.
        path, topic: of the recording, for messages to a person.
        mount: of the camera.
        info: its CameraInfo; None, or an uncalibrated one: its view is 90 degrees wide. Pictures that it says have
            been levelled are taken as they are.

    Raises:
        RecordingError: it cannot be read, or not levelled; says which bag.
        LensError: the CameraInfo contradicts itself or the picture.
    """
    try:
        picture = images.rgb(message) if hasattr(message, "encoding") else unpacked(bytes(message.data), message.format)
        if picture.shape == (HEIGHT, WIDTH, 3) and level_mount(info) is not None:
            return picture
        lens = images.lens(info, (picture.shape[1], picture.shape[0]), math.pi / 2)
        return sight(lens, mount.pitch, mount.roll).level(picture)
    except images.LensError:
        raise
    except OpticsError as error:
        raise RecordingError(f"{path}: {error}; correct the camera's mounting, or take the recording out of the folder"
                             ) from error
    except ValueError as error:
        raise RecordingError(f"{path}: a picture of {topic} cannot be used: {error}; record it as rgb8, bgr8, rgba8, "
                             f"bgra8, JPEG or PNG of at least {images.SMALLEST} x {images.SMALLEST} pixels, or take "
                             f"the recording out of the folder") from error


def shown(picture: np.ndarray) -> np.ndarray:
    """Columns, bool [COLUMNS], of which a level picture shows something."""
    return picture.any((0, 2)).reshape(COLUMNS, -1).any(1)


def inner(picture: np.ndarray) -> np.ndarray:
    """Part of a level picture, a rectangle, in which the camera sees everywhere: [rows, columns, 3]."""
    seen = picture.any(-1)
    wide = seen.sum(1)
    rows = wide >= WIDE * wide.max()
    return picture[rows][:, seen[rows].all(0)]


def views(message: Any, mount: Mount) -> list[View]:
    """Objects of a DetectedObjects, nearest first; those that are not wholly told, or not surely, are not asked for."""
    found = []
    for seen in message.objects:
        told = (1 <= seen.color <= len(COLORS) and 1 <= seen.shape <= len(SHAPES)
                and all(map(math.isfinite, (seen.distance, seen.width))) and seen.distance > 0.05 and seen.width > 0.0)
        if not math.isfinite(seen.bearing):
            continue
        distance = float(seen.distance) if told else 2.0
        width = float(seen.width) if told else 0.2
        found.append(seen_from(mount, int(seen.color) - 1 if told else 0, int(seen.shape) - 1 if told else 0,
                               float(seen.bearing), distance, width, told and seen.confidence >= SURE))
    return sorted((view for view in found if view is not None), key=lambda view: view.distance)


def seen_from(mount: Mount, color: int, shape: int, bearing: float, distance: float, width: float, sure: bool) -> View:
    """A :class:`View` of what is at (bearing, distance) of base_link."""
    x, y = distance * math.cos(bearing) - mount.x, distance * math.sin(bearing) - mount.y
    return View(color, shape, _wrapped(math.atan2(y, x) - mount.yaw), math.hypot(x, y), min(width, WIDEST), sure)


def columns_of(view: View) -> np.ndarray:
    """Share of each column that an object covers, [COLUMNS], 0..1."""
    each = RESOLUTION * WIDTH / COLUMNS
    left, right = (COLUMNS / 2 - (view.bearing + side * view.width / 2) / each for side in (1, -1))
    edges = np.arange(COLUMNS)
    return np.clip(np.minimum(right, edges + 1) - np.maximum(left, edges), 0.0, 1.0)


def labels(seen: Sequence[View] | None, height: float, columns: np.ndarray | None = None) -> Labels:
    """Labels [SLOTS, COLUMNS] of a picture; None: it has none, and nothing is asked.

    A column belongs to an object that covers at least half of it. About columns at an object's edge nothing is asked,
    nor about what is behind another: whether that can be seen a list of objects does not say.

    Args:
        seen: what it shows.
        height: of the camera above the floor (m).
        columns: of which it shows something, bool [COLUMNS]; None: of all.
    """
    color = np.full((SLOTS, COLUMNS), UNSURE if seen is None else NOTHING, np.int8)
    shape = np.zeros((SLOTS, COLUMNS), np.int8)
    bearing, distance, width = (np.zeros((SLOTS, COLUMNS), np.float32) for _ in range(3))
    taken = np.zeros(COLUMNS, bool)
    for view in seen or ():
        share = columns_of(view) if columns is None else columns_of(view) * columns
        touched, clear = share > 0.0, (share >= 0.5) & view.sure
        first = clear & ~taken & (color[0] == NOTHING)
        color[0, first], shape[0, first] = view.color, view.shape
        bearing[0, first], distance[0, first], width[0, first] = view.bearing, view.distance / height, view.width
        behind = touched & taken
        color[1, behind] = UNSURE
        color[0, touched & ~first & ~taken] = UNSURE
        color[1, touched & ~clear] = UNSURE
        taken |= first
    return Labels(color, shape, bearing, distance, width)


def asked(seen: Sequence[View], picture: np.ndarray) -> list[SeenObject]:
    """Objects of a picture as the examination of vision takes them, where it shows something of their columns.

    Those that are not asked for show too few pixels for it.
    """
    columns = shown(picture)
    return [SeenObject("", COLORS[v.color], SHAPES[v.shape], v.bearing, v.distance, v.bearing, v.distance,
                       CLEAR_PIXELS if v.sure else 1, 0.0, v.width)
            for v in seen if (columns_of(v) * columns).any()]


def _wrapped(angle: float) -> float:
    return math.remainder(angle, 2.0 * math.pi)
