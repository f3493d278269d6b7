# SPDX-License-Identifier: Apache-2.0
"""Objects as a camera reports them: which can be used, which look the same, and names for a person."""
from __future__ import annotations

import math
from typing import Any, Iterable

from brain_runtime import Gated
from brain_runtime.contract import taught
from brain_runtime.contract.constants import names
from brain_runtime.interfaces import DetectedObject

COLORS, SHAPES = names("DetectedObject", "COLOR_"), names("DetectedObject", "SHAPE_")
_COLORS = COLORS.keys() - {DetectedObject.COLOR_UNKNOWN}
AHEAD = 3.0             # degrees to either side that count as ahead
BEARING = math.radians(5.0)     # rad; objects that moved less look the same
DISTANCE = 0.1                  # m


def thing(color: int, shape: int) -> str:
    """``red ball`` of two constants of DetectedObject, or what a taught thing is called; ``?`` for other numbers."""
    if is_taught(shape):
        return taught.name_of(shape)
    return f"{COLORS.get(color, '?')} {SHAPES.get(shape, '?')}".strip()


def is_taught(shape: int) -> bool:
    """Tells whether a shape is the number of a taught thing."""
    return taught.FIRST <= shape < taught.FIRST + taught.MOST


def kind(color: str, shape: str) -> tuple[int, int]:
    """Numbers of a DetectedObject's color and shape, from ``red`` and ``ball``. AttributeError if there are none."""
    return getattr(DetectedObject, f"COLOR_{color.upper()}"), getattr(DetectedObject, f"SHAPE_{shape.upper()}")


def place(bearing: float, distance: float) -> str:
    """``2.1 m 30 deg left`` of a polar position (rad, m)."""
    if not math.isfinite(bearing):
        return "somewhere"
    degrees = math.degrees(bearing)
    side = "ahead" if abs(degrees) < AHEAD else f"{abs(degrees):.0f} deg {'left' if degrees > 0 else 'right'}"
    return side if not math.isfinite(distance) else f"{distance:.1f} m {side}"


def sound(seen: Any) -> bool:
    """Checks that a DetectedObject holds numbers and classes that can be used; its shape may be unknown."""
    known = not seen.color if is_taught(seen.shape) else seen.color in _COLORS and seen.shape in SHAPES
    return (known
            and all(map(math.isfinite, (seen.bearing, seen.distance, seen.confidence)))
            and 0.05 < seen.distance < 15 and 0 < seen.confidence <= 1.0001)


def in_bins(bearing: float, distance: float) -> tuple[int | None, int | None]:
    """A polar position (rad, m) so coarsely that what looks the same is the same; None where it is not known."""
    return _bin(bearing, BEARING), _bin(distance, DISTANCE)


def _bin(value: float, width: float) -> int | None:
    return round(float(value) / width) if math.isfinite(value) else None


def gist(message: Any) -> tuple:
    """Returns the gist of DetectedObjects, so coarse that what looks the same is the same."""
    return tuple((o.color, o.shape, *in_bins(o.bearing, o.distance)) for o in message.objects)


GATED = Gated(gist=gist)
"""For a port of DetectedObjects: those that look the same may wait for an energy budget."""


def fits(seen: Any, color: int, shape: int) -> bool:
    """Tells whether a DetectedObject may be of the color and shape; unknown fits all."""
    return (not color or not seen.color or seen.color == color) and (not shape or not seen.shape or seen.shape == shape)


def in_words(objects: Iterable[Any]) -> str:
    """``red ball 1.2 m 10 deg left; blue box 2.0 m ahead``: nearest first as far as distances are known."""
    ordered = sorted(objects, key=lambda o: o.distance if math.isfinite(o.distance) else math.inf)
    return "; ".join(f"{thing(o.color, o.shape)} {place(o.bearing, o.distance)}" for o in ordered) or "nothing"
