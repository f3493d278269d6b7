# SPDX-License-Identifier: Apache-2.0
"""What the spiking vision does while it is trained: by steady rates first, then by spikes that learn by their rates."""
import pytest
import torch

from brain_training.neurons import LIFState, lif_by_rate, lif_rate, lif_run
from brain_regions.vision.network import COLUMNS, HEIGHT, INPUTS, MICRO_STEP, NEURON, OUTPUTS, WIDTH
from brain_training.definitions.vision import SpikingVision


@pytest.fixture
def network():
    torch.manual_seed(3)
    return SpikingVision().to(memory_format=torch.channels_last).train()


@pytest.fixture
def image():
    drawn = torch.Generator().manual_seed(2)
    found = torch.rand(2, INPUTS, HEIGHT, WIDTH, generator=drawn) * 2 - 1
    return found.contiguous(memory_format=torch.channels_last)


def test_neurons_fire_at_the_rate_of_a_steady_charge():
    charge = torch.linspace(-0.5, 2.0, 201)
    spikes, _ = lif_run(charge.expand(2000, -1), LIFState(torch.zeros(201)), NEURON, MICRO_STEP)
    off = (spikes.mean(0) - lif_rate(charge, NEURON, MICRO_STEP)).abs()
    assert off.max() < 0.15 and off.mean() < 0.03       # the neurons' is a staircase
    assert lif_rate(charge, NEURON, MICRO_STEP)[[0, 200]].tolist() == [0.0, 1.0]


def test_the_gradient_passes_through_the_rate_of_the_spikes():
    charges = torch.rand(8, 5) * 0.6
    mean = torch.tensor([-0.3, 0.3, 0.6, 1.1, 2.0], requires_grad=True)
    v = torch.full((5,), 0.4, requires_grad=True)
    spikes, after = lif_by_rate(charges, mean, LIFState(v), NEURON, MICRO_STEP)
    right, state = lif_run(charges, LIFState(v.detach()), NEURON, MICRO_STEP)
    assert torch.equal(spikes, right) and torch.equal(after.v, state.v)
    weights = torch.arange(8.0)[:, None]
    (spikes * weights).sum().backward()
    found, at = mean.grad / weights.sum(), mean.detach().clone().requires_grad_()
    lif_rate(at, NEURON, MICRO_STEP).sum().backward()
    assert v.grad is None and found[1:4].tolist() == pytest.approx(at.grad[1:4].tolist()) and at.grad[1] > 0.7
    assert at.grad[0] == at.grad[4] == 0.0 and 0.0 < found[0] < 0.3 and 0.0 < found[4] < 0.8   # beside it a part
    mean.grad = None
    lif_by_rate(charges, mean, LIFState(v), NEURON, MICRO_STEP)[0].mean(0).sum().backward()
    assert mean.grad == pytest.approx(found)


def test_spikes_are_the_same_to_the_bit_whether_it_learns_or_not(network, image):
    for norm in network.norms:
        norm.momentum = 1.0
    network.steady = True
    network(image, network.rest(2), 8)
    network.steady = False
    begin = {**network.midway(2), "u": torch.rand(2, OUTPUTS, COLUMNS)}
    state, trains = network(image, begin, 8)
    with torch.no_grad():
        other, more = network(image, begin, 8)
    assert all(train.any() for train in trains) and all(map(torch.equal, trains, more))
    assert all(torch.equal(value, other[name]) for name, value in state.items())
    state["u"].square().mean().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in network.parameters())


def test_steady_rates_are_those_that_spikes_tend_to(network, image):
    network = network.folded()
    with torch.no_grad():
        for bias in (0.2, 0.6, 0.9):
            network.convolutions[0].bias.fill_(bias)
            network.steady = False
            _, trains = network(image, network.midway(2), 64)
            network.steady = True
            _, rates = network(image, network.rest(2), 64)
            assert rates[0].shape == (1, *trains[0].shape[1:]) and 0.05 < rates[0].mean() < 0.95
            assert (trains[0].mean(0) - rates[0][0]).abs().mean() < 0.04


def test_steady_charges_are_normalized_over_the_batch_and_those_of_spikes_by_what_was_learned_so(network, image):
    norm = network.norms[0]
    network(image, network.rest(2), 8)
    assert norm.num_batches_tracked == 0 and not norm.training
    network.steady = True
    network(image, network.rest(2), 8)
    assert norm.num_batches_tracked == 1 and norm.training
    assert not network.folded().steady and network.steady


def test_potentials_amid_looking_fill_what_is_below_the_threshold_evenly():
    state = SpikingVision().midway(3)
    assert not state.pop("u").any()
    for name, v in state.items():
        assert torch.equal(v[0], v[2]) and v.dim() == 4
        share = torch.histc(v[0], 10, 0.0, NEURON.threshold) / v[0].numel()
        assert share.tolist() == pytest.approx([0.1] * 10, abs=0.01), name
