# SPDX-License-Identifier: Apache-2.0
"""Where sensors are, by frames that robots and strangers tell."""
import math

import numpy as np
import pytest

from brain_runtime.contract.frames import MOST, FrameError, Frames
from brain_wire.messages import make

NONE = (0.0, 0.0, 0.0, 1.0)
OPTICAL = (-0.5, 0.5, -0.5, 0.5)        # the rotation from a camera's link to its optical frame, as drivers publish it


def turned(axis, angle):
    return tuple(math.sin(angle / 2) * (k == axis) for k in range(3)) + (math.cos(angle / 2),)


def tf(*transforms):
    return make("tf2_msgs/msg/TFMessage", transforms=[
        make("geometry_msgs/msg/TransformStamped", header=make("std_msgs/msg/Header", frame_id=parent),
             child_frame_id=child, transform=make(
                 "geometry_msgs/msg/Transform",
                 translation=make("geometry_msgs/msg/Vector3", x=at[0], y=at[1], z=at[2]),
                 rotation=make("geometry_msgs/msg/Quaternion", **dict(zip("xyzw", q)))))
        for parent, child, at, q in transforms])


def waffle(pitch=0.0):
    frames = Frames()
    frames.take(tf(("base_footprint", "base_link", (0.0, 0.0, 0.01), NONE),
                   ("base_link", "camera_link", (0.076, 0.0, 0.093), turned(1, pitch)),
                   ("/camera_link", "camera_rgb_frame", (0.003, 0.011, 0.009), NONE),
                   ("camera_rgb_frame", "camera_rgb_optical_frame", (0.0, 0.0, 0.0), OPTICAL)))
    return frames


@pytest.mark.parametrize("pitch", [0.0, 0.2, -0.2])
@pytest.mark.parametrize("frame", ["camera_rgb_optical_frame", "/camera_rgb_frame"])
def test_a_camera_is_where_its_frames_say(frame, pitch):
    mount = waffle(pitch).mount(frame, "base_link")
    c, s = math.cos(pitch), math.sin(pitch)
    assert (mount.x, mount.y) == pytest.approx((0.076 + 0.003 * c + 0.009 * s, 0.011))
    assert mount.height == pytest.approx(0.01 + 0.093 - 0.003 * s + 0.009 * c)
    assert (mount.yaw, mount.pitch, mount.roll) == pytest.approx((0.0, pitch, 0.0), abs=1e-9)


def test_turned_and_rolled_cameras():
    frames = Frames()
    frames.put("base_link", "left", (0.0, 0.1, 0.3), turned(2, math.pi / 2))
    frames.put("left", "left_rolled", (0.0, 0.0, 0.0), turned(0, 0.15))
    assert frames.mount("left_rolled", "base_link").yaw == pytest.approx(math.pi / 2)
    assert frames.mount("left_rolled", "base_link").roll == pytest.approx(0.15)
    frames.put("left", "upside_down", (0.0, 0.0, 0.0), turned(0, math.pi))
    assert abs(frames.mount("upside_down", "base_link").roll) == pytest.approx(math.pi)
    frames.put("base_link", "down", (0.0, 0.0, 0.3), turned(1, math.pi / 2))
    with pytest.raises(FrameError, match="straight down"):
        frames.mount("down", "base_link")


def test_a_description_says_what_transforms_say():
    frames = Frames()
    frames.describe("""<robot name="w"><!-- made by hand --><link name="base_link"/>
      <joint name="b" type="fixed"><parent link="base_footprint"/><child link="base_link"/>
        <origin xyz="0 0 0.01"/></joint>
      <joint name="c" type="fixed"><parent link="base_link"/><child link="camera_link"/>
        <origin xyz="0.076 0 0.093" rpy="0 0.2 0"/></joint>
      <joint name="o" type="fixed"><parent link="camera_link"/><child link="camera_rgb_optical_frame"/>
        <origin xyz="0.003 0.011 0.009" rpy="-1.5707963267948966 0 -1.5707963267948966"/></joint></robot>""")
    found, told = (f.mount("camera_rgb_optical_frame", "base_link") for f in (frames, waffle(0.2)))
    assert np.allclose([found.x, found.y, found.height, found.yaw, found.pitch, found.roll],
                       [told.x, told.y, told.height, told.yaw, told.pitch, told.roll])


@pytest.mark.parametrize(("transform", "says"), [
    (("base_link", "base_link", (0, 0, 0), NONE), "its own parent"),
    (("base_link", "camera", (math.nan, 0, 0), NONE), "no number"),
    (("base_link", "camera", (0, 0, 0), (0, 0, 0, 0)), "length 0 and not 1"),
    (("base_link", "camera", (76.0, 0, 93.0), NONE), "millimetres"),
    (("", "camera", (0, 0, 0), NONE), "0 characters"), (("base_link", "x" * 999, (0, 0, 0), NONE), "999 characters"),
    (("elsewhere", "camera_link", (0, 0, 0), NONE), "two parents")])
def test_what_is_no_transform_is_named_and_costs_nothing(transform, says):
    frames = waffle()
    with pytest.raises(FrameError, match=says):
        frames.take(tf(transform))
    assert frames.mount("camera_rgb_frame", "base_link").x == pytest.approx(0.079)


def test_circles_gaps_and_floods_are_named():
    frames = Frames()
    frames.put("a", "b", (0, 0, 0), NONE)
    frames.put("b", "a", (0, 0, 0), NONE)
    with pytest.raises(FrameError, match="circle"):
        frames.pose("a", "base_link")
    with pytest.raises(FrameError, match="no fixed frames lead from 'base_link' to 'camera'"):
        waffle().mount("camera", "base_link")
    with pytest.raises(FrameError, match=f"more than {MOST}"):
        for number in range(MOST + 1):
            frames.put("base_link", f"f{number}", (0, 0, 0), NONE)


def test_a_jump_is_told():
    frames = waffle()
    frames.take(tf(("base_link", "camera_link", (0.076, 0.0, 0.093), NONE)))
    assert not frames.changed
    frames.take(tf(("base_link", "camera_link", (0.076, 0.0, 0.25), NONE)))
    assert "camera_link" in frames.changed


@pytest.mark.parametrize(("text", "says"), [
    ("<robot>", "no XML"), ("<!DOCTYPE x [<!ENTITY a 'b'>]><robot/>", "entities"), ("x" * 200_001, "characters"),
    ("<robot><joint name='j'><child link='c'/></joint></robot>", "no parent"),
    ("<robot><joint name='j'><parent link='a'/><child link='c'/><origin xyz='1 2'/></joint></robot>", "three numbers")])
def test_what_is_no_description_is_named(text, says):
    frames = waffle()
    with pytest.raises(FrameError, match=says):
        frames.describe(text)
    assert len(frames) == 4
