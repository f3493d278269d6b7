# SPDX-License-Identifier: Apache-2.0
"""A color camera cast by rays: no GL library, and the same picture on every machine."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from brain_runtime.contract.optics import Mount
from brain_sim import robot
from brain_sim.geometry import wrap_angle
from brain_sim.mjcf import GROUP_ROBOT, GROUP_THING
from brain_sim.things import COLORS

FLOOR, CEILING, EAST, WEST, NORTH, SOUTH = -1, -2, -3, -4, -5, -6
_SHELL_NORMALS = {FLOOR: (0, 0, 1), CEILING: (0, 0, -1), EAST: (-1, 0, 0), WEST: (1, 0, 0),
                  NORTH: (0, -1, 0), SOUTH: (0, 1, 0)}
_EAST_WEST, _NORTH_SOUTH = np.array([WEST, EAST], np.int32), np.array([SOUTH, NORTH], np.int32)  # by false and true
_SHELL_GEOMS = {EAST: "wall_east", WEST: "wall_west", NORTH: "wall_north", SOUTH: "wall_south"}


MOUNT = Mount(robot.CAMERA_FORWARD, 0.0, robot.CAMERA_HEIGHT)
"""That of the simulator's own robot."""


@dataclass(frozen=True)
class SeenObject:
    """One visible object, for labels and tests only.

    bearing: radians, positive to the left, and distance: meters, horizontal, both from the origin of
    base_link to the object's center. camera_bearing, camera_distance: the same from the camera's optical
    center (0.15 m ahead of base_link, axes parallel). pixels: how many show it. column: mean image column
    of its pixels. width: radians that the whole object would cover, from the camera.
    """

    name: str
    color: str
    shape: str
    bearing: float
    distance: float
    camera_bearing: float
    camera_distance: float
    pixels: int
    column: float
    width: float


class RayCamera:
    """Camera over a room given as MJCF: a pinhole with square pixels, or any directions.

    Args:
        width, height: of the picture (px).
        hfov: horizontal field of view (rad).
        mount: of the camera on the robot.
        directions: [rows, columns, 3] that pixels look in, level and along the mount's yaw, instead of a pinhole's.
        chase: the robot itself is visible.
    """

    def __init__(self, xml: str, width: int = robot.CAMERA_WIDTH, height: int = robot.CAMERA_ROWS,
                 hfov: float = robot.CAMERA_HFOV, *, mount: Mount = MOUNT, directions: np.ndarray | None = None,
                 chase: bool = False):
        self.model = mujoco.MjModel.from_xml_string(xml)
        self.data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, self.data)
        self.hfov, self.mount = hfov, mount
        model = self.model
        self._groups = np.zeros(6, np.uint8)
        self._groups[GROUP_THING] = 1
        self._groups[GROUP_ROBOT] = 1 if chase else 0
        self._chase = chase
        focal = width / 2 / np.tan(hfov / 2)
        if directions is None:
            u = -(np.arange(width) + 0.5 - width / 2) / focal
            v = -(np.arange(height) + 0.5 - height / 2) / focal
            left, up = np.meshgrid(u, v)
            (c, s), (k, r) = ((np.cos(angle), np.sin(angle)) for angle in (mount.pitch, mount.roll))
            left, up = k * left - r * up, r * left + k * up
            directions = np.stack([c + s * up, left, c * up - s], axis=-1)
        self.aim(directions)
        self.focal = self.width / 2 / np.tan(hfov / 2)
        """Focal length in pixels, the same for rows and columns."""

        def numeric(name):
            k = model.numeric(name).id
            begin = model.numeric_adr[k]
            return model.numeric_data[begin:begin + model.numeric_size[k]].copy()

        self._size = numeric("room_size")
        self._ambient = float(numeric("light_ambient")[0])
        self._directional = float(numeric("light_directional")[0])
        self._light = numeric("light_direction").astype(np.float32)
        self._tile = float(numeric("floor_tile")[0])
        self._floor = numeric("floor_rgb").reshape(2, 3).astype(np.float32)
        # Shades of the shell: one color per face, light already in it, indexed by -id.
        shade = {k: self._ambient + self._directional * max(float(np.dot(n, self._light)), 0.0)
                 for k, n in _SHELL_NORMALS.items()}
        self._shell = np.zeros((7, 3), np.float32)
        for face, geom in _SHELL_GEOMS.items():
            self._shell[-face] = model.geom_rgba[model.geom(geom).id, :3] * shade[face]
        self._shell[-CEILING] = numeric("ceiling_rgb") * shade[CEILING]
        self._floor *= shade[FLOOR]
        self._rgb = model.geom_rgba[:, :3].astype(np.float32)
        self._robot = model.body("base_link").id
        things = [g for g in range(model.ngeom) if self._groups[model.geom_group[g]]]
        self._things = np.array(things, int)
        self._radius = np.array([float(model.geom_rbound[g]) for g in things])
        self._objects = []
        for g in things:
            name = model.geom(g).name
            part = name.split("_")
            if part[0] == "object" and len(part) == 4 and part[2] in COLORS:
                self._objects.append((g, name, part[2], part[3]))
        self._pose: tuple[float, float, float] | None = None

    def aim(self, directions: np.ndarray) -> None:
        """Looks in other ``directions`` from now on; see the class."""
        self.height, self.width, _ = directions.shape
        n = self.width * self.height
        self._rays = directions.reshape(-1, 3) / np.linalg.norm(directions.reshape(-1, 3), axis=1, keepdims=True)
        self._geomid, self._dist, self._normal = np.empty(n, np.int32), np.empty(n), np.empty((n, 3))
        self._ids: np.ndarray | None = None

    def render(self, x: float, y: float, yaw: float, rng: np.random.Generator | None = None) -> np.ndarray:
        """Picture uint8[height, width, 3] with base_link at (x, y) meters and heading `yaw` radians.

        `rng` adds the sensor's noise; without it the picture is clean.
        """
        self._pose = (x, y, yaw)
        return self._picture(np.array([*self._eye(x, y, yaw), self.mount.height]), yaw + self.mount.yaw, rng)

    def _eye(self, x: float, y: float, yaw: float) -> tuple[float, float]:
        """Place of the camera (m) with base_link at (x, y) and heading `yaw`."""
        c, s = np.cos(yaw), np.sin(yaw)
        return x + self.mount.x * c - self.mount.y * s, y + self.mount.x * s + self.mount.y * c

    def render_from(self, eye, yaw: float, base: tuple[float, float, float] | None = None,
                    rng: np.random.Generator | None = None) -> np.ndarray:
        """Picture uint8[height, width, 3] from any point `eye` (meters) inside the room, looking along `yaw`.

        Pitch and roll are those of the mount.

        base: (x, y, yaw) of the robot, shown only by a camera made with chase=True. rng: as in render.
        """
        if base is not None:
            self._move_robot(base)
        self._pose = None
        return self._picture(np.asarray(eye, float), yaw, rng)

    def _move_robot(self, base) -> None:
        x, y, yaw = base
        start = self.model.body_pos[self._robot]
        quat = self.model.body_quat[self._robot]
        yaw0 = 2 * np.arctan2(quat[3], quat[0])
        self.data.qpos[:3] = x - start[0], y - start[1], yaw - yaw0
        mujoco.mj_kinematics(self.model, self.data)

    def _picture(self, eye: np.ndarray, yaw: float, rng) -> np.ndarray:
        c, s = np.cos(yaw), np.sin(yaw)
        turn = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
        rays = self._rays @ turn
        ids, image = self._cast_shell(eye, rays)
        picked = self._window(eye, turn)
        if len(picked):
            self._cast_things(eye, rays, picked, ids, image)
        self._ids = ids
        if rng is not None:
            image += rng.standard_normal(image.shape, np.float32) * np.float32(0.01)
        np.multiply(image, np.float32(255.0), out=image)
        image += np.float32(0.5)
        np.clip(image, 0.0, 255.0, out=image)
        return image.astype(np.uint8).reshape(self.height, self.width, 3)

    def _cast_shell(self, eye: np.ndarray, rays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The empty room seen from inside, in closed form: ids (faces below 0) and lit colors."""
        w, d, h = self._size
        dx, dy, dz = np.ascontiguousarray(rays.T)
        east, north = dx > 0, dy > 0
        with np.errstate(divide="ignore"):
            tx = np.where(east, w / 2 - eye[0], -w / 2 - eye[0]) / dx
            ty = np.where(north, d / 2 - eye[1], -d / 2 - eye[1]) / dy
            tz = np.where(dz > 0, h - eye[2], 0.0 - eye[2]) / dz
        t = np.minimum(tx, ty)
        ids = np.where(tx < ty, _EAST_WEST[east.view(np.int8)], _NORTH_SOUTH[north.view(np.int8)])
        flat = np.flatnonzero(tz < t)
        ids[flat] = np.where(dz[flat] > 0, CEILING, FLOOR)
        image = self._shell.take(-ids, axis=0)
        floor = flat[dz[flat] < 0]
        k = 1.0 / self._tile
        fx, fy = eye[0] + tz[floor] * dx[floor], eye[1] + tz[floor] * dy[floor]
        odd = (np.floor(fx * k) + np.floor(fy * k)).astype(np.int64) & 1
        image[floor] = self._floor.take(odd, axis=0)
        return ids, image

    def _window(self, eye: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """Indices of the pixels that can show a thing: those whose rays pass its sphere."""
        rel = (self.data.geom_xpos[self._things] - eye) @ turn.T
        away = np.linalg.norm(rel, axis=1)
        inside = away <= self._radius
        away[inside] = 1.0      # all rays pass those
        least = np.sqrt(np.maximum(1.0 - (self._radius / away) ** 2, 0.0)) - 1e-6
        least[inside] = -2.0
        return np.flatnonzero((self._rays @ (rel / away[:, None]).T > least).any(1))

    def _cast_things(self, eye, rays, picked, ids, image) -> None:
        n = len(picked)
        geomid, dist, normal = self._geomid[:n], self._dist[:n], self._normal[:n]
        vec = rays[picked]
        mujoco.mj_multiRay(self.model, self.data, eye, vec.reshape(-1), self._groups, 1,
                           -1 if self._chase else self._robot, geomid, dist, normal.reshape(-1), n,
                           mujoco.mjMAXVAL)
        hit = np.flatnonzero(geomid >= 0)
        where, what = picked[hit], geomid[hit]
        lit = np.maximum(normal[hit].astype(np.float32) @ self._light, np.float32(0.0))
        ids[where] = what
        image[where] = self._rgb.take(what, axis=0) * (self._ambient + self._directional * lit)[:, None]

    @property
    def geom_ids(self) -> np.ndarray:
        """int32[height, width] of the last picture: geom ids, or below 0 for floor, ceiling and walls."""
        if self._ids is None:
            raise RuntimeError("nothing was rendered yet: call render() first")
        return self._ids.reshape(self.height, self.width)

    def ground_truth_objects(self, x: float | None = None, y: float | None = None,
                             yaw: float | None = None, min_pixels: int = 1) -> list[SeenObject]:
        """The objects in the picture at this pose (default: the last rendered one), most pixels first."""
        if x is not None and (self._pose is None or self._pose != (x, y, yaw)):
            self.render(x, y, yaw)
        if self._pose is None:
            raise RuntimeError("no picture from a robot's pose yet: call render() or give x, y, yaw")
        x, y, yaw = self._pose
        ids = self._ids
        count = np.bincount(ids[ids >= 0], minlength=self.model.ngeom)
        cx, cy = self._eye(x, y, yaw)
        seen = []
        for geom, name, color, shape in self._objects:
            half = float(self.model.geom_size[geom, 0])
            if count[geom] < min_pixels:
                continue
            ox, oy = self.data.geom_xpos[geom, :2]
            columns = np.flatnonzero(ids == geom) % self.width
            away = float(np.hypot(ox - cx, oy - cy))
            seen.append(SeenObject(
                name, color, shape, float(wrap_angle(np.arctan2(oy - y, ox - x) - yaw)),
                float(np.hypot(ox - x, oy - y)), float(wrap_angle(np.arctan2(oy - cy, ox - cx) - yaw - self.mount.yaw)),
                away, int(count[geom]), float(columns.mean()), 2 * float(np.arctan2(half, away))))
        return sorted(seen, key=lambda o: -o.pixels)
