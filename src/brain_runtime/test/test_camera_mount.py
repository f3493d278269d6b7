# SPDX-License-Identifier: Apache-2.0
"""A camera's mounting by frames and by a profile, alone, together and against each other."""
import math
from dataclasses import dataclass

import pytest

from brain_runtime.contract.camera_mount import USUAL, CameraMount, CameraParameters
from brain_runtime.contract.robot_frames import Framed
from brain_runtime.hosts.local import LocalHost
from brain_wire.messages import make

BASE, CAMERA = "base_link", "camera_link"
LOW = CameraParameters(camera_x=0.076, camera_height=0.1, camera_pitch=0.1)


@dataclass(frozen=True)
class Nothing:
    """No parameters."""


class Ear(Framed):
    """Hears frames."""

    rate, Parameters = 10.0, Nothing

    def configure(self, parameters):
        super().configure(parameters)
        self.camera = CameraMount()

    def step(self, inbox, state, dt, rng):
        self.camera.hear(inbox)
        return {}, state


def tf(x, height, pitch, parent=BASE, child=CAMERA):
    rotation = make("geometry_msgs/msg/Quaternion", y=math.sin(pitch / 2), w=math.cos(pitch / 2))
    return make("tf2_msgs/msg/TFMessage", transforms=[make(
        "geometry_msgs/msg/TransformStamped", header=make("std_msgs/msg/Header", frame_id=parent), child_frame_id=child,
        transform=make("geometry_msgs/msg/Transform", rotation=rotation,
                       translation=make("geometry_msgs/msg/Vector3", x=x, z=height)))])


def told(*messages):
    """The mounting after some messages of frames came."""
    host = LocalHost({"ear": Ear("ear")})
    for message in messages:
        host.publish("robot_description" if isinstance(message, str) else "tf_static",
                     make("std_msgs/msg/String", data=message) if isinstance(message, str) else message)
    host.advance(0.2)
    return host.regions["ear"].camera


def test_frames_are_believed_else_the_profile_else_what_is_usual():
    silent = CameraParameters()
    assert told().of(silent, CAMERA, BASE)[::2] == (USUAL, True)
    assert told().of(LOW, CAMERA, BASE) == (LOW.mount, "", False)
    urdf = (f'<robot name="r"><joint name="j" type="fixed"><parent link="{BASE}"/><child link="{CAMERA}"/>'
            f'<origin xyz="0.08 0 0.12" rpy="0 0.13 0"/></joint></robot>')
    for camera in (told(tf(0.08, 0.12, 0.13)), told(urdf), told(tf(0.08, 0.12, 0.13, "base_footprint"))):
        for parameters in (silent, LOW):
            mount, doubt, guessed = camera.of(parameters, CAMERA, BASE)
            assert not doubt and not guessed
            assert (mount.x, mount.height, mount.pitch) == pytest.approx((0.08, 0.12, 0.13))
        assert camera.of(LOW, "another_camera", BASE) == (LOW.mount, "", False)


def test_what_nobody_tells_is_a_guess_until_frames_or_a_person_tell_it():
    mount, doubt, guessed = told().of(CameraParameters(), CAMERA, BASE)
    assert mount == USUAL and guessed and "crawls" in doubt and "camera_confirmed: true" in doubt
    assert told().of(CameraParameters(camera_confirmed=True), CAMERA, BASE) == (USUAL, "", False)
    assert not told().of(CameraParameters(camera_pitch=0.05), CAMERA, BASE).guessed
    assert not told(tf(USUAL.x, USUAL.height, 0.0)).of(CameraParameters(), CAMERA, BASE).guessed
    assert told(tf(0.1, 0.2, 0.0)).of(CameraParameters(), "another_camera", BASE).guessed


def test_a_contradiction_is_told_with_both_values_and_rounding_is_none():
    camera = told(tf(0.15, 0.35, 0.0))
    assert camera.of(CameraParameters(), CAMERA, BASE) == (USUAL, "", False)
    for wrong, says in ((CameraParameters(camera_height=0.1), "camera_height is 0.35 and not 0.10"),
                        (CameraParameters(camera_pitch=0.2), "camera_pitch is 0.00 and not 0.20"),
                        (CameraParameters(camera_y=0.1), "camera_y is 0.00 and not 0.10")):
        mount, doubt, _ = camera.of(wrong, CAMERA, BASE)
        assert mount.height == pytest.approx(0.35) and mount.pitch == pytest.approx(0.0) and says in doubt
    # what is usual is no contradiction: no profile need say it
    assert told(tf(0.05, 0.2, 0.2)).of(CameraParameters(), CAMERA, BASE).doubt == ""


def test_frames_that_cannot_be_cost_nothing_and_are_told():
    mount, doubt, _ = told(tf(0.1, -0.2, 0.0)).of(LOW, CAMERA, BASE)
    assert mount == LOW.mount and "above the floor" in doubt
    for broken, says in ((tf(0.1, 93.0, 0.0), "millimetres"), ("<robot>", "no XML")):
        mount, doubt, _ = told(broken).of(LOW, CAMERA, BASE)
        assert mount == LOW.mount and says in doubt
