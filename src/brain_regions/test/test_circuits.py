# SPDX-License-Identifier: Apache-2.0
"""Circuits: what does not fit together is found, and synapses are counted as the network counts them."""
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from brain_regions.circuits import (INPUT, Circuit, CircuitError, Convolution, Count, Dense, Population, fan_outs,
                                    synapses)
from brain_regions.membranes import LI, LIF
from brain_regions.vision import Vision, network


def circuit(*projections, more=()):
    populations = (Population("hidden", (4,), LIF()), Population("answer", (2,), LI()), *more)
    return Circuit("small", (3,), populations, projections)


IN = Dense(INPUT, "hidden", np.ones((4, 3)), np.zeros(4))
OUT = Dense("hidden", "answer", np.ones((2, 4)))


@pytest.mark.parametrize("wrong, said", [
    (circuit(IN), "nothing leads to answer"),
    (circuit(IN, OUT, Dense("hidden", "hidden", np.ones((4, 4)))), "delay is 0 micro-steps; a loop needs at least 1"),
    (circuit(IN, OUT, Dense("answer", "hidden", np.ones((4, 2)))), "from answer to hidden: the delay is 0"),
    (circuit(IN, OUT, Dense("hidden", "hidden", np.ones((4, 4)), np.zeros(4), 1)), "a loop has no bias"),
    (circuit(IN, OUT._replace(delay=-1)), "the delay is -1"),
    (circuit(IN, OUT._replace(weight=np.ones((4, 2)))), r"shape \(4, 2\) do not lead from \(4,\) to \(2,\)"),
    (circuit(IN._replace(bias=np.zeros(3)), OUT), r"biases of shape \(3,\), but 4 are needed"),
    (circuit(IN, OUT._replace(weight=np.full((2, 4), np.nan))), "a weight or bias is not finite"),
    (circuit(IN, OUT, Dense("hiden", "answer", np.ones((2, 4)))), "from hiden to answer: there are only input, hidden"),
    (circuit(IN, OUT, Dense("hidden", INPUT, np.ones((3, 4)))), "nothing leads to the input"),
    (circuit(IN, OUT, more=[Population("hidden", (1,), Count())]), "must be unique identifiers"),
    (circuit(IN, Convolution("hidden", "answer", np.ones((2, 4, 1, 1)))), "a convolution leads from three axes"),
])
def test_what_does_not_fit_is_found(wrong, said):
    with pytest.raises(CircuitError, match=said):
        wrong.checked()


def test_a_convolution_must_make_the_shape_of_its_target():
    populations = (Population("edges", (5, 4, 4), LIF()),)
    right = Convolution(INPUT, "edges", np.ones((5, 2, 3, 3)), stride=(2, 2), padding=(1, 1))
    assert Circuit("small", (2, 8, 8), populations, (right,)).checked()
    with pytest.raises(CircuitError, match="do not lead from"):
        Circuit("small", (2, 8, 8), populations, (right._replace(padding=(0, 1)),)).checked()


def test_the_circuit_of_vision_has_the_synapses_that_are_counted():
    """Beside convolutions of ones: all synapses that lead somewhere, and no others, at edges and under strides."""
    circuit = Vision.circuit().checked()
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
