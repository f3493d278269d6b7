# SPDX-License-Identifier: Apache-2.0
"""A spiking network as plain data: populations and projections. This is what another simulator or a chip has to know.

A region tells its network by a function ``circuit()`` on its class, which ``brain export`` turns into a file of the
Neuromorphic Intermediate Representation. A network of one hidden recurrent layer, for instance, says::

    class Motor(Region):

        @staticmethod
        def circuit() -> Circuit:
            w = weights.load().tensors
            return Circuit(
                name="motor",
                inputs=(64,),
                populations=(Population("hidden", (128,), LIF(tau=0.02)), Population("readout", (6,), LI(0.05))),
                projections=(Dense(INPUT, "hidden", w["hidden.weight"], w["hidden.bias"]),
                             Dense("hidden", "hidden", w["recurrent.weight"], delay=1),
                             Dense("hidden", "readout", w["readout.weight"], w["readout.bias"])))

Populations stand in the order in which a micro-step computes them. A projection with ``delay=0`` carries the spikes of
the same micro-step, so it must lead forward; ``delay=1`` carries those of the step before, as every loop has to. What
reaches a population is summed, each bias once a micro-step: the charges ``x[t]`` of :mod:`brain_training.neurons`. The
network has one input, so a region with several concatenates them, and one output, its last population.
"""
from __future__ import annotations

import math
from typing import NamedTuple, Union

import numpy as np

from brain_regions.membranes import ALIF, LI, LIF, MICRO_STEP

INPUT = "input"
"""Name of the input, which is no population."""


class Count(NamedTuple):
    """Parameters of a readout that adds up what it hears and never forgets; the region begins it anew."""


class PromptLIF(NamedTuple):
    """Leaky integrate-and-fire neurons that lose their threshold in the step of the spike, before the leak.

    That is v[t] = beta (v[t-1] - theta s[t-1]) + x[t] where :class:`LIF` has beta v[t-1] - theta s[t-1] + x[t].

    Attributes:
        tau: membrane time constant (s).
        threshold: potential above which the neuron fires, and what a spike takes off it.
    """

    tau: float = 0.020
    threshold: float = 1.0


class IF(NamedTuple):
    """Integrate-and-fire neurons that do not leak: v[t] = v[t-1] + x[t] - theta s[t-1].

    Attributes:
        threshold: potential above which the neuron fires, and what a spike takes off it.
    """

    threshold: float = 1.0


class Gate(NamedTuple):
    """Neurons without memory: each fires if what comes in during the micro-step exceeds the threshold.

    Attributes:
        threshold: charge above which it fires.
    """

    threshold: float = 1.0


HANDS_ON = LI(tau=1e-4)
"""A readout that hands on what it hears: so short a time constant leaves nothing of the micro-step before."""


class Population(NamedTuple):
    """Neurons of one kind.

    Attributes:
        name: unique in the circuit; letters, digits and underscores.
        shape: ``(neurons,)``, or ``(channels, rows, columns)`` where a convolution leads in or out.
        neuron: parameters, which say of what kind the neurons are.
    """

    name: str
    shape: tuple[int, ...]
    neuron: Union[LIF, PromptLIF, ALIF, IF, Gate, LI, Count]


class Dense(NamedTuple):
    """Synapses from all of a population (flattened, last axis fastest) to all of another.

    Attributes:
        source, target: names; the source may be :data:`INPUT`.
        weight: [targets, sources], in units of the target's potential.
        bias: [targets], charge in every micro-step, or None.
        delay: micro-steps.
    """

    source: str
    target: str
    weight: np.ndarray
    bias: np.ndarray | None = None
    delay: int = 0


class Convolution(NamedTuple):
    """Synapses that are the same at every place; pairs are (rows, columns).

    Attributes:
        source, target: names of populations of three axes; the source may be :data:`INPUT`.
        weight: [target's channels, source's channels, rows, columns].
        bias: [target's channels], charge in every micro-step, or None.
        stride, padding, dilation: as in ``torch.nn.functional.conv2d``.
        delay: micro-steps.
    """

    source: str
    target: str
    weight: np.ndarray
    bias: np.ndarray | None = None
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    delay: int = 0

    def places(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of the target for those of the source."""
        return tuple((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in zip(
            (rows, columns), self.weight.shape[2:], self.stride, self.padding, self.dilation))


Projection = Union[Dense, Convolution]


class Circuit(NamedTuple):
    """A network.

    Attributes:
        name: of the region.
        inputs: shape of the input.
        populations: in the order in which a micro-step computes them; the last one is the output.
        projections: in any order.
        h: micro-step (s).
    """

    name: str
    inputs: tuple[int, ...]
    populations: tuple[Population, ...]
    projections: tuple[Projection, ...]
    h: float = MICRO_STEP

    def population(self, name: str) -> Population:
        """The population of that name; KeyError when there is none."""
        return {p.name: p for p in self.populations}[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a population or of the input."""
        return self.inputs if name == INPUT else self.population(name).shape

    def closes_a_loop(self, projection: Projection) -> bool:
        """Tells whether a projection is recurrent: a micro-step computes its source no sooner than its target."""
        names = [INPUT, *(p.name for p in self.populations)]
        return names.index(projection.source) >= names.index(projection.target)


def leaving(circuit: Circuit, projection: Projection) -> np.ndarray:
    """Counts the synapses of a projection that leave each neuron of its source: float32 of the source's shape.

    A synapse is a weight that is not 0. At a picture's edge, and where a stride leaves places out, a neuron has only
    those that lead somewhere.
    """
    shape = circuit.shape(projection.source)
    if isinstance(projection, Dense):
        return np.count_nonzero(projection.weight, axis=0).reshape(shape).astype(np.float32)
    found = np.zeros(shape, np.float32)
    each = np.count_nonzero(projection.weight, axis=0)      # [source's channels, rows, columns] of the kernel
    to = projection.places(*shape[1:])
    for at in np.ndindex(*projection.weight.shape[2:]):
        rows, columns = (
            np.arange(places) * stride - padding + k * dilation for places, stride, padding, k, dilation in zip(
                to, projection.stride, projection.padding, at, projection.dilation))
        rows, columns = (n[(n >= 0) & (n < size)] for n, size in zip((rows, columns), shape[1:]))
        found[:, rows[:, None], columns] += each[:, at[0], at[1]][:, None, None]
    return found


def synapses(circuit: Circuit, projection: Projection) -> int:
    """Synapses of a projection: those that a spike of every source neuron would cross.

    From the input they are multiply-accumulates, from spiking neurons at most so many accumulates a micro-step.
    """
    return int(leaving(circuit, projection).sum(dtype=np.float64))


def neurons(circuit: Circuit) -> int:
    """Counts the neurons of a circuit that fire; readouts do not."""
    return sum(math.prod(p.shape) for p in circuit.populations if not isinstance(p.neuron, (LI, Count)))


def fan_outs(circuit: Circuit) -> dict[str, np.ndarray]:
    """Counts all synapses that leave each neuron and each line of the input: float32 of its shape, by population.

    So many accumulates a spike costs. What regions count, and what is told of their cost, comes from here.
    """
    names = [INPUT, *(p.name for p in circuit.populations)]
    found = {name: np.zeros(circuit.shape(name), np.float32) for name in names}
    for projection in circuit.projections:
        found[projection.source] += leaving(circuit, projection)
    return found
