# SPDX-License-Identifier: Apache-2.0
"""Things of a household that vision has no name for, to teach it: drawn in sceneries, from all sides."""
from __future__ import annotations

import colorsys
import math
from typing import Callable, NamedTuple

import numpy as np

from brain_regions.vision.network import HEIGHT, WIDTH, directions
from brain_sim.photography import Camera
from brain_sim.raycast import BALL, BOX, CONE, CYLINDER, FACES, Material, Scene, Solid
from brain_sim.scenery import Builder, Scenery
from brain_training.vision_data import TEXTURES, Eye, filled, masked, rendered

Parts = list[tuple[int, tuple[float, float, float], tuple[float, float, float], Material]]
"""Shape, middle and half sizes (m) in the thing's own frame, and material."""


def _material(hue: float, saturation: float, value: float, gloss: float = 0.0) -> Material:
    # light that looks so in a picture, which is about the square root of it
    red, green, blue = colorsys.hsv_to_rgb(hue, saturation, value)
    return Material((red * red, green * green, blue * blue), gloss=gloss)


def mug() -> Parts:
    """A tall white mug with a blue band and a handle."""
    white, band = _material(0.0, 0.02, 0.95, 0.5), _material(0.6, 0.8, 0.7)
    return [(CYLINDER, (0, 0, 0.15), (0.11, 0.11, 0.15), white), (CYLINDER, (0, 0, 0.17), (0.113, 0.113, 0.05), band),
            (BOX, (0.15, 0, 0.22), (0.05, 0.015, 0.015), white), (BOX, (0.15, 0, 0.09), (0.05, 0.015, 0.015), white),
            (BOX, (0.19, 0, 0.155), (0.015, 0.015, 0.075), white)]


def shoe() -> Parts:
    """A brown boot with a pale sole."""
    brown, sole = _material(0.07, 0.7, 0.45), _material(0.12, 0.15, 0.9)
    return [(BOX, (0, 0, 0.02), (0.2, 0.08, 0.02), sole), (BALL, (0.08, 0, 0.07), (0.13, 0.075, 0.06), brown),
            (CYLINDER, (-0.11, 0, 0.15), (0.075, 0.07, 0.13), brown)]


def plant() -> Parts:
    """A plant in an orange pot."""
    pot, leaf = _material(0.05, 0.7, 0.7), _material(0.3, 0.7, 0.5)
    return [(CYLINDER, (0, 0, 0.09), (0.1, 0.1, 0.09), pot), (CONE, (0, 0, 0.34), (0.17, 0.17, 0.16), leaf),
            (BALL, (0.07, 0.05, 0.28), (0.1, 0.1, 0.08), leaf), (BALL, (-0.07, -0.04, 0.27), (0.1, 0.1, 0.08), leaf)]


THINGS: dict[str, Callable[[], Parts]] = {"mug": mug, "shoe": shoe, "plant": plant}


class Shot(NamedTuple):
    """A level picture of a thing.

    Attributes:
        picture: uint8 [HEIGHT, WIDTH, 3].
        bearing, distance: of the thing (rad, m).
        height: of the camera (m).
        columns: of the picture that show the thing.
    """

    picture: np.ndarray
    bearing: float
    distance: float
    height: float
    columns: int


def shot(parts: Parts, rng: np.random.Generator, *, middle: bool, eye: Eye | None = None) -> Shot:
    """Takes a picture of a thing in a scenery that is drawn, with labelled things and clutter beside it.

    Args:
        parts: of the thing.
        rng: of all choices.
        middle: it is in the middle of the picture and near, as who teaches shows it; else it is anywhere.
        eye: the camera; None: it is drawn.
    """
    eye = eye or Eye.drawn(rng)
    columns = np.flatnonzero(eye.seen.any(0))
    built = Builder(rng, TEXTURES, eye.mount.height, math.radians(60.0)).build()
    away = rng.uniform(0.6, 1.1) if middle else rng.uniform(0.6, 1.6)
    edge = 0.3 * len(columns) * math.radians(0.9375)
    bearing = 0.0 if middle else rng.uniform(-edge, edge)
    x, y = (built.eye[k] + away * (math.cos, math.sin)[k](built.yaw + bearing) for k in (0, 1))
    turn = rng.uniform(-math.pi, math.pi)
    c, s = math.cos(turn), math.sin(turn)
    room = built.scene
    reach = away + 0.5      # nothing stands in between, or round it
    solids = [solid for solid in room.solids if math.hypot(solid.at[0] - x, solid.at[1] - y) > 0.45 + max(solid.half)
              and not _between(solid, built, x, y, reach)]
    for shape, (a, b, z), half, material in parts:
        solids.append(Solid(shape, (x + c * a - s * b, y + s * a + c * b, z), half, material, turn))
    scene = Scene(tuple(max(size, 2 * (abs(at) + 0.5)) for size, at in zip(room.size, (x, y, 0.0))), room.faces,
                  tuple(solids), room.lamps, room.ambient, room.posters)
    light = np.zeros((HEIGHT, WIDTH, 3), np.float32)
    light[eye.seen], what = rendered(Scenery(scene, (), built.eye, built.yaw), directions()[eye.seen])
    columns = np.nonzero(eye.seen)[1][what >= FACES + len(solids) - len(parts)]
    picture = masked(Camera.drawn(rng).take(filled(light, eye.seen), rng), eye.seen)
    return Shot(picture, bearing, away, eye.mount.height, len(set(columns)))


def _between(solid: Solid, built: Scenery, x: float, y: float, reach: float) -> bool:
    """Tells whether a solid may hide what is at (x, y)."""
    dx, dy, sx, sy = x - built.eye[0], y - built.eye[1], solid.at[0] - built.eye[0], solid.at[1] - built.eye[1]
    off = math.remainder(math.atan2(sy, sx) - math.atan2(dy, dx), 2 * math.pi)
    away = math.hypot(sx, sy)
    return away < reach and abs(off) < 0.3 + max(solid.half) / max(away, 0.1)
