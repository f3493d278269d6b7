# SPDX-License-Identifier: Apache-2.0
"""Membranes in NumPy: the parameters of neurons, and their integration where a region runs without torch.

The equations stand in :mod:`brain_training.neurons`, which integrates the same neurons in torch, with gradients, for
training; tests hold both to each other. For a few hundred neurons NumPy takes a fraction of torch's time, and a process
without torch a fraction of its memory.
"""
from __future__ import annotations

import functools
import math
from itertools import repeat
from typing import NamedTuple

import numpy as np

MICRO_STEP = 0.005
"""h, s: the step in which all membranes are integrated."""
MOST_STEPS = 10
"""Micro-steps in one call of a region's step: a tick that was skipped for longer is not made up for."""


class LIF(NamedTuple):
    """Parameters of leaky integrate-and-fire neurons.

    Attributes:
        tau: membrane time constant (s). Larger: a longer memory, and rates that follow the input more slowly.
        threshold: potential above which the neuron fires, in the unit of the weights. Larger: fewer spikes.
        slope: k of the surrogate gradient, per unit of potential. Larger: only neurons close to their threshold learn.
    """

    tau: float = 0.020
    threshold: float = 1.0
    slope: float = 5.0


class ALIF(NamedTuple):
    """Parameters of leaky integrate-and-fire neurons whose threshold rises with each spike and falls back.

    Attributes:
        tau: membrane time constant (s).
        threshold: at rest, in the unit of the weights; what a spike takes off the potential, too.
        tau_adaptation: time constant with which the threshold falls back (s). Larger: a longer memory in thresholds.
        adaptation: by how much a spike raises the threshold, in the unit of the weights. Larger: sparser firing.
        slope: k of the surrogate gradient, per unit of potential.
    """

    tau: float = 0.020
    threshold: float = 1.0
    tau_adaptation: float = 0.200
    adaptation: float = 0.2
    slope: float = 5.0


class LI(NamedTuple):
    """Parameters of leaky integrators.

    Attributes:
        tau: time constant of the running mean (s). Larger: a steadier and slower answer.
    """

    tau: float = 0.020


@functools.lru_cache
def decay(tau: float, h: float = MICRO_STEP) -> float:
    """beta = exp(-h / tau): what is left of a potential after ``h`` seconds.

    Raises:
        ValueError: ``tau`` or ``h`` is not a positive number of seconds.
    """
    if not (tau > 0 and h > 0 and math.isfinite(h)):
        raise ValueError(f"time constant and micro-step must be positive (s), but are {tau} and {h}")
    return math.exp(-h / tau)


class Ticks(NamedTuple):
    """Number of micro-steps that a step of a region makes.

    Attributes:
        steps: micro-steps to integrate now.
        left: time that was too short for another one, to be handed to the next call (s).
        excess: micro-steps beyond :data:`MOST_STEPS`, which are left out.
    """

    steps: int
    left: float
    excess: int


def ticks(dt: float, left: float = 0.0, most: int = MOST_STEPS) -> Ticks:
    """Micro-steps that fit into ``dt`` seconds and what was left of the time before.

    So a region's neurons see the host's clock, whatever the rate of its steps.
    """
    whole = int((dt + left) / MICRO_STEP + 1e-6)
    if whole > most:
        return Ticks(most, 0.0, whole - most)
    return Ticks(whole, max(dt + left - whole * MICRO_STEP, 0.0), 0)


def lif_step(x: np.ndarray, v: np.ndarray, p: LIF, h: float = MICRO_STEP) -> tuple[np.ndarray, np.ndarray]:
    """One micro-step of leaky integrate-and-fire neurons; :func:`brain_training.neurons.lif_step` in NumPy.

    Args:
        x: charge that comes in during the step, in units of potential, any shape.
        v: potentials at the end of the step before, same shape; not changed.
        p: parameters.
        h: length of the step (s).

    Returns:
        Spikes (float32, 0 or 1) and the new potentials.
    """
    spikes = np.empty(v.shape, np.float32)
    np.greater(v, p.threshold, out=spikes)      # first those of the step before, which are reset now
    v = v * decay(p.tau, h)
    v += x
    spikes *= p.threshold
    v -= spikes
    np.greater(v, p.threshold, out=spikes)
    return spikes, v.astype(np.float32, copy=False)


def lif_run(x: np.ndarray, v: np.ndarray, p: LIF, h: float = MICRO_STEP, fired: np.ndarray | None = None,
            spikes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """As many calls of :func:`lif_step` as ``x`` is long.

    Args:
        x: charges [T, ...].
        v: potentials at the end of the step before; not changed.
        p: parameters.
        h: length of a step (s).
        fired: takes the spikes as bool [T, ...], too, where it is given.
        spikes: takes the spikes, float32 [T, ...]; may be ``x``, which is lost then. None: a new array.

    Returns:
        Spikes (0 or 1) and the last potentials.
    """
    # numbers of the arrays' type, and spikes as bool first: whatever has to be made another type takes twice as long
    beta, threshold = np.float32(decay(p.tau, h)), np.float32(p.threshold)
    spikes, v = np.empty(x.shape, np.float32) if spikes is None else spikes, v.astype(np.float32)
    above = v > threshold
    before, reset = above.astype(np.float32), np.empty_like(v)
    for charge, spike, above in zip(x, spikes, repeat(above) if fired is None else fired):
        np.multiply(v, beta, v)
        np.add(v, charge, v)
        np.subtract(v, before if threshold == 1 else np.multiply(before, threshold, reset), v)
        np.copyto(spike, np.greater(v, threshold, above))
        before = spike
    return spikes, v


def alif_step(x: np.ndarray, v: np.ndarray, a: np.ndarray, p: ALIF,
              h: float = MICRO_STEP) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One micro-step of adaptive neurons; :func:`brain_training.neurons.alif_step` in NumPy.

    Args:
        x: charge that comes in during the step, any shape.
        v, a: potentials and adaptations at the end of the step before, same shape; not changed.
        p: parameters.
        h: length of the step (s).

    Returns:
        Spikes (float32, 0 or 1), the new potentials and the new adaptations.
    """
    fired = v > p.threshold + p.adaptation * a
    v = decay(p.tau, h) * v + x - p.threshold * fired
    a = decay(p.tau_adaptation, h) * a + fired
    spikes = v > p.threshold + p.adaptation * a
    return spikes.astype(np.float32), v.astype(np.float32, copy=False), a.astype(np.float32, copy=False)


def li_step(x: np.ndarray, u: np.ndarray, p: LI, h: float = MICRO_STEP) -> np.ndarray:
    """One micro-step of leaky integrators; :func:`brain_training.neurons.li_step` in NumPy."""
    beta = decay(p.tau, h)
    return (beta * u + (1 - beta) * x).astype(np.float32, copy=False)
