# SPDX-License-Identifier: Apache-2.0
"""Each network is defined once: what a region runs is made of what is trained, and nothing is bound to a device."""
from __future__ import annotations

import numpy as np
import pytest
import torch

from brain_training.definitions import vision as definition
from brain_training.definitions import language
from brain_regions.language import network as reader
from brain_regions.language import weights as language_weights
from brain_training.definitions import motor
from brain_regions.motor import network as policy
from brain_regions.motor import weights as motor_weights
from brain_regions.motor.coding import INPUTS, MODE_AT, STILL
from brain_regions.vision import network as vision
from brain_regions.vision import weights as vision_weights

META = torch.device("meta")     # has shapes and no numbers: a tensor that is made elsewhere cannot be mixed with it


def checked(network: torch.nn.Module, *answers: torch.Tensor) -> None:
    """Passes gradients back, and finds all on the device without numbers, one for each weight."""
    assert all(answer.device == META for answer in answers)
    sum(answer.sum() for answer in answers).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None and parameter.grad.device == META, name


def test_a_tensor_on_a_fixed_device_would_be_found():
    here, there = torch.zeros(2, device=META), torch.zeros(2)
    with pytest.raises(RuntimeError, match="meta"):
        (here + there).sum()


@pytest.mark.parametrize(("steps", "steady"), [(8, False), (4, False), (4, True)])
def test_vision_is_bound_to_no_device(steps, steady):
    network = definition.SpikingVision().to(META)
    network.steady = steady
    image = torch.empty(2, vision.INPUTS, vision.HEIGHT, vision.WIDTH, device=META)
    state, trains = network(image, network.rest(2), steps)
    state, more = network(image, {name: value.detach() for name, value in state.items()}, steps)
    assert all(train.device == META for train in (*trains, *more)) and len(network(image, state, 0)[1]) == 6
    checked(network, state["u"])
    with torch.no_grad():       # another path through the neurons
        assert network(image, state, steps)[0]["u"].device == META


def test_the_baseline_of_vision_is_bound_to_no_device():
    network = definition.AnnBaseline().to(META)
    checked(network, network(torch.empty(2, vision.INPUTS, vision.HEIGHT, vision.WIDTH, device=META)))


@pytest.mark.parametrize("cls", [language.SpikingReader, language.AnnReader])
@pytest.mark.parametrize("training", [True, False])
def test_language_is_bound_to_no_device(cls, training):
    network = cls().to(META).train(training)
    text, lengths = torch.empty(4, 25, dtype=torch.int64, device=META), torch.empty(4, dtype=torch.int64, device=META)
    answer = network(text, lengths)
    assert answer.rates.device == META
    checked(network, answer.evidence, answer.verb, *answer.activity)


@pytest.mark.parametrize("spiking", [True, False])
def test_motor_is_bound_to_no_device(spiking):
    network = motor.MotorNetwork(np.random.default_rng(0), spiking).to(META)
    answer = network(torch.empty(8, 3, INPUTS, device=META), network.rest(3), 10)
    assert all(value.device == META for value in (*answer.trains, *answer.state.values()))
    checked(network, answer.readouts)
    network.bound()


def situations(seed: int, *shape: int) -> np.ndarray:
    """Currents of made-up situations, in none of which the robot is told to stand."""
    found = np.random.default_rng(seed).random((*shape, INPUTS)).astype(np.float32)
    found[..., [MODE_AT + mode for mode in STILL]] = 0.0
    return found


# -- the definition and what runs ---------------------------------------------------------------------------------

@pytest.mark.parametrize(("cls", "live", "path"), [
    (language.SpikingReader, reader.SpikingReader, language_weights.SHIPPED),
    (language.AnnReader, reader.AnnReader, language_weights.ANN)])
def test_language_that_runs_is_made_of_its_definition_to_the_bit(cls, live, path):
    shipped, _, _ = language_weights.load(path, live)
    made = language.of_weights(cls, shipped).live()
    assert type(made) is live
    sentence = language_weights.PROBE
    for one, other in zip(made.hear(sentence), live(shipped).hear(sentence)):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("spiking", [True, False])
def test_motor_that_runs_is_made_of_its_definition_to_the_bit(spiking):
    shipped = motor_weights.load(ann=not spiking).tensors
    folded = motor.of_weights(shipped, spiking).folded()
    assert folded.keys() == shipped.keys() and all(np.array_equal(folded[name], shipped[name]) for name in shipped)
    made = motor.of_weights(shipped, spiking).live()
    currents = situations(0, 20)
    theirs = (policy.SpikingPolicy if spiking else policy.RatePolicy)(shipped)
    if not spiking:
        assert np.array_equal(made.answer(currents), theirs.answer(currents))
        return
    ours, other = made.rest(20), theirs.rest(20)
    for steps in (10, 3):
        (ours, fired), (other, same) = made.step(currents, ours, steps), theirs.step(currents, other, steps)
        assert all(np.array_equal(a, b) for a, b in zip(fired, same)) and fired[2].any()
        assert all(np.array_equal(ours[name], other[name]) for name in other)


@pytest.mark.parametrize("spiking", [True, False])
def test_motor_computes_in_numpy_what_its_definition_does(spiking):
    shipped = motor_weights.load(ann=not spiking).tensors
    network = motor.of_weights(shipped, spiking)
    live, currents = network.live(), situations(1, 4, 20)
    state, theirs = network.rest(20), live.rest(20) if spiking else {}
    for number, steps in enumerate((10, 7, 1, 10)):
        with torch.no_grad():
            answer = network(torch.from_numpy(currents[number:number + 1]), state, steps)
        state = answer.state
        if not spiking:
            np.testing.assert_allclose(answer.readouts[0].numpy(), live.answer(currents[number]), atol=1e-4)
            continue
        theirs, trains = live.step(currents[number], theirs, steps)
        for train, fired in zip(answer.trains, trains):
            # a potential on the threshold to the last bit may fire a micro-step sooner
            assert (train.numpy() != fired).mean() < 2e-3
        assert np.abs(answer.readouts[0].numpy() - theirs["u"]).mean() < 5e-3
        assert np.abs(state["v0"].numpy() - theirs["v0"]).mean() < 5e-3
    assert not spiking or trains[2].any()


def test_steps_of_motor_in_one_call_are_those_of_several():
    network = motor.of_weights(motor_weights.load().tensors)
    currents = torch.from_numpy(situations(2, 3, 5))
    with torch.no_grad():
        whole, state, parts = network(currents, network.rest(5), 10), network.rest(5), []
        for number in range(3):
            answer = network(currents[number:number + 1], state, 10)
            state = answer.state
            parts.append(answer.readouts[0])
    torch.testing.assert_close(whole.readouts, torch.stack(parts), rtol=0, atol=1e-5)


def test_vision_is_trained_and_run_with_the_weights_of_the_file():
    from safetensors.numpy import load_file

    network, _ = definition.load()
    held, here = load_file(vision_weights.SHIPPED), network.state_dict()
    assert set(held) == {*here, "probe"} and all(np.array_equal(here[name].numpy(), held[name]) for name in here)
    again = network.folded()    # what is folded stays as it is
    assert all(torch.equal(value, here[name]) for name, value in again.state_dict().items())
