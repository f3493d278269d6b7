# SPDX-License-Identifier: Apache-2.0
"""Findings of frames: what ``tf_static``, ``tf`` and ``robot_description`` tell, and whether the profile agrees."""
from __future__ import annotations

import math
from typing import Any, Iterator

from brain_observe.doctor.finding import DEGRADES, STOPS, Finding
from brain_observe.doctor.heard import IMAGE, INFO, ODOM, SCAN, Heard
from brain_runtime.contract.azimuth import wrap
from brain_runtime.contract.frames import FARTHEST, FLOORS, QUATERNION, FrameError, Frames
from brain_runtime.contract.optics import Mount
from brain_wire import names

APART = 0.05, 0.1           # m, rad by which profile and frames may differ
LATCHED = "/tf_static", "/robot_description"
UPRIGHT = math.cos(math.radians(8.0))       # of a lidar's axis
CIRCLE = "one publisher is wrong: look at the list of `ros2 run tf2_tools view_frames`"
UNKNOWN = "publish it: robot_state_publisher with the robot's URDF, or static_transform_publisher"


def findings(heard: Heard) -> list[Finding]:
    """All that is wrong with the robot's frames."""
    frames, known, found = Frames(), set[str](), []
    tree = Frames()     # with the moving ones: some drivers tell there what is fixed
    parents: dict[str, str] = {}
    for fixed, all_of in ((True, heard.static), (False, heard.moving)):
        for one in all_of:
            try:
                if fixed:
                    _put(frames, one)
                _put(tree, one, far=not fixed)
            except FrameError as error:
                found.append(_broken(one, parents, error, "tf_static" if fixed else "tf"))
            else:
                parents[_plain(one.child_frame_id)] = _plain(one.header.frame_id)
            known |= {_plain(one.child_frame_id), _plain(one.header.frame_id)}
    if heard.description:
        try:
            (Frames() if len(frames) else tree).describe(heard.description)
        except FrameError as error:
            found.append(Finding("description-broken", DEGRADES, "robot_description", str(error),
                                 "correct the URDF; `check_urdf` names the line"))
    for child in parents:
        try:
            tree.pose(child, child)
        except FrameError as error:
            found.append(Finding("tf-loop", STOPS, "tf", str(error), CIRCLE))
            break
    if frames.changed:
        found.append(Finding("tf-changed", DEGRADES, "tf_static", frames.changed, "two publishers tell of it, or one "
                             "tells what moves as if it were fixed; end one"))
    for topic, who in sorted({(e.topic, e.name) for e in heard.endpoints if e.kind == names.PUBLISHER
                              and e.topic.endswith(LATCHED) and e.qos is not None and not e.qos.latched}):
        found.append(Finding("tf-volatile", DEGRADES, topic, f"{who} publishes it volatile: who comes later does not "
                             f"hear it", "publish it reliable, transient local"))
    for name in (SCAN, IMAGE, INFO, ODOM):
        message = heard.newest(name)
        if message is not None and not _plain(message.header.frame_id):
            found.append(Finding("frame-empty", DEGRADES, heard.topic(name), "header.frame_id is empty",
                                 "set the driver's frame_id to a frame of the URDF"))
    if told(heard) and not any(one.code in ("tf-loop", "description-broken") for one in found):
        found += [*_seen(heard, SCAN, tree, known), *_seen(heard, IMAGE, tree, known)]
    return found


def told(heard: Heard) -> bool:
    """Tells whether there is anything that frames can be judged by."""
    return bool(heard.static or heard.description)


def _plain(name: str) -> str:
    return str(name).strip().lstrip("/")


def _put(frames: Frames, one: Any, *, far: bool = False) -> None:
    """Takes in a transform; where it may be ``far``, as the robot in the world, one that is gets no place."""
    q, t = one.transform.rotation, one.transform.translation
    at = (0.0, 0.0, 0.0) if far and max(abs(t.x), abs(t.y), abs(t.z)) > FARTHEST else (t.x, t.y, t.z)
    frames.put(one.header.frame_id, one.child_frame_id, at, (q.x, q.y, q.z, q.w))


def _broken(one: Any, parents: dict[str, str], error: FrameError, subject: str) -> Finding:
    """Finding of a transform that is none."""
    q, child, parent = one.transform.rotation, _plain(one.child_frame_id), _plain(one.header.frame_id)
    if not abs(math.sqrt(q.x * q.x + q.y * q.y + q.z * q.z + q.w * q.w) - 1.0) <= QUATERNION:
        return Finding("tf-quaternion", STOPS, subject, str(error), "its publisher must fill in x, y, z and w of a "
                       "unit quaternion: 0, 0, 0, 1 is no rotation")
    if child != parent and parents.get(child, parent) != parent:
        return Finding("tf-two-parents", STOPS, subject, str(error), CIRCLE)
    return Finding("tf-place", STOPS, subject, str(error), "correct it at its publisher: names, and lengths in meters")


def _seen(heard: Heard, name: str, frames: Frames, known: set[str]) -> Iterator[Finding]:
    """Findings of the frame that a sensor's messages name, and of where it is by the profile."""
    message = heard.newest(name)
    frame = "" if message is None else _plain(message.header.frame_id)
    if not frame:
        return
    base, topic = _base(heard, frame), heard.topic(name)
    try:
        pose = frames.pose(frame, base)
    except FrameError as error:
        if frame not in known and not heard.description:
            yield Finding("frame-unknown", DEGRADES, topic, f"its frame {frame!r} is in no transform", UNKNOWN)
        else:
            yield Finding("tf-no-way", DEGRADES, topic, str(error), UNKNOWN)
        return
    if name == SCAN:
        x, y = float(pose.at[0]), float(pose.at[1])
        up, yaw = float(pose.turned[2, 2]), math.atan2(pose.turned[1, 0], pose.turned[0, 0])
        mounted = {key: heard.value(key, 0.0, "brainstem") for key in ("lidar_x", "lidar_y", "lidar_yaw")}
        if up < UPRIGHT:
            lies = "is upside down" if up < -UPRIGHT else f"leans by {math.degrees(math.acos(up)):.0f} degrees"
            yield Finding("lidar-tilted", STOPS, topic, f"by frame {frame!r} the lidar {lies}", "the brain takes a "
                          "lidar for level: set its driver's inversion, or correct the URDF")
        elif _off(mounted["lidar_x"], x) or _off(mounted["lidar_y"], y) or _turned(mounted["lidar_yaw"], yaw):
            yield Finding("lidar-mount", STOPS if _turned(mounted["lidar_yaw"], yaw) else DEGRADES, topic,
                          f"by frame {frame!r} the lidar is at {x:.2f}, {y:.2f} m, turned by {yaw:.2f} rad; by the "
                          f"profile at {mounted['lidar_x']:.2f}, {mounted['lidar_y']:.2f}, {mounted['lidar_yaw']:.2f}",
                          f"in the profile, shared: {{lidar_x: {x:.3f}, lidar_y: {y:.3f}, lidar_yaw: {yaw:.4f}}}; or "
                          f"correct the URDF")
        return
    try:
        mount = frames.mount(frame, base)
    except FrameError as error:
        yield Finding("camera-mount", DEGRADES, topic, str(error), "correct the camera's joint in the URDF")
        return
    yield from _camera(heard, topic, frame, mount)


def _camera(heard: Heard, topic: str, frame: str, mount: Mount) -> Iterator[Finding]:
    """Finding where the profile says of the camera's mounting what frames contradict; it need not say anything."""
    has = {"camera_x": mount.x, "camera_yaw": mount.yaw, "camera_height": mount.height}
    says = {key: heard.value(key, None, "vision") for key in has}
    wrong = {key: has[key] for key, value in says.items() if value is not None
             and (_turned if key == "camera_yaw" else _off)(value, has[key])}
    if wrong:
        yield Finding("camera-mount", DEGRADES, topic, f"by frame {frame!r} " + ", ".join(
            f"{key} is {value:.3f} and not {says[key]:.3f}" for key, value in wrong.items()),
            "in the profile, shared: {" + ", ".join(f"{k}: {v:.3f}" for k, v in wrong.items()) + "}; or correct the "
            "URDF")


def _base(heard: Heard, frame: str) -> str:
    """Name of the base's frame: as the profile says, with the prefix that odometry's or the sensor's frame has."""
    base = _plain(heard.value("base_frame", FLOORS[1]))
    odom = heard.newest(ODOM)
    for other in ("" if odom is None else _plain(odom.child_frame_id), frame):
        prefix, slash, _ = other.rpartition("/")
        if slash and "/" not in base:
            return f"{prefix}/{base}"
    return base


def _off(one: float, other: float) -> bool:
    return abs(one - other) > APART[0]


def _turned(one: float, other: float) -> bool:
    return abs(float(wrap(one - other))) > APART[1]


def unjudged(heard: Heard) -> Iterator[str]:
    """Tells of what could not be judged."""
    if not told(heard):
        yield "frames: nobody publishes tf_static or robot_description, and the profile is taken at its word"
