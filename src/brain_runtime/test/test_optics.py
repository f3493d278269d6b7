# SPDX-License-Identifier: Apache-2.0
"""Directions and pixels of cameras, and their pictures made level."""
import math

import numpy as np
import pytest

from brain_runtime.contract.images import Lens, LensError, lens
from brain_runtime.contract.optics import Levelled, Mount, OpticsError
from brain_wire.messages import make

DEGREE = math.pi / 180


def rays(azimuth, elevation):
    """Unit vectors [..., 3] of directions."""
    azimuth, elevation = np.broadcast_arrays(azimuth, elevation)
    return np.stack([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)], -1)


def pinhole(columns, rows, view, **more):
    return Lens(columns / 2 / math.tan(view * DEGREE / 2), columns, rows, columns / 2, rows / 2, **more)


def flat(columns, rows, focal):
    """View of a pinhole camera that hangs level."""
    across, down = (columns / 2 - np.arange(columns) - 0.5) / focal, (rows / 2 - np.arange(rows) - 0.5) / focal
    return np.stack(np.broadcast_arrays(1.0, across[None], down[:, None]), -1)


EQUAL = rays((0.7 - (np.arange(128) + 0.5) * 1.4 / 128)[None], (0.25 - (np.arange(80) + 0.5) * 0.8 / 80)[:, None])
VIEWS = {"flat": flat(96, 64, 60.0), "equal angles": EQUAL}


def inside(seen, by=1):
    """Pixels that are seen with all that are near them: what lies at the edge is taken from the pixels there are."""
    for axis in (0, 1):
        seen = seen & np.roll(seen, by, axis) & np.roll(seen, -by, axis)
    return seen


def angles(directions):
    return np.arctan2(directions[..., 1], directions[..., 0]), np.arctan2(
        directions[..., 2], np.hypot(directions[..., 0], directions[..., 1]))


def painted(camera, mount, color):
    """A picture of a world that has a color in each direction: color(azimuth, elevation) in 0..255."""
    rows, columns = np.mgrid[0:camera.rows, 0:camera.columns] + 0.5
    turned = np.stack([np.ones_like(rows), (camera.column - columns) / camera.focal,
                       (camera.row - rows) / camera.focal / camera.tall], -1) @ mount.turned().T
    return np.repeat(color(*angles(turned))[..., None], 3, -1).astype(np.uint8)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("mount", [Mount(), Mount(pitch=10 * DEGREE), Mount(pitch=-20 * DEGREE, roll=8 * DEGREE),
                                   Mount(pitch=20 * DEGREE, roll=-10 * DEGREE), Mount(roll=math.pi)])
@pytest.mark.parametrize("camera", [pinhole(320, 240, 62), pinhole(640, 480, 90), pinhole(1280, 720, 110),
                                    pinhole(640, 480, 62)._replace(column=250.0, row=280.0, tall=1.1)])
def test_a_level_picture_has_each_direction_where_its_view_says(camera, mount, view):
    level = Levelled(camera, mount, VIEWS[view])
    azimuth, elevation = angles(VIEWS[view])
    assert level.seen.mean() > 0.2
    for color, truth in ((lambda a, e: 120 + 100 * a, 120 + 100 * azimuth),
                         (lambda a, e: 200 + 80 * e, 200 + 80 * elevation)):
        found = level(painted(camera, mount, color))[..., 0]
        assert np.abs(found - truth)[inside(level.seen)].max() < 2.5


def test_what_a_camera_shows_already_is_the_same_to_the_bit():
    rng, own = np.random.default_rng(0), flat(96, 64, 48.0)
    picture = rng.integers(0, 256, (64, 96, 3), np.uint8)
    for mount in (Mount(), Mount(0.3, 0.1, 1.0, 2.0), Mount(pitch=1e-16, roll=-1e-16)):
        assert (Levelled(pinhole(96, 64, 90), mount, own)(picture) == picture).all()
    large = picture.repeat(4, 0).repeat(4, 1)
    assert (Levelled(pinhole(384, 256, 90), Mount(), own)(large) == picture).all()


def test_nothing_between_two_pixels_is_lost():
    """A checkered picture becomes gray, wherever its fields lie."""
    rows, columns = np.mgrid[0:480, 0:640]
    picture = np.repeat(((rows + columns) % 2 * 255)[..., None], 3, -1).astype(np.uint8)
    level = Levelled(pinhole(640, 480, 62), Mount(pitch=0.1), VIEWS["flat"])
    assert np.abs(level(picture) - 127.5).max() < 6.0


def test_where_a_camera_sees_nothing_the_nearest_that_it_sees_is_repeated():
    camera = pinhole(640, 480, 62)
    level = Levelled(camera, Mount(), flat(96, 64, 48.0))
    found, (rows, columns) = level(painted(camera, Mount(), lambda a, e: 120 + 100 * a)), np.nonzero(level.seen)
    top, bottom, left, right = rows.min(), rows.max(), columns.min(), columns.max()
    assert level.seen[top:bottom + 1, left:right + 1].all() and 0 < left and right < 95 and 0 < top
    assert (found[:top] == found[top]).all() and (found[bottom + 1:] == found[bottom]).all()
    assert (found[:, :left] == found[:, left:left + 1]).all()
    assert (found[:, right + 1:] == found[:, right:right + 1]).all()


def test_what_sees_nothing_of_a_view_and_pictures_of_another_size_are_refused():
    with pytest.raises(OpticsError, match="pitch of -80"):
        Levelled(pinhole(640, 480, 50), Mount(pitch=-80 * DEGREE), VIEWS["flat"])
    with pytest.raises(ValueError, match="320 x 240 is not one of 640 x 480"):
        Levelled(pinhole(640, 480, 62), Mount(), VIEWS["flat"])(np.zeros((240, 320, 3), np.uint8))


def test_signs_are_those_of_rep_103():
    ahead = np.array([1.0, 0.0, 0.0])
    assert (Mount(pitch=0.2).turned() @ ahead)[2] < 0               # positive down
    left = np.array([0.0, 1.0, 0.0])
    assert (Mount(roll=0.2).turned() @ left)[2] > 0                 # its right side down
    camera = pinhole(640, 480, 62)
    assert (camera.project(rays(0.1, 0.1)) < (320, 240)).all()     # to the left, and up


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


@pytest.mark.parametrize("view", VIEWS)
def test_a_distorted_picture_becomes_straight(view):
    bent = lens(info(d=(-0.35, 0.12, 0.0, 0.0, 0.0)), (640, 480), 1.0)
    level = Levelled(bent, Mount(), VIEWS[view])
    rows, columns = np.mgrid[0:480, 0:640] + 0.5
    # the direction of each pixel, found by turning the formula round
    x, y = (columns - 320) / 500, (rows - 240) / 500
    u, v = x.copy(), y.copy()
    for _ in range(60):
        s = u * u + v * v
        scale = 1 - 0.35 * s + 0.12 * s * s
        u, v = x / scale, y / scale
    picture = np.repeat(np.clip(120 + 100 * np.arctan(-u), 0, 255)[..., None], 3, -1).astype(np.uint8)
    azimuth, _ = angles(VIEWS[view])
    assert np.abs(level(picture)[..., 0] - (120 + 100 * azimuth))[inside(level.seen, 2)].max() < 3.0
    assert np.abs(bent.project(VIEWS[view]) - bent._replace(distortion=()).project(VIEWS[view]))[level.seen].max() > 10


def test_a_fisheye_picture_becomes_straight():
    fish = lens(info("equidistant", (0.02, -0.01, 0.0, 0.0)), (640, 480), 1.0)._replace(focal=250.0)
    level, (azimuth, _) = Levelled(fish, Mount(), EQUAL), angles(EQUAL)
    rows, columns = np.mgrid[0:480, 0:640] + 0.5
    shown = np.hypot(columns - 320, rows - 240) / 250
    angle = shown.copy()
    for _ in range(60):
        angle = shown / (1 + 0.02 * angle ** 2 - 0.01 * angle ** 4)
    side = np.sin(angle) / np.maximum(shown, 1e-9) / 250
    looked = np.stack([np.cos(angle), (320 - columns) * side, (240 - rows) * side], -1)
    picture = np.repeat((120 + 60 * angles(looked)[0])[..., None], 3, -1).astype(np.uint8)
    assert level.seen.all() and np.abs(level(picture)[..., 0] - (120 + 60 * azimuth)).max() < 2.5


def test_what_folds_back_is_not_seen():
    """Beyond where the formula turns back, a direction has no pixel."""
    folded = pinhole(640, 480, 62, distortion=(-0.3, 0.0, 0.0, 0.0, 0.0))
    assert np.isfinite(folded.project(rays(0.8, 0.0))).all()
    assert np.isnan(folded.project(rays(1.1, 0.0))).all()
    assert np.isnan(folded.project(np.array([-1.0, 0.1, 0.1]))).all()


@pytest.mark.parametrize(("model", "d", "says"), [
    ("thin_prism", (0.1,) * 4, "thin_prism"), ("plumb_bob", (0.1,) * 3, "4 or 5 finite"),
    ("equidistant", (0.1,) * 5, "has 4 finite"), ("plumb_bob", (math.nan,) * 5, "finite")])
def test_a_distortion_that_cannot_be_is_named(model, d, says):
    with pytest.raises(LensError, match=says):
        lens(info(model, d), (640, 480), 1.0)
    assert lens(info(model, d), (640, 480), 1.0, rectified=True).distortion == ()
    assert lens(info("", ()), (640, 480), 1.0).distortion == ()
