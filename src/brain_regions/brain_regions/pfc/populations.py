# SPDX-License-Identifier: Apache-2.0
r"""Populations of the prefrontal cortex: neurons that share their inputs, and the synapses between populations.

All are leaky integrate-and-fire neurons (:mod:`brain_regions.neurons`) whose synapses saturate: what they carry, s, is
0..1, and each spike opens a share of what is still shut (X.-J. Wang: Probabilistic decision making by slow
reverberation in cortical circuits, Neuron 36, 2002, the gating variable of its NMDA synapses):

    s[t] = exp(-h / tau_s) s[t-1] + kappa (1 - q(s[t-1])) z[t]

where q rounds to a sixteenth. So what a spike opens is one of 17 amounts, which neurons without memory can count out;
that is how simulators and chips without products have the same synapses (see :mod:`.circuit`).

A population excites itself and inhibits others through s, so that one of several wins, and may go on firing when its
input has ended.
"""
from __future__ import annotations

import numpy as np

from brain_regions.membranes import LIF, decay

NEURON = LIF(tau=0.020, threshold=1.0)
KAPPA = 0.2
LEVELS = 16         # steps in which a spike finds a synapse open, from shut to open


class Layer:
    """Some neurons, spiking or, as the twin to compare with, handing on rates.

    Args:
        tau_synapse: time constant with which their synapses close (s).
        rate: rates instead of spikes: what the neurons would fire on average, max(0, (x - rheobase) / threshold).
        silent: spikes are held back.
    """

    def __init__(self, tau_synapse: float, rate: bool = False, silent: bool = False) -> None:
        self._rho, self._beta = np.float32(decay(tau_synapse)), np.float32(decay(NEURON.tau))
        self._rate, self._silent = rate, silent

    def step(self, x: np.ndarray, v: np.ndarray, s: np.ndarray, threshold: float = 1.0
             ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One micro-step.

        Args:
            x: charge that comes in, any shape.
            v: potentials, after the reset, same shape.
            s: synapses, same shape.
            threshold: of all neurons now; a modulator may move it.

        Returns:
            Spikes (or rates), new potentials, new synapses.
        """
        v, s, z = v.copy(), s.copy(), np.empty(v.shape, np.float32)
        self.advance(x, v, s, z, threshold)
        return z, v, s

    def advance(self, x: np.ndarray, v: np.ndarray, s: np.ndarray, z: np.ndarray, threshold: float | np.ndarray) -> int:
        """As :meth:`step`, but in place of ``v`` and ``s``, and with the spikes (or rates) in ``z``; their number."""
        if self._rate:
            z[...] = np.clip((x - (1 - self._beta) * threshold) / threshold + 0.5 * (1 - self._beta), 0.0, 1.0)
            z[(x <= (1 - self._beta) * threshold) | self._silent] = 0.0
            s[...] = self._rho * s + KAPPA * (1 - s) * z
            return np.count_nonzero(z)
        v *= self._beta
        v += x
        fired = v > threshold
        count = np.count_nonzero(fired)
        if not count:       # most micro-steps of most populations: then synapses only close
            z.fill(0.0)
            s *= self._rho
            return 0
        v -= threshold * fired
        if self._silent:
            z.fill(0.0)
            s *= self._rho
            return 0
        z[...] = fired
        opened = s * np.float32(LEVELS)
        opened -= np.float32(0.5)
        np.ceil(opened, out=opened)
        opened *= np.float32(-KAPPA / LEVELS)
        opened += np.float32(KAPPA)
        opened *= fired
        s *= self._rho
        s += opened
        return count


def spread(count: int, width: float = 0.1) -> np.ndarray:
    """Factors on the input of each neuron of a population, so that they do not all fire at once. float32[count]."""
    return np.linspace(1 - width, 1 + width, count, dtype=np.float32) if count > 1 else np.ones(1, np.float32)
