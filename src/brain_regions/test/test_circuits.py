# SPDX-License-Identifier: Apache-2.0
"""Circuits: synapses are counted as the network counts them."""
import numpy as np
import torch
import torch.nn.functional as F

from brain_regions.circuits import INPUT, Circuit, Convolution, Dense, Population, fan_outs, synapses
from brain_regions.membranes import LI, LIF
from brain_regions.vision import Vision, network


def circuit(*projections, more=()):
    populations = (Population("hidden", (4,), LIF()), Population("answer", (2,), LI()), *more)
    return Circuit("small", (3,), populations, projections)


IN = Dense(INPUT, "hidden", np.ones((4, 3)), np.zeros(4))
OUT = Dense("hidden", "answer", np.ones((2, 4)))


def test_the_circuit_of_vision_has_the_synapses_that_are_counted():
    """Beside convolutions of ones: all synapses that lead somewhere, and no others, at edges and under strides."""
    circuit = Vision.circuit()
    expected = {name: torch.zeros(circuit.shape(name)) for name in (INPUT, *(y.name for y in network.LAYERS))}
    for p in circuit.projections:
        one = torch.zeros(1, *circuit.shape(p.source), requires_grad=True)
        F.conv2d(one, torch.ones(p.weight.shape), None, p.stride, p.padding, p.dilation).sum().backward()
        expected[p.source] += one.grad[0]
        assert synapses(circuit, p) == int(one.grad.sum())
    found = fan_outs(circuit)
    for name, fan_out in expected.items():
        np.testing.assert_array_equal(found[name], fan_out.numpy())
    assert not found["readout"].any()


def test_a_weight_that_is_zero_is_no_synapse():
    weight = np.ones((5, 2, 3, 3))
    weight[1, 0] = 0.0
    weight[:, 1, 0, 0] = 0.0
    pruned = Circuit("small", (2, 8, 8), (Population("edges", (5, 8, 8), LIF()),), (
        Convolution(INPUT, "edges", weight, padding=(1, 1)),))
    leaving = fan_outs(pruned)[INPUT]
    assert leaving[:, 4, 4].tolist() == [4 * 9, 5 * 8]
    assert leaving[:, 0, 0].tolist() == [4 * 4, 5 * 4 - 5]      # at the corner the kernel's corner leads to it
    assert fan_outs(circuit(IN, OUT._replace(weight=np.eye(2, 4))))["hidden"].tolist() == [1, 1, 0, 0]
