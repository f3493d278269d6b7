# SPDX-License-Identifier: Apache-2.0
"""Circuits: what does not fit together is found, and those of the regions do."""
import numpy as np
import pytest

from brain_regions.circuits import INPUT, Circuit, Convolution, Count, Dense, Population
from brain_regions.membranes import LI, LIF
from brain_regions.motor import Motor
from brain_regions.vision import Vision
from brain_training.circuit_checks import CircuitError, checked


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
        checked(wrong)


def test_a_convolution_must_make_the_shape_of_its_target():
    populations = (Population("edges", (5, 4, 4), LIF()),)
    right = Convolution(INPUT, "edges", np.ones((5, 2, 3, 3)), stride=(2, 2), padding=(1, 1))
    assert checked(Circuit("small", (2, 8, 8), populations, (right,)))
    with pytest.raises(CircuitError, match="do not lead from"):
        checked(Circuit("small", (2, 8, 8), populations, (right._replace(padding=(0, 1)),)))


@pytest.mark.parametrize("region", [Vision, Motor])
def test_those_of_the_regions_fit(region):
    assert checked(region.circuit()).name == region.__name__.lower()
