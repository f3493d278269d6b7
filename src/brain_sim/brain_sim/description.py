# SPDX-License-Identifier: Apache-2.0
"""Description of the simulated robot: its URDF, and the same joints as transforms.

Frames are as REP 103 and 105 have them: ``base_link`` is in the middle of the base, on the floor (so ``base_footprint``
is the same place), x ahead, y left, z up. A picture's frame is ``camera_optical_frame``: z ahead, x right, y down.

The physics has no wheels: the base slides as fast as wheels would roll. Their measures are of the description only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Mapping

from brain_sim import robot
from brain_wire.messages import make

NAME = "brain_robot"
MAP, ODOM, BASE, FOOTPRINT = "map", "odom", "base_link", "base_footprint"
CHASSIS, CAMERA, OPTICAL, LIDAR = "chassis", "camera_link", "camera_optical_frame", "lidar"

GROUND_CLEARANCE = 0.02     # m, as in the room's MJCF
WHEEL_RADIUS = 0.05         # m
WHEEL_WIDTH = 0.03          # m
WHEEL_SEPARATION = 0.28     # m, between the middles of the wheels
WHEEL_MASS = 0.25           # kg, of the base's mass
NOSE = (0.06, 0.10, 0.06)   # m, the box in which the camera sits
LIDAR_SIZE = (0.035, 0.03)  # m, radius and height


@dataclass(frozen=True)
class Joint:
    """Joint of a link on its parent: position (m) and roll, pitch, yaw (rad); a moving one turns about its y axis."""

    name: str
    parent: str
    child: str
    xyz: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rpy: tuple[float, float, float] = (0.0, 0.0, 0.0)
    moving: bool = False


LEFT = Joint("left_wheel_joint", BASE, "left_wheel", (0.0, WHEEL_SEPARATION / 2, WHEEL_RADIUS), moving=True)
RIGHT = Joint("right_wheel_joint", BASE, "right_wheel", (0.0, -WHEEL_SEPARATION / 2, WHEEL_RADIUS), moving=True)
JOINTS = (
    Joint("footprint_joint", BASE, FOOTPRINT),
    Joint("chassis_joint", BASE, CHASSIS, (0.0, 0.0, robot.BASE_HEIGHT / 2 + GROUND_CLEARANCE)),
    LEFT, RIGHT,
    Joint("lidar_joint", BASE, LIDAR, (0.0, 0.0, robot.LIDAR_HEIGHT)),
    Joint("camera_joint", BASE, CAMERA, (robot.CAMERA_FORWARD, 0.0, robot.CAMERA_HEIGHT)),
    Joint("camera_optical_joint", CAMERA, OPTICAL, rpy=(-math.pi / 2, 0.0, -math.pi / 2)),
)


def _n(*values: float) -> str:
    return " ".join(f"{float(v):.17g}" for v in values)


def _cylinder(radius: float, length: float) -> str:
    return f'<geometry><cylinder radius="{_n(radius)}" length="{_n(length)}"/></geometry>'


def _box(*size: float) -> str:
    return f'<geometry><box size="{_n(*size)}"/></geometry>'


def _seen(geometry: str, rgb: tuple[float, float, float], origin: str = "") -> str:
    color = f'<material name="rgb_{_n(*rgb).replace(" ", "_")}"><color rgba="{_n(*rgb, 1)}"/></material>'
    return f"<visual>{origin}{geometry}{color}</visual>"


def _solid(mass: float, radius: float, length: float, origin: str = "") -> str:
    """Mass (kg) and moments of a cylinder about its z axis."""
    across, about = mass * (3 * radius**2 + length**2) / 12, mass * radius**2 / 2
    return (f'<inertial>{origin}<mass value="{_n(mass)}"/><inertia ixx="{_n(across)}" ixy="0" ixz="0" '
            f'iyy="{_n(across)}" iyz="0" izz="{_n(about)}"/></inertial>')


def _links() -> dict[str, str]:
    """Returns the URDF content of each link, by name."""
    body = _cylinder(robot.BASE_RADIUS, robot.BASE_HEIGHT)
    lies = f'<origin xyz="0 0 0" rpy="{_n(math.pi / 2, 0, 0)}"/>'
    wheel = (_seen(_cylinder(WHEEL_RADIUS, WHEEL_WIDTH), (0.1, 0.1, 0.12), lies)
             + _solid(WHEEL_MASS, WHEEL_RADIUS, WHEEL_WIDTH, lies))
    return {
        BASE: "", FOOTPRINT: "", OPTICAL: "", LEFT.child: wheel, RIGHT.child: wheel,
        CHASSIS: _seen(body, (0.85, 0.85, 0.9)) + f"<collision>{body}</collision>"
        + _solid(robot.BASE_MASS - 2 * WHEEL_MASS, robot.BASE_RADIUS, robot.BASE_HEIGHT),
        LIDAR: _seen(_cylinder(*LIDAR_SIZE), (0.2, 0.2, 0.25)),
        CAMERA: _seen(_box(*NOSE), (0.15, 0.15, 0.2), f'<origin xyz="{_n(-NOSE[0] / 2, 0, 0)}" rpy="0 0 0"/>'),
    }


def urdf() -> str:
    """The robot as URDF. Its links have no prefix: who shows several robots gives each a prefix of its own."""
    links = "\n".join(f'  <link name="{name}">{made}</link>' for name, made in _links().items())
    joints = "\n".join(
        f'  <joint name="{j.name}" type="{"continuous" if j.moving else "fixed"}"><parent link="{j.parent}"/>'
        f'<child link="{j.child}"/><origin xyz="{_n(*j.xyz)}" rpy="{_n(*j.rpy)}"/>'
        + ('<axis xyz="0 1 0"/>' if j.moving else "") + "</joint>" for j in JOINTS)
    return f'<?xml version="1.0"?>\n<robot name="{NAME}">\n{links}\n{joints}\n</robot>\n'


def wheel_turns(forward: float, turn: float) -> tuple[float, float]:
    """Computes the angles (rad) by which the left and right wheel roll, for ``forward`` m and a turn by ``turn``."""
    aside = turn * WHEEL_SEPARATION / 2
    return (forward - aside) / WHEEL_RADIUS, (forward + aside) / WHEEL_RADIUS


def quaternion(roll: float, pitch: float, yaw: float) -> tuple[float, float, float, float]:
    """(x, y, z, w) of a rotation by roll, then pitch, then yaw (rad) about the fixed axes, as URDF means ``rpy``."""
    (sr, cr), (sp, cp), (sy, cy) = ((math.sin(a / 2), math.cos(a / 2)) for a in (roll, pitch, yaw))
    return (sr * cp * cy - cr * sp * sy, cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy, cr * cp * cy + sr * sp * sy)


def transform(parent: str, child: str, xyz: tuple[float, float, float], rpy: tuple[float, float, float], stamp: Any,
              prefix: str = "") -> Any:
    """geometry_msgs/TransformStamped of ``child`` in ``parent`` at ``stamp`` (builtin_interfaces/Time)."""
    message = make("geometry_msgs/msg/TransformStamped", child_frame_id=prefix + child,
                   header=make("std_msgs/msg/Header", frame_id=prefix + parent, stamp=stamp))
    at, turned = message.transform.translation, message.transform.rotation
    at.x, at.y, at.z = map(float, xyz)
    turned.x, turned.y, turned.z, turned.w = quaternion(*rpy)
    return message


def fixed_transforms(stamp: Any, prefix: str = "") -> list:
    """TransformStamped of every fixed joint."""
    return [transform(j.parent, j.child, j.xyz, j.rpy, stamp, prefix) for j in JOINTS if not j.moving]


def moving_transforms(angles: Mapping[str, float], stamp: Any, prefix: str = "") -> list:
    """TransformStamped of every moving joint, whose angles (rad) are given by name."""
    return [transform(j.parent, j.child, j.xyz, (0.0, angles[j.name], 0.0), stamp, prefix) for j in JOINTS if j.moving]
