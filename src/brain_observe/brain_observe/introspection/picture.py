# SPDX-License-Identifier: Apache-2.0
"""The camera's picture with what vision tells of it drawn in. Pillow is imported when somebody looks."""
from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple, Sequence

import numpy as np

from brain_observe.introspection import words
from brain_runtime.contract import azimuth
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount
from brain_runtime.contract.sights import SHAPES, thing
from brain_runtime.interfaces import DetectedObject

TALL = {"thing": 1.0, "box": 0.7, "cylinder": 2.8}  # height of an object over its width: only the width is told
WIDTH = 0.4         # m, of an object whose width is not told
SHADE = (0, 0, 0, 150)
TEXT_SIZE = 13      # px


class Eye(NamedTuple):
    """Place of the camera on the base, and its lens."""

    mount: Mount
    lens: Lens


def frame_of(seen: Any, eye: Eye) -> tuple[float, float, float, float] | None:
    """Left, top, right and bottom (px, 0 at the edge) of a DetectedObject, which stands on the floor.

    None where it is not in front of the camera. Its height is a guess from its width.
    """
    distance = float(seen.distance)
    if not azimuth.sound(seen.bearing, distance):
        return None
    mount, (c, s) = eye.mount, (math.cos(eye.mount.yaw), math.sin(eye.mount.yaw))
    x, y = distance * math.cos(seen.bearing) - mount.x, distance * math.sin(seen.bearing) - mount.y
    along, aside = x * c + y * s, y * c - x * s
    if along < 0.1:
        return None
    away, angle = math.hypot(along, aside), math.atan2(aside, along)
    told = math.isfinite(seen.width) and seen.width > 0
    half = min(float(seen.width) / 2 if told else math.atan(WIDTH / 2 / away), 1.2)
    # tangents of its edges, as a level camera sees it
    left, right = (math.tan(min(max(angle + side * half, -1.5), 1.5)) for side in (1, -1))
    wide = 2 * away * math.tan(half)
    shape = SHAPES.get(seen.shape, SHAPES[DetectedObject.SHAPE_UNKNOWN])
    if shape == "ball":
        middle, reach = (wide / 2 - mount.height) / along, (left - right) / 2
        top, bottom = middle + reach, middle - reach
    else:
        top = (TALL[shape] * wide - mount.height) / along
        bottom = -mount.height / max(along - 0.4 * wide, 0.1)   # of its near side
    corners = np.array([(1.0, aside, up) for aside in (left, right) for up in (top, bottom)])
    at = eye.lens.project(corners @ mount.turned())
    return (*at.min(0).tolist(), *at.max(0).tolist()) if np.isfinite(at).all() else None


def drawn(picture: np.ndarray, objects: Sequence[Any], eye: Eye, target: tuple[int, int] | None, scale: int,
          note: str = "") -> np.ndarray:
    """A picture, enlarged, with objects framed and named.

    Args:
        picture: uint8 [rows, columns, 3].
        objects: DetectedObjects.
        eye: for a picture of this size.
        target: color and shape that are wanted, 0 for any; such objects are framed thicker.
        scale: how many times larger it gets.
        note: a line below.

    Returns:
        uint8 [scale * rows, scale * columns, 3].
    """
    from PIL import Image, ImageDraw

    image = Image.fromarray(np.repeat(np.repeat(picture, scale, 0), scale, 1))
    draw = ImageDraw.Draw(image, "RGBA")
    labels: list[tuple[float, float, float]] = []
    for seen in sorted(objects, key=lambda o: -float(o.distance)):  # the nearest on top
        frame = frame_of(seen, eye)
        if frame is None:
            continue
        left, top, right, bottom = (scale * v for v in frame)
        rgb = tuple(int(255 * v) for v in words.paint(seen.color))
        draw.rectangle((left, top, right, bottom), outline=rgb, width=4 if is_target(seen, target) else 2)
        _label(draw, image.size, (left, top), f"{thing(seen.color, seen.shape)} {100 * seen.confidence:.0f} %, "
                                              f"{seen.distance:.1f} m", rgb, labels)
    if note:
        _label(draw, image.size, (0, image.height), note, (255, 255, 255), labels)
    return np.asarray(image)


def is_target(seen: Any, target: tuple[int, int] | None) -> bool:
    """Tells whether an object may be what is wanted."""
    return target is not None and target[0] in (0, seen.color) and target[1] in (0, seen.shape)


def _label(draw: Any, size: tuple[int, int], at: tuple[float, float], text: str, rgb: tuple[int, ...],
           labels: list[tuple[float, float, float]]) -> None:
    """Writes above a point; higher, or else lower, where one of ``labels`` (left, right, top), which it joins, is."""
    font = _font()
    width, height = draw.textlength(text, font) + 6, TEXT_SIZE + 5
    left = min(max(at[0], 0), max(size[0] - width, 0))
    wanted = min(max(at[1] - height, 0), size[1] - height)
    rows = [*np.arange(wanted, -1, -height), *np.arange(wanted + height, size[1] - height + 1, height)]
    top = next((row for row in rows if not any(left < end and begin < left + width and abs(row - other) < height
                                               for begin, end, other in labels)), wanted)
    labels.append((left, left + width, top))
    draw.rectangle((left, top, left + width, top + height), fill=SHADE)
    draw.text((left + 3, top + 1), text, fill=(*(min(255, v + 60) for v in rgb), 255), font=font)


@functools.cache
def _font() -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(TEXT_SIZE)
