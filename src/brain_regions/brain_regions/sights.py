# SPDX-License-Identifier: Apache-2.0
"""Objects as a camera reports them, for a person: names of colors and shapes, and sentences."""
from __future__ import annotations

import math
from typing import Any, Iterable

COLORS = ("", "red", "green", "blue", "yellow")     # DetectedObject COLOR_*
SHAPES = ("object", "ball", "box", "cylinder")      # DetectedObject SHAPE_*


def name(color: int, shape: int) -> str:
    """What is meant by two constants of DetectedObject: ``red ball``; numbers that there are not count as unknown."""
    color = color if color < len(COLORS) else 0
    shape = shape if shape < len(SHAPES) else 0
    return f"{COLORS[color]} {SHAPES[shape]}".strip()


def fits(seen: Any, color: int, shape: int) -> bool:
    """Whether a DetectedObject may be of the color and shape; unknown fits all."""
    return (not color or not seen.color or seen.color == color) and (not shape or not seen.shape or seen.shape == shape)


def in_words(objects: Iterable[Any]) -> str:
    """``red ball 1.2 m, 10 deg left; blue box 2.0 m, ahead``: nearest first as far as distances are known."""
    ordered = sorted(objects, key=lambda o: o.distance if math.isfinite(o.distance) else math.inf)
    return "; ".join(_one(o) for o in ordered) or "nothing"


def _one(seen: Any) -> str:
    degrees = round(math.degrees(seen.bearing)) if math.isfinite(seen.bearing) else 0
    where = f"{abs(degrees)} deg {'left' if degrees > 0 else 'right'}" if degrees else "ahead"
    far = f" {seen.distance:.1f} m" if math.isfinite(seen.distance) else ""
    return f"{name(seen.color, seen.shape)}{far}, {where}"
