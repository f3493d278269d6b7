# SPDX-License-Identifier: Apache-2.0
r"""Circuits as files of the Neuromorphic Intermediate Representation (NIR), for other simulators and for chips.

NIR describes neurons by differential equations and leaves to its readers how to integrate them. Ours is

    v[t] = beta v[t-1] + x[t] - theta s[t-1],        s[t] = 1 if v[t] > theta else 0,        beta = exp(-h / tau).

NIR's LIF is ``tau dv/dt = (v_leak - v) + r I``, and v becomes v_reset where it is above v_threshold. Three things
have to be translated.

*Time*. Readers take Euler's step, v += (step / tau) (v_leak - v + r I). With tau' = step / (1 - beta) in the file this
is our exact integration: v loses the same share, and a charge x is a current of x / (1 - beta). That factor is in the
weights, with r = 1, since there are readers that overlook r; those that want it there get r = 1 / (1 - beta) instead.

*Reset*. NIR knows no reset by subtraction, but many readers do: they take v_threshold off at once, where we take theta
off a step later, after the leak. The two are the same neuron, seen from another zero: with w = v + d,
d = theta (1 / beta - 1),

    w[t] = beta (w[t-1] - (theta / beta) s[t-1]) + (1 - beta) d + x[t],    s[t] = 1 if w[t] > theta / beta else 0,

so that v_threshold = theta / beta, v_leak = d and v_reset = 0 are our neuron exactly wherever v_threshold is taken off
at once, and where w is set to v_reset instead, as NIR's definition says, all but what lay above the threshold.

A neuron that loses its threshold at once anyway (PromptLIF) stands in the file as it is.

*Adaptation*. NIR has no threshold that moves. But v - gamma a follows the equation of a LIF neuron that is
inhibited by its own last spike and by a leaky integrator of its spikes A[t] = rho A[t-1] + s[t] = a[t+1]:

    x[t] - gamma (beta / rho) s[t-1] - gamma (1 - beta / rho) A[t-1].

So one LIF and one LI with loops are the adaptive neuron, with nothing left out.

A loop's first micro-step of delay is not written: readers hand on in the next step what a loop carries. All further
delays are Delay nodes. HDF5 lists nodes by name, and readers that break loops at the first node take this order; so
names are numbered in the order of computing.
"""
from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

import nir
import numpy as np

from brain_regions.circuits import IF, INPUT, Circuit, Convolution, Count, Gate, Population, Projection, PromptLIF
from brain_regions.membranes import ALIF, LI, LIF, decay
from brain_training.circuit_checks import CircuitError, checked

NEVER = 1e6
"""Threshold of a LIF that stands for a leaky integrator."""


class Reader(NamedTuple):
    """Capabilities of a library that reads NIR.

    Attributes:
        what: for a person: what to do after reading, so that the library computes what we do.
        step: time (s) that it takes for a micro-step whatever it is told; None: it is told, or asked.
        at_once: v_threshold is taken off (or v reset) in the step of the spike; else in the next, after the leak.
        leak: v_leak may differ from 0; else biases carry it.
        weights: the factor of charges is in the weights; else in r, and rounds as ours does.
        parts: it knows LI, I, Scale and Delay; else a readout is a LIF that never fires, whose potential is the answer.
    """

    what: str
    step: float | None = None
    at_once: bool = True
    leak: bool = True
    weights: bool = True
    parts: bool = True


READERS = {
    "nir": Reader("Step by h with Euler's method; take v_threshold off v in the step of the spike; begin at v_leak."),
    "norse": Reader("norse.torch.from_nir(nir.read(file), dt=h), then the reset of each LIFBoxCell to reset_subtract; "
                    "the answer is the potential of the last node.", parts=False),
    "snntorch": Reader("snntorch.import_nir.import_from_nir(nir.read(file)), then reset_mechanism = 'subtract' and "
                       "reset_delay = True in each Leaky; the answer is the potential of the last node.",
                       step=1e-4, at_once=False, leak=False, weights=False, parts=False),
    "spikingjelly": Reader("nir_exchange.import_from_nir(file, dt=h), then v_reset = None in each LIFNode; its first "
                           "potential is metadata['start']; the answer is the potential of the last node.",
                           leak=False, weights=False, parts=False),
}


class _Writer:
    """Collects the nodes and edges of one circuit."""

    # Of population k are the nodes 1000 k (itself), the next three (its adaptation) and, from 1000 (k - 1) + 10 on,
    # what leads to it; so loops can name what comes later.

    def __init__(self, circuit: Circuit, reader: Reader) -> None:
        self.circuit, self.reader = circuit, reader
        self.step = reader.step or circuit.h
        self.nodes: dict[str, nir.NIRNode] = {}
        self.edges: list[tuple[str, str]] = []
        self.places = {INPUT: "n000000_input"}
        self.places |= {p.name: f"n{1000 * k:06}_{p.name}" for k, p in enumerate(circuit.populations, start=1)}

    def graph(self) -> nir.NIRGraph:
        circuit = self.circuit
        self.nodes[self.places[INPUT]] = nir.Input(np.array(circuit.inputs))
        for k, population in enumerate(circuit.populations, start=1):
            heard = [p for p in circuit.projections if p.target == population.name]
            heard.sort(key=circuit.closes_a_loop)
            for j, projection in enumerate(heard):
                self._projection(f"n{1000 * k - 990 + 3 * j:06}", population, projection, shifted=j == 0)
            self._population(1000 * k, population)
        last = self.places[circuit.populations[-1].name]
        self.nodes["n999999_output"] = nir.Output(np.array(circuit.populations[-1].shape))
        self.edges.append((last, "n999999_output"))
        return nir.NIRGraph(self.nodes, self.edges, metadata={
            "region": circuit.name, "h": repr(circuit.h), "step": repr(self.step), "reader": self.reader.what})

    # -- neurons ---------------------------------------------------------------------------------------------------

    def _population(self, number: int, p: Population) -> None:
        place = self.places[p.name]
        if isinstance(p.neuron, Count):
            self._needs_parts(f"{p.name}, which counts spikes")
            self.nodes[place] = nir.I(_full(p, 1 / self.step))
        elif isinstance(p.neuron, IF):
            self._needs_parts(f"{p.name}, which does not leak")
            self.nodes[place] = nir.IF(_full(p, 1 / self.step), _full(p, p.neuron.threshold), _full(p, 0))
        elif isinstance(p.neuron, Gate):
            self._needs_parts(f"{p.name}, which has no memory")
            self.nodes[place] = nir.Threshold(_full(p, p.neuron.threshold))
        elif isinstance(p.neuron, PromptLIF):
            self._needs_parts(f"{p.name}, whose threshold is taken off before the leak")
            self.nodes[place] = self._lif(p, p.neuron, p.neuron.threshold, 0.0)
        elif isinstance(p.neuron, LI):
            self.nodes[place] = self._integrator(p, p.neuron)
        else:
            top, leak = self._shifted(p.neuron)
            self.nodes[place] = self._lif(p, p.neuron, top, leak if self.reader.leak else 0.0)
            self.nodes[place].metadata["start"] = repr(leak)
            if isinstance(p.neuron, ALIF):
                self._adaptation(number, p, p.neuron)

    def _lif(self, p: Population, neuron: LIF | PromptLIF | ALIF | LI, threshold: float, leak: float) -> nir.LIF:
        share = 1 - decay(neuron.tau, self.circuit.h)
        return nir.LIF(tau=_full(p, self.step / share), r=_full(p, 1 if self.reader.weights else 1 / share),
                       v_threshold=_full(p, threshold), v_leak=_full(p, leak), v_reset=_full(p, 0))

    def _shifted(self, neuron: LIF | ALIF) -> tuple[float, float]:
        """theta / beta and d, or theta and 0 where the reader resets in the next step as we do."""
        if not self.reader.at_once:
            return neuron.threshold, 0.0
        top = neuron.threshold / decay(neuron.tau, self.circuit.h)
        return top, top - neuron.threshold

    def _integrator(self, p: Population, neuron: LI) -> nir.NIRNode:
        if not self.reader.parts:
            return self._lif(p, neuron, NEVER, 0.0)
        return nir.LI(tau=_full(p, self.step / (1 - decay(neuron.tau, self.circuit.h))), r=_full(p, 1),
                      v_leak=_full(p, 0))

    def _adaptation(self, number: int, p: Population, neuron: ALIF) -> None:
        """The two loops that make a LIF adaptive; see the module."""
        self._needs_parts(f"{p.name}, which adapts")
        beta, rho = decay(neuron.tau, self.circuit.h), decay(neuron.tau_adaptation, self.circuit.h)
        place, gain = self.places[p.name], -neuron.adaptation * self._gain(neuron)[0]
        fading, again, own = (f"n{number + k:06}_{p.name}_{what}" for k, what in
                              ((1, "adaptation"), (2, "adapts"), (3, "tires")))
        self.nodes[fading] = nir.LI(tau=_full(p, self.step / (1 - rho)), r=_full(p, 1 / (1 - rho)),
                                    v_leak=_full(p, 0))
        self.nodes[again] = nir.Scale(_full(p, gain * (1 - beta / rho)))
        self.nodes[own] = nir.Scale(_full(p, gain * beta / rho))
        self.edges += [(place, fading), (fading, again), (again, place), (place, own), (own, place)]

    # -- synapses --------------------------------------------------------------------------------------------------

    def _projection(self, number: str, target: Population, p: Projection, shifted: bool) -> None:
        """Nodes from a source to a population; ``shifted``: this projection's bias carries the neurons' other zero."""
        gain, more = self._gain(target.neuron)
        bias = None if p.bias is None else p.bias * gain
        if shifted and more:
            channels = p.weight.shape[0]
            bias = np.full(channels, more, np.float32) if bias is None else bias + more
        at = self.places[p.source]
        delay = p.delay - self.circuit.closes_a_loop(p)
        if delay:
            self._needs_parts(f"the delay from {p.source} to {p.target}")
            at = self._after(at, f"{number}_late", nir.Delay(
                np.full(self.circuit.shape(p.source), delay * self.step, np.float32)))
        source = self.circuit.shape(p.source)
        bias = None if bias is None else bias.astype(np.float32)
        if len(target.shape) > 1:
            p = over_all(p, source, target.shape)
            weight, stride, padding = square(p._replace(weight=p.weight * np.float32(gain)), *source[1:])
            node = nir.Conv2d(source[1:], weight, stride, padding, p.dilation, 1,
                              np.zeros(len(weight), np.float32) if bias is None else bias)
        else:
            if len(source) > 1:
                at = self._after(at, f"{number}_flat", nir.Flatten({"input": np.array(source)}, 0, -1))
            weight = np.ascontiguousarray(p.weight * gain, np.float32)
            node = nir.Linear(weight) if bias is None else nir.Affine(weight, bias)
        at = self._after(at, f"{number}_{p.source}_to_{p.target}", node)
        self.edges.append((at, self.places[p.target]))

    def _gain(self, neuron: Any) -> tuple[float, float]:
        """Returns the factor of a projection's weights and bias, and what has to be added to its bias then."""
        if isinstance(neuron, (Count, IF, Gate)):
            return 1.0, 0.0
        share = 1 - decay(neuron.tau, self.circuit.h)
        if isinstance(neuron, LI):
            return (1.0 if self.reader.weights or self.reader.parts else share), 0.0
        more = 0.0 if self.reader.leak or isinstance(neuron, PromptLIF) else self._shifted(neuron)[1]
        return (1 / share, more) if self.reader.weights else (1.0, more * share)

    def _needs_parts(self, what: str) -> None:
        if not self.reader.parts:
            raise CircuitError(f"{self.circuit.name}: this reader has nothing for {what}; write the file for 'nir'")

    def _after(self, before: str, name: str, node: nir.NIRNode) -> str:
        self.nodes[name] = node
        self.edges.append((before, name))
        return name


def _full(p: Population, value: float) -> np.ndarray:
    return np.full(p.shape, value, np.float32)


def over_all(p: Projection, source: tuple[int, ...], target: tuple[int, ...]) -> Convolution:
    """The same projection onto a population of three axes as a convolution: NIR has nothing that unfolds an axis.

    Args:
        p: projection.
        source, target: shapes of its populations.

    Raises:
        CircuitError: it is dense, and neither population has all of its neurons in channels.
    """
    if isinstance(p, Convolution):
        return p
    if len(source) == 3 and target[1:] == (1, 1):       # the kernel covers the source
        return Convolution(p.source, p.target, p.weight.reshape(target[0], *source), p.bias, delay=p.delay)
    if source[1:] == (1, 1) and len(target) == 3 and p.bias is None:    # the kernel covers the target
        weight = p.weight.reshape(*target, source[0]).transpose(0, 3, 1, 2)[:, :, ::-1, ::-1]
        return Convolution(p.source, p.target, np.ascontiguousarray(weight), None,
                           padding=(target[1] - 1, target[2] - 1), delay=p.delay)
    raise CircuitError(f"from {p.source} to {p.target}: dense synapses from {source} to {target} cannot be written; "
                       "give one of the two the shape (neurons, 1, 1)")


def square(p: Convolution, rows: int, columns: int) -> tuple[np.ndarray, tuple[int, ...], tuple[int, ...]]:
    """The same convolution with a square kernel, filled up with zeros.

    nir 1.0.8 takes all kernels for square when it checks shapes, and refuses to read a file where that does not fit.

    Args:
        p: convolution.
        rows, columns: of its source.

    Returns:
        Weight, stride and padding.
    """
    sizes = p.weight.shape[2:]
    wanted = p.places(rows, columns)
    for n in range(max(sizes), 2 * max(sizes) + 2):
        axes = [_stretched(n, *axis) for axis in zip(sizes, p.stride, p.padding, p.dilation, (rows, columns), wanted)]
        if None not in axes:
            weight = np.zeros((*p.weight.shape[:2], n, n), np.float32)
            (above, *_), (left, *_) = axes
            weight[:, :, above:above + sizes[0], left:left + sizes[1]] = p.weight
            return weight, tuple(axis[1] for axis in axes), tuple(axis[2] for axis in axes)
    raise CircuitError(f"the convolution from {p.source} to {p.target} cannot be written with a square kernel")


def _stretched(n: int, size: int, stride: int, padding: int, dilation: int, source: int,
               wanted: int) -> tuple[int, int, int] | None:
    """Zeros before a kernel's weights, stride and padding with which ``n`` weights make what ``size`` made."""
    for before in range(n - size + 1):
        more = padding + before * dilation
        room = source + 2 * more - dilation * (n - 1) - 1
        # where there is one place only, no stride is taken
        for step in (stride,) if wanted > 1 else (stride, room + 1):
            if room >= 0 and room // step + 1 == wanted:
                return before, step, more
    return None


def graph(circuit: Circuit, reader: str = "nir") -> nir.NIRGraph:
    """A circuit as a graph of NIR.

    Args:
        circuit: of a region.
        reader: a name of :data:`READERS`.

    Raises:
        CircuitError: the circuit does not fit together, or the reader knows no node for a part of it.
    """
    return _Writer(checked(circuit), READERS[reader]).graph()


def write(path: Path, circuit: Circuit, reader: str = "nir") -> nir.NIRGraph:
    """Writes a circuit's file, whole or not at all, and returns its graph; see :func:`graph`.

    Raises:
        OSError: it cannot be written.
    """
    made = graph(circuit, reader)
    whole = io.BytesIO()
    nir.write(whole, made)
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_bytes(whole.getvalue())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return made
