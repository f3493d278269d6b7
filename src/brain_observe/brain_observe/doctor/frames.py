# SPDX-License-Identifier: Apache-2.0
"""Findings of frames: what ``tf_static``, ``tf`` and ``robot_description`` tell, and whether the profile agrees."""
from __future__ import annotations

import math
from typing import Any, Callable, Iterator

from brain_observe.doctor.finding import DEGRADES, NOTE, STOPS, Finding
from brain_observe.doctor.heard import IMAGE, INFO, ODOM, SCAN, Heard
from brain_runtime.contract.azimuth import wrap
from brain_runtime.contract.camera_mount import USUAL
from brain_runtime.contract.frames import FARTHEST, FLOORS, QUATERNION, FrameError, Frames
from brain_runtime.contract.optics import Mount
from brain_wire import names
from brain_wire.messages import time_seconds

APART = 0.05, 0.1           # m, rad by which profile and frames may differ
LATCHED = "/tf_static", "/robot_description"
LEANS, LEANS_MUCH = math.radians(2.0), math.radians(20.0)   # a lidar; by more the brain does not take it
DISAGREE = 10.0             # s, from which on stamps tell of two clocks
STOPPED = 1.0               # s by which a moving transform may be older than what else comes
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
    found += _stopped(heard)
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
    topic = heard.topic(name)
    try:
        base = frames.base(frame, heard.value("base_frame", FLOORS[1]))
        mount = frames.lidar(frame, base) if name == SCAN else Mount()
        frames.pose(frame, base)
    except FrameError as error:
        if frame not in known and not heard.description:
            yield Finding("frame-unknown", DEGRADES, topic, f"its frame {frame!r} is in no transform", UNKNOWN)
        else:
            yield Finding("tf-no-way", DEGRADES, topic, str(error), UNKNOWN)
        return
    if name == SCAN:
        yield from _lidar(heard, topic, frame, mount)
        return
    try:
        mount = frames.mount(frame, base)
    except FrameError as error:
        yield Finding("camera-mount", DEGRADES, topic, str(error), "correct the camera's joint in the URDF")
        return
    yield from _camera(heard, topic, frame, mount)


def _lidar(heard: Heard, topic: str, frame: str, mount: Mount) -> Iterator[Finding]:
    """Findings of a lidar that leans, and of what the profile says of its mounting and frames contradict."""
    up = math.cos(mount.pitch) * math.cos(mount.roll)
    leans = math.acos(min(abs(up), 1.0))
    if leans > LEANS or up < 0.0:
        lies = " and ".join([*["is upside down"] * (up < 0.0), *[f"leans by {math.degrees(leans):.0f} degrees"] * (
            leans > LEANS)])
        yield Finding("lidar-tilted", STOPS if leans > LEANS_MUCH else NOTE, topic,
                      f"by frame {frame!r} the lidar {lies}",
                      "mount it level, or correct its joint in the URDF" if leans > LEANS_MUCH else
                      "the brain reads its scans so; if it does not hang like that, correct its joint in the URDF")
    has = dict(zip(("lidar_x", "lidar_y", "lidar_yaw", "lidar_pitch", "lidar_roll"), (
        mount.x, mount.y, mount.yaw, mount.pitch, mount.roll)))
    says = {key: heard.value(key, None, "brainstem") for key in has}
    wrong = {key: told for key, told in has.items() if says[key] is not None
             and (_off if key in ("lidar_x", "lidar_y") else _turned)(says[key], told)}
    if wrong:
        yield Finding("lidar-mount", STOPS if not wrong.keys() <= {"lidar_x", "lidar_y"} else DEGRADES, topic,
                      f"by frame {frame!r} " + ", ".join(f"{key} is {told:.3f} and not {says[key]:.3f}"
                                                         for key, told in wrong.items()) + "; the frame is believed",
                      "in the profile, shared: {" + ", ".join(f"{k}: {v:.4f}" for k, v in wrong.items()) + "}; or "
                      "correct the URDF, or shared: {lidar_frames: false} where the profile is right")


def lidar_of(heard: Heard) -> Mount:
    """Mounting of the lidar as the brain has it: by frames, else by the profile."""
    believed = heard.value("lidar_frames", True, "brainstem")
    return _mount(heard, SCAN if believed else "", Frames.lidar, "lidar", "brainstem", Mount(height=0.2))


def camera_of(heard: Heard) -> Mount:
    """Mounting of the camera as the brain has it: by frames, else by the profile."""
    return _mount(heard, IMAGE, Frames.mount, "camera", "vision", USUAL)


def _mount(heard: Heard, topic: str, of: Callable[[Frames, str, str], Mount], sensor: str, region: str, usual: Mount
           ) -> Mount:
    """Mounting by the frame of a topic's newest message, else as the profile has it for a region, else the usual."""
    message = heard.newest(topic) if topic else None
    for frames in _fixed(heard) if message is not None else ():
        frame = message.header.frame_id
        try:
            return of(frames, frame, frames.base(frame, heard.value("base_frame", FLOORS[1])))
        except FrameError:
            continue
    return Mount(**{name: float(heard.value(f"{sensor}_{name}", getattr(usual, name), region))
                    for name in ("x", "y", "height", "yaw", "pitch", "roll")})


def _fixed(heard: Heard) -> Iterator[Frames]:
    """Frames of ``tf_static``, then those of ``robot_description``; what cannot be is told elsewhere, and left out."""
    frames, described = Frames(), Frames()
    for one in heard.static:
        try:
            _put(frames, one)
        except FrameError:
            continue
    yield frames
    try:
        described.describe(heard.description)
    except FrameError:
        return
    yield described


def _stopped(heard: Heard) -> Iterator[Finding]:
    """Finding of moving transforms that came, and come no more."""
    latest: dict[str, float] = {}
    for one in heard.moving:
        child = _plain(one.child_frame_id)
        latest[child] = max(latest.get(child, 0.0), time_seconds(one.header.stamp))
    now = max((came.stamp for name in (SCAN, ODOM) for came in heard.came[name]), default=0.0)
    if stopped := sorted(child for child, stamp in latest.items() if stamp > 0.0 and STOPPED < now - stamp < DISAGREE):
        yield Finding("tf-stopped", DEGRADES, "tf", f"the transform of {', '.join(map(repr, stopped[:4]))} has stopped "
                      f"for {now - latest[stopped[0]]:.1f} s", "look at who publishes it; the brain needs fixed frames "
                      "alone, but RViz and others do not know where the robot is")


def _camera(heard: Heard, topic: str, frame: str, mount: Mount) -> Iterator[Finding]:
    """Finding where the profile says of the camera's mounting what frames contradict; it need not say anything."""
    has = {f"camera_{name}": getattr(mount, name) for name in ("x", "y", "height", "yaw", "pitch", "roll")}
    says = {key: heard.value(key, None, "vision") for key in has}
    wrong = {key: has[key] for key, value in says.items() if value is not None
             and (_off if key in ("camera_x", "camera_y", "camera_height") else _turned)(value, has[key])}
    if wrong:
        yield Finding("camera-mount", DEGRADES, topic, f"by frame {frame!r} " + ", ".join(
            f"{key} is {value:.3f} and not {says[key]:.3f}" for key, value in wrong.items()),
            "in the profile, shared: {" + ", ".join(f"{k}: {v:.3f}" for k, v in wrong.items()) + "}; or correct the "
            "URDF")


def _off(one: float, other: float) -> bool:
    return abs(one - other) > APART[0]


def _turned(one: float, other: float) -> bool:
    return abs(float(wrap(one - other))) > APART[1]


def unjudged(heard: Heard) -> Iterator[str]:
    """Tells of what could not be judged."""
    if not told(heard):
        yield "frames: nobody publishes tf_static or robot_description, and the profile is taken at its word"
