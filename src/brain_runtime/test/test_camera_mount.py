# SPDX-License-Identifier: Apache-2.0
"""A camera's mounting by frames and by a profile, alone, together and against each other."""
import math

import pytest

from brain_runtime.contract.camera_mount import USUAL, CameraMount, CameraParameters
from brain_wire.messages import make

BASE, CAMERA = "base_link", "camera_link"


def tf(x, height, pitch, parent=BASE, child=CAMERA):
    rotation = make("geometry_msgs/msg/Quaternion", y=math.sin(pitch / 2), w=math.cos(pitch / 2))
    return make("tf2_msgs/msg/TFMessage", transforms=[make(
        "geometry_msgs/msg/TransformStamped", header=make("std_msgs/msg/Header", frame_id=parent), child_frame_id=child,
        transform=make("geometry_msgs/msg/Transform", rotation=rotation,
                       translation=make("geometry_msgs/msg/Vector3", x=x, z=height)))])


def test_frames_are_believed_else_the_profile_else_what_is_usual():
    camera, silent = CameraMount(), CameraParameters()
    assert camera.of(silent, CAMERA, BASE) == (USUAL, False, "")
    low = CameraParameters(camera_x=0.076, camera_height=0.1, camera_pitch=0.1)
    assert camera.of(low, CAMERA, BASE) == (low.mount(), True, "")
    camera.take_frames(tf(0.08, 0.12, 0.13))
    for parameters in (silent, low):
        mount, known, doubt = camera.of(parameters, CAMERA, BASE)
        assert known and not doubt
        assert (mount.x, mount.height, mount.pitch) == pytest.approx((0.08, 0.12, 0.13))
    assert camera.of(low, "another_camera", BASE).mount == low.mount()


def test_a_contradiction_is_told_and_rounding_is_none():
    camera = CameraMount()
    camera.take_frames(tf(0.15, 0.35, 0.0))
    right = CameraParameters(camera_height=0.35)
    assert camera.of(right, CAMERA, BASE) == (right.mount(), True, "")
    for wrong in (CameraParameters(camera_height=0.1), CameraParameters(camera_height=0.35, camera_pitch=0.2)):
        found = camera.of(wrong, CAMERA, BASE)
        assert found.mount.height == pytest.approx(0.35) and "by its frames" in found.doubt


def test_frames_that_are_none_cost_nothing_and_are_told():
    camera, low = CameraMount(), CameraParameters(camera_height=0.1)
    camera.take_frames(tf(0.1, -0.2, 0.0))
    assert camera.of(low, CAMERA, BASE).mount == low.mount() and "above the floor" in camera.of(low, CAMERA, BASE).doubt
    camera.take_frames(tf(0.1, 93.0, 0.0, child="other"))
    assert "millimetres" in camera.of(low, "other", BASE).doubt
    camera.take_description(make("std_msgs/msg/String", data="<robot>"))
    assert "no XML" in camera.of(low, "other", BASE).doubt
