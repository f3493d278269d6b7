# SPDX-License-Identifier: Apache-2.0
"""Proposals for a profile: what a running robot tells of its topics, its frames and its sensors. Pure functions."""
from __future__ import annotations

import math
from typing import Any, Iterable

import numpy as np

from brain_observe.doctor.heard import COMMAND, DEVICES, IMAGE, INFO, ODOM, SCAN, STAMPED, TWIST, Came, Heard
from brain_runtime.contract import images
from brain_runtime.contract.frames import FrameError, Frames
from brain_wire import names

DEPTH = ("depth", "stereo", "disparity", "infra", "ir", "mono", "left", "right", "confidence", "aligned")
"""Words in names of pictures that are not in color, or not the camera's own."""
GOOD = ("color", "rgb", "front", "image_raw")
ALL_ROUND = 1.9 * math.pi   # rad that a lidar sees at least which sees all round
ZEROS = 0.02                # share of ranges that are 0, from which on that means no return


def topics(heard: Heard) -> dict[str, list[str]]:
    """Finds by type which topics may be the robot's, by the brain's name; the likeliest first.

    Names are relative where they are in the brain's namespace.
    """
    found = {name: _of(heard, names.PUBLISHER, (device.type,)) for name, device in DEVICES.items()}
    found[COMMAND] = _of(heard, names.SUBSCRIPTION, (TWIST, STAMPED))
    for name, candidates in found.items():
        candidates.sort(key=lambda topic: _unlikely(name, topic))
    if found[IMAGE] and found[INFO]:    # of the same camera
        found[INFO].sort(key=lambda topic: -_common(topic, found[IMAGE][0]))
    return found


def _of(heard: Heard, kind: str, types: Iterable[str]) -> list[str]:
    space = heard.namespace.rstrip("/") + "/"
    return sorted({e.topic.removeprefix(space) if e.topic.startswith(space) else e.topic for e in heard.endpoints
                   if e.kind == kind and e.type in types})


def _unlikely(name: str, topic: str) -> tuple[bool, int, int, str]:
    words = topic.replace("/", "_").split("_")
    odd = sum(word in DEPTH for word in words) - sum(good in topic for good in GOOD)
    if name == COMMAND:     # Nav2's own come before the base's
        odd += sum(word in topic for word in ("nav", "smoothed", "teleop", "joy", "mux"))
    return topic != name, odd, len(topic), topic


def _common(one: str, other: str) -> int:
    """Number of folders that two topics share from the left."""
    count = 0
    for a, b in zip(one.split("/")[:-1], other.split("/")[:-1]):
        if a != b:
            break
        count += 1
    return count


def stamped(heard: Heard, topic: str) -> bool | None:
    """Tells whether the base hears ``TwistStamped``; None where nobody hears the topic."""
    types = {e.type for e in heard.subscriptions(names.expand(topic, heard.namespace, "brain"))}
    return STAMPED in types if types & {TWIST, STAMPED} else None


def rate(came: list[Came]) -> float:
    """Messages a second (Hz); NaN where fewer than three came."""
    took = came[-1].at - came[0].at if len(came) > 2 else 0.0
    return (len(came) - 1) / took if took > 0.0 else math.nan


def frames(heard: Heard) -> tuple[Frames, str]:
    """Collects the fixed frames, and why some are missing (empty: none is)."""
    tree, why = Frames(), ""
    for one in heard.static:
        q, t = one.transform.rotation, one.transform.translation
        try:
            tree.put(one.header.frame_id, one.child_frame_id, (t.x, t.y, t.z), (q.x, q.y, q.z, q.w))
        except FrameError as error:
            why = str(error)
    if heard.description and not len(tree):
        try:
            tree.describe(heard.description)
        except FrameError as error:
            why = str(error)
    return tree, why


def base_frame(heard: Heard) -> str:
    """Name of the base's frame, as odometry has it."""
    message = heard.newest(ODOM)
    return str(getattr(message, "child_frame_id", "")).strip().lstrip("/") or "base_link"


def mounts(heard: Heard, base: str) -> tuple[dict[str, float], list[str]]:
    """Mounting of lidar and camera, by the names that profiles have for it, and what could not be told."""
    (tree, why), found, left = frames(heard), {}, []
    if why:
        left.append(f"frames: {why}")
    for name, what in ((SCAN, "lidar"), (IMAGE, "camera")):
        message = heard.newest(name)
        if message is None:
            left.append(f"where the {what} is: no message of it came")
            continue
        frame = str(message.header.frame_id).strip().lstrip("/")
        try:
            if name == SCAN:
                pose = tree.pose(frame, base)
                if pose.turned[2, 2] < 0.95:
                    left.append(f"the lidar is not level by frame {frame!r}: set its driver's inversion, or correct "
                                f"the URDF")
                found |= {"lidar_x": float(pose.at[0]), "lidar_y": float(pose.at[1]),
                          "lidar_yaw": math.atan2(pose.turned[1, 0], pose.turned[0, 0])}
                found["lidar_height"] = _above_floor(tree, frame, base, float(pose.at[2]))
            else:
                mount = tree.mount(frame, base)
                found |= {"camera_x": mount.x, "camera_yaw": mount.yaw, "camera_height": mount.height,
                          "camera_pitch": mount.pitch, "camera_y": mount.y, "camera_roll": mount.roll}
        except FrameError as error:
            left.append(f"where the {what} is: {error}")
    return found, left


def _above_floor(tree: Frames, frame: str, base: str, height: float) -> float:
    try:
        return float(tree.pose(frame, "base_footprint").at[2])
    except FrameError:
        return height


def lidar(heard: Heard) -> dict[str, Any]:
    """Facts of the lidar for the profile's ``kit``, and ``zero_is_far``; empty where no scan came."""
    scan = heard.newest(SCAN)
    if scan is None:
        return {}
    ranges = np.concatenate([np.asarray(one.message.ranges, float) for one in heard.came[SCAN]
                             if one.message is not None])
    first = float(scan.angle_min)
    last = first + float(scan.angle_increment) * (len(scan.ranges) - 1)
    zeros = float(np.mean(ranges == 0.0)) if len(ranges) else 0.0
    return {"rate": rate(heard.came[SCAN]), "beams": len(scan.ranges), "from": first, "to": last,
            "nearest": float(scan.range_min), "farthest": float(scan.range_max),
            "frame": str(scan.header.frame_id), "all_round": abs(last - first) >= ALL_ROUND,
            "zero_is_far": zeros >= ZEROS and not np.isinf(ranges).any()}


def camera(heard: Heard) -> dict[str, Any]:
    """Facts of the camera for the profile's ``kit``, and ``field_of_view`` (rad); empty where no picture came."""
    picture, info = heard.newest(IMAGE), heard.newest(INFO)
    if picture is None:
        return {}
    found = {"rate": rate(heard.came[IMAGE]), "width": int(picture.width), "height_px": int(picture.height),
             "frame": str(picture.header.frame_id)}
    try:
        lens = images.lens(info, (picture.width, picture.height), 0.0) if info is not None and info.k[0] else None
    except images.LensError:
        lens = None     # brain doctor says what is wrong with it
    if lens is not None:
        found["field_of_view"] = 2 * math.atan(lens.columns / 2 / lens.focal)
    return found
