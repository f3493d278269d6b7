# SPDX-License-Identifier: Apache-2.0
"""Scenery for vision to be trained in: rooms of all looks, things that have names, and clutter that has none.

What robots vary is varied (J. Tobin et al.: Domain Randomization for Transferring Deep Neural Networks from Simulation
to the Real World, IROS 2017): floors, walls, lamps, the things' sizes, colors and materials, and what stands about.
"""
from __future__ import annotations

import colorsys
import math
from dataclasses import dataclass

import numpy as np

from brain_sim.raycast import BALL, BOX, CONE, CYLINDER, EAST, WEST, Lamp, Material, Poster, Scene, Solid

COLORS = ("red", "green", "blue", "yellow", "orange", "purple", "white", "black")
"""What people call a thing's color; those from the fifth on are nobody's goal."""
KINDS = ("ball", "box", "cylinder", "cone", "other")
# hue (turns), saturation and value between which people say so; between two of them it is no training's to say
_LOOKS = {
    "red": ((-0.035, 0.022), (0.6, 1.0), (0.35, 1.0)), "orange": ((0.05, 0.095), (0.65, 1.0), (0.6, 1.0)),
    "yellow": ((0.128, 0.18), (0.5, 1.0), (0.6, 1.0)), "green": ((0.25, 0.45), (0.35, 1.0), (0.25, 0.95)),
    "blue": ((0.55, 0.69), (0.45, 1.0), (0.3, 1.0)), "purple": ((0.74, 0.86), (0.3, 1.0), (0.3, 0.95)),
    "white": ((0.0, 1.0), (0.0, 0.08), (0.85, 1.0)), "black": ((0.0, 1.0), (0.0, 0.3), (0.02, 0.1)),
}
NEAREST, FARTHEST = 0.25, 6.0       # m from the camera at which things stand
NAMEABLE = -2           # `thing` of clutter that a person may call a box or a cylinder of a color: nobody asks about it
VIVID, BRIGHT = 0.35, 0.25          # saturation and value from which on clutter has a color to be called by
_TRIES = 30


@dataclass(frozen=True)
class Thing:
    """A thing that is labelled.

    Attributes:
        color, kind: numbers in COLORS and KINDS.
        x, y: of its middle (m); ``radius``: of the circle round it.
    """

    color: int
    kind: int
    x: float
    y: float
    radius: float


@dataclass(frozen=True)
class Scenery:
    """A scene, the labelled things in it, and a place for a camera: its eye at [3] (m), and the yaw it looks in."""

    scene: Scene
    things: tuple[Thing, ...]
    eye: np.ndarray
    yaw: float


def color_of(number: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """A color that people call by its name, rgb in 0..1."""
    hue, saturation, value = (rng.uniform(*span) for span in _LOOKS[COLORS[number]])
    return tuple(float(c) for c in colorsys.hsv_to_rgb(hue % 1.0, saturation, value))


class Builder:
    """Builds one scenery.

    Args:
        rng: of all choices.
        textures: how many there are.
        height: of the camera (m).
        view: how wide it sees (rad).
        pictured: colors are what a picture shows, which is about the square root of light, and people name what they
            see there; clutter that may be called a thing is :data:`NAMEABLE`, and there are mats. Else they are shares
            of light.
        bare: there are no labelled things.
    """

    def __init__(self, rng: np.random.Generator, textures: int, height: float, view: float, pictured: bool = False,
                 bare: bool = False) -> None:
        self._rng, self._textures, self._pictured, self._bare = rng, textures, pictured, bare
        self._size = (rng.uniform(3.0, 12.0), rng.uniform(3.0, 12.0), rng.uniform(2.2, 4.0))
        w, d, _ = self._size
        self._eye = np.array([rng.uniform(-0.5, 0.5) * (w - 0.8), rng.uniform(-0.5, 0.5) * (d - 0.8), height])
        # more often toward the middle of the room than at the wall beside it
        inward = math.atan2(-self._eye[1], -self._eye[0])
        self._yaw = float(inward + rng.normal(0.0, 1.0))
        self._view = view
        self._solids: list[Solid] = []
        self._things: list[Thing] = []
        self._taken: list[tuple[float, float, float]] = [(float(self._eye[0]), float(self._eye[1]), 0.2)]

    def build(self) -> Scenery:
        """Places all there is."""
        rng = self._rng
        for _ in range(int(rng.integers(1, 8)) if rng.random() < 0.85 and not self._bare else 0):
            self._thing()
        clutter = (*_CLUTTER, Builder.mat) if self._pictured else _CLUTTER
        for _ in range(int(rng.integers(0, 14))):
            clutter[rng.integers(len(clutter))](self)
        return Scenery(Scene(self._size, self._faces(), tuple(self._solids), self._lamps(), self._ambient(),
                             self._posters()), tuple(self._things), self._eye, self._yaw)

    # -- light and walls -------------------------------------------------------------------------------------------

    def _light(self, rgb: tuple[float, ...]) -> tuple[float, ...]:
        """Share of red, green and blue light that is sent back by what has a color."""
        return tuple(float(c) ** 2 for c in rgb) if self._pictured else rgb

    def _material(self, dull: float = 0.35, textured: float = 0.7) -> Material:
        """Of what is not labelled: mostly dull, at times as bright as a thing."""
        rng = self._rng
        saturation = rng.uniform(0.0, dull) if rng.random() < 0.75 else rng.uniform(0.2, 1.0)
        rgb = colorsys.hsv_to_rgb(rng.random(), saturation, rng.uniform(0.05, 1.0))
        return Material(self._light(rgb), int(rng.integers(self._textures)) if rng.random() < textured else -1,
                        float(10 ** rng.uniform(-0.8, 0.5)), float(rng.random() < 0.3) * float(rng.uniform(0.1, 0.9)))

    def _faces(self) -> list[Material]:
        wall = self._material(0.3, 0.6)
        faces = [self._material(0.3, 0.85), self._material(0.1, 0.2)]
        return faces + [wall if self._rng.random() < 0.6 else self._material(0.3, 0.6) for _ in range(4)]

    def _lamps(self) -> list[Lamp]:
        rng, (w, d, h) = self._rng, self._size
        found = []
        for _ in range(int(rng.integers(0, 4))):
            at = (rng.uniform(-0.48, 0.48) * w, rng.uniform(-0.48, 0.48) * d, rng.uniform(0.5, 0.98) * h)
            found.append(Lamp(at, tuple(self._white(0.2) * 10 ** rng.uniform(-0.3, 0.8) * (1 + 0.1 * (w * d) ** 0.5))))
        return found

    def _ambient(self) -> tuple[float, float, float]:
        return tuple(float(c) for c in self._white(0.1) * self._rng.uniform(0.25, 0.8))

    def _white(self, spread: float) -> np.ndarray:
        warm, green = self._rng.normal(0.0, spread), self._rng.normal(0.0, 0.2 * spread)
        return np.exp([warm, green, -warm])

    def _posters(self) -> list[Poster]:
        """Pictures, doors, windows and cupboards."""
        rng, (w, d, h), found = self._rng, self._size, []
        for _ in range(int(rng.integers(0, 7))):
            face = int(rng.integers(2, 6))
            length = d if face in (EAST, WEST) else w
            half = (rng.uniform(0.1, 0.6), rng.uniform(0.1, 0.9))
            on_floor = rng.random() < 0.35
            above = half[1] if on_floor else rng.uniform(0.3, h - 0.2)
            material = self._material(0.8, 0.6)
            if rng.random() < 0.2:
                material = Material(tuple(self._white(0.2)), -1, 1.0, 0.0, float(rng.uniform(0.5, 3.0)))    # a window
            found.append(Poster(face, float(rng.uniform(-0.5, 0.5) * length), float(above), half, material))
        return found

    # -- places ----------------------------------------------------------------------------------------------------

    def _place(self, radius: float, ahead: float = 0.9) -> tuple[float, float] | None:
        """A free place, mostly where the camera looks, near ones as often as far ones."""
        rng, (w, d, _) = self._rng, self._size
        for _ in range(_TRIES):
            if rng.random() < ahead:
                away = NEAREST + radius + (FARTHEST - NEAREST) * rng.random() ** 1.7
                angle = self._yaw + rng.uniform(-0.52, 0.52) * self._view
                x, y = self._eye[0] + away * math.cos(angle), self._eye[1] + away * math.sin(angle)
            else:
                x, y = rng.uniform(-0.5, 0.5) * w, rng.uniform(-0.5, 0.5) * d
            if max(abs(x) - w / 2, abs(y) - d / 2) < -radius and all(
                    math.hypot(x - a, y - b) > radius + r for a, b, r in self._taken):
                self._taken.append((float(x), float(y), radius))
                return float(x), float(y)
        return None

    def _thing(self) -> None:
        rng = self._rng
        color = int(rng.integers(4)) if rng.random() < 0.75 else int(rng.integers(4, len(COLORS)))
        kind = int(rng.choice(5, p=(0.27, 0.27, 0.27, 0.1, 0.09)))
        size = float(np.exp(rng.uniform(math.log(0.035), math.log(0.3))))
        if rng.random() < 0.5:      # as large as the shipped rooms' things
            size = float(rng.uniform(0.12, 0.26))
        gloss = float(rng.random() < 0.5) * float(rng.uniform(0.1, 1.0))
        worn = int(rng.integers(self._textures)) if rng.random() < 0.15 else -1
        material = Material(self._light(color_of(color, rng)), worn, float(rng.uniform(0.5, 2.0)) * size, gloss)
        turn, number = float(rng.uniform(-math.pi, math.pi)), len(self._things)
        if kind == 0:
            half = (size,) * 3
        elif kind == 1:
            half = (size * rng.uniform(0.7, 1.3), size * rng.uniform(0.7, 1.3), size * rng.uniform(0.4, 1.3))
        elif kind == 2:
            half = (size * 0.6,) * 2 + (size * rng.uniform(0.8, 2.8),)
        else:
            half = (size * 0.8,) * 2 + (size * rng.uniform(0.8, 1.8),)
        half = tuple(float(v) for v in half)
        radius = math.hypot(half[0], half[1]) if kind == 1 else max(half[:2])
        at = self._place(radius)
        if at is None:
            return
        shape = (BALL, BOX, CYLINDER, CONE)[kind] if kind < 4 else BALL
        if kind == 4:       # one color, and no shape that has a name
            for _ in range(int(rng.integers(2, 5))):
                x, y = (at[k] + rng.normal(0, 0.5) * half[k] for k in (0, 1))
                self._solids.append(Solid(
                    int(rng.integers(4)), (x, y, half[2] * rng.uniform(0.3, 1.0)),
                    tuple(float(v * rng.uniform(0.3, 0.9)) for v in half), material, turn, float(rng.uniform(-1, 1)),
                    number))
        else:
            self._solids.append(Solid(shape, (*at, half[2]), half, material, turn, 0.0, number))
        self._things.append(Thing(color, kind, *at, float(radius)))

    # -- clutter ---------------------------------------------------------------------------------------------------

    def _stand(self, radius: float, parts: list[tuple], whole: bool = False) -> None:
        """Places what is made of parts: shape, middle and half sizes in its own frame, material, tilt.

        ``whole``: a person may call it a box or a cylinder, if it has a color.
        """
        at = self._place(radius, 0.75)
        if at is None:
            return
        turn = float(self._rng.uniform(-math.pi, math.pi))
        c, s = math.cos(turn), math.sin(turn)
        for shape, (x, y, z), half, material, *tilt in parts:
            self._solids.append(Solid(shape, (at[0] + c * x - s * y, at[1] + s * x + c * y, z), half, material, turn,
                                      *tilt or (0.0,), NAMEABLE if whole and self._vivid(material) else -1))

    def _vivid(self, material: Material) -> bool:
        """Tells whether a person would call it by its color."""
        _, saturation, value = colorsys.rgb_to_hsv(*np.sqrt(material.rgb))
        return self._pictured and saturation > VIVID and value > BRIGHT

    def block(self) -> None:
        """A cupboard, a carton that is no thing, a wall: large or textured."""
        rng = self._rng
        half = tuple(float(v) for v in (rng.uniform(0.1, 0.8), rng.uniform(0.1, 0.4), rng.uniform(0.25, 1.0)))
        self._stand(math.hypot(*half[:2]), [(BOX, (0, 0, half[2]), half, self._material(0.5))], True)

    def table(self) -> None:
        """A table or a chair: a board on legs, with a back or without."""
        rng, board, leg = self._rng, self._material(0.5), self._material(0.2, 0.2)
        x, y, z, thick = rng.uniform(0.2, 0.7), rng.uniform(0.2, 0.5), rng.uniform(0.35, 0.8), rng.uniform(0.01, 0.035)
        parts = [(BOX, (0, 0, z), (x, y, 0.02), board)]
        parts += [(CYLINDER if rng.random() < 0.5 else BOX, (a * x * 0.9, b * y * 0.9, z / 2), (thick, thick, z / 2),
                   leg) for a in (-1, 1) for b in (-1, 1)]
        if rng.random() < 0.5:
            parts.append((BOX, (-x, 0, z + 0.25), (0.02, y, 0.25), board))
        self._stand(math.hypot(x, y), parts)

    def person(self) -> None:
        """Somebody who stands: shoes, legs, a body, arms and a head."""
        rng = self._rng
        trousers, shirt, shoes = (self._material(0.6, 0.4) for _ in range(3))
        skin = Material(self._light(colorsys.hsv_to_rgb(rng.uniform(0.03, 0.09), rng.uniform(0.25, 0.6),
                                                        rng.uniform(0.3, 0.95))))
        gap, parts = rng.uniform(0.07, 0.2), []
        for side in (-1, 1):
            step = rng.uniform(-0.2, 0.2)
            parts.append((BALL, (step + 0.06, side * gap, 0.045), (0.14, 0.05, 0.045), shoes))
            parts.append((CYLINDER, (step / 2, side * gap, 0.45), (0.07, 0.075, 0.42), trousers))
            parts.append((CYLINDER, (0, side * 0.26, 1.1), (0.045, 0.045, 0.3), shirt, float(rng.uniform(-0.5, 0.5))))
        parts.append((BALL, (0, 0, 1.15), (0.14, 0.22, 0.36), shirt))
        parts.append((BALL, (0, 0, 1.62), (0.1, 0.08, 0.13), skin))
        self._stand(0.3, parts)

    def post(self) -> None:
        """A leg, a pipe or a bin: thin or tall and dull."""
        rng = self._rng
        r = rng.uniform(0.01, 0.05) if rng.random() < 0.6 else rng.uniform(0.1, 0.3)
        z = rng.uniform(0.3, 1.2)
        self._stand(r, [(CYLINDER, (0, 0, z), (r, r, z), self._material(0.15, 0.6))], r > 0.05)

    def mat(self) -> None:
        """Things that lie flat: a mat, a sheet of paper, tape on the floor."""
        rng = self._rng
        half = (rng.uniform(0.05, 0.5), rng.uniform(0.05, 0.4), rng.uniform(0.001, 0.004))
        if rng.random() < 0.5:
            half = (rng.uniform(0.2, 1.5), rng.uniform(0.015, 0.06), 0.001)
        self._stand(0.05, [(BOX if rng.random() < 0.75 else CYLINDER, (0, 0, half[2]), tuple(map(float, half)),
                            self._material(0.9, 0.3))])

    def cable(self) -> None:
        """A cable or a hose on the floor."""
        rng, r = self._rng, self._rng.uniform(0.004, 0.015)
        material, x, y, angle, parts = self._material(0.9, 0.0), 0.0, 0.0, rng.uniform(-3, 3), []
        for _ in range(int(rng.integers(3, 9))):
            half = rng.uniform(0.05, 0.2)
            x, y = x + half * math.cos(angle), y + half * math.sin(angle)
            parts.append((BOX, (x, y, r), (half, r, r), material, 0.0, angle))
            x, y, angle = x + half * math.cos(angle), y + half * math.sin(angle), angle + rng.normal(0, 0.6)
        at = self._place(0.05, 0.8)
        if at is not None:
            for shape, (a, b, z), size, material, tilt, turn in parts:
                self._solids.append(Solid(shape, (at[0] + a, at[1] + b, z), size, material, float(turn), tilt))

    def litter(self) -> None:
        """Something small and textured that is no thing: a shoe, a book, a plant."""
        rng = self._rng
        size = rng.uniform(0.04, 0.2)
        parts = []
        for _ in range(int(rng.integers(1, 5))):
            at = (rng.normal(0, 0.4) * size, rng.normal(0, 0.4) * size, size * rng.uniform(0.3, 1.2))
            material = Material(self._material(0.7).rgb, int(rng.integers(self._textures)), float(size))
            parts.append((int(rng.integers(4)), at, tuple(float(v) for v in size * rng.uniform(0.2, 1.0, 3)), material,
                          float(rng.uniform(-1, 1))))
        self._stand(size, parts)


_CLUTTER = (Builder.block, Builder.block, Builder.table, Builder.table, Builder.person, Builder.post, Builder.cable,
            Builder.litter, Builder.litter)
