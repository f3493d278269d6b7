# SPDX-License-Identifier: Apache-2.0
"""The motor network: what its populations stand for, and what it computes; motors on hosts: brain_eval's tests."""
import math

import numpy as np
import pytest

from brain_regions import membranes
from brain_regions.motor import Motor, coding, network, senses, weights


def rows(count, seed=0):
    """Made-up situations."""
    rng = np.random.default_rng(seed)
    found = np.zeros((count, senses.SIZE), np.float32)
    found[:, senses.GAP] = rng.uniform(0, 1.6, (count, 36)).clip(max=1.0)
    found[:, senses.HEADING] = rng.uniform(-3, 3, count)
    found[:, senses.SPEED], found[:, senses.MODE] = 1.0, rng.integers(1, 5, count)
    found[:, senses.MODE] = np.where(found[:, senses.MODE] == 3, 1, found[:, senses.MODE])
    found[:, [senses.BEARING, senses.DISTANCE, senses.TARGET_GAP]] = np.nan
    found[:, senses.MAX_LINEAR:] = 0.5, 1.5, 0.7, 0.18
    return found


def test_numpy_and_torch_compute_the_same():
    torch = pytest.importorskip("torch")
    from brain_training.neurons import LIFState, li_weights, lif_run

    tensors = {name: value.astype(np.float32) for name, value in weights.load().tensors.items()}
    policy, currents = network.SpikingPolicy(tensors), coding.encode(rows(20))
    state, spikes = policy.rest(20), None
    t = {name: torch.from_numpy(value) for name, value in tensors.items()}
    v, u = [torch.zeros(20, n) for n in network.LAYERS[1:]], torch.zeros(20, network.ANSWERS)
    for steps in (10, 7, 1, 10):
        state, spikes = policy.step(currents, state, steps)
        x = (torch.from_numpy(currents) @ t["w0"] + t["b0"]).expand(steps, -1, -1)
        for k in range(3):
            x, after = lif_run(x if k == 0 else x @ t[f"w{k}"] + t[f"b{k}"], LIFState(v[k]), network.NEURON)
            v[k] = after.v
            # a potential on the threshold to the last bit may fire a micro-step sooner
            assert (x.numpy() != spikes[k]).mean() < 2e-3
        kept, share = li_weights(steps, network.READOUT)
        u = kept * u + torch.tensordot(share, x, 1) @ t["readout"]
    assert np.abs(u.numpy() - state["u"]).mean() < 5e-3 and spikes[2].any()


def test_input_populations_tell_numbers_apart_and_nobody_answers_to_nothing():
    a = rows(1)
    for field in (senses.HEADING, senses.SPEED, senses.MAX_LINEAR, senses.LAST_ANGULAR):
        b = a.copy()
        b[0, field] = 0.7 * b[0, field] + 0.1
        assert np.abs(coding.encode(a) - coding.encode(b)).max() > 0.05
    empty = np.full((1, senses.SIZE), np.nan, np.float32)
    empty[0, senses.GAP], empty[0, senses.SHRUNK] = senses.REACH, 0.0
    empty[0, [senses.MODE, senses.LAST_STATE]] = 0
    found = coding.encode(empty)
    assert np.isfinite(found).all() and found.sum() == 2.0    # the mode and the last state


def test_velocity_is_read_from_spikes_alone():
    tensors = weights.load().tensors
    assert not any(name not in {"w0", "w1", "w2", "b0", "b1", "b2", "readout"} for name in tensors)
    assert not (tensors["readout"] * (1 - network.populations().T)).any()
    policy = network.SpikingPolicy(tensors)
    idle = rows(50)
    idle[:, senses.MODE], idle[:, senses.HEADING] = 0, math.nan
    state, trains = policy.step(coding.encode(idle), policy.rest(50), 10)
    assert not any(train.any() for train in trains) and not state["u"].any()


def test_the_circuit_for_other_simulators_is_the_network():
    circuit, policy = Motor.circuit(), network.SpikingPolicy(weights.load().tensors)
    currents = coding.encode(rows(6))
    state, trains = policy.step(currents, policy.rest(6), 10)
    v, u = [np.zeros((6, n), np.float32) for n in network.LAYERS[1:]], np.zeros((6, 5), np.float32)
    same = []
    for step in range(10):
        x = currents
        for k, p in enumerate(circuit.projections[:3]):
            x, v[k] = membranes.lif_step(x @ p.weight.T + p.bias, v[k], circuit.populations[k].neuron)
            same.append((x == trains[k][step]).mean())
        u = membranes.li_step(x @ circuit.projections[3].weight.T, u, circuit.populations[3].neuron)
    assert np.mean(same) > 0.998 and np.abs(u - state["u"]).mean() < 5e-3


def test_gaps_are_those_of_the_nearest_points_and_the_target_is_left_out():
    angles, distances = np.array([0.0, 0.02, 1.0, -1.0]), np.array([0.8, 0.5, 0.4, 3.0])
    bins = np.rint(angles / (math.pi / 18)).astype(int) % 36
    found = senses.ring(bins, distances - 0.18)
    assert found[0] == pytest.approx(0.32) and found[6] == pytest.approx(0.22) and found[30] == 1.0
    assert list(senses.of_target(angles, distances, 0.0, 0.9)) == [True, True, False, False]
    assert senses.target_gap(angles, distances, 0.0, 0.9) == pytest.approx(0.5)
    assert not senses.of_target(angles, distances, math.nan, math.nan).any()
    assert math.isnan(senses.target_gap(angles, distances, math.nan, math.nan))


def test_a_turn_alone_brings_nothing_nearer_and_an_approach_does():
    gaps = np.ones(36, np.float32)
    gaps[9] = 0.4
    step = math.pi / 18
    found, _ = senses.shrunk(np.roll(gaps, -1), gaps, step, 0.05)
    assert found.max() < 1e-5
    found, slow = senses.shrunk(gaps - 0.1, gaps, 0.0, 0.05)
    assert found == pytest.approx(0.1 / senses.CLOSING) and (slow < gaps).all()


def test_a_step_takes_less_than_a_millisecond_of_work():
    """By the operations, not by the clock."""
    assert len(network.LAYERS) == 4 and sum(a * b for a, b in zip(network.LAYERS, network.LAYERS[1:])) < 150_000


def test_weight_files_are_small_and_refused_where_they_do_not_fit(tmp_path):
    assert sum(path.stat().st_size for path in (weights.SHIPPED, weights.ANN)) < 500_000
    with pytest.raises(weights.WeightsError, match="brain train motor"):
        weights.load(tmp_path / "none.safetensors")
    with pytest.raises(weights.WeightsError, match="region"):
        weights.load(weights.ANN)
