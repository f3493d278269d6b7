# SPDX-License-Identifier: Apache-2.0
"""Things in a room: obstacles, and the objects that have a name."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass

import numpy as np

from brain_sim.geometry import Footprint

COLORS = ("red", "green", "blue", "yellow")
SHAPES = ("ball", "box", "cylinder")
Kind = tuple[str, str]
HUES = {"red": 0.0, "green": 0.36, "blue": 0.61, "yellow": 0.15}


@dataclass(frozen=True)
class Obstacle:
    """A turned block on the floor: center, half sides, height in meters, yaw in radians, rgb in 0..1."""

    name: str
    x: float
    y: float
    yaw: float
    half_x: float
    half_y: float
    height: float
    rgb: tuple[float, float, float]

    @property
    def footprint(self) -> Footprint:
        """Its outline on the floor."""
        return Footprint("rect", self.x, self.y, self.yaw, self.half_x, self.half_y)


@dataclass(frozen=True)
class RoomObject:
    """Something that can be named: `radius` is half the side of a box; lengths in meters, rgb in 0..1."""

    name: str
    color: str
    shape: str
    x: float
    y: float
    yaw: float
    radius: float
    height: float
    rgb: tuple[float, float, float]

    @property
    def kind(self) -> Kind:
        """(color, shape)."""
        return self.color, self.shape

    @property
    def footprint(self) -> Footprint:
        """Its outline on the floor."""
        kind = "rect" if self.shape == "box" else "disk"
        return Footprint(kind, self.x, self.y, self.yaw, self.radius, self.radius)


def object_rgb(color: str, rng: np.random.Generator) -> tuple[float, float, float]:
    """A color with jittered hue, saturation and brightness, rgb in 0..1."""
    hue = (HUES[color] + rng.uniform(-0.022, 0.022)) % 1.0
    rgb = colorsys.hsv_to_rgb(hue, rng.uniform(0.75, 0.95), rng.uniform(0.65, 0.95))
    return tuple(float(c) for c in rgb)
