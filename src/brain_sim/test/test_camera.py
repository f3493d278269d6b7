# SPDX-License-Identifier: Apache-2.0
"""The camera against plain geometry."""

import dataclasses
import math

import numpy as np
import pytest

from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount
from brain_sim import robot
from brain_sim.camera import CEILING, FLOOR, RayCamera
from brain_sim.mjcf import room_xml
from brain_sim.room import Room, generate_room
from brain_sim.things import RoomObject


def room_with(*objects: RoomObject) -> Room:
    room = generate_room("train", 3)
    return dataclasses.replace(room, size=(8.0, 8.0), obstacles=(), objects=objects, start=(0.0, 0.0, 0.0))


def ball(x: float, y: float, radius: float = 0.2, color: str = "red") -> RoomObject:
    rgb = {"red": (0.8, 0.1, 0.1), "blue": (0.1, 0.2, 0.8)}[color]
    return RoomObject(f"object_0_{color}_ball", color, "ball", x, y, 0.0, radius, 2 * radius, rgb)


@pytest.mark.parametrize("pose", [(0.0, 0.0, 0.0), (0.5, -0.3, 0.4), (-1.0, 0.7, -0.5)])
@pytest.mark.parametrize("at", [(2.0, 0.0), (2.5, 0.9), (1.8, -0.6)])
def test_column_and_bearing_agree(pose, at):
    camera = RayCamera(room_xml(room_with(ball(*at))))
    camera.render(*pose)
    seen = camera.ground_truth_objects()
    x, y, yaw = pose
    cx, cy = x + robot.CAMERA_FORWARD * math.cos(yaw), y + robot.CAMERA_FORWARD * math.sin(yaw)
    bearing = math.atan2(at[1] - cy, at[0] - cx) - yaw
    assert abs(bearing) < 0.75, "the case must be one in view"
    (o,) = seen
    assert o.camera_bearing == pytest.approx(bearing, abs=1e-9)
    assert o.bearing == pytest.approx(math.atan2(at[1] - y, at[0] - x) - yaw, abs=1e-9)
    assert o.distance == pytest.approx(math.hypot(at[0] - x, at[1] - y), abs=1e-9)
    from_column = math.atan((camera.width / 2 - 0.5 - o.column) / camera.focal)
    assert from_column == pytest.approx(bearing, abs=0.02)


def test_left_is_left():
    camera = RayCamera(room_xml(room_with(ball(2.0, 1.0))))
    camera.render(0.0, 0.0, 0.0)
    (o,) = camera.ground_truth_objects()
    assert o.bearing > 0 and o.column < camera.width / 2


@pytest.mark.parametrize("mount", [
    Mount(0.15, 0.0, 0.35, pitch=0.2), Mount(0.1, -0.05, 0.6, 0.3, 0.3, 0.2), Mount(0.0, 0.1, 0.1, -0.4, -0.2, -0.15),
    Mount(0.15, 0.0, 0.35, roll=math.pi)])
def test_a_thing_is_where_the_lens_projects_it_however_the_camera_is_mounted(mount):
    camera = RayCamera(room_xml(room_with(ball(2.0, 0.4, 0.05))), 640, 480, mount=mount)
    pose = 0.3, -0.2, 0.2
    camera.render(*pose)
    (o,) = camera.ground_truth_objects()
    rows, columns = np.nonzero(camera.geom_ids == camera.model.geom(o.name).id)
    c, s = math.cos(pose[2]), math.sin(pose[2])
    x, y = 2.0 - pose[0] - c * mount.x + s * mount.y, 0.4 - pose[1] - s * mount.x - c * mount.y
    assert (o.camera_bearing, o.camera_distance) == pytest.approx(
        (math.atan2(y, x) - pose[2] - mount.yaw, math.hypot(x, y)), abs=1e-9)
    level = np.array([math.cos(o.camera_bearing), math.sin(o.camera_bearing), (0.05 - mount.height) / math.hypot(x, y)])
    at = Lens(camera.focal, 640, 480, 320.0, 240.0).project(level @ mount.turned())
    assert (columns.mean() + 0.5, rows.mean() + 0.5) == pytest.approx(tuple(at), abs=0.6)


def test_area_falls_with_the_square_of_the_distance():
    pixels = []
    for x in (1.0, 2.0):
        camera = RayCamera(room_xml(room_with(ball(x + robot.CAMERA_FORWARD, 0.0))), width=384, height=256)
        camera.render(0.0, 0.0, 0.0)
        pixels.append(camera.ground_truth_objects()[0].pixels)
    # At eye height the silhouette of a sphere would be f*r/sqrt(d*d-r*r) wide; it hangs 0.15 m lower here.
    assert pixels[0] / pixels[1] == pytest.approx(4.0, rel=0.08)


def test_an_object_behind_another_is_not_seen():
    camera = RayCamera(room_xml(room_with(ball(1.5, 0.0, 0.25), dataclasses.replace(
        ball(3.0, 0.0, 0.18, "blue"), name="object_1_blue_ball"))), width=192, height=128)
    camera.render(0.0, 0.0, 0.0)
    near = {o.color: o.pixels for o in camera.ground_truth_objects()}
    camera.render(0.0, 1.5, 0.0)
    assert near["red"] > 100 and near.get("blue", 0) < 40
    assert any(o.color == "blue" for o in camera.ground_truth_objects())


def test_the_windows_lose_no_pixel():
    """Casting only where things can be gives the picture that casting everywhere gives."""
    for seed in range(12):
        room = generate_room("train", seed, low_obstacles=1)
        camera = RayCamera(room_xml(room))
        rng = np.random.default_rng(seed)
        for _ in range(4):
            pose = (room.start[0], room.start[1], rng.uniform(-math.pi, math.pi))
            image, ids = camera.render(*pose), camera.geom_ids.copy()
            camera._window = lambda eye, turn: np.arange(camera.width * camera.height)
            full = camera.render(*pose)
            del camera._window
            assert np.array_equal(ids, camera.geom_ids) and np.array_equal(image, full)


def test_horizon_floor_below_ceiling_above():
    camera = RayCamera(room_xml(room_with()))
    camera.render(0.0, 0.0, 0.3)
    ids = camera.geom_ids
    assert (ids[-1] == FLOOR).all() and not (ids[:32] == FLOOR).any() and not (ids[32:] == CEILING).any()


def test_noise_needs_a_generator_and_follows_it():
    camera = RayCamera(room_xml(generate_room("train", 1)))
    clean = camera.render(0.0, 0.0, 0.0)
    assert clean.shape == (64, 96, 3) and clean.dtype == np.uint8
    assert np.array_equal(clean, camera.render(0.0, 0.0, 0.0))
    noisy = camera.render(0.0, 0.0, 0.0, np.random.default_rng(5))
    assert np.array_equal(noisy, camera.render(0.0, 0.0, 0.0, np.random.default_rng(5)))
    difference = noisy.astype(int) - clean
    assert 1.0 < difference.std() < 5.0


def test_colors_are_told_apart_in_the_picture():
    """The mean hue of an object's pixels is nearest to its own color, over rooms and lights."""
    prototypes = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0.2, 1), "yellow": (1, 0.9, 0)}
    right = total = 0
    for seed in range(25):
        room = generate_room("train", seed)
        camera = RayCamera(room_xml(room))
        for turn in range(6):
            image = camera.render(*room.start[:2], turn * math.pi / 3)
            for o in camera.ground_truth_objects(min_pixels=10):
                mean = image[camera.geom_ids == camera.model.geom(o.name).id].mean(0)
                mean = mean / np.linalg.norm(mean)
                best = max(prototypes, key=lambda c: mean @ prototypes[c] / np.linalg.norm(prototypes[c]))
                right, total = right + (best == o.color), total + 1
    assert total > 100 and right / total > 0.97


def test_ground_truth_without_a_picture_says_what_to_do():
    camera = RayCamera(room_xml(generate_room("train", 1)))
    with pytest.raises(RuntimeError, match="call render"):
        camera.ground_truth_objects()
