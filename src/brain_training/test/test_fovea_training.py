# SPDX-License-Identifier: Apache-2.0
"""Glances for training, their labels, and a training of the fovea from its pictures to its weight file."""
import math

import numpy as np
import pytest

from brain_regions.vision import weights
from brain_regions.vision.fovea import SIDE, Fovea, Glance
from brain_sim import scenery
from brain_training.fovea import FoveaTask
from brain_training.fovea_data import GLANCES, SUPER, Glances, cut, label
from brain_training.trainer import Trainer
from brain_training.vision_data import NOTHING, TEXTURES, UNSURE, Eye, Shot, shoot_scenery

THING, HEIGHT = 7, 0.3
GLANCE = Glance(0.1, -0.2, 0.3)


def shot(ids: np.ndarray, bearing: float = 0.1, away: float = 1.2, wide: float = 0.12) -> tuple[np.ndarray, Shot]:
    """A picture with one blue box in it, and what rays of a glance met."""
    return ids, Shot(np.zeros(0), np.zeros(0), [(THING, 2, 1, bearing, away, wide)], [], lambda *_: None, None, 1.0)


def ids(half: int = 0, number: int = THING, aside: int = 0) -> np.ndarray:
    """A square of 2 ``half`` rays about the middle shows a number."""
    made, middle = np.full((SUPER * SIDE,) * 2, -1), SUPER * SIDE // 2
    made[middle - half:middle + half, middle + aside - half:middle + aside + half] = number
    return made


def test_what_is_in_the_middle_is_asked_for_with_its_place():
    color, kind, aside, down, wide = label(GLANCE, *shot(ids(8)), HEIGHT)
    assert (color, kind) == (2, 1) and aside == pytest.approx(0.0)
    assert GLANCE.elevation + down * 0.25 * GLANCE.side == pytest.approx(-math.atan2(HEIGHT, 1.2))
    assert GLANCE.side * math.exp(wide) == pytest.approx(0.12)
    assert label(GLANCE, *shot(ids(8), bearing=0.05), HEIGHT)[2] < 0     # to the right


@pytest.mark.parametrize(("seen", "expected"), [
    (ids(), NOTHING), (ids(1), UNSURE), (ids(8, scenery.NAMEABLE), UNSURE), (ids(4, aside=20), NOTHING)],
    ids=["nothing", "too little to tell", "clutter that has a name", "only beside"])
def test_of_other_glances_nothing_or_that_nothing_is_there_is_asked(seen, expected):
    assert label(GLANCE, *shot(seen), HEIGHT)[0] == expected


def test_a_glance_over_the_edge_of_a_picture_is_black_there_and_meets_nothing():
    picture, met = np.full((SIDE, SIDE, 3), 90, np.uint8), ids(SUPER * SIDE // 2)
    cut(picture, met, np.random.default_rng(2))
    black, nothing = ~picture.any(-1), met < 0
    assert 0 < black.sum() < black.size / 2 and np.array_equal(black.repeat(SUPER, 0).repeat(SUPER, 1), nothing)
    assert black.all(0).any() or black.all(1).any()


def test_things_in_pictured_sceneries_have_marks_and_stand_on_each_other_and_on_stands():
    built = [scenery.Builder(np.random.default_rng(seed), TEXTURES, 0.3, 1.5, True).build() for seed in range(60)]
    things = [(thing, [solid for solid in one.scene.solids if solid.thing == number], one)
              for one in built for number, thing in enumerate(one.things)]
    assert sum(len(its) > 1 and thing.kind in (1, 2) for thing, its, _ in things) > 10     # holes, prints and bands
    raised = [one for one in things if one[0].base > 0]
    assert len(raised) > 20 and len(raised) < len(things) / 2
    for thing, its, one in raised:
        below = [solid for solid in one.scene.solids if abs(solid.at[2] + solid.half[2] - thing.base) < 1e-6
                 and math.hypot(solid.at[0] - thing.x, solid.at[1] - thing.y) < max(solid.half)]
        assert below and all(solid.at[2] + max(solid.half) > thing.base for solid in its)
    for seed in range(8):       # those that vision itself is trained in are as they were
        plain = scenery.Builder(np.random.default_rng(seed), TEXTURES, 0.3, 1.5).build()
        assert all(thing.base == 0 for thing in plain.things)


def test_a_thing_on_a_stand_is_as_far_as_the_floor_that_is_seen_at_its_foot():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        eye = Eye.drawn(rng)
        state = rng.bit_generator.state
        shot_of = shoot_scenery(rng, eye, pictured=True)
        rng.bit_generator.state = state
        columns = np.flatnonzero(eye.seen.any(0))
        view = float(columns[-1] - columns[0] + 1) * math.radians(0.9375)
        built = scenery.Builder(rng, TEXTURES, eye.mount.height, view, True).build()
        for (*_, away, _), thing in zip(shot_of.things, built.things, strict=True):
            real = math.hypot(thing.x - built.eye[0], thing.y - built.eye[1])
            foot = math.atan2(thing.base - eye.mount.height, real)
            if thing.base and foot < -0.05:
                assert -math.atan2(eye.mount.height, away) == pytest.approx(foot, rel=0.05)
                return
    pytest.fail("no thing stood on anything")


def test_glances_are_a_function_of_their_number():
    def studio():
        return Glances(2, 2, GLANCES, scenes=2)

    first, other = studio(), studio()
    for number in (5, 0, 3):
        one = first.take(number)
        assert one.images.shape == (GLANCES, SIDE, SIDE, 3) and one.labels.color.shape == (GLANCES, 1, 1)
        assert len(np.unique(one.images)) > 10
    for number in (0, 3, 5):
        one, again = first.take(number), other.take(number)
        assert np.array_equal(one.images, again.images)
        assert all(np.array_equal(a, b) for a, b in zip(one.labels, again.labels))


@pytest.mark.parametrize("which", ["spiking", "ann"])
def test_a_training_ends_in_weights_that_the_fovea_takes(which, tmp_path):
    task = FoveaTask(which, quick=True)
    network = Trainer(task, 0).run()
    figures = task.score(network, lambda *_: None)
    shipped = weights.SHIPPED if which == "spiking" else weights.ANN
    assert figures["threshold"] == weights.threshold(shipped, weights.load(shipped, ann=which == "ann"))
    assert 0.0 < figures["without"]["f1"] <= 1.0 and figures["objects"] == figures["without"]["objects"] > 0
    task.export(tmp_path / "x.safetensors", network, {"split": "train"}, figures)
    fovea = Fovea(tmp_path / "x.safetensors", ann=which == "ann")
    answer, spikes, _ = fovea.answer(weights.patches((SIDE, SIDE)))
    assert np.isfinite(answer).all() and (spikes > 0) == (which == "spiking")


def test_recordings_are_refused():
    with pytest.raises(ValueError, match="vision does"):
        FoveaTask.recorded(None, quick=True)
