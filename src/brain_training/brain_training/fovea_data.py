# SPDX-License-Identifier: Apache-2.0
"""Glances and their labels for the fovea: what vision tells of in rooms and sceneries, looked at again.

Where to look is what the shipped vision answers to the level picture, mistakes and all; and the glance is moved and
stretched at random, so that more of them are met. What a camera of a real robot's resolution would show of it is cast
anew by rays.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Iterator

import numpy as np

from brain_regions.vision import fovea, weights
from brain_regions.vision.decode import Vote, votes
from brain_regions.vision.fovea import LAYERS, SIDE, Glance
from brain_regions.vision.network import RESOLUTION, Looking, Rates
from brain_regions.vision.region import FIRST_STEPS
from brain_runtime.contract.optics import seen
from brain_sim import scenery
from brain_sim.photography import Camera
from brain_sim.room import split_rng
from brain_training.vision_data import (CLEAR_PIXELS, NEAR_SHARE, NOTHING, PHOTOGRAPHED, UNSURE, Eye, Labels, Recipe,
                                        Room, Shot, Studio, masked, shoot_scenery)
from brain_training.looks import PLAIN

GLANCES = 6             # at each picture
SUREST = 4, 0.3, 0.5    # of what vision tells of, most: see brain_regions.vision.fovea.apart
SUPER = 2               # rays of a pixel, across and down
FINEST = 10.0           # times as many pixels as a level picture has, that cameras show at most
PLACED, STRETCHED, WIDER = 0.12, 0.3, 0.1   # of a glance's side: standard deviations, and a mean, of what it is off
MIDDLE = 0.6            # of half a side: what has its center within it is what is looked at
SMALL = 0.5             # of the pixels from which on vision is asked: from here on the fovea is
SWEPT = math.radians(0.15)      # rad to a pixel of motion


@lru_cache(maxsize=2)
def _vision(ann: bool) -> Looking | Rates:
    return Rates(weights.load(weights.ANN, ann=True).tensors) if ann else Looking(weights.load().tensors)


def told(picture: np.ndarray, ann: bool = False) -> list[Vote]:
    """Objects that the shipped vision, or its ANN baseline, tells of in a level picture."""
    vision = _vision(ann)
    answer = vision.answer(picture) if isinstance(vision, Rates) else vision.look(
        picture, vision.rest(), FIRST_STEPS).state["u"]
    return votes(answer.T)


def pictures_of(shot: Shot, eye: Eye, glances: list[Glance], rng: np.random.Generator, finer: float
                ) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of glances, as a camera takes them.

    Args:
        shot: the picture that it took.
        eye: where it is.
        glances: n of them.
        rng: of its noise.
        finer: how many times the pixels of a level picture it has for a thing.

    Returns:
        Pictures uint8 [n, SIDE, SIDE, 3], and numbers of the things that each ray met, [n, SUPER SIDE, SUPER SIDE].
    """
    whole = SUPER * SIDE
    rays = np.stack([glance.directions(whole) for glance in glances])
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    spread = np.repeat([glance.side / whole for glance in glances], whole * whole)
    light, ids = shot.again(rays.reshape(-1, 3), spread)
    light = light.reshape(-1, SIDE, SUPER, SIDE, SUPER, 3).mean((2, 4), dtype=np.float32)
    found = np.empty((len(glances), SIDE, SIDE, 3), np.uint8)
    camera = shot.camera or Camera(exposure=0.0, gamma=2.0, noise=(0.01, 0.0))
    for number, glance in enumerate(glances):
        pixel = glance.side / SIDE
        coarse = RESOLUTION / finer / pixel     # a pixel of the camera in pixels of the glance
        settings = replace(
            camera, blur=math.hypot(0.4, camera.blur) * coarse if coarse > 0.5 or camera.blur else 0.0,
            motion=min(camera.motion * SWEPT / pixel, SIDE / 4),
            noise=tuple(sigma * min(coarse, 1.0) for sigma in camera.noise))
        picture = settings.take(light[number], rng, shot.opened)
        found[number] = masked(picture, seen(eye.lens, eye.mount, glance.directions())[1])
    return found, ids.reshape(-1, whole, whole)


def label(glance: Glance, ids: np.ndarray, shot: Shot, height: float) -> tuple[int, int, float, float, float]:
    """Color, kind, and where: what is in the middle of a glance.

    Args:
        glance: where it was.
        ids: numbers of what its rays met, [rays, rays].
        shot: that it is of.
        height: of the camera (m).

    Returns:
        Color (or NOTHING or UNSURE) and kind; how far aside the object's center is and how far up the floor below it,
        in units of :data:`~brain_regions.vision.fovea.UNIT` sides; and the logarithm of its width in sides.
    """
    at = (2 * np.arange(len(ids)) + 1) / len(ids) - 1
    least, best = SMALL * CLEAR_PIXELS * (RESOLUTION / (glance.side / len(ids))) ** 2, (MIDDLE, None)
    for thing in shot.things:
        mine = ids == thing[0]
        count = mine.sum()
        if count >= max(least, len(ids) / 2):
            off = math.hypot(mine.sum(0) @ at / count, mine.sum(1) @ at / count)
            if off < best[0]:
                best = off, thing
    if best[1] is None:
        quarter = len(ids) // 4
        middle = ids[quarter:-quarter, quarter:-quarter]
        there = np.isin(middle, [scenery.NAMEABLE, *(thing[0] for thing in shot.things)]).any()
        return UNSURE if there else NOTHING, 0, 0.0, 0.0, 0.0
    _, color, kind, bearing, away, wide = best[1]
    aside, down = glance.place(bearing, -math.atan2(height, away))
    return (color, kind, min(max(aside, -3.0), 3.0), min(max(down, -3.0), 3.0), math.log(max(wide, 1e-3) / glance.side))


def moved(glance: Glance, rng: np.random.Generator) -> Glance:
    """A glance that misses a little."""
    side = glance.side
    return Glance(glance.azimuth + PLACED * side * rng.normal(), glance.elevation + PLACED * side * rng.normal(),
                  min(max(side * math.exp(rng.normal(WIDER, STRETCHED)), fovea.NARROWEST), fovea.WIDEST))


def drawn(shot: Shot, height: float, rng: np.random.Generator) -> list[Glance]:
    """:data:`GLANCES` of a picture: where vision says that something is, at what it misses, and anywhere."""
    found = [glance for _, glance in fovea.apart(told(shot.picture), *SUREST)]
    here = [Glance.at(bearing, math.log(away / height), math.log(wide)) for _, _, _, bearing, away, wide in shot.things
            if abs(bearing) < math.radians(58.0)]
    rng.shuffle(here)
    there = here[:1] or [Glance(rng.uniform(-1.0, 1.0), rng.uniform(-0.8, 0.1), math.exp(rng.uniform(-3.0, -0.5)))]
    glances = [*found[:GLANCES - 1], moved(there[0], rng)]
    known = len(glances)
    return glances + [moved(glances[k % known], rng) for k in range(GLANCES - known)]


class Glances(Studio):
    """Takes glances for training: each clip is :data:`GLANCES` of one picture by a camera that is drawn."""

    layers = LAYERS

    def _shots(self, number: int) -> Iterator[tuple[np.ndarray, Labels]]:
        which, clip = divmod(number, self._per_room)
        if which >= self._rooms:
            rng = split_rng(self._split, self.first_seed, f"fovea scenery {number - self._rooms * self._per_room}")
            eye = Eye.drawn(rng)
            shot = shoot_scenery(rng, eye, pictured=True)
        else:
            room = self._enter(which)
            rng = room.drive.rng = split_rng(self._split, self.first_seed + which, f"fovea clip {clip}")
            (pose,) = room.drive.poses(room.drive.place(near=rng.random() < NEAR_SHARE), 1)
            shot, eye = shoot_room(room, pose, rng)
        glances = drawn(shot, eye.mount.height, rng)
        pictures, ids = pictures_of(shot, eye, glances, rng, finer(rng))
        for glance, picture, its in zip(glances, pictures, ids):
            yield picture, Labels(*(np.full((1, 1), value) for value in label(glance, its, shot, eye.mount.height)))


def finer(rng: np.random.Generator) -> float:
    """Draws how many times the pixels of a level picture a camera has for a thing."""
    return math.exp(rng.uniform(math.log(fovea.FINER), math.log(FINEST)))


def shoot_room(room: Room, pose: tuple[float, float, float], rng: np.random.Generator) -> tuple[Shot, Eye]:
    """Takes a level picture in a room by a camera that is drawn."""
    room.use(Eye.drawn(rng))
    return room.shoot(pose, rng, Camera.drawn(rng) if rng.random() < PHOTOGRAPHED else None), room.eye


class Taken:
    """A picture that vision looked at, and from whose place it can be looked again, for held-out figures.

    Args:
        shot, eye: the picture, and the camera that took it.
        rng: of its resolution and noise.
        ann: it is the ANN baseline that looked.

    Attributes:
        found: what vision tells of it.
        objects: that it shows.
        height: of the camera (m).
    """

    def __init__(self, shot: Shot, eye: Eye, rng: np.random.Generator, ann: bool) -> None:
        self.found, self.objects, self.height = told(shot.picture, ann), shot.objects, eye.mount.height
        self._shot, self._eye, self._rng, self._finer = shot, eye, rng, finer(rng)
        self._shown: dict[Glance, np.ndarray] = {}

    def show(self, glance: Glance) -> np.ndarray:
        """Picture uint8 [SIDE, SIDE, 3] of a glance: the same each time."""
        if glance not in self._shown:
            self._shown[glance] = pictures_of(self._shot, self._eye, [glance], self._rng, self._finer)[0][0]
        return self._shown[glance]


KINDS = "rooms", "scenes", "bare"


def held_out(kind: str, number: int, *, split: str, first_seed: int, ann: bool) -> Iterator[Taken]:
    """Pictures, each by another camera: of rooms (four in each), of sceneries, or of those with no thing in them."""
    if kind == "rooms":
        for seed in range(number // 4):
            room = Room(split, first_seed + seed, "fovea ways", PLAIN)
            for _ in range(4):
                (pose,) = room.drive.poses(room.drive.place(near=False), 1)
                shot, eye = shoot_room(room, pose, room.rng)
                yield Taken(shot, eye, room.rng, ann)
        return
    for seed in range(number):
        rng = split_rng(split, first_seed + seed, f"fovea {kind}")
        eye = Eye.drawn(rng)
        yield Taken(shoot_scenery(rng, eye, pictured=True, bare=kind == "bare"), eye, rng, ann)


@dataclass(frozen=True)
class GlanceRecipe(Recipe):
    """Hyperparameters of the training of the fovea; a clip is :data:`GLANCES` glances."""

    def studio(self, seed: int) -> Glances:
        """Makes the source of a training's glances, by its seed."""
        return Glances(self.rooms, self.clips_per_room, GLANCES, scenes=self.scenes, first_seed=seed * 10_000)
