# SPDX-License-Identifier: Apache-2.0
"""Rays cast at solids in a room, and the light on what they meet: without GL, the same picture on every machine.

Solids are unit shapes, moved, turned and stretched, so each is met in its own frame. Light is ambient and of lamps,
which throw shadows; surfaces have textures and are matt or glossy (Lambert; B. T. Phong: Illumination for Computer
Generated Pictures, CACM 18, 1975).
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Sequence

import numpy as np

BALL, BOX, CYLINDER, CONE = range(4)
FLOOR, CEILING, EAST, WEST, NORTH, SOUTH = range(6)
"""Faces of the room: numbers of what a ray meets; solids follow."""
FACES = 6
FAR = 1e9
LIFT = 1e-3     # m off a surface from which it is looked whether a lamp is seen
_NORMALS = np.array([(0, 0, 1), (0, 0, -1), (-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0)], np.float32)


@dataclass(frozen=True)
class Material:
    """Surface of a solid or of a face of the room.

    Attributes:
        rgb: color, 0..1, by which the texture is multiplied.
        texture: number of the texture; -1: plain.
        scale: m that the texture is wide.
        gloss: 0 matt to 1.
        glow: light of its own, as a share of ``rgb``.
    """

    rgb: tuple[float, float, float]
    texture: int = -1
    scale: float = 1.0
    gloss: float = 0.0
    glow: float = 0.0


@dataclass(frozen=True)
class Solid:
    """A shape in the room.

    Attributes:
        shape: BALL, BOX, CYLINDER or CONE.
        at: its middle (m).
        half: half its sizes (m).
        turn: about the vertical (rad).
        tilt: about its own y afterwards (rad).
        thing: number of the labelled thing that it belongs to; -1: of none.
    """

    shape: int
    at: tuple[float, float, float]
    half: tuple[float, float, float]
    material: Material
    turn: float = 0.0
    tilt: float = 0.0
    thing: int = -1

    def frame(self) -> np.ndarray:
        """Rotation [3, 3] from its own frame."""
        c, s, k, r = math.cos(self.turn), math.sin(self.turn), math.cos(self.tilt), math.sin(self.tilt)
        return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ np.array([[k, 0, r], [0, 1, 0], [-r, 0, k]])


@dataclass(frozen=True)
class Lamp:
    """A lamp: its place (m), its color and strength at 1 m (0 and above)."""

    at: tuple[float, float, float]
    rgb: tuple[float, float, float]


@dataclass(frozen=True)
class Poster:
    """A rectangle on a wall: its face, its middle along it and above the floor, half its sizes (m)."""

    face: int
    along: float
    above: float
    half: tuple[float, float]
    material: Material


@dataclass(frozen=True)
class Scene:
    """A room, centered on the origin, and what stands in it.

    Attributes:
        size: width, depth and height (m).
        faces: six materials, in the order of FLOOR to SOUTH.
        ambient: light that is everywhere, by color.
    """

    size: tuple[float, float, float]
    faces: Sequence[Material]
    solids: Sequence[Solid]
    lamps: Sequence[Lamp]
    ambient: tuple[float, float, float]
    posters: Sequence[Poster] = ()
    _frames: list = field(init=False, repr=False, compare=False, default_factory=list)

    def __post_init__(self) -> None:
        """Prepares the solids' frames."""
        self._frames.extend((s.frame() / np.array(s.half), np.array(s.at), math.hypot(*s.half)) for s in self.solids)


@dataclass
class Met:
    """Surfaces that rays meet: arrays by ray.

    Attributes:
        far: along the ray (m).
        what: number of the face, or :data:`FACES` and the number of the solid.
        normal: [n, 3].
    """

    far: np.ndarray
    what: np.ndarray
    normal: np.ndarray


def cast(scene: Scene, eye: np.ndarray, rays: np.ndarray) -> Met:
    """Follows rays from a point inside the room.

    Args:
        eye: [3] (m).
        rays: unit vectors [n, 3].
    """
    rays = np.ascontiguousarray(rays, np.float32)
    met = _shell(scene, eye.astype(np.float32), rays)
    for number, (solid, (frame, at, reach)) in enumerate(zip(scene.solids, scene._frames)):
        offset = at - eye
        away = float(np.linalg.norm(offset))
        if away > reach:
            near = rays @ (offset / away).astype(np.float32)
            picked = np.flatnonzero(near > math.sqrt(max(1.0 - (reach / away) ** 2, 0.0)) - 1e-4)
            if not len(picked):
                continue
            some = rays[picked]
        else:
            picked, some = np.arange(len(rays)), rays
        local = some @ frame.astype(np.float32)
        far, normal = _MEET[solid.shape]((-offset @ frame).astype(np.float32), local)
        hit = np.flatnonzero(far < met.far[picked])
        if len(hit):
            where = picked[hit]
            met.far[where], met.what[where] = far[hit], FACES + number
            # a normal is turned as the inverse of the transpose is
            turned = normal[hit] @ frame.T.astype(np.float32)
            met.normal[where] = turned / np.linalg.norm(turned, axis=1, keepdims=True)
    return met


def _shell(scene: Scene, eye: np.ndarray, rays: np.ndarray) -> Met:
    half = np.array([scene.size[0] / 2, scene.size[1] / 2], np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        across = (np.where(rays[:, :2] > 0, half, -half) - eye[:2]) / rays[:, :2]
        up = (np.where(rays[:, 2] > 0, np.float32(scene.size[2]), np.float32(0)) - eye[2]) / rays[:, 2]
    far = np.concatenate((across, up[:, None]), 1)
    far[~np.isfinite(far)] = FAR
    axis = far.argmin(1)
    low = rays[np.arange(len(rays)), axis] < 0
    what = np.array([[EAST, WEST], [NORTH, SOUTH], [CEILING, FLOOR]])[axis, low.view(np.int8)]
    return Met(far[np.arange(len(rays)), axis], what, _NORMALS[what])


def _ball(eye: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b, c = (d * d).sum(1), d @ eye, eye @ eye - 1.0
    inside = b * b - a * c
    with np.errstate(invalid="ignore"):
        far = (-b - np.sqrt(inside)) / a
    far[~((inside > 0) & (far > 0))] = FAR
    return far, eye + np.minimum(far, 1e6)[:, None] * d


def _box(eye: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (-1.0 - eye) / d, (1.0 - eye) / d
    near = np.minimum(one, other)
    axis = near.argmax(1)
    far = near[np.arange(len(d)), axis]
    far = np.where((far <= np.maximum(one, other).min(1)) & (far > 0), far, np.float32(FAR))
    normal = np.zeros_like(d)
    normal[np.arange(len(d)), axis] = -np.sign(d[np.arange(len(d)), axis])
    return far, normal


def _cylinder(eye: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a = np.maximum((d[:, :2] ** 2).sum(1), 1e-12)
    b, c = d[:, :2] @ eye[:2], eye[:2] @ eye[:2] - 1.0
    inside = b * b - a * c
    with np.errstate(invalid="ignore", divide="ignore"):
        side = (-b - np.sqrt(inside)) / a
        side[~((inside > 0) & (side > 0) & (np.abs(eye[2] + side * d[:, 2]) <= 1.0))] = FAR
        cap = (np.where(d[:, 2] > 0, -1.0, 1.0) - eye[2]) / d[:, 2]
        at = eye[:2] + cap[:, None] * d[:, :2]
        cap[~((cap > 0) & ((at * at).sum(1) <= 1.0))] = FAR
    far = np.minimum(side, cap).astype(np.float32)
    normal = eye + np.minimum(far, 1e6)[:, None] * d
    normal[:, 2] = 0.0
    flat = cap < side
    normal[flat] = 0.0
    normal[flat, 2] = -np.sign(d[flat, 2])
    return far, normal


def _cone(eye: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of radius 1 at z = -1, with its tip at z = 1: x^2 + y^2 = ((1 - z) / 2)^2."""
    z, dz = (1.0 - eye[2]) / 2, -d[:, 2] / 2
    a = (d[:, :2] ** 2).sum(1) - dz * dz
    b = d[:, :2] @ eye[:2] - z * dz
    c = eye[:2] @ eye[:2] - z * z
    a = np.where(np.abs(a) < 1e-9, 1e-9, a)
    inside = b * b - a * c
    with np.errstate(invalid="ignore", divide="ignore"):
        root = np.sqrt(inside)
        both = np.stack(((-b - root) / a, (-b + root) / a))
        high = eye[2] + both * d[:, 2]
        both[~((both > 0) & (np.abs(high) <= 1.0))] = FAR
        side = both.min(0)
        base = (-1.0 - eye[2]) / d[:, 2]
        at = eye[:2] + base[:, None] * d[:, :2]
        base[~((base > 0) & ((at * at).sum(1) <= 1.0))] = FAR
    far = np.minimum(side, base).astype(np.float32)
    normal = eye + np.minimum(far, 1e6)[:, None] * d
    normal[:, 2] = np.maximum(1.0 - normal[:, 2], 1e-6) / 4
    flat = base < side
    normal[flat] = (0.0, 0.0, -1.0)
    return far, normal


_MEET = {BALL: _ball, BOX: _box, CYLINDER: _cylinder, CONE: _cone}


def lit(scene: Scene, eye: np.ndarray, rays: np.ndarray, met: Met, textures: "Textures",
        spread: float | np.ndarray) -> np.ndarray:
    """Light [n, 3] that comes back along rays, 0 and above: linear, before any camera.

    Args:
        textures: of the materials.
        spread: rad between neighboring rays, over which a texture is averaged; of all or of each.
    """
    points = (eye + met.far[:, None] * rays).astype(np.float32)
    surface, gloss = _surfaces(scene, points, rays, met, textures, spread)
    light = np.broadcast_to(np.array(scene.ambient, np.float32), surface.shape).copy()
    # the floor's light and the ceiling's differ, so that what stands has an upper side
    light *= (0.75 + 0.25 * met.normal[:, 2])[:, None]
    shine = np.zeros_like(surface)
    for lamp in scene.lamps:
        to = np.array(lamp.at, np.float32) - points
        away = np.sqrt((to * to).sum(1))
        to /= away[:, None]
        facing = (to * met.normal).sum(1)
        toward = np.flatnonzero(facing > 0)
        free = toward[~_shaded(scene, points[toward] + LIFT * met.normal[toward], to[toward], away[toward])]
        strength = (1.0 / (1.0 + away[free] ** 2))[:, None] * np.array(lamp.rgb, np.float32)
        light[free] += facing[free][:, None] * strength
        glossy = free[gloss[free] > 0]
        if len(glossy):
            n, t = met.normal[glossy], to[glossy]
            mirrored = 2 * (n * t).sum(1)[:, None] * n - t
            back = np.maximum(-(mirrored * rays[glossy]).sum(1), 0.0)
            g = gloss[glossy]
            some = np.isin(free, glossy)
            shine[glossy] += (g * back ** (10 + 60 * g))[:, None] * strength[some]
    return surface * light + shine


def _surfaces(scene: Scene, points: np.ndarray, rays: np.ndarray, met: Met, textures: "Textures",
              spread: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Colors [n, 3] of surfaces, with their glow in it, and their gloss [n]."""
    colors, gloss = np.empty((len(points), 3), np.float32), np.zeros(len(points), np.float32)
    order, sizes = np.argsort(met.what, kind="stable"), met.far * spread
    ids, starts = np.unique(met.what[order], return_index=True)
    for what, rows in zip(ids, np.split(order, starts[1:])):
        at, size = points[rows], sizes[rows]
        if what < FACES:
            material = scene.faces[what]
            flat = at[:, :2] if what in (FLOOR, CEILING) else at[:, 1:] if what in (EAST, WEST) else at[:, ::2]
            facing = np.abs((met.normal[rows] * rays[rows]).sum(1))     # what is met obliquely spreads
            colors[rows] = textures.color(material, flat, size / np.maximum(facing, 0.15))
            for poster in scene.posters:
                if poster.face == what:
                    inside = (np.abs(flat[:, 0] - poster.along) < poster.half[0]) & (
                        np.abs(flat[:, 1] - poster.above) < poster.half[1])
                    some = np.flatnonzero(inside)
                    if len(some):
                        colors[rows[some]] = textures.color(poster.material, flat[some], size[some])
        else:
            number = what - FACES
            solid = scene.solids[number]
            material = solid.material
            if material.texture < 0:
                colors[rows] = np.array(material.rgb, np.float32) * (1.0 + material.glow)
            else:
                own = (at - np.array(solid.at, np.float32)) @ solid.frame().astype(np.float32)
                if solid.shape == BOX:
                    side = np.abs(met.normal[rows] @ solid.frame().astype(np.float32)).argmax(1)
                    flat = np.where((side == 0)[:, None], own[:, 1:], np.where(
                        (side == 1)[:, None], own[:, ::2], own[:, :2]))
                else:
                    flat = np.stack((np.arctan2(own[:, 1], own[:, 0]) * max(solid.half[:2]), own[:, 2]), 1)
                colors[rows] = textures.color(material, flat, size)
            gloss[rows] = material.gloss
    return colors, gloss


def _shaded(scene: Scene, points: np.ndarray, to: np.ndarray, away: np.ndarray) -> np.ndarray:
    """Tells where something stands between points and a lamp: bool [n]."""
    found = np.zeros(len(points), bool)
    if not scene.solids or not len(points):
        return found
    middles = np.array([at for _, at, _ in scene._frames], np.float32)
    reach = np.array([r for *_, r in scene._frames], np.float32)
    # of each solid's middle: how far along the way to the lamp, and how far beside it
    along = to @ middles.T
    along -= (points * to).sum(1)[:, None]
    beside = points @ (-2.0 * middles.T)
    beside += (points * points).sum(1)[:, None]
    beside += (middles * middles).sum(1)
    beside -= along * along
    near = (beside < reach * reach) & (along > -reach) & (along < away[:, None] + reach)
    for number in np.flatnonzero(near.any(0)):
        picked = np.flatnonzero(near[:, number] & ~found)
        if len(picked):
            frame, at, _ = scene._frames[number]
            far = _meet_each(scene.solids[number], frame, points[picked] - at.astype(np.float32), to[picked])
            found[picked] |= (far > 0) & (far < away[picked])
    return found


def _meet_each(solid: Solid, frame: np.ndarray, eyes: np.ndarray, rays: np.ndarray) -> np.ndarray:
    """As :data:`_MEET`, each ray from a point of its own; a ball stands for a cone: for shadows."""
    e, d = eyes @ frame.astype(np.float32), rays @ frame.astype(np.float32)
    if solid.shape == BOX:
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other = (-1.0 - e) / d, (1.0 - e) / d
        near, far = np.minimum(one, other).max(1), np.maximum(one, other).min(1)
        return np.where(near <= far, np.maximum(near, 1e-6), -1.0) * (far > 0)
    if solid.shape == CYLINDER:
        with np.errstate(divide="ignore", invalid="ignore"):
            a = np.maximum((d[:, :2] ** 2).sum(1), 1e-12)
            b, c = (d[:, :2] * e[:, :2]).sum(1), (e[:, :2] ** 2).sum(1) - 1.0
            root = np.sqrt(b * b - a * c)
            one, other = (-1.0 - e[:, 2]) / d[:, 2], (1.0 - e[:, 2]) / d[:, 2]
            near = np.maximum((-b - root) / a, np.minimum(one, other))
            far = np.minimum((-b + root) / a, np.maximum(one, other))
            return np.where(near <= far, np.maximum(near, 1e-6), -1.0) * (far > 0)
    a, b, c = (d * d).sum(1), (d * e).sum(1), (e * e).sum(1) - 1.0
    inside = b * b - a * c
    with np.errstate(invalid="ignore"):
        far = (-b - np.sqrt(inside)) / a
    return np.where(inside > 0, far, -1.0)


class Textures:
    """Textures with all their reductions, so that what is far is averaged.

    Args:
        pictures: float32 [n, size, size, 3] about 1 in the mean, which tile; ``size`` a power of 2.
    """

    def __init__(self, pictures: np.ndarray) -> None:
        self._levels = [np.asarray(pictures, np.float32)]
        while self._levels[-1].shape[1] > 1:
            p = self._levels[-1]
            self._levels.append((p[:, ::2, ::2] + p[:, 1::2, ::2] + p[:, ::2, 1::2] + p[:, 1::2, 1::2]) / 4)

    def __len__(self) -> int:
        return len(self._levels[0])

    def color(self, material: Material, at: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Colors [n, 3] of a material at places on it, [n, 2] (m), each averaged over ``size`` [n] (m)."""
        rgb = np.array(material.rgb, np.float32) * np.float32(1.0 + material.glow)
        if material.texture < 0:
            return np.broadcast_to(rgb, (len(at), 3))
        pixels = self._levels[0].shape[1]
        level = np.clip(np.log2(np.maximum(size * (pixels / material.scale), 1.0)), 0, len(self._levels) - 1)
        level = np.floor(level + 0.5).astype(int)
        share = at / np.float32(material.scale) % 1.0
        found = np.empty((len(at), 3), np.float32)
        for k in np.unique(level):
            some = np.flatnonzero(level == k)
            n = pixels >> k
            cell = np.minimum((share[some] * n).astype(int), n - 1)
            found[some] = self._levels[k][material.texture, cell[:, 1], cell[:, 0]]
        return found * rgb
