# SPDX-License-Identifier: Apache-2.0
"""A vision with more neurons computes what the trained one does, can be trained on, and is answered with."""
import numpy as np
import pytest
import torch

from brain_regions.vision import weights
from brain_regions.vision.network import widened
from brain_training.definitions import vision as definition
from brain_training.definitions.vision import SpikingVision
from brain_regions.vision.second import SecondVision
from brain_runtime import ParameterError
from brain_training.federated import Kept, VisionLearner, network_of, weights_of
from brain_training.vision_data import make_clips
from brain_training.widening import widen


@pytest.fixture(scope="module")
def shipped():
    return definition.load()[0]


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_more_neurons_answer_what_they_came_from_does(shipped, factor):
    wide = widen(shipped, factor)
    one, many = shipped.live(), wide.live()
    state, states, picture = one.rest(), many.rest(), weights.patches()
    for shift in (0, 5, 11):
        state = one.look(np.roll(picture, shift, 1), state, 10).state
        looked = many.look(np.roll(picture, shift, 1), states, 10)
        states = looked.state
        # rounding may move a spike by a micro-step
        assert np.abs(states["u"] - state["u"]).mean() < 0.02 * np.abs(state["u"]).mean()
    assert many.neurons - one.neurons == (factor - 1) * sum(v.size for name, v in state.items() if name != "u")


def test_only_the_network_of_a_region_is_widened(shipped):
    with pytest.raises(ValueError, match="not of the size"):
        widen(widen(shipped, 2), 2)


def test_twins_part_in_training_and_the_second_vision_takes_what_comes_out(shipped, tmp_path):
    found = make_clips(1, 2, 1)
    learner = VisionLearner(Kept(found, 0), 0)
    start = weights_of(widen(shipped, 2))
    trained, _, told = learner.fit(start, {"steps": 3.0, "batch": 2.0, "rate": 1e-3, "adaptive": 1.0, "cycle": 1.0},
                                   lambda: float("inf"))
    assert told["steps"] == 3.0
    first = trained["convolutions.1.weight"]
    assert np.array_equal(*np.split(start["convolutions.0.weight"], 2))
    assert not np.array_equal(*np.split(first, 2))
    path = tmp_path / "wide.safetensors"
    definition.save(path, network_of(trained).eval(), {}, {"threshold": 0.5})
    assert weights.factor(path) == 2
    region = SecondVision("second")
    region.configure({"weights": str(path)})
    assert region._looking.layers == widened(2)
    with pytest.raises(weights.WeightsError, match="does not fit: network"):
        weights.load(path)      # which a robot's own vision does not take
    with pytest.raises(ParameterError, match="second keeps the weights that it has"):
        region.on_parameter("weights", str(tmp_path / "none.safetensors"))


def test_weights_of_another_network_are_no_vision_of_any_size():
    with pytest.raises(ValueError, match="not the weights of vision"):
        network_of({"convolutions.0.bias": np.zeros(10**6, np.float32)})
    assert isinstance(network_of(weights_of(SpikingVision(widened(3)).folded())), torch.nn.Module)
