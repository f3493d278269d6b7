# SPDX-License-Identifier: Apache-2.0
"""Look of one robot's world: its light, its colors, and the kinds of objects there. For fleets of robots not alike.

A look is put over a room that :mod:`brain_sim` has made, before its pictures are taken. The room itself, and where a
robot drives in it, stay what they are; the look that is none changes nothing, to the bit.
"""
from __future__ import annotations

import colorsys
from dataclasses import dataclass, replace
from typing import Sequence

import numpy as np

from brain_sim.layout import HEIGHTS, RADII
from brain_sim.room import Room, split_rng
from brain_sim.things import COLORS, HUES, SHAPES, Kind, RoomObject

KINDS: tuple[Kind, ...] = tuple((color, shape) for color in COLORS for shape in SHAPES)


@dataclass(frozen=True)
class Look:
    """Knobs; their defaults change nothing.

    Attributes:
        light: factor of all light; above 1 bright surfaces are overexposed.
        tint: factors of red, green and blue of all surfaces, as a lamp's color or a camera's white balance makes them.
        saturation: factor of the objects' saturation; below 1 they are faded.
        hue: added to the objects' hue, in turns.
        kinds: (color, shape) of the objects that there are; empty: all. One of another kind becomes one of these.
    """

    light: float = 1.0
    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)
    saturation: float = 1.0
    hue: float = 0.0
    kinds: tuple[Kind, ...] = ()

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown:
            raise ValueError(f"{unknown[0]} is no (color, shape): colors are {COLORS}, shapes {SHAPES}")
        if not (0.05 <= self.light <= 5.0 and all(0.05 <= part <= 5.0 for part in self.tint)
                and 0.0 <= self.saturation <= 2.0 and -0.5 <= self.hue <= 0.5):
            raise ValueError(f"{self} is no look: light and tint are 0.05 to 5, saturation 0 to 2, hue -0.5 to 0.5")

    def over(self, room: Room) -> Room:
        """The room, looking so; the same for ever for the same room."""
        if self == PLAIN:
            return room
        rng = split_rng(room.split, room.seed, "look")
        objects = tuple(self._object(thing, rng) for thing in room.objects)
        obstacles = tuple(replace(block, rgb=self._tinted(block.rgb)) for block in room.obstacles)
        return replace(room, ambient=room.ambient * self.light, directional=room.directional * self.light,
                       wall_rgb=tuple(map(self._tinted, room.wall_rgb)),
                       floor_rgb=tuple(map(self._tinted, room.floor_rgb)),
                       ceiling_rgb=self._tinted(room.ceiling_rgb), obstacles=obstacles, objects=objects)

    def _tinted(self, rgb: Sequence[float]) -> tuple[float, float, float]:
        red, green, blue = (float(min(max(value * part, 0.0), 1.0)) for value, part in zip(rgb, self.tint))
        return red, green, blue

    def _object(self, thing: RoomObject, rng: np.random.Generator) -> RoomObject:
        drawn = rng.random(3)   # always as many, so that one object's kind does not change the others'
        hue, saturation, value = colorsys.rgb_to_hsv(*thing.rgb)
        if self.kinds and thing.kind not in self.kinds:
            color, shape = self.kinds[int(drawn[0] * len(self.kinds))]
            hue = (hue + HUES[color] - HUES[thing.color]) % 1.0
            low, high = RADII[shape]
            # No wider than it was: what kept clear of others still does.
            radius = thing.radius if shape == thing.shape else min(low + drawn[1] * (high - low), thing.radius)
            low, high = HEIGHTS.get(shape, (0.0, 0.0))      # a ball is as high as it is wide
            height = 2.0 * radius if shape == "ball" else low + drawn[2] * (high - low)
            number = thing.name.split("_")[1]
            thing = replace(thing, name=f"object_{number}_{color}_{shape}", color=color, shape=shape,
                            radius=float(radius), height=float(height))
        rgb = colorsys.hsv_to_rgb((hue + self.hue) % 1.0, min(saturation * self.saturation, 1.0), value)
        return replace(thing, rgb=self._tinted(rgb))


PLAIN = Look()


def fleet(robots: int, seed: int = 0, kinds: int = 6) -> list[Look]:
    """Looks of a fleet whose robots are not alike: dim and glaring, warm and cold light, each with some of the kinds.

    Args:
        robots: how many.
        seed: of what is drawn.
        kinds: that each has, of twelve; all are there somewhere in a fleet of two or more.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x100C5]))
    found = []
    order: list[int] = []
    for number in range(robots):
        mine: list[Kind] = []
        while len(mine) < kinds:
            order = order or [int(k) for k in rng.permutation(len(KINDS))]
            kind = KINDS[order.pop()]
            if kind not in mine:
                mine.append(kind)
        warmth = rng.uniform(-1.0, 1.0)
        # Lights from a third to half as bright again, evenly, so that each fleet has dark and bright rooms.
        light = 0.35 * (1.5 / 0.35) ** ((number + 0.5) / robots)
        found.append(Look(light=float(light), tint=(float(1.0 + 0.25 * warmth), 1.0, float(1.0 - 0.35 * warmth)),
                          saturation=float(rng.uniform(0.6, 1.0)), hue=float(rng.uniform(-0.03, 0.03)),
                          kinds=tuple(sorted(mine))))
    return found
