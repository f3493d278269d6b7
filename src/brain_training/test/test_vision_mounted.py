# SPDX-License-Identifier: Apache-2.0
"""Vision through cameras that are mounted otherwise than the one it was trained with, told by frames or the profile."""
import math
from dataclasses import replace

import numpy as np
import pytest

from brain_regions.vision import Vision
from brain_regions.vision.levelling import sight
from brain_regions.vision.network import HEIGHT, RESOLUTION, WIDTH, directions
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount, OpticsError
from brain_runtime.hosts.local import LocalHost
from brain_sim.camera import MOUNT, RayCamera
from brain_sim.description import transform
from brain_sim.mjcf import room_xml
from brain_sim.room import generate_room
from brain_sim.things import RoomObject
from brain_wire.messages import make, time_message

DEGREE = math.pi / 180
RED, BALL = 1, 1
CAMERA = "camera_link"


def room(x, y):
    """A room with a red ball at (x, y) m alone."""
    ball = RoomObject("object_0_red_ball", "red", "ball", x, y, 0.0, 0.2, 0.4, (0.8, 0.1, 0.1))
    return room_xml(replace(generate_room("train", 3), size=(8.0, 8.0), obstacles=(), objects=(ball,)))


def lens(columns, rows, view):
    return Lens(columns / 2 / math.tan(view * DEGREE / 2), columns, rows, columns / 2, rows / 2)


def red(picture):
    """Column and row of the middle of what is red in a picture, and how many pixels are."""
    r, g, b = picture.astype(int).transpose(2, 0, 1)
    rows, columns = np.nonzero((r > 2 * g) & (r > 2 * b))
    return columns.mean(), rows.mean(), len(rows)


@pytest.mark.parametrize(("height", "pitch", "roll", "view", "size", "far"), [
    (0.08, 0, 5, 62, (320, 240), 1.5), (0.35, 20, -10, 90, (640, 480), 1.5), (1.2, 20, 10, 90, (1280, 720), 2.6),
    (0.6, -20, 0, 120, (640, 480), 1.8), (0.35, -8, 3, 50, (320, 240), 2.0), (0.35, 8, 0, 62, (640, 480), 2.0),
    (0.2, 12, -4, 110, (800, 600), 1.2)])
def test_a_ball_is_where_a_level_camera_shows_it(height, pitch, roll, view, size, far):
    mount = replace(MOUNT, height=height, pitch=pitch * DEGREE, roll=roll * DEGREE)
    xml = room(MOUNT.x + far, 0.18 * far)
    looked = sight(lens(*size, view), mount.pitch, mount.roll)
    found = looked.level(RayCamera(xml, *size, view * DEGREE, mount=mount).render(0.0, 0.0, 0.0))
    level = RayCamera(xml, mount=mount, directions=directions())
    wanted = level.render(0.0, 0.0, 0.0)
    wanted[~looked.level.seen] = 0
    (column, row, count), (wanted, down, there) = red(found), red(wanted)
    assert there > 15 and count == pytest.approx(there, rel=0.12)
    assert (column, row) == pytest.approx((wanted, down), abs=0.4)


def test_a_level_picture_shows_as_much_as_the_camera_sees():
    for view in (50, 62, 90, 119):
        seen = sight(lens(640, 480, view))
        assert (seen.left, -seen.right) == pytest.approx((view * DEGREE / 2,) * 2, abs=RESOLUTION)
    wide = sight(lens(640, 480, 150))
    assert (wide.left, -wide.right) == pytest.approx((60 * DEGREE,) * 2) and wide.level.seen.shape == (HEIGHT, WIDTH)
    with pytest.raises(OpticsError, match="pitch of 110"):
        sight(lens(640, 480, 62), 110 * DEGREE)


def test_of_a_camera_whose_middle_is_aside_only_what_it_shows_counts():
    part = lens(640, 480, 90)._replace(columns=320, rows=240, column=0.0, row=240.0)    # its upper right quarter
    seen = sight(part)
    assert (seen.left, seen.right) == pytest.approx((0.0, -45 * DEGREE), abs=RESOLUTION)
    level = seen.level(np.full((240, 320, 3), 200, np.uint8))
    assert not level[:, :WIDTH // 2].any() and level[:, WIDTH // 2:].any()


def image(picture, frame=CAMERA):
    rows, columns, _ = picture.shape
    return make("sensor_msgs/msg/Image", header=make("std_msgs/msg/Header", frame_id=frame), encoding="rgb8",
                height=rows, width=columns, step=3 * columns, data=picture.reshape(-1))


def tf(mount, parent="base_link"):
    return make("tf2_msgs/msg/TFMessage", transforms=[transform(
        parent, CAMERA, (mount.x, mount.y, mount.height), (mount.roll, mount.pitch, mount.yaw), time_message(1.0))])


def look(mount, at, told=None, profile=None):
    """What vision tells after some pictures of a ball at (x, y), and the region."""
    host = LocalHost({"vision": Vision("vision")}, parameters={"vision": {"spikes": False, **(profile or {})}})
    if told is not None:
        host.publish("tf_static", told)
    camera, rng = RayCamera(room(*at), 320, 240, mount=mount), np.random.default_rng(1)
    for _ in range(4):
        host.advance(0.05)
        host.publish("camera/image_raw", image(camera.render(0.0, 0.0, 0.0, rng)))
    return host.latest("vision/objects"), host.regions["vision"]


PITCHED = replace(MOUNT, pitch=8 * DEGREE)
ASIDE = Mount(0.1, -0.1, 0.35, 0.5, 8 * DEGREE, -6 * DEGREE)


@pytest.mark.parametrize("how", ["tf_static", "base_footprint", "profile"])
@pytest.mark.parametrize("mount", [PITCHED, ASIDE], ids=["pitched", "aside"])
def test_a_ball_is_told_where_it_is_by_frames_alone_and_by_the_profile_alone(mount, how):
    at = (2.0, 0.5)
    (level,) = look(replace(mount, pitch=0.0, roll=0.0), at, tf(replace(mount, pitch=0.0, roll=0.0)))[0].objects
    profile = {f"camera_{name}": value for name, value in vars(mount).items()}
    told, region = look(mount, at, **({"profile": profile} if how == "profile" else {
        "told": tf(mount, "base_link" if how == "tf_static" else how)}))
    (ball,) = [one for one in told.objects if (one.color, one.shape) == (RED, BALL)]
    assert ball.bearing == pytest.approx(math.atan2(at[1], at[0]), abs=3 * DEGREE)
    assert ball.distance == pytest.approx(level.distance, rel=0.1)      # whose error is the network's own
    assert told.azimuth_min < ball.bearing < told.azimuth_max and not region.trouble
    middle = (told.azimuth_min + told.azimuth_max) / 2
    assert middle == pytest.approx(mount.yaw, abs=0.06)


def test_frames_are_believed_before_the_profile_and_a_contradiction_is_told_once(caplog):
    told, region = look(PITCHED, (2.0, 0.5), tf(PITCHED), {"camera_height": 0.35, "camera_pitch": -0.2})
    assert [one for one in told.objects if (one.color, one.shape) == (RED, BALL)]
    assert "camera_pitch is 0.14 and not -0.20" in region.trouble
    assert caplog.text.count("contradict each other") == 1


def test_distances_grow_with_the_height_of_the_camera():
    picture = RayCamera(room(2.0, 0.0)).render(0.0, 0.0, 0.0)
    found = []
    for height in (0.35, 0.7):
        host = LocalHost({"vision": Vision("vision")}, parameters={"vision": {"camera_height": height}})
        host.publish("camera/image_raw", image(picture))
        found.append(min(host.latest("vision/objects").objects, key=lambda one: abs(one.bearing)).distance - MOUNT.x)
    assert found[1] == pytest.approx(2 * found[0], rel=1e-4)


def test_a_camera_that_hangs_upside_down_is_believed_where_that_is_told():
    over = replace(MOUNT, roll=math.pi)
    told, region = look(over, (2.0, 0.6), tf(over))
    (ball,) = [one for one in told.objects if (one.color, one.shape) == (RED, BALL)]
    assert ball.bearing == pytest.approx(math.atan2(0.6, 2.0), abs=3 * DEGREE) and not region.trouble
