# SPDX-License-Identifier: Apache-2.0
"""Directions and pixels of cameras, and their pictures made level."""
import math

import numpy as np
import pytest

from brain_runtime.contract import optics
from brain_runtime.contract.images import Lens, LensError, lens
from brain_runtime.contract.optics import COLUMNS, ROWS, Levelled, Mount, OpticsError, rays
from brain_wire.messages import make

DEGREE = math.pi / 180


def pinhole(columns, rows, view, **more):
    return Lens(columns / 2 / math.tan(view * DEGREE / 2), columns, rows, columns / 2, rows / 2, **more)


def painted(camera, mount, color):
    """A picture of a world that has a color in each direction: color(azimuth, elevation) in 0..255."""
    rows, columns = np.mgrid[0:camera.rows, 0:camera.columns] + 0.5
    turned = np.stack([np.ones_like(rows), (camera.column - columns) / camera.focal,
                       (camera.row - rows) / camera.focal / camera.tall], -1) @ mount.turned().T
    azimuth = np.arctan2(turned[..., 1], turned[..., 0])
    elevation = np.arctan2(turned[..., 2], np.hypot(turned[..., 0], turned[..., 1]))
    return np.repeat(color(azimuth, elevation)[..., None], 3, -1).astype(np.uint8)


@pytest.mark.parametrize("mount", [Mount(), Mount(pitch=10 * DEGREE), Mount(pitch=-10 * DEGREE, roll=8 * DEGREE),
                                   Mount(pitch=20 * DEGREE, roll=-10 * DEGREE)])
@pytest.mark.parametrize("camera", [pinhole(320, 240, 62), pinhole(640, 480, 90), pinhole(1280, 720, 110),
                                    pinhole(640, 480, 62)._replace(column=250.0, row=280.0, tall=1.1)])
def test_a_level_picture_has_each_direction_where_it_says(camera, mount):
    level = Levelled(camera, mount)
    assert level.seen.mean() > 0.2
    for color, truth in ((lambda a, e: 120 + 100 * a, 120 + 100 * level.azimuth[None] + 0 * level.elevation[:, None]),
                         (lambda a, e: 200 + 120 * e, 200 + 120 * level.elevation[:, None] + 0 * level.azimuth[None])):
        found = level(painted(camera, mount, color))[..., 0]
        inner = level.seen.copy()       # what lies at the edge is taken from the pixels that there are
        for axis in (0, 1):
            for step in (-1, 1):
                inner &= np.roll(level.seen, step, axis)
        assert np.abs(found - truth)[inner].max() < 2.0
        assert not found[~level.seen].any()


def test_a_camera_keeps_its_own_resolution_and_shares_no_more_than_the_widest():
    for view in (50, 62, 90, 119):
        assert Levelled(pinhole(640, 480, view), Mount()).resolution * COLUMNS == pytest.approx(view * DEGREE, abs=0.01)
    assert Levelled(pinhole(640, 480, 150), Mount()).resolution * COLUMNS == pytest.approx(optics.WIDEST)


def test_nothing_between_two_pixels_is_lost():
    """A checkered picture becomes gray, wherever its fields lie."""
    camera = pinhole(640, 480, 62)
    rows, columns = np.mgrid[0:480, 0:640]
    picture = np.repeat(((rows + columns) % 2 * 255)[..., None], 3, -1).astype(np.uint8)
    level = Levelled(camera, Mount(pitch=0.1))
    assert np.abs(level(picture)[level.seen] - 127.5).max() < 6.0


def test_what_a_camera_does_not_see_is_told_and_one_that_sees_nothing_of_it_is_refused():
    assert not Levelled(pinhole(640, 480, 62), Mount()).seen[-1].any()      # 60 degrees down
    assert Levelled(pinhole(640, 480, 62), Mount(pitch=40 * DEGREE)).seen[-1].any()
    with pytest.raises(OpticsError, match="a pitch of -70|pitch of -70"):
        Levelled(pinhole(640, 480, 50), Mount(pitch=-70 * DEGREE))
    with pytest.raises(ValueError, match="320 x 240 is not one of 640 x 480"):
        Levelled(pinhole(640, 480, 62), Mount())(np.zeros((240, 320, 3), np.uint8))


def test_signs_are_those_of_rep_103():
    ahead = np.array([1.0, 0.0, 0.0])
    assert (Mount(pitch=0.2).turned() @ ahead)[2] < 0               # positive down
    left = np.array([0.0, 1.0, 0.0])
    assert (Mount(roll=0.2).turned() @ left)[2] > 0                 # its right side down
    camera = pinhole(640, 480, 62)
    assert (camera.project(rays(np.array(0.1), np.array(0.1))) < (320, 240)).all()     # to the left, and up


def info(model="plumb_bob", d=(0.0,) * 5, **more):
    k = [500.0, 0, 319.5, 0, 500.0, 239.5, 0, 0, 1]
    return make("sensor_msgs/msg/CameraInfo", width=640, height=480, distortion_model=model, d=list(d), k=k, **more)


def test_distortion_is_that_of_its_papers():
    """Points that were computed by hand from the formulas."""
    bent = lens(info(d=(-0.3, 0.1, 0.01, -0.005, 0.0)), (640, 480), 1.0)
    x, y = 0.4, 0.3     # to the right and down, r^2 = 0.25
    scale = 1 - 0.3 * 0.25 + 0.1 * 0.0625
    at = bent.project(np.array([1.0, -x, -y]))
    assert at == pytest.approx([320 + 500 * (x * scale + 2 * 0.01 * x * y - 0.005 * (0.25 + 2 * x * x)),
                                240 + 500 * (y * scale + 0.01 * (0.25 + 2 * y * y) + 2 * -0.005 * x * y)])
    fish = lens(info("equidistant", (0.02, -0.01, 0.0, 0.0)), (640, 480), 1.0)
    angle = 1.2
    shown = angle * (1 + 0.02 * angle ** 2 - 0.01 * angle ** 4)
    assert fish.project(np.array([math.cos(angle), -math.sin(angle), 0.0])) == pytest.approx([320 + 500 * shown, 240])


def test_a_distorted_picture_becomes_straight():
    bent = lens(info(d=(-0.35, 0.12, 0.0, 0.0, 0.0)), (640, 480), 1.0)
    straight, level = bent._replace(distortion=()), Levelled(bent, Mount())
    directions = rays(level.azimuth[None], level.elevation[:, None])
    rows, columns = np.mgrid[0:480, 0:640] + 0.5
    # the direction of each pixel, found by turning the formula round
    x, y = (columns - 320) / 500, (rows - 240) / 500
    u, v = x.copy(), y.copy()
    for _ in range(60):
        s = u * u + v * v
        scale = 1 - 0.35 * s + 0.12 * s * s
        u, v = x / scale, y / scale
    picture = np.repeat(np.clip(120 + 100 * np.arctan(-u), 0, 255)[..., None], 3, -1).astype(np.uint8)
    found = level(picture)[..., 0]
    inner = level.seen & np.roll(level.seen, 2, 0) & np.roll(level.seen, -2, 0) & np.roll(level.seen, 2, 1) & np.roll(
        level.seen, -2, 1)
    assert np.abs(found - (120 + 100 * np.broadcast_to(level.azimuth, found.shape)))[inner].max() < 2.5
    assert np.abs(bent.project(directions) - straight.project(directions))[level.seen].max() > 10.0


def test_what_folds_back_is_not_seen():
    """Beyond where the formula turns back, a direction has no pixel."""
    folded = pinhole(640, 480, 62, distortion=(-0.3, 0.0, 0.0, 0.0, 0.0))
    assert np.isfinite(folded.project(rays(np.array(0.8), np.array(0.0)))).all()
    assert np.isnan(folded.project(rays(np.array(1.1), np.array(0.0)))).all()
    assert np.isnan(folded.project(np.array([-1.0, 0.1, 0.1]))).all()


@pytest.mark.parametrize(("model", "d", "says"), [
    ("thin_prism", (0.1,) * 4, "thin_prism"), ("plumb_bob", (0.1,) * 3, "4 or 5 finite"),
    ("equidistant", (0.1,) * 5, "has 4 finite"), ("plumb_bob", (math.nan,) * 5, "finite")])
def test_a_distortion_that_cannot_be_is_named(model, d, says):
    with pytest.raises(LensError, match=says):
        lens(info(model, d), (640, 480), 1.0)
    assert lens(info(model, d), (640, 480), 1.0, rectified=True).distortion == ()
    assert lens(info("", ()), (640, 480), 1.0).distortion == ()


def test_the_map_has_so_many_rows():
    level = Levelled(pinhole(64, 48, 90), Mount())
    assert level(np.zeros((48, 64, 3), np.uint8)).shape == (ROWS, COLUMNS, 3)
