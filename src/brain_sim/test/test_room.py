# SPDX-License-Identifier: Apache-2.0
"""What the generator promises, over many seeds, and against the camera's own rays."""

from collections import Counter

import numpy as np
import pytest

from brain_sim import robot
from brain_sim.camera import RayCamera
from brain_sim.grid import Grid
from brain_sim.layout import free_and_goal
from brain_sim.mjcf import room_xml
from brain_sim.room import Room, generate_room, visibility_of_seed

SEEDS = range(60)


@pytest.fixture(scope="module")
def rooms() -> list[Room]:
    return [generate_room("val", s, avoid=True if s % 4 == 0 else None, low_obstacles=s % 3) for s in SEEDS]


def test_same_seed_same_room_and_other_split_another_room():
    assert generate_room("train", 7) == generate_room("train", 7)
    assert generate_room("train", 7).objects != generate_room("val", 7).objects
    assert generate_room("train", 7).objects != generate_room("train", 8).objects


def test_json_round_trip(rooms):
    for room in rooms[:8]:
        assert Room.from_json(room.to_json()) == room


def test_sizes_and_counts(rooms):
    for room in rooms:
        assert all(6.0 <= s <= 8.0 for s in room.size)
        assert 4 <= len(room.objects) <= 8
        assert 2 <= sum(o.name.startswith("obstacle") for o in room.obstacles) <= 6
        assert len({o.name for o in room.objects}) == len(room.objects)
        for o in room.objects:
            assert o.height >= 0.26 and 0.12 <= o.radius <= 0.26     # the lidar, at 0.20 m, meets each


def test_low_obstacles_lie_under_the_lidar(rooms):
    for seed, room in zip(SEEDS, rooms, strict=True):
        low = [o for o in room.obstacles if o.name.startswith("low")]
        assert len(low) == seed % 3 and all(o.height < robot.LIDAR_HEIGHT for o in low)


def test_target_is_unambiguous_and_has_distractors(rooms):
    for room in rooms:
        kinds = Counter(o.kind for o in room.objects)
        color, shape = room.target
        assert kinds[room.target] == 1
        assert any(o.color == color and o.shape != shape for o in room.objects)
        assert any(o.shape == shape and o.color != color for o in room.objects)
        if room.avoid:
            assert kinds[room.avoid] == 1 and room.avoid != room.target


def test_absent_target_is_not_there_but_looks_alike():
    for seed in range(20):
        room = generate_room("val", seed, absent=True)
        assert room.target_object is None and room.visibility == "none"
        assert any(o.color == room.target[0] for o in room.objects)
        assert any(o.shape == room.target[1] for o in room.objects)


def test_start_is_away_from_everything(rooms):
    for room in rooms:
        x, y, _ = room.start
        for o in room.objects:
            assert o.footprint.distance_at(x, y) - robot.BASE_RADIUS > 0.6
        for f in room.footprints:
            assert f.distance_at(x, y) > robot.BASE_RADIUS + 0.1


def test_objects_keep_their_distance_from_each_other(rooms):
    for room in rooms:
        for i, a in enumerate(room.objects):
            for b in room.objects[:i]:
                assert np.hypot(a.x - b.x, a.y - b.y) > a.radius + b.radius + 0.7


def test_a_path_without_contact_exists_on_a_finer_grid(rooms):
    for room in rooms:
        grid = Grid(room.size, room.footprints, cell=0.05)
        blocks = [o.footprint for o in room.obstacles]
        free, goal = free_and_goal(grid, room.target_object, room.avoid_object, blocks, margin=0.08)
        target = room.target_object
        path = grid.path(room.start[:2], goal, free, aim=(target.x, target.y), slack=1.1)
        assert path is not None
        for x, y in path:
            assert min(f.distance_at(x, y) for f in room.footprints) > robot.BASE_RADIUS + 0.05
            if room.avoid:
                gap = room.avoid_object.footprint.distance_at(x, y) - robot.BASE_RADIUS
                assert gap > robot.AVOID_DISTANCE


def test_visibility_quota_of_any_block_of_seeds():
    for split in ("train", "val", "test"):
        count = Counter(visibility_of_seed(split, s) for s in range(400))
        assert count["hidden"] >= 100 and count["behind"] >= 100 and count["front"] >= 100


def _target_pixels(camera: RayCamera, room: Room, yaw: float) -> int:
    seen = camera.ground_truth_objects(room.start[0], room.start[1], yaw)
    return sum(o.pixels for o in seen if (o.color, o.shape) == room.target)


def test_visibility_classes_hold_for_the_cameras_rays(rooms):
    for room in rooms:
        camera = RayCamera(room_xml(room))
        at_start = _target_pixels(camera, room, room.start[2])
        anywhere = [_target_pixels(camera, room, a) for a in np.linspace(-np.pi, np.pi, 24, endpoint=False)]
        if room.visibility == "hidden":
            assert max(anywhere) == 0 and at_start == 0
        elif room.visibility == "behind":
            assert at_start == 0 and max(anywhere) >= 5
        else:
            assert at_start >= 5


@pytest.mark.parametrize("arguments, says", [
    ({"split": "trian"}, "split 'trian' is unknown"), ({"seed": -1}, "negative"),
    ({"target": ("red", "cone")}, "no \\(color, shape\\)"), ({"visibility": "near"}, "visibility"),
    ({"n_objects": 9}, "4 to 8"), ({"n_obstacles": 1}, "2 to 6"),
    ({"target": ("red", "ball"), "avoid": ("red", "ball")}, "must differ")])
def test_bad_arguments_are_named(arguments, says):
    with pytest.raises(ValueError, match=says):
        generate_room(**{"split": "val", "seed": 1, **arguments})
