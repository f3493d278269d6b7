# SPDX-License-Identifier: Apache-2.0
"""Integrates a circuit with our own membranes, micro-step by micro-step: what every file of it has to compute.

It knows no network, so it is slower than the regions; they are tested against it, and so are other libraries.
"""
from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from brain_regions.circuits import INPUT, Circuit, Convolution, Count, Gate, Population, Projection, PromptLIF
from brain_regions.membranes import ALIF, LI, LIF, alif_step, decay, li_step, lif_step
from brain_training.circuit_checks import checked


class Steps:
    """A circuit with its state, at rest to begin with.

    Args:
        circuit: what to integrate.

    Raises:
        CircuitError: it does not fit together.
    """

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = checked(circuit)
        # what stands after the target is not computed yet in a micro-step: its newest output is one step old
        self._heard = {p.name: [(q, q.delay - circuit.closes_a_loop(q)) for q in circuit.projections
                                if q.target == p.name] for p in circuit.populations}
        longest = max(p.delay for p in circuit.projections)
        names = [INPUT, *(p.name for p in circuit.populations)]
        self._past = {n: deque([np.zeros(circuit.shape(n), np.float32)] * (longest + 1), longest + 1) for n in names}
        self._v = {p.name: np.zeros(p.shape, np.float32) for p in circuit.populations}
        self._a = {p.name: np.zeros(p.shape, np.float32) for p in circuit.populations if isinstance(p.neuron, ALIF)}

    def step(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """One micro-step.

        Args:
            x: float32 of the circuit's inputs.

        Returns:
            By population: spikes (0 or 1), or the potentials of readouts.
        """
        self._past[INPUT].append(np.asarray(x, np.float32))
        for p in self.circuit.populations:
            charge: Any = sum(self._charge(p, *heard) for heard in self._heard[p.name])
            self._past[p.name].append(self._fire(p, charge))
        return {p.name: self._past[p.name][-1] for p in self.circuit.populations}

    def _charge(self, target: Population, p: Projection, late: int) -> np.ndarray:
        source = self._past[p.source][-1 - late]
        if isinstance(p, Convolution):
            return convolve(p, source)
        charge = p.weight @ source.reshape(-1)
        return (charge if p.bias is None else charge + p.bias).reshape(target.shape)

    def _fire(self, p: Population, x: np.ndarray) -> np.ndarray:
        neuron, h, name = p.neuron, self.circuit.h, p.name
        if isinstance(neuron, Gate):
            return (x > neuron.threshold).astype(np.float32)
        v = self._v[name]
        if isinstance(neuron, LIF):
            spikes, self._v[name] = lif_step(x, v, neuron, h)
            return spikes
        if isinstance(neuron, ALIF):
            spikes, self._v[name], self._a[name] = alif_step(x, v, self._a[name], neuron, h)
            return spikes
        if isinstance(neuron, LI):
            self._v[name] = li_step(x, v, neuron, h)
            return self._v[name]
        if isinstance(neuron, Count):
            self._v[name] = v + x
            return self._v[name]
        leak = decay(neuron.tau, h) if isinstance(neuron, PromptLIF) else 1.0
        v = (np.float32(leak) * v + x).astype(np.float32)
        spikes = (v > neuron.threshold).astype(np.float32)
        self._v[name] = v - np.float32(neuron.threshold) * spikes
        return spikes


def convolve(p: Convolution, x: np.ndarray) -> np.ndarray:
    """Applies a convolution to its source's output [channels, rows, columns]: float32, the target's shape."""
    rows, columns = p.places(*x.shape[1:])
    if any(p.padding):
        x = np.pad(x, ((0, 0), *((n, n) for n in p.padding)))
    heard = np.zeros((p.weight.shape[0], rows, columns), np.float32)
    for i in range(p.weight.shape[2]):
        for j in range(p.weight.shape[3]):
            top, left = i * p.dilation[0], j * p.dilation[1]
            part = x[:, top:top + (rows - 1) * p.stride[0] + 1:p.stride[0],
                     left:left + (columns - 1) * p.stride[1] + 1:p.stride[1]]
            heard += (p.weight[:, :, i, j] @ part.reshape(len(x), -1)).reshape(heard.shape)
    return heard if p.bias is None else heard + p.bias[:, None, None]
