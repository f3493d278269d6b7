# SPDX-License-Identifier: Apache-2.0
"""Membranes in NumPy against the same neurons in torch, and the count of micro-steps."""
import numpy as np
import pytest
import torch

from brain_regions import membranes
from brain_training import neurons
from brain_regions.membranes import ALIF, LI, LIF, MICRO_STEP, ticks


@pytest.fixture
def charges():
    return np.random.default_rng(4).normal(0.25, 0.5, (60, 7)).astype(np.float32)


def test_lif_is_the_same_as_in_torch(charges):
    p = LIF(tau=0.03, threshold=0.8)
    spikes, v = membranes.lif_run(charges, np.zeros(7, np.float32), p)
    wanted, state = neurons.lif_run(torch.from_numpy(charges), neurons.LIFState(torch.zeros(7)), p)
    assert 20 < spikes.sum() < 400
    assert np.array_equal(spikes, wanted.numpy())
    assert v == pytest.approx(state.v.numpy(), abs=1e-5)


@pytest.mark.parametrize("p", [LIF(), LIF(tau=0.03, threshold=0.7), LIF(tau=0.01, threshold=1.3)])
def test_a_lif_step_is_that_of_torch_to_the_bit(charges, p):
    v, state = np.zeros(7, np.float32), neurons.LIFState(torch.zeros(7))
    run, last = membranes.lif_run(charges, v, p)
    for charge, fired in zip(charges, run):
        before = v.copy()
        spikes, new = membranes.lif_step(charge, v, p)
        assert np.array_equal(v, before), "the potentials that were given are changed"
        wanted, state = neurons.lif_step(torch.from_numpy(charge), state, p)
        assert np.array_equal(spikes, wanted.numpy()) and np.array_equal(new, state.v.numpy())
        assert np.array_equal(spikes, fired)
        v = new
    assert np.array_equal(v, last)


def test_alif_is_the_same_as_in_torch(charges):
    p = ALIF(tau=0.03, threshold=0.8, tau_adaptation=0.1, adaptation=0.3)
    v = a = np.zeros(7, np.float32)
    state = neurons.ALIFState(torch.zeros(7), torch.zeros(7))
    total = 0
    for charge in charges:
        spikes, v, a = membranes.alif_step(charge, v, a, p)
        wanted, state = neurons.alif_step(torch.from_numpy(charge), state, p)
        assert np.array_equal(spikes, wanted.numpy())
        total += spikes.sum()
    assert total > 20
    assert a == pytest.approx(state.a.numpy(), abs=1e-5)


def test_adaptation_makes_a_constant_current_fire_less_and_less():
    p = ALIF(tau=0.02, tau_adaptation=0.2, adaptation=0.5)
    v = a = np.zeros(1, np.float32)
    fired = []
    for _ in range(80):
        spikes, v, a = membranes.alif_step(np.full(1, 0.6, np.float32), v, a, p)
        fired.append(spikes[0])
    assert sum(fired[:20]) > sum(fired[60:]) > 0


def test_alif_passes_a_gradient_through_its_adaptation():
    x = torch.full((1,), 1.5, requires_grad=True)
    state = neurons.ALIFState(torch.zeros(1), torch.zeros(1))
    _, state = neurons.alif_step(x, state, ALIF())
    _, state = neurons.alif_step(torch.zeros(1), state, ALIF())
    state.a.sum().backward()
    assert x.grad.item() > 0


def test_li_is_the_same_as_in_torch(charges):
    u, state = np.zeros(7, np.float32), neurons.LIState(torch.zeros(7))
    for charge in charges:
        u = membranes.li_step(charge, u, LI(0.05))
        state = neurons.li_step(torch.from_numpy(charge), state, LI(0.05))
    assert u == pytest.approx(state.u.numpy(), abs=1e-5)


@pytest.mark.parametrize("dt, left, steps, excess", [
    (0.05, 0.0, 10, 0), (0.0, 0.0, 0, 0), (0.012, 0.004, 3, 0), (0.2, 0.0, 10, 30), (0.004, 0.0, 0, 0)])
def test_ticks_follow_the_clock(dt, left, steps, excess):
    found = ticks(dt, left)
    assert (found.steps, found.excess) == (steps, excess)
    if not excess:
        assert found.left == pytest.approx(dt + left - steps * MICRO_STEP, abs=1e-9)


def test_ticks_lose_no_time_over_many_steps():
    left, total = 0.0, 0
    for dt in np.random.default_rng(1).uniform(0.001, 0.045, 1000):
        found = ticks(dt, left)
        left, total = found.left, total + found.steps
    assert total * MICRO_STEP + left == pytest.approx(np.random.default_rng(1).uniform(0.001, 0.045, 1000).sum())
