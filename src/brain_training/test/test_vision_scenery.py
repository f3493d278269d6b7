# SPDX-License-Identifier: Apache-2.0
"""Sceneries and cameras of all mountings: what labels say of them, what is black, and by how many they are taken."""
import math

import numpy as np
import pytest

from brain_regions.vision.network import COLUMNS, HEIGHT, RESOLUTION, TOP, WIDTH, column_angles
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount
from brain_sim.photography import Camera
from brain_sim.raycast import BALL, Material, Scene, Solid
from brain_sim.scenery import Builder, Scenery, Thing
from brain_training.looks import PLAIN
from brain_training.vision_data import NOTHING, Eye, Room, Studio, take_scenery, usual

EYE = Eye.of(Lens(320.0, 640, 480, 320.0, 240.0), Mount(height=0.5))


def same(one, other):
    """Clips that are equal to the bit."""
    return np.array_equal(one.images, other.images) and all(map(np.array_equal, one.labels, other.labels))


def test_labels_of_a_scenery_say_where_a_thing_stands_in_heights_of_the_camera(monkeypatch):
    gray, red = Material((0.5, 0.5, 0.5)), Material((0.9, 0.1, 0.1))
    x, y, radius, yaw = 1.6, 0.9, 0.2, 0.3
    solid = Solid(BALL, (x, y, radius), (radius,) * 3, red, thing=0)
    scene = Scene((9.0, 9.0, 3.0), [gray] * 6, (solid,), (), (1.0, 1.0, 1.0))
    monkeypatch.setattr(Builder, "build", lambda self: Scenery(
        scene, (Thing(0, 0, x, y, radius),), np.array([0.0, 0.0, EYE.mount.height]), yaw))
    picture, labels, (ball,) = take_scenery(np.random.default_rng(4), EYE)
    away, angle = math.hypot(x, y), math.atan2(y, x) - yaw
    half = math.asin(radius / away)
    off = np.abs(column_angles() - angle)
    assert (labels.color[0, off < 0.6 * half] == 0).all() and (labels.color[0, off > half + 2 * RESOLUTION] < 0).all()
    there = labels.color[0] >= 0
    assert labels.bearing[0, there] == pytest.approx(angle) and labels.width[0, there] == pytest.approx(2 * half)
    assert labels.distance[0, there] == pytest.approx(away / 0.5) and (labels.color[1] == NOTHING).all()
    assert (ball.color, ball.shape) == ("red", "ball") and ball.camera_distance == pytest.approx(away)
    # and in the picture it is where the camera looks down at it
    row = int((TOP + math.atan2(0.5 - radius, away)) / RESOLUTION)
    shown = picture[row].astype(int)
    redness = shown[:, 0] - shown[:, 2]
    middle = int(WIDTH / 2 - angle / RESOLUTION)
    assert redness[middle] > 40 + redness[middle - 20] and redness[middle] > 40 + redness[middle + 20]


def test_cameras_that_are_drawn_are_those_that_robots_have():
    eyes = [Eye.drawn(np.random.default_rng(seed)) for seed in range(150)]
    heights, pitches, rolls = (np.array([getattr(eye.mount, name) for eye in eyes])
                               for name in ("height", "pitch", "roll"))
    assert 0.08 <= heights.min() < 0.12 and 0.8 < heights.max() <= 1.2
    assert math.radians(15) < np.abs(pitches).max() <= math.radians(20)
    assert math.radians(7) < np.abs(rolls).max() <= math.radians(10)
    assert all(eye.mount.yaw == 0.0 and eye.seen.mean() > 0.08 for eye in eyes)
    assert {eye.lens.fisheye for eye in eyes} == {True, False} and {eye.lens.columns for eye in eyes} == {640, 1280}


def test_black_is_where_the_camera_does_not_see_and_nowhere_else():
    room = Room("train", 3, "test", PLAIN)
    pose = room.drive.place(near=False)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        eye = Eye.drawn(rng)
        assert not eye.seen.all()
        room.use(eye)
        dark = Camera(exposure=0.02)
        for picture in (take_scenery(rng, eye)[0], room.take(pose, rng), room.take(pose, rng, dark)):
            assert np.array_equal(picture.any(-1), eye.seen)
            assert (picture[eye.seen] > 0).all()
    room.use(None)
    assert np.array_equal(room.take(pose, rng).any(-1), usual()[0].seen)


@pytest.mark.slow
def test_clips_are_the_same_whichever_are_taken_before_and_by_however_many_processes():
    studios = [Studio(2, 2, 2, scenes=3, first_seed=50, mounted=True) for _ in range(4)]
    told = []
    whole = studios[0].take_all(lambda *news: told.append(news))
    assert whole.images.shape == (7, 2, HEIGHT, WIDTH, 3) and whole.labels.color.shape[-1] == COLUMNS
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)] and len({clip.tobytes() for clip in whole.images}) == 7
    for number in (5, 0, 6, 3):
        clip, labels = studios[1].take(number), type(whole.labels)(*(part[number] for part in whole.labels))
        assert same(clip, type(whole)(whole.images[number], labels))
    told.clear()
    assert same(studios[2].take_all(lambda *news: told.append(news), processes=2), whole)
    assert sorted(told) == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert np.array_equal(studios[3].take_all(processes=3, most=5).images[:5], whole.images[:5])
    assert np.array_equal(studios[3].take(6).images, whole.images[6])       # of those that were left it is taken now
