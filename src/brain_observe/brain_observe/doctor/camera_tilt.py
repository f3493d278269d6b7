# SPDX-License-Identifier: Apache-2.0
"""Tilt of the camera as pictures and scans show it, held against what frames or the profile tell."""
from __future__ import annotations

import math
from typing import Iterator

import numpy as np

from brain_observe.doctor.camera import USUAL
from brain_observe.doctor.finding import DEGRADES, Finding
from brain_observe.doctor.frames import camera_of, lidar_of
from brain_observe.doctor.heard import IMAGE, INFO, SCAN, Heard
from brain_observe.doctor.scan import ends
from brain_runtime.contract.azimuth import wrap
from brain_runtime.contract.camera_mount import USUAL as UNTOLD
from brain_runtime.contract.floor_edge import AGREED, FloorEdge, Tilt
from brain_runtime.contract.images import LensError, lens, rgb

LATE = 0.3                      # s between a picture and the scan that tells of its walls
APART = math.radians(3.0)       # from which on vision finds less


def tilt(heard: Heard) -> Tilt | str:
    """The camera's tilt by where walls meet the floor; else why nothing tells it."""
    mount, laser = camera_of(heard), lidar_of(heard)
    own, info = heard.value("scan_own", (), "brainstem"), heard.newest(INFO)
    scans = [one for one in heard.came[SCAN] if one.message is not None]
    pictures = [one for one in heard.came[IMAGE] if one.message is not None]
    if not scans or not pictures:
        return f"there are no {'pictures' if scans else 'scans'}"
    edge = FloorEdge(mount)
    for one in pictures:
        scan = min(scans, key=lambda other: abs(other.stamp - one.stamp))
        if abs(scan.stamp - one.stamp) > LATE:
            continue
        try:
            picture = rgb(one.message)
            seen = lens(info, (one.message.width, one.message.height), heard.value("field_of_view", USUAL, "vision"),
                        bool(heard.value("rectified", False, "vision")))
        except (LensError, ValueError) as error:
            return str(error)
        angles, distances, _ = ends(scan.message, laser, own)
        order = np.argsort(angles)
        edge.add(picture, seen, np.column_stack([
            np.cos(angles[order]), np.sin(angles[order])]) * distances[order, None])
    guessed = mount == UNTOLD and not heard.value("camera_confirmed", False, "vision")
    found = guessed and edge.found(high=True) or edge.found()
    if found is None:
        return (f"{len(edge)} pictures show where walls meet the floor, and no clear edge there; turn the robot slowly "
                f"in a room with walls, within 6 m of them")
    if not found.spread <= AGREED:
        return "pictures do not agree; turn the robot more slowly, or measure the camera's height again"
    return found


def line(found: Tilt) -> str:
    """Line that the profile is to have."""
    return (f"shared: {{camera_height: {found.height:.3f}, camera_pitch: {found.pitch:.4f}, camera_roll: "
            f"{found.roll:.4f}}}")


def findings(heard: Heard) -> Iterator[Finding]:
    """Finding of a camera that looks farther up or down than frames or the profile tell."""
    found, told = tilt(heard), camera_of(heard)
    if isinstance(found, str):
        return
    off = float(wrap(found.pitch - told.pitch))
    if abs(off) > APART:
        yield Finding("camera-tilt", DEGRADES, heard.topic(IMAGE),
                      f"where walls meet the floor, pictures show that the camera is pitched down by "
                      f"{math.degrees(found.pitch):.1f} degrees, and {math.degrees(told.pitch):.1f} are told",
                      f"in the profile, {line(found)}, or correct the camera's joint in the URDF; `brain calibrate "
                      f"camera` looks for longer")
