# SPDX-License-Identifier: Apache-2.0
"""The ways that are driven, the labels of their pictures, and how detections are scored."""
import math
from dataclasses import replace

import numpy as np
import pytest

from brain_regions.vision.decode import Found
from brain_regions.vision.network import COLUMNS, directions
from brain_sim import robot
from brain_sim.camera import MOUNT, RayCamera, SeenObject
from brain_sim.mjcf import room_xml
from brain_sim.room import generate_room
from brain_sim.things import COLORS, SHAPES, RoomObject
from brain_training.driving import MARGIN, PERIOD, Drive
from brain_training.vision_data import CLEAR_PIXELS, NOTHING, label_columns, make_clips, make_ways
from brain_training.vision_score import Tally


def seen(color="red", shape="ball", bearing=0.1, distance=2.0, pixels=50):
    fields = dict(name="object_0", color=color, shape=shape, bearing=bearing, distance=distance, camera_bearing=bearing,
                  camera_distance=distance, pixels=pixels, column=40.0, width=0.2)
    return SeenObject(**{name: fields[name] for name in SeenObject.__dataclass_fields__})


def found(color=0, shape=0, confidence=0.9, bearing=0.1, distance=2.0):
    return Found(color, shape, confidence, bearing, distance, 0.2)


@pytest.mark.parametrize("seed", range(3))
def test_ways_keep_to_free_ground_and_to_the_limits(seed):
    room = generate_room("train", seed)
    drive = Drive(room, np.random.default_rng(seed))
    poses = np.array(drive.poses(drive.place(near=False), 400))
    steps = np.hypot(*np.diff(poses[:, :2], axis=0).T)
    turns = np.abs((np.diff(poses[:, 2]) + np.pi) % (2 * np.pi) - np.pi)
    assert steps.max() <= (robot.MAX_SPEED + 0.2) * PERIOD and turns.max() <= (robot.MAX_TURN + 0.5) * PERIOD
    assert steps.sum() > 1.0, "the robot must get somewhere"
    for x, y, _ in poses[1:]:
        assert drive.grid.clearance[drive.grid.index(x, y)] > robot.BASE_RADIUS


def test_a_near_place_is_near_an_object_and_free():
    room = generate_room("train", 5)
    drive = Drive(room, np.random.default_rng(0))
    for _ in range(20):
        x, y, _ = drive.place(near=True)
        assert drive.grid.clearance[drive.grid.index(x, y)] > robot.BASE_RADIUS
        assert min(math.hypot(o.x - x, o.y - y) - o.radius for o in room.objects) < robot.BASE_RADIUS + 1.5 + MARGIN


def test_labels_point_at_what_the_columns_show():
    clips = make_clips(6, 3, 2)
    labels, asked = clips.labels, clips.labels.color >= 0
    assert clips.images.shape[:2] == labels.color.shape[:2] == (18, 2)
    assert asked.sum() > 50 and (labels.color == NOTHING).sum() > asked.sum()
    distance = MOUNT.height * labels.distance[asked]
    assert (distance > 0.1).all() and (distance < 12).all()
    # saturated color is in the labelled columns, and the label says which
    for color, (high, low) in enumerate([(0, 2), (1, 0), (2, 0), (0, 2)]):
        for clip, frame, _, column in np.argwhere(labels.color == color)[:20]:
            strip = clips.images[clip, frame, :, 2 * column:2 * column + 2].reshape(-1, 3).astype(int)
            assert (strip[:, high] - strip[:, low]).max() > 30


def test_a_far_object_over_a_near_one_has_the_second_slot():
    """A low box close by and, in the same columns, a ball behind it."""
    things = [RoomObject("object_0_red_box", "red", "box", 1.2, 0.0, 0.0, 0.25, 0.28, (0.9, 0.1, 0.1)),
              RoomObject("object_1_blue_ball", "blue", "ball", 2.8, 0.0, 0.0, 0.24, 0.48, (0.1, 0.1, 0.9))]
    room = replace(generate_room("train", 0), objects=things, obstacles=[], start=(0.0, 0.0, 0.0))
    camera = RayCamera(room_xml(room), directions=directions())
    camera.render(0.0, 0.0, 0.0)
    labels = label_columns(camera, {o.name: o.radius for o in things})
    middle = COLUMNS // 2
    assert labels.color[:, middle].tolist() == [COLORS.index("red"), COLORS.index("blue")]
    assert labels.shape[:, middle].tolist() == [SHAPES.index("box"), SHAPES.index("ball")]
    assert camera.mount.height * labels.distance[:, middle] == pytest.approx([1.05, 2.65], abs=0.01)
    aside = int(np.flatnonzero(labels.color[0] >= 0)[0])   # where the box alone is
    assert labels.color[1, aside] == NOTHING and (labels.color[:, 0] == NOTHING).all()


def test_clips_and_ways_are_the_same_from_the_same_seed():
    first, second = make_clips(2, 2, 2, first_seed=3), make_clips(2, 2, 2, first_seed=3)
    assert np.array_equal(first.images, second.images)
    assert all(np.array_equal(a, b) for a, b in zip(first.labels, second.labels))
    one, other = (list(make_ways(1, 5, split="val", first_seed=9)) for _ in range(2))
    assert np.array_equal(one[0].images, other[0].images) and one[0].objects == other[0].objects


@pytest.mark.parametrize("detection, right", [
    (found(), True), (found(bearing=0.1 + math.radians(4.9)), True), (found(bearing=0.1 + math.radians(5.1)), False),
    (found(color=1), False), (found(shape=1), False)])
def test_right_is_color_shape_and_bearing(detection, right):
    tally = Tally()
    tally.add([detection], [seen()])
    assert tally.at(0.5).f1 == (1.0 if right else 0.0)


def test_an_object_is_found_once():
    tally = Tally()
    tally.add([found(confidence=0.9), found(confidence=0.8, bearing=0.12)], [seen()])
    assert tally.at(0.5) == (0.5, 1.0, pytest.approx(2 / 3))


def test_faint_objects_are_not_asked_for_and_finding_them_is_no_fault():
    tally = Tally()
    faint = seen(pixels=CLEAR_PIXELS - 1)
    tally.add([], [faint])
    tally.add([found()], [faint])
    tally.add([found(shape=2)], [faint])
    assert tally.asked == [] and [d[2] for d in tally.detections] == [False]


def test_the_threshold_parts_right_from_wrong():
    tally = Tally()
    for k in range(10):
        tally.add([found(confidence=0.6 + 0.03 * k), found(color=2, confidence=0.2 + 0.03 * k)], [seen()])
    threshold = tally.best_threshold()
    assert 0.5 < threshold <= 0.6 and tally.at(threshold).f1 == 1.0
    report = tally.report(threshold)
    assert report["objects"] == 10 and report["bearing_mean"] == pytest.approx(0.0)
    assert report["by_kind"]["red ball"] == 1.0
