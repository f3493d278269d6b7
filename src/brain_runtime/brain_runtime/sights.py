# SPDX-License-Identifier: Apache-2.0
"""Objects as a camera reports them, for a person: names of colors and shapes, places, sentences."""
from __future__ import annotations

import math
from typing import Any, Iterable

COLORS = ("", "red", "green", "blue", "yellow")     # DetectedObject COLOR_*
SHAPES = ("thing", "ball", "box", "cylinder")       # DetectedObject SHAPE_*
AHEAD = 3.0             # degrees to either side that count as ahead


def thing(color: int, shape: int) -> str:
    """``red ball`` of two constants of DetectedObject; ``?`` for numbers that there are not."""
    color_name = COLORS[color] if color < len(COLORS) else "?"
    return f"{color_name} {SHAPES[shape] if shape < len(SHAPES) else '?'}".strip()


def place(bearing: float, distance: float) -> str:
    """``2.1 m 30 deg left`` of a polar position (rad, m)."""
    if not math.isfinite(bearing):
        return "somewhere"
    degrees = math.degrees(bearing)
    side = "ahead" if abs(degrees) < AHEAD else f"{abs(degrees):.0f} deg {'left' if degrees > 0 else 'right'}"
    return side if not math.isfinite(distance) else f"{distance:.1f} m {side}"


def fits(seen: Any, color: int, shape: int) -> bool:
    """Whether a DetectedObject may be of the color and shape; unknown fits all."""
    return (not color or not seen.color or seen.color == color) and (not shape or not seen.shape or seen.shape == shape)


def in_words(objects: Iterable[Any]) -> str:
    """``red ball 1.2 m 10 deg left; blue box 2.0 m ahead``: nearest first as far as distances are known."""
    ordered = sorted(objects, key=lambda o: o.distance if math.isfinite(o.distance) else math.inf)
    return "; ".join(f"{thing(o.color, o.shape)} {place(o.bearing, o.distance)}" for o in ordered) or "nothing"
