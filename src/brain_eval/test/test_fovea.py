# SPDX-License-Identifier: Apache-2.0
"""The fovea: where it looks, what it makes of an answer, and that it sees what a level picture does not show."""
import math

import numpy as np
import pytest

from brain_eval.score.looker import message_of
from brain_eval.score.views import camera_info
from brain_regions.vision import Vision, fovea
from brain_regions.vision.decode import Vote
from brain_regions.vision.fovea import Fovea, Glance
from brain_regions.vision.network import ASIDE, COLOR, DISTANCE, EXTENT, OBJECT, OUTPUTS, SHAPE, SLOTS
from brain_regions.vision.weights import FOVEA, SHIPPED, WeightsError
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount
from brain_runtime.contract.stepper import Stepper
from brain_sim import robot
from brain_sim.camera import RayCamera
from brain_sim.mjcf import room_xml
from brain_sim.room import generate_room

GLANCE = Glance(0.4, -0.3, 0.2)


def lens(columns: int, degrees: float) -> Lens:
    return Lens(columns / 2 / math.tan(math.radians(degrees) / 2), columns, columns * 3 // 4, columns / 2,
                columns * 3 / 8)


def vote(bearing=0.0, away=1.0, wide=0.2, sure=0.9, color=0) -> Vote:
    return Vote(color, sure, [0.6, 0.2, 0.2, 0.0, 0.0], bearing, math.log(away), math.log(wide))


def answer(aside=0.0, down=0.0, wide=0.0, there=9.0, color=0, kind=0) -> np.ndarray:
    made = np.full(OUTPUTS // SLOTS, -9.0)
    for row, value in ((OBJECT, there), (ASIDE, aside), (DISTANCE, down), (EXTENT, wide)):
        made[row] = value
    made[COLOR.start + color] = made[SHAPE.start + kind] = 9.0
    return made


def angles(directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y, z = np.moveaxis(directions, -1, 0)
    return np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))


def test_a_glance_looks_where_it_says_its_left_on_the_left():
    azimuth, elevation = angles(GLANCE.directions())
    assert azimuth.mean() == pytest.approx(0.4, abs=0.01) and elevation.mean() == pytest.approx(-0.3, abs=0.01)
    assert (np.diff(azimuth, axis=1) < 0).all() and (np.diff(elevation, axis=0) < 0).all()
    pixel = 0.2 / fovea.SIDE
    assert elevation[0, 12] - elevation[-1, 12] == pytest.approx(0.2 - pixel, rel=0.02)


def test_an_object_that_stands_on_the_floor_is_in_the_middle_and_fills_less_than_half():
    one = Glance.at(0.2, math.log(2.0), math.log(0.15))
    assert one.azimuth == 0.2 and one.side == pytest.approx(fovea.MARGIN * 0.15)
    assert one.elevation == pytest.approx(0.075 - math.atan(0.5))


@pytest.mark.parametrize("wide", [1e-6, 3.0])
def test_glances_are_neither_too_narrow_nor_too_wide(wide):
    assert fovea.NARROWEST <= Glance.at(0.0, 0.0, math.log(wide)).side <= fovea.WIDEST


def test_what_stands_where_the_answer_says_is_told_there():
    bearing, away, wide = 0.43, 3.0, 0.09
    assert math.atan2(1.0, away) > -fovea.STEEP     # looked at so steeply that the floor alone tells the distance
    aside, down = GLANCE.place(bearing, -math.atan2(1.0, away))
    told, again = GLANCE.answered(vote(), answer(aside, down, math.log(wide / GLANCE.side), color=2, kind=1))
    assert told.color == 2 and told.shapes.index(max(told.shapes)) == 1 and told.sure == pytest.approx(1.0, abs=1e-3)
    assert told.bearing == pytest.approx(bearing) and math.exp(told.away) == pytest.approx(away)
    assert math.exp(told.wide) == pytest.approx(wide)
    # and a second glance is at it, wherever the first one was
    assert again.azimuth == pytest.approx(bearing) and again.side == pytest.approx(fovea.MARGIN * wide)
    assert again.elevation == pytest.approx(wide / 2 - math.atan2(1.0, away))


def test_a_distance_that_the_floor_does_not_tell_stays():
    far, _ = Glance(0.0, 0.0, 0.2).answered(vote(away=40.0), answer(down=0.5))
    assert math.exp(far.away) == pytest.approx(40.0)


def test_the_flatter_a_glance_the_more_of_the_distance_before_stays():
    for away, low, high in ((8.0, 8.0, 9.0), (16.0, 11.0, 12.0)):
        glance = Glance(0.0, -math.atan2(1.0, away), 0.1)
        assert low < math.exp(glance.answered(vote(away=9.0), answer())[0].away) < high


@pytest.mark.parametrize("value", [1e9, -1e9])
def test_wild_answers_are_kept_within_bounds(value):
    told, _ = GLANCE.answered(vote(), np.full(OUTPUTS // SLOTS, value))
    assert abs(told.bearing) < math.pi and 0.0 <= told.sure <= 1.0 and all(map(math.isfinite, told[3:]))


def test_whatever_the_network_answers_glances_stay_in_the_world():
    rng, asked = np.random.default_rng(0), []

    def ask(glance):
        asked.append(glance)
        assert all(map(math.isfinite, glance)) and abs(glance.elevation) < 1.6 and abs(glance.azimuth) < 1.6
        return rng.normal(0.0, 10.0 ** rng.uniform(-1, 3), OUTPUTS // SLOTS)

    for _ in range(200):
        votes = [Vote(0, 0.9, [1.0, 0.0, 0.0, 0.0, 0.0], rng.uniform(-1.3, 1.3), rng.uniform(-3.0, 5.0),
                      rng.uniform(-5.0, 1.0)) for _ in range(4)]
        found, glances = fovea.closely(votes, ask)
        assert glances == len(asked) <= fovea.GLANCES and all(map(math.isfinite, (v for one in found for v in one[3:])))
        asked.clear()


def test_one_glance_is_enough_for_two_votes_for_one_place_and_there_is_an_end_of_them():
    red, orange, beside = vote(), vote(color=4, sure=0.5, bearing=0.01), vote(bearing=0.5, sure=0.8)
    assert [one for one, _ in fovea.apart([orange, beside, red])] == [red, beside]
    assert len(fovea.apart([vote(bearing=0.3 * k) for k in range(10)])) == fovea.MOST


def test_what_two_glances_find_is_told_once():
    sure, less, other, aside = (vote(), vote(sure=0.5, bearing=0.05), vote(sure=0.8, color=1),
                                vote(sure=0.7, bearing=0.3))
    assert fovea.once([less, other, sure, aside]) == [sure, other, aside]


def test_a_camera_that_shows_no_more_than_a_level_picture_is_not_looked_through_again():
    assert not fovea.sees_more(lens(robot.CAMERA_WIDTH, math.degrees(robot.CAMERA_HFOV)))
    assert fovea.sees_more(lens(320, 90.0)) and fovea.sees_more(lens(640, 120.0))


def test_a_glance_where_the_camera_does_not_see_tells_nothing():
    picture = np.full((240, 320, 3), 90, np.uint8)
    closer = Fovea().look([vote(bearing=2.5), vote(away=4.0)], picture, lens(320, 60.0), Mount())
    assert closer.glances == 1 and len(closer.found) == 1


def test_a_file_that_is_not_the_foveas_is_refused():
    with pytest.raises(WeightsError):
        Fovea(SHIPPED)


def told(fovea_on: bool, size: tuple[int, int], degrees: float, seed: int) -> list:
    """What vision tells of a picture of a room."""
    camera = RayCamera(room_xml(generate_room("val", seed)), *size, math.radians(degrees))
    region = Vision("vision")
    region.configure({"fovea": fovea_on, "spikes": False, "confidence": 0.05})
    stepper = Stepper(region)
    picture = message_of(camera.render(0.0, 0.0, 0.5 * seed), 1.0)
    stepper.offer("camera_info", camera_info(size, math.radians(degrees)), 1.0)
    stepper.offer("image", picture, 1.0)
    (message,) = [out for port, out in stepper.step(1.0, 1.0) if port.topic == "vision/objects"]
    return [(one.color, one.shape, one.confidence, one.bearing, one.distance) for one in message.objects]


def test_the_simulators_own_camera_is_seen_as_without_a_fovea():
    size, degrees = (robot.CAMERA_WIDTH, robot.CAMERA_ROWS), math.degrees(robot.CAMERA_HFOV)
    for seed in range(4):
        assert told(True, size, degrees, seed) == told(False, size, degrees, seed)


def test_a_finer_camera_is_looked_through_again_and_operations_count():
    seen = [(told(True, (640, 480), 90.0, seed), told(False, (640, 480), 90.0, seed)) for seed in range(8)]
    assert sum(closely != coarsely for closely, coarsely in seen) >= 3
    assert FOVEA.is_file() and Fovea().neurons == 24 * 144 + 48 * 36 + 96 * 9 + 128
