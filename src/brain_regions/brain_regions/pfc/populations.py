# SPDX-License-Identifier: Apache-2.0
r"""Populations of the prefrontal cortex: neurons that share their inputs, and the synapses between populations.

All are leaky integrate-and-fire neurons (:mod:`brain_training.neurons`) whose synapses saturate: what they carry, s, is
0..1, and each spike opens a share of what is still shut (X.-J. Wang: Probabilistic decision making by slow
reverberation in cortical circuits, Neuron 36, 2002, the gating variable of its NMDA synapses):

    s[t] = exp(-h / tau_s) s[t-1] + kappa (1 - q(s[t-1])) z[t]

where q rounds to a sixteenth. So what a spike opens is one of 17 amounts, which neurons without memory can count out;
that is how simulators and chips without products have the same synapses (see :mod:`.circuit`).

A population excites itself and inhibits others through s, so that one of several wins, and may go on firing when its
input has ended.
"""
from __future__ import annotations

from typing import Sequence

import numpy as np

from brain_regions.lesions import Lesion
from brain_regions.membranes import LIF, decay

NEURON = LIF(tau=0.020, threshold=1.0)
KAPPA = 0.2
_SHUT = np.float32(1e-4)
LEVELS = 16         # steps in which a spike finds a synapse open, from shut to open


class Layer:
    """Some neurons, spiking or, as the ANN baseline, handing on rates.

    Args:
        tau_synapse: time constant with which their synapses close (s).
        rate: rates instead of spikes: what the neurons would fire on average, max(0, (x - rheobase) / threshold).
        silent: spikes are held back.

    Attributes:
        lesions: of parts of the neurons, what happens to their spikes.
    """

    lesions: Sequence[tuple[slice, Lesion]] = ()

    def __init__(self, tau_synapse: float, rate: bool = False, silent: bool = False) -> None:
        self._rho, self._beta = np.float32(decay(tau_synapse)), np.float32(decay(NEURON.tau))
        self._rate, self._silent = rate, silent
        self._constants: dict[tuple[int, ...], _Constants] = {}

    def handed_on(self, z: np.ndarray) -> np.ndarray:
        """Marks the neurons that handed something on, by what :meth:`advance` put into ``z``: 1 each, at any rate."""
        return z > 0 if self._rate else z

    def advance(self, x: np.ndarray, v: np.ndarray, s: np.ndarray, z: np.ndarray, threshold: np.ndarray) -> int:
        """One micro-step, in place. All arrays are float32 of one shape.

        With so few neurons time goes into calls, and those that have to make a number an array, or another type of one,
        take twice as long. So numbers are kept as arrays, with room to compute in: not for two threads at once.

        Args:
            x: charge that comes in.
            v: potentials, after the reset; changed.
            s: synapses; changed.
            z: takes the spikes, or rates.
            threshold: of each neuron now; a modulator may move it.

        Returns:
            How many spikes, or rates above 0, are handed on.
        """
        if self._rate:
            rheobase = (1 - self._beta) * threshold
            z[...] = np.clip((x - rheobase) / threshold + 0.5 * (1 - self._beta), 0.0, 1.0)
            z[~(x > rheobase) | self._silent] = 0.0
            s[...] = self._rho * s + KAPPA * (1 - s) * z
            return int(np.count_nonzero(z))
        if (c := self._constants.get(v.shape)) is None:
            c = self._constants[v.shape] = _Constants(v.shape, self._beta, self._rho)
        np.multiply(v, c.beta, v)
        np.add(v, x, v)
        np.greater(v, threshold, c.fired)
        count = c.fired.tobytes().count(1)      # of so few, the quickest way to count
        if count:
            z[...] = c.fired
            np.multiply(z, threshold, c.change)
            np.subtract(v, c.change, v)
        if self.lesions:
            count = self._handed_on(z, count)
        if not count or self._silent:       # most micro-steps of most populations: then synapses only close
            z.fill(0.0)
            np.multiply(s, c.rho, s)
            return 0
        opened = np.rint(np.multiply(s, c.levels, c.change), c.change)
        np.multiply(opened, c.less, opened)
        np.add(opened, c.kappa, opened)
        np.multiply(opened, z, opened)
        np.multiply(s, c.rho, s)
        np.add(s, opened, s)
        return count

    def _handed_on(self, z: np.ndarray, count: int) -> int:
        """Puts lesions between what was fired and what is handed on, and counts that."""
        if not count:
            z.fill(0.0)
        for part, lesion in self.lesions:
            lesion(z[None, part])
        return int(np.count_nonzero(z))


class _Constants:
    """Numbers as arrays of one shape, and room for what is computed."""

    def __init__(self, shape: tuple[int, ...], beta: np.float32, rho: np.float32) -> None:
        self.beta, self.rho, self.levels, self.less, self.kappa = (
            np.full(shape, number, np.float32) for number in (beta, rho, LEVELS, -KAPPA / LEVELS, KAPPA))
        self.fired, self.change = np.empty(shape, bool), np.empty(shape, np.float32)


def spread(count: int, width: float = 0.1) -> np.ndarray:
    """Factors on the input of each neuron of a population, so that they do not all fire at once. float32[count]."""
    return np.linspace(1 - width, 1 + width, count, dtype=np.float32) if count > 1 else np.ones(1, np.float32)


def shut(s: np.ndarray) -> np.ndarray:
    """Synapses, changed in place: what hardly carries anything (below 1e-4) carries nothing."""
    return np.multiply(s, s >= _SHUT, s)


def rested(v: np.ndarray) -> np.ndarray:
    """Potentials, changed in place: what is hardly off rest is at rest. Numbers near 0 would cost the most time."""
    return np.multiply(v, np.abs(v) >= _SHUT, v)
