# SPDX-License-Identifier: Apache-2.0
"""Broken cameras are found while the robot looks round; sound ones never are."""
import math

import numpy as np
import pytest

from brain_regions.picture_watch import PictureWatch

ROWS, COLUMNS, VIEW = 48, 64, math.pi / 2
FOCAL = 1 / VIEW        # in widths of the picture, where all columns see the same angle
PERIOD = 0.1
rng = np.random.default_rng(3)
ROUND = np.cumsum(rng.normal(0.0, 6.0, (ROWS, 4 * COLUMNS, 3)), 1) * np.hanning(4 * COLUMNS)[:, None] + 100.0
"""What stands round the robot, columns all round; uneven as a room is."""
DARK = np.zeros((ROWS, COLUMNS, 3))


STRIPES = np.tile([20.0, 220.0], ROWS // 2)


def view(yaw, contrast=1.0, noise=2.0):
    """The picture in a direction (rad)."""
    at = (round(-yaw * 4 * COLUMNS / (2 * math.pi)) + np.arange(COLUMNS)) % (4 * COLUMNS)    # left of a column is left
    return pixels(100.0 + contrast * (ROUND[:, at] - 100.0), noise)


def pixels(values, noise=2.0):
    return np.clip(rng.normal(values, noise) if noise else values, 0, 255).astype(np.uint8)


def look(picture, seconds, *, turning=0.0, driving=0.0, watch=None, pose=lambda now: True, begin=0.0, period=PERIOD,
         focal=FOCAL):
    """What a watch says of ``picture(yaw, time)`` while the robot turns (rad/s) and drives (m/s, and it shifts)."""
    watch, said = watch or PictureWatch(), []
    for k in range(round(seconds / period)):
        now = begin + k * period
        yaw = turning * now
        place = (driving * now, 0.0, math.remainder(yaw, math.tau))
        said.append(watch.take(picture(yaw + driving * now, now), place if pose(now) else None, now, focal))
    return said


FROZEN = view(0.4)
BROKEN = {
    "frozen": lambda yaw, now: FROZEN,
    "frozen before odometry comes": lambda yaw, now: FROZEN,
    "frozen from 1 s": lambda yaw, now: FROZEN if now > 1.0 else view(yaw),
    "black": lambda yaw, now: DARK.astype(np.uint8),
    "white": lambda yaw, now: DARK.astype(np.uint8) + 255,
    "black with noise": lambda yaw, now: pixels(DARK + 6.0),
    "green with noise": lambda yaw, now: pixels(DARK + (10.0, 140.0, 20.0), 4.0),
    "green without noise": lambda yaw, now: (DARK + (10.0, 140.0, 20.0)).astype(np.uint8),
    "noise": lambda yaw, now: rng.integers(0, 256, (ROWS, COLUMNS, 3), np.uint8),
    "black and white noise": lambda yaw, now: rng.integers(0, 2, (ROWS, COLUMNS, 3), np.uint8) * 255,
}
SOUND = {
    "as it is": lambda yaw, now: view(yaw),
    "without noise": lambda yaw, now: view(yaw, noise=0.0),
    "with much noise": lambda yaw, now: view(yaw, noise=15.0),
    "in dim light": lambda yaw, now: view(yaw, contrast=0.2),
    "lying stripes": lambda yaw, now: pixels(STRIPES[:, None, None] + np.zeros((ROWS, COLUMNS, 3))),
    **{f"stripes of {width} pixels": lambda yaw, now, width=width: pixels(
        np.roll(np.tile(np.repeat([20.0, 220.0], width), COLUMNS), round(60 * yaw))[:COLUMNS, None]
        + np.zeros((ROWS, COLUMNS, 3))) for width in (1, 2, 3, 4, 6, 8)},
    **{f"squares of {width} pixels": lambda yaw, now, width=width: pixels(
        20.0 + 200.0 * (np.add.outer(np.arange(ROWS) // width, (np.arange(COLUMNS) - round(60 * yaw)) // width) % 2)
        [..., None] + np.zeros(3)) for width in (2, 3, 4, 6)},
    "every picture comes twice": lambda yaw, now: FROZEN if now % 1 < 0.3 else view(yaw),
    "a little noise now and then": lambda yaw, now: BROKEN["noise"](yaw, now) if now % 2 < 0.35 else view(yaw),
    "walls without noise": lambda yaw, now: (DARK + 140.0).astype(np.uint8) if yaw % 6.28 < 1.4 else view(yaw),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("turning", [0.6, -1.2])
def test_a_broken_camera_is_named_before_the_robot_has_looked_round(kind, turning):
    said = look(BROKEN[kind], 1.5 + math.radians(120) / abs(turning), turning=turning,
                pose=lambda now: now > 0.25 or "before" not in kind)
    assert any("pictures" in why for why in said), said[-1]


@pytest.mark.parametrize("change", [lambda p: p[:, ::-1], lambda p: p[::-1, ::-1]])
@pytest.mark.parametrize("turning", [0.6, -0.9])
def test_pictures_that_are_mirrored_or_upside_down_are_found_while_the_robot_turns(change, turning):
    watch, wrong = PictureWatch(), (lambda yaw, now: change(view(yaw + math.pi)))   # where there is most to see
    assert "moves the wrong way" in look(wrong, 3.0, turning=turning, watch=watch)[-1]
    assert look(wrong, 5.0, watch=watch, begin=3.0)[-1]    # it stands: nothing is new
    assert not look(lambda yaw, now: view(yaw + math.pi), 9.0, turning=turning, watch=watch, begin=8.0)[-1]


@pytest.mark.parametrize("factor", [0.2, 0.25, 3.0, 4.0])
@pytest.mark.parametrize("turning", [0.6, -0.9])
def test_a_focal_length_that_cannot_be_is_found_while_the_robot_turns(factor, turning):
    watch, see = PictureWatch(), (lambda yaw, now: view(yaw + math.pi).repeat(2, 1))
    said = look(see, math.tau / abs(turning), turning=turning, watch=watch, focal=factor * FOCAL)
    assert any("focal length" in why for why in said)
    assert not look(see, 12.0, turning=turning, watch=watch, begin=12.0)[-1]


@pytest.mark.parametrize("factor", [0.7, 1.4, None])
@pytest.mark.parametrize("turning", [0.3, -1.5])
def test_a_focal_length_that_is_a_little_wrong_or_not_known_is_taken(factor, turning):
    assert not any(look(SOUND["as it is"], 15.0, turning=turning, focal=factor and factor * FOCAL))


@pytest.mark.parametrize("views", [4, 8, 13])
@pytest.mark.parametrize("turning", [0.6, -0.9, 1.5])
def test_pictures_of_a_film_that_tell_nothing_of_how_the_robot_turns_are_taken(views, turning):
    def film(yaw, now):
        return view(math.tau * (round(30 * now) % views) / views)

    assert not any(look(film, 20.0, turning=turning, period=1 / 30))


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_camera_is_believed(kind):
    assert not any(look(SOUND[kind], 15.0, turning=0.9))
    assert not any(look(SOUND[kind], 15.0, driving=0.4))


@pytest.mark.parametrize("picture", [FROZEN, DARK.astype(np.uint8)])
def test_who_stands_sees_the_same_for_as_long_as_he_stands(picture):
    assert not any(look(lambda yaw, now: picture, 60.0))
    assert not any(look(lambda yaw, now: picture, 60.0, pose=lambda now: False))


def test_a_plain_wall_is_driven_along_and_turned_away_from():
    watch = PictureWatch()
    assert not any(look(lambda yaw, now: pixels(DARK + 140.0), 20.0, driving=0.3, watch=watch))
    assert not any(look(lambda yaw, now: pixels(DARK + 140.0) if yaw < 1.2 else view(yaw), 6.0, turning=0.8,
                        watch=watch))


@pytest.mark.parametrize("kind", ["frozen", "black with noise"])
def test_a_slow_vision_finds_it_too(kind):
    assert look(BROKEN[kind], 6.0, turning=1.3, period=0.85)[-1]


def test_a_robot_that_is_carried_has_not_turned():
    watch = PictureWatch()
    for k in range(20):
        assert not watch.take(FROZEN, (3.0 * k, 0.0, 1.5 * k % 3.0), k * 0.3)


def test_two_seconds_of_sound_pictures_are_believed_again():
    watch = PictureWatch()
    assert look(BROKEN["frozen"], 2.0, turning=0.6, watch=watch)[-1]
    said = look(SOUND["as it is"], 4.0, turning=0.6, watch=watch, begin=2.0)
    assert all(said[:18]) and not any(said[22:])
