# SPDX-License-Identifier: Apache-2.0
"""Glances for training, their labels, and a training of the fovea from its pictures to its weight file."""
import math

import numpy as np
import pytest

from brain_regions.vision import weights
from brain_regions.vision.fovea import SIDE, Fovea, Glance
from brain_sim import scenery
from brain_training.fovea import FoveaTask
from brain_training.fovea_data import GLANCES, SUPER, Glances, label
from brain_training.trainer import Trainer
from brain_training.vision_data import NOTHING, UNSURE, Shot

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
