# SPDX-License-Identifier: Apache-2.0
"""The neurons against snntorch, against their differential equation, and the fused run against the single step."""
import math

import pytest
import snntorch
import torch
from snntorch import surrogate

from brain_training.neurons import LI, LIF, LIFState, LIState, decay, li_step, li_weights, lif_run, lif_step

H = 0.005


def ours(x, v, p):
    spikes, state = [], LIFState(v)
    for charge in x:
        s, state = lif_step(charge, state, p, H)
        spikes.append(s)
    return torch.stack(spikes), state


def theirs(x, v, p):
    cell = snntorch.Leaky(beta=decay(p.tau, H), threshold=p.threshold, reset_mechanism="subtract",
                          spike_grad=surrogate.fast_sigmoid(slope=p.slope))
    spikes, potentials = [], []
    for charge in x:
        s, v = cell(charge, v)
        spikes.append(s)
        potentials.append(v)
    return torch.stack(spikes), torch.stack(potentials)


def random_input(seed, steps=200, shape=(3, 17)):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(steps, *shape, generator=generator) * 0.9 - 0.15, torch.rand(shape, generator=generator)


@pytest.mark.parametrize("p", [LIF(), LIF(tau=0.010, threshold=0.7, slope=25.0), LIF(tau=0.1, threshold=1.3)])
def test_lif_equals_snntorch(p):
    x, v = random_input(1)
    spikes, state = ours(x, v, p)
    expected, potentials = theirs(x, v, p)
    assert 0.02 < expected.mean() < 0.9, "the input must make the neurons fire, but not always"
    assert torch.equal(spikes, expected)
    torch.testing.assert_close(state.v, potentials[-1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("run", [ours, lambda x, v, p: lif_run(x, LIFState(v), p, H)])
@pytest.mark.parametrize("p", [LIF(), LIF(tau=0.010, threshold=0.7, slope=25.0)])
def test_gradient_equals_snntorch(run, p):
    x, v = random_input(2, steps=30)
    weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(3))
    grads = []
    for function in (run, theirs):
        leaf = x.clone().requires_grad_()
        start = v.clone().requires_grad_()
        spikes, last = function(leaf, start, p)
        last = last.v if isinstance(last, LIFState) else last[-1]
        ((spikes * weights).sum() + (last * weights[0]).sum()).backward()
        grads.append((leaf.grad, start.grad))
    for mine, reference in zip(*grads):
        assert reference.abs().max() > 0.1
        torch.testing.assert_close(mine, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("grad", [False, True])
def test_run_equals_single_steps(grad):
    x, v = random_input(4)
    expected, last = ours(x, v, LIF())
    spikes, state = lif_run(x.requires_grad_(grad), LIFState(v), LIF(), H)
    assert torch.equal(spikes, expected)
    torch.testing.assert_close(state.v, last.v, rtol=0, atol=1e-6)


def test_a_step_without_gradient_is_that_with_one_to_the_bit():
    x, v = random_input(8)
    for p in (LIF(), LIF(tau=0.010, threshold=0.7)):
        states = [LIFState(v), LIFState(v.clone().requires_grad_())]
        for charge in x:
            (plain, states[0]), (learning, states[1]) = (lif_step(charge, state, p, H) for state in states)
            assert learning.requires_grad and not plain.requires_grad
            assert torch.equal(plain, learning) and torch.equal(states[0].v, states[1].v)
    assert torch.equal(v, random_input(8)[1]), "the potentials that were given are changed"


def test_run_leaves_its_input_alone():
    x, v = random_input(5)
    before_x, before_v = x.clone(), v.clone()
    lif_run(x, LIFState(v), LIF(), H)
    assert torch.equal(x, before_x) and torch.equal(v, before_v)


def test_no_steps_change_nothing():
    _, v = random_input(6)
    spikes, state = lif_run(torch.empty(0, *v.shape), LIFState(v), LIF(), H)
    assert spikes.shape == (0, *v.shape) and torch.equal(state.v, v)


def test_leak_follows_the_differential_equation():
    """Without input v falls as exp(-t/tau), whatever the micro-step."""
    for h, steps in ((0.001, 100), (0.005, 20), (0.010, 10)):
        state = LIFState(torch.tensor([0.9]))
        for _ in range(steps):
            _, state = lif_step(torch.zeros(1), state, LIF(tau=0.05), h)
        assert state.v.item() == pytest.approx(0.9 * math.exp(-0.1 / 0.05), rel=1e-5)


def test_soft_reset_keeps_what_lay_above_the_threshold():
    p = LIF(threshold=1.0)
    spikes, state = lif_step(torch.tensor([1.4]), LIFState(torch.zeros(1)), p, H)
    assert spikes.item() == 1
    spikes, state = lif_step(torch.zeros(1), state, p, H)
    assert spikes.item() == 0 and state.v.item() == pytest.approx(1.4 * decay(p.tau, H) - 1.0, abs=1e-6)


def test_readout_tends_to_its_input_with_tau():
    state, p = LIState(torch.zeros(1)), LI(tau=0.02)
    for _ in range(4):
        state = li_step(torch.ones(1), state, p, H)
    assert state.u.item() == pytest.approx(1 - math.exp(-1), rel=1e-5)


def test_readout_in_one_sum_equals_single_steps():
    x, u = random_input(7, steps=10)
    state = LIState(u)
    for value in x:
        state = li_step(value, state, LI(), H)
    kept, weights = li_weights(10, LI(), H)
    assert kept + weights.sum().item() == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close(kept * u + torch.einsum("t,tij->ij", weights, x), state.u, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("tau, h", [(0, H), (-1, H), (float("nan"), H), (0.02, 0), (0.02, float("inf"))])
def test_time_constants_must_be_positive(tau, h):
    with pytest.raises(ValueError, match="must be positive"):
        decay(tau, h)
