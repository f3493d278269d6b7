# SPDX-License-Identifier: Apache-2.0
"""The classical control sees what stands free, and says so in the same frame as the real vision."""
import numpy as np
import pytest

from brain_eval.baselines import color_vision as cv
from brain_sim.camera import RayCamera
from brain_sim.mjcf import room_xml
from brain_sim.room import generate_room
from brain_sim.things import COLORS, SHAPES


def pictures(split, rooms, each):
    """Pictures at random free poses, with the objects of 40 pixels or more that are in them."""
    rng = np.random.default_rng(7)
    for seed in range(rooms):
        room = generate_room(split, seed)
        camera = RayCamera(room_xml(room))
        for _ in range(each):
            while True:
                x, y = rng.uniform(-0.5, 0.5, 2) * (np.array(room.size) - 0.6)
                if all(f.distance_at(x, y) > 0.25 for f in room.footprints):
                    break
            image = camera.render(x, y, rng.uniform(-np.pi, np.pi), rng)
            yield image, camera.focal, camera.ground_truth_objects(min_pixels=40)


def test_colors_and_places_on_held_out_pictures():
    right = color_only = total = 0
    bearings, distances = [], []
    for image, focal, truth in pictures("val", 40, 4):
        found = cv.see(image, focal)
        for item in truth:
            total += 1
            near = [f for f in found if COLORS[f.color - 1] == item.color and abs(f.bearing - item.bearing) < 0.15]
            color_only += bool(near)
            same = [f for f in near if SHAPES[f.shape - 1] == item.shape]
            if same:
                right += 1
                bearings.append(same[0].bearing - item.bearing)
                distances.append(same[0].distance / item.distance - 1)
    assert total > 100
    assert color_only / total > 0.85
    assert right / total > 0.5      # shapes are this control's weakness
    assert np.std(bearings) < 0.06 and np.median(np.abs(distances)) < 0.12


def test_gray_is_no_color():
    gray = np.full((64, 96, 3), 120, np.uint8)
    assert not cv.color_labels(gray).any() and cv.see(gray, 48.0) == []
    assert cv.see(np.zeros((64, 96, 3), np.uint8), 48.0) == []


@pytest.mark.parametrize(("rgb", "color"), [((200, 30, 30), 1), ((30, 180, 40), 2), ((30, 60, 200), 3),
                                            ((210, 190, 30), 4)])
def test_pure_colors(rgb, color):
    image = np.full((64, 96, 3), 120, np.uint8)
    image[35:50, 40:56] = rgb
    found = cv.see(image, 48.0)
    assert [f.color for f in found] == [color]
    assert abs(found[0].bearing) < 0.02
