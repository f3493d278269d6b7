# SPDX-License-Identifier: Apache-2.0
"""A room as MJCF: physics, and all that the camera needs to shade it, in one text."""

from __future__ import annotations

import numpy as np

from brain_sim import robot
from brain_sim.room import Room
from brain_sim.things import Obstacle, RoomObject

# Geom groups: what the rays may meet differs between the lidar, the camera and the chase view.
GROUP_SHELL = 0     # floor, walls, ceiling
GROUP_THING = 1     # objects and obstacles
GROUP_ROBOT = 3

WALL_THICKNESS = 0.1
# Time in seconds in which the base's velocity follows its set value; 5 ms is far below its ramps.
DRIVE_LAG = 0.005
DRIVE_FORCE = 60.0
DRIVE_TORQUE = 10.0


def _n(*values: float) -> str:
    return " ".join(f"{float(v):.9g}" for v in values)


def _turned(yaw: float) -> str:
    return f'quat="{_n(np.cos(yaw / 2), 0, 0, np.sin(yaw / 2))}"'


def _thing(o: Obstacle | RoomObject, kind: str, size: tuple[float, ...]) -> str:
    return (f'<geom name="{o.name}" class="thing" type="{kind}" pos="{_n(o.x, o.y, o.height / 2)}" '
            f'{_turned(o.yaw)} size="{_n(*size)}" rgba="{_n(*o.rgb, 1)}"/>')


def _obstacle(o: Obstacle) -> str:
    return _thing(o, "box", (o.half_x, o.half_y, o.height / 2))


def _object(o: RoomObject) -> str:
    kind, size = {"ball": ("sphere", (o.radius,)), "box": ("box", (o.radius, o.radius, o.height / 2)),
                  "cylinder": ("cylinder", (o.radius, o.height / 2))}[o.shape]
    return _thing(o, kind, size)


def _walls(room: Room) -> list[str]:
    (w, d), h, t = room.size, room.wall_height, WALL_THICKNESS / 2
    places = {"east": ((w / 2 + t, 0), (t, d / 2 + 2 * t)), "north": ((0, d / 2 + t), (w / 2, t)),
              "west": ((-w / 2 - t, 0), (t, d / 2 + 2 * t)), "south": ((0, -d / 2 - t), (w / 2, t))}
    return [f'<geom name="wall_{name}" class="shell" type="box" pos="{_n(*p, h / 2)}" '
            f'size="{_n(*s, h / 2)}" rgba="{_n(*rgb, 1)}"/>'
            for (name, (p, s)), rgb in zip(places.items(), room.wall_rgb, strict=True)]


def room_xml(room: Room) -> str:
    """MJCF of the room and of the robot at its start.

    The base moves on two slides and a hinge (`base_x`, `base_y`, `base_yaw`) with velocity actuators of
    the same names, so that contacts push back on it. Light and floor pattern are `<custom>` numerics
    (`light_ambient`, `light_directional`, `light_direction`, `floor_tile`, `floor_rgb`, `ceiling_rgb`,
    `room_size` = width, depth, wall height).
    """
    (w, d), h = room.size, room.wall_height
    x, y, yaw = room.start
    mass, radius = robot.BASE_MASS, robot.BASE_RADIUS
    inertia = mass * radius**2 / 2
    force = _n(-DRIVE_FORCE, DRIVE_FORCE)
    numerics = {"light_ambient": (room.ambient,), "light_directional": (room.directional,),
                "light_direction": room.light, "floor_tile": (room.floor_tile,),
                "floor_rgb": room.floor_rgb[0] + room.floor_rgb[1], "ceiling_rgb": room.ceiling_rgb,
                "room_size": (w, d, h)}
    custom = "\n    ".join(f'<numeric name="{k}" data="{_n(*v)}"/>' for k, v in numerics.items())
    things = "\n    ".join([*_walls(room), *map(_obstacle, room.obstacles), *map(_object, room.objects)])
    return f"""<mujoco model="room_{room.split}_{room.seed}">
  <option timestep="{robot.PHYSICS_STEP}" integrator="implicitfast" cone="pyramidal"/>
  <default>
    <default class="shell"><geom group="{GROUP_SHELL}" contype="1" conaffinity="0"/></default>
    <default class="thing"><geom group="{GROUP_THING}" contype="1" conaffinity="0"/></default>
    <default class="robot"><geom group="{GROUP_ROBOT}" contype="0" conaffinity="1"/></default>
  </default>
  <custom>
    {custom}
    <text name="room" data="{room.split}/{room.seed}"/>
  </custom>
  <worldbody>
    <geom name="floor" type="plane" size="{_n(w / 2, d / 2, 0.1)}" group="{GROUP_SHELL}"
      contype="0" conaffinity="0"/>
    {things}
    <body name="base_link" pos="{_n(x, y, 0)}" {_turned(yaw)}>
      <inertial pos="0 0 0.1" mass="{_n(mass)}" diaginertia="{_n(inertia, inertia, inertia)}"/>
      <joint name="base_x" type="slide" axis="{_n(np.cos(yaw), -np.sin(yaw), 0)}"/>
      <joint name="base_y" type="slide" axis="{_n(np.sin(yaw), np.cos(yaw), 0)}"/>
      <joint name="base_yaw" type="hinge" axis="0 0 1"/>
      <geom name="base" class="robot" type="cylinder" pos="{_n(0, 0, robot.BASE_HEIGHT / 2 + 0.02)}"
        size="{_n(radius, robot.BASE_HEIGHT / 2)}" rgba="0.85 0.85 0.9 1"/>
      <geom name="nose" class="robot" type="box" pos="{_n(0.12, 0, robot.CAMERA_HEIGHT)}"
        size="0.03 0.05 0.03" contype="0" conaffinity="0" rgba="0.15 0.15 0.2 1"/>
    </body>
  </worldbody>
  <actuator>
    <velocity name="base_x" joint="base_x" kv="{_n(mass / DRIVE_LAG)}" forcerange="{force}"/>
    <velocity name="base_y" joint="base_y" kv="{_n(mass / DRIVE_LAG)}" forcerange="{force}"/>
    <velocity name="base_yaw" joint="base_yaw" kv="{_n(inertia / DRIVE_LAG)}"
      forcerange="{_n(-DRIVE_TORQUE, DRIVE_TORQUE)}"/>
  </actuator>
</mujoco>
"""
