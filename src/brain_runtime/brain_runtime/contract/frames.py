# SPDX-License-Identifier: Apache-2.0
"""Frames of a robot that are fixed to each other, from ``tf_static`` or ``robot_description``: where its sensors are.

Both come from others, so nothing in them is believed before it is checked, and what is kept is bounded.
"""
from __future__ import annotations

import math
from typing import Any, Iterable, NamedTuple

import numpy as np

from brain_runtime.contract.optics import Mount

MOST = 500                  # frames
LONGEST = 200_000           # characters of a description
NAME = 128                  # characters of a frame's name
FARTHEST = 20.0             # m between a frame and its parent: no robot is larger
QUATERNION = 0.01           # by which the length of one may differ from 1
FLOORS = ("base_footprint", "base_link")
"""Frames that lie on the floor; of the second the first is known where both are there."""
OPTICAL = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
"""Columns: axes of an optical frame (z along the lens, x to the right, y down) in one as REP 103 has it."""


class FrameError(ValueError):
    """Frames contradict themselves, or do not lead to where they should; says which."""


class Pose(NamedTuple):
    """A frame in another one: rotation [3, 3] and place [3] (m)."""

    turned: np.ndarray
    at: np.ndarray


class Frames:
    """Fixed frames, each by its parent.

    Attributes:
        changed: what moved since it was first told, in words; empty: nothing.
    """

    def __init__(self) -> None:
        self._parents: dict[str, tuple[str, Pose]] = {}
        self.changed = ""

    def __len__(self) -> int:
        return len(self._parents)

    def take(self, message: Any) -> None:
        """Takes in a ``tf2_msgs/TFMessage`` of ``tf_static``.

        Raises:
            FrameError: a transform in it is none; all others are kept.
        """
        wrong: FrameError | None = None
        for one in message.transforms:
            q, t = one.transform.rotation, one.transform.translation
            try:
                self.put(one.header.frame_id, one.child_frame_id, (t.x, t.y, t.z), (q.x, q.y, q.z, q.w))
            except FrameError as error:
                wrong = wrong or error
        if wrong is not None:
            raise wrong

    def put(self, parent: str, child: str, at: Iterable[float],
            quaternion: tuple[float, float, float, float]) -> None:
        """Notes where a frame is in another. Raises FrameError."""
        parent, child = _name(parent), _name(child)
        place, length = np.array(tuple(at), float), math.sqrt(sum(v * v for v in quaternion))
        if parent == child:
            raise FrameError(f"frame {child!r} is its own parent")
        if not (np.isfinite(place).all() and math.isfinite(length)):
            raise FrameError(f"frame {child!r} is at a place that is no number")
        if abs(length - 1.0) > QUATERNION:
            raise FrameError(f"the quaternion of frame {child!r} has the length {length:.3g} and not 1; correct its "
                             f"publisher")
        if float(np.abs(place).max()) > FARTHEST:
            raise FrameError(f"frame {child!r} is {float(np.abs(place).max()):.3g} m from {parent!r}; are its lengths "
                             f"in millimetres?")
        pose = Pose(_rotation(*(v / length for v in quaternion)), place)
        before = self._parents.get(child)
        if before is None and len(self._parents) >= MOST:
            raise FrameError(f"there are more than {MOST} frames")
        if before is not None and before[0] != parent:
            raise FrameError(f"frame {child!r} has two parents, {before[0]!r} and {parent!r}; one publisher is wrong")
        if before is not None and _moved(before[1], pose):
            self.changed = f"frame {child!r} is told to be elsewhere in {parent!r} than before"
        self._parents[child] = parent, pose

    def describe(self, urdf: str) -> None:
        """Takes in the joints of a robot's description; one that moves counts as it is at its zero.

        Raises:
            FrameError: it cannot be read; nothing of it is taken.
        """
        from xml.etree import ElementTree       # which a region that hears transforms does not need

        if len(urdf) > LONGEST:
            raise FrameError(f"robot_description has {len(urdf)} characters; at most {LONGEST} are read")
        if "<!" in urdf.replace("<!--", ""):
            raise FrameError("robot_description declares types or entities, which none needs")
        try:
            root = ElementTree.fromstring(urdf)
        except ElementTree.ParseError as error:
            raise FrameError(f"robot_description is no XML: {error}") from error
        joints = []
        for joint in root.findall("joint"):
            parent, child, origin = joint.find("parent"), joint.find("child"), joint.find("origin")
            if parent is None or child is None:
                raise FrameError(f"joint {joint.get('name', '')!r:.60} of robot_description has no parent or no child")
            told = {} if origin is None else origin.attrib
            try:
                at, (r, p, y) = (tuple(float(v) for v in told.get(key, "0 0 0").split()) for key in ("xyz", "rpy"))
                if len(at) != 3:
                    raise ValueError
            except ValueError:
                raise FrameError(f"joint {joint.get('name', '')!r:.60} of robot_description has an origin that is not "
                                 f"three numbers each") from None
            joints.append((parent.get("link", ""), child.get("link", ""), at, _quaternion(r, p, y)))
        for one in joints:
            self.put(*one)

    def pose(self, frame: str, base: str) -> Pose:
        """Returns where a frame is in another one.

        Raises:
            FrameError: no way leads from one to the other, or frames lead in a circle.
        """
        up, down = self._way(_name(frame)), self._way(_name(base))
        common = next((name for name in up if name in down), None)
        if common is None:
            raise FrameError(f"no fixed frames lead from {base!r} to {frame!r}")
        a, b = (self._upward(way, common) for way in (up, down))
        return Pose(b.turned.T @ a.turned, b.turned.T @ (a.at - b.at))

    def base(self, sensor: str, wanted: str = FLOORS[1]) -> str:
        """Name of the frame of the base that carries a sensor, as the robot has it.

        Args:
            sensor: name of the sensor's frame.
            wanted: name of the base's; with or without the robot's prefix (``robot1/base_link``).

        Returns:
            ``wanted`` where there is such a frame; else, of the frames that carry the sensor, the nearest of that name
            under another prefix, or ``base_link`` or ``base_footprint``; else ``wanted`` with the sensor's prefix.

        Raises:
            FrameError: frames lead in a circle.
        """
        sensor, wanted = _name(sensor), _name(wanted)
        if wanted in self._names():
            return wanted
        way = self._way(sensor)
        for leaf in (_leaf(wanted), FLOORS[1], FLOORS[0]):
            if (found := next((name for name in way if _leaf(name) == leaf), None)) is not None:
                return found
        return wanted if "/" in wanted else _beside(sensor, wanted)

    def mount(self, camera: str, base: str) -> Mount:
        """Mounting of the camera whose pictures carry an optical frame's name, seen from the base's frame.

        Its height is above ``base_footprint``, where the base has one; else above the base.

        Raises:
            FrameError: the camera's frame is not there, or looks straight up or down.
        """
        pose = self.pose(camera, base)
        optical = camera.endswith("optical_frame") or _is_optical(pose)
        return self._mount(camera, base, pose.turned @ OPTICAL.T if optical else pose.turned, pose.at)

    def lidar(self, lidar: str, base: str) -> Mount:
        """Mounting of the lidar whose scans carry a frame's name, as :meth:`mount` has a camera's. Raises FrameError.

        The x axis of its frame is where it looks, and its z axis that about which it turns.
        """
        return self._mount(lidar, base, *self.pose(lidar, base))

    def _mount(self, sensor: str, base: str, turned: np.ndarray, at: np.ndarray) -> Mount:
        height, floor = float(at[2]), _beside(_name(base), FLOORS[0])
        if floor != _name(base) and floor in self._names():
            height = float(self.pose(sensor, floor).at[2])
        ahead = turned[:, 0]
        if math.hypot(ahead[0], ahead[1]) < 0.1:
            raise FrameError(f"frame {sensor!r} looks straight {'up' if ahead[2] > 0 else 'down'}")
        yaw, pitch = math.atan2(ahead[1], ahead[0]), math.asin(max(-1.0, min(1.0, -ahead[2])))
        roll = math.atan2(turned[2, 1], turned[2, 2])
        return Mount(float(at[0]), float(at[1]), height, yaw, pitch, roll)

    def _names(self) -> set[str]:
        return {*self._parents, *(parent for parent, _ in self._parents.values())}

    def _way(self, frame: str) -> list[str]:
        way = [frame]
        while (found := self._parents.get(way[-1])) is not None:
            if found[0] in way:
                raise FrameError(f"frames lead in a circle: {' in '.join([*way[:4], found[0]])}")
            way.append(found[0])
        return way

    def _upward(self, way: list[str], until: str) -> Pose:
        turned, at = np.eye(3), np.zeros(3)
        for name in way:
            if name == until:
                break
            pose = self._parents[name][1]
            turned, at = pose.turned @ turned, pose.turned @ at + pose.at
        return Pose(turned, at)


def _is_optical(pose: Pose) -> bool:
    """Tells that a frame must be an optical one: as one of REP 103 its side would look up or down."""
    return abs(pose.turned[2, 0]) < 0.5 and pose.turned[2, 1] < -0.5


def _name(name: str) -> str:
    name = name.strip().lstrip("/")
    if not 0 < len(name) <= NAME:
        raise FrameError(f"a frame has a name of {len(name)} characters; 1 to {NAME} are taken")
    return name


def _leaf(name: str) -> str:
    """Name of a frame without its robot's prefix."""
    return name.rpartition("/")[2]


def _beside(other: str, name: str) -> str:
    """Name of a frame with the prefix that another one of the robot has."""
    prefix, slash, _ = other.rpartition("/")
    return f"{prefix}{slash}{name}"


def _moved(a: Pose, b: Pose) -> bool:
    return bool(np.abs(a.turned - b.turned).max() > 0.02 or np.abs(a.at - b.at).max() > 0.01)


def _rotation(x: float, y: float, z: float, w: float) -> np.ndarray:
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                     [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                     [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]])


def _quaternion(roll: float, pitch: float, yaw: float) -> tuple[float, float, float, float]:
    """Of turns about the fixed axes x, y, z in this order, as URDF has them."""
    (a, b), (c, d), (e, f) = ((math.sin(v / 2), math.cos(v / 2)) for v in (roll, pitch, yaw))
    return a * d * f - b * c * e, b * c * f + a * d * e, b * d * e - a * c * f, b * d * f + a * c * e
