# SPDX-License-Identifier: Apache-2.0
"""The spiking motor network, in NumPy: input populations, two hidden layers, output populations, leaky readouts.

    currents [INPUTS] -> 192 neurons -> 128 neurons -> populations for speed (32), turn (48) and states (3 x 8)

All neurons leak, integrate and fire. The first layer is driven by currents, all others by spikes alone. Leaky
integrators read the output populations; nothing is added to what the spikes bring, so that a silent network answers
zero velocity and the state STANDING. Potentials carry from step to step. What is trained, and what this is made of and
held to, is ``brain_training.definitions.motor``, in torch.

:class:`SpikingPolicy` is the network; :class:`RatePolicy`, its ANN baseline, has ReLU for neurons and no time.
"""
from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

import numpy as np

from brain_regions.circuits import INPUT, Circuit, Dense, Population, fan_outs
from brain_regions.lesions import Lesion
from brain_regions.membranes import LI, LIF, MICRO_STEP, decay, lif_run
from brain_regions.motor.coding import INPUTS

HIDDEN = (192, 128)
LINEAR = slice(0, 32)
ANGULAR = slice(32, 80)
STATES = tuple(slice(80 + 8 * k, 88 + 8 * k) for k in range(3))     # moving, arrived, blocked
OUTPUTS = 104
LAYERS = (INPUTS, *HIDDEN, OUTPUTS)
NAMES = ("first", "second", "output")
ANSWERS = 5             # speed and turn (shares of the top speeds), evidence for moving, arrived, blocked
FLOOR = 0.25            # evidence that a state needs: with less the robot is standing
NEURON = LIF(tau=0.020, threshold=1.0, slope=5.0)
READOUT = LI(tau=0.040)
RATE = 5.0              # evidence and velocity of one spike in each micro-step, per unit of readout weight

Tensors = Mapping[str, np.ndarray]


def populations() -> np.ndarray:
    """Builds the mask of the output neurons that are read for each answer: float32[ANSWERS, OUTPUTS] of 0 and 1."""
    mask = np.zeros((ANSWERS, OUTPUTS), np.float32)
    for answer, members in enumerate((LINEAR, ANGULAR, *STATES)):
        mask[answer, members] = 1.0
    return mask


class Answer(NamedTuple):
    """Answer of the output populations.

    Attributes:
        linear, angular: shares of the top speeds.
        state: of MotorStatus.
    """

    linear: np.ndarray
    angular: np.ndarray
    state: np.ndarray


def read(u: np.ndarray) -> Answer:
    """The answer in readouts [..., ANSWERS]: the state with most evidence, STANDING where none has enough."""
    evidence = u[..., 2:]
    state = np.where(evidence.max(-1) > FLOOR, evidence.argmax(-1) + 1, 0)
    return Answer(u[..., 0], u[..., 1], state)


def widened(factor: int) -> tuple[int, ...]:
    """Sizes of the layers with so many times the hidden neurons: for training; a region runs :data:`LAYERS`."""
    return (INPUTS, *(factor * n for n in HIDDEN), OUTPUTS)


def check(tensors: Tensors, layers: Sequence[int] = LAYERS) -> None:
    """Raises ValueError or KeyError where shapes do not fit."""
    for k, (before, after) in enumerate(zip(layers, layers[1:])):
        for name, shape in ((f"w{k}", (before, after)), (f"b{k}", (after,))):
            if tensors[name].shape != shape:
                raise ValueError(f"{name} has shape {tensors[name].shape}, but {shape} is needed")
    if tensors["readout"].shape != (OUTPUTS, ANSWERS):
        raise ValueError(f"readout has shape {tensors['readout'].shape}, but {(OUTPUTS, ANSWERS)} is needed")


class _Policy:
    def __init__(self, tensors: Tensors, layers: Sequence[int] = LAYERS) -> None:
        check(tensors, layers)
        self.layers = tuple(layers)
        t = {name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()}
        self._w, self._b = [t[f"w{k}"] for k in range(3)], [t[f"b{k}"] for k in range(3)]
        self._readout = t["readout"]
        self.fan_outs = fan_outs(circuit(tensors, layers))


class SpikingPolicy(_Policy):
    """The network with the weights of a file."""

    def __init__(self, tensors: Tensors, layers: Sequence[int] = LAYERS) -> None:
        super().__init__(tensors, layers)
        self.multiplies = int(self.fan_outs[INPUT].sum())
        """Multiply-accumulates of a step: the first layer's, whose inputs are currents."""

    def rest(self, *batch: int) -> dict[str, np.ndarray]:
        """State before the first step: potentials of the layers, and readouts."""
        sizes = {f"v{k}": n for k, n in enumerate(self.layers[1:])} | {"u": ANSWERS}
        return {name: np.zeros((*batch, n), np.float32) for name, n in sizes.items()}

    def step(self, currents: np.ndarray, state: Mapping[str, np.ndarray], steps: int, silent: bool = False,
             lesions: Mapping[str, Lesion] = {}) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
        """Integrates ``steps`` micro-steps.

        Args:
            currents: float32[..., INPUTS], constant meanwhile.
            state: from :meth:`rest` or the last call; not changed.
            steps: 0 or more.
            silent: all spikes are held back.
            lesions: by name of the layer, of :data:`NAMES`.

        Returns:
            The new state, whose ``u`` [..., ANSWERS] is to be :func:`read`, and the spikes [steps, ..., n] that each
            layer hands on.
        """
        new, trains = dict(state), []
        if steps == 0:
            return new, [np.zeros((0, *state[f"v{k}"].shape), np.float32) for k in range(3)]
        drive = currents @ self._w[0] + self._b[0]
        x = np.broadcast_to(drive, (steps, *drive.shape))
        for k in range(3):
            if k:
                x = trains[-1] @ self._w[k] + self._b[k]
            spikes, new[f"v{k}"] = lif_run(x, state[f"v{k}"], NEURON)
            if NAMES[k] in lesions:
                lesions[NAMES[k]](spikes)
            trains.append(np.zeros_like(spikes) if silent else spikes)
        beta = decay(READOUT.tau)
        weights = ((1 - beta) * beta ** np.arange(steps - 1, -1, -1)).astype(np.float32)
        heard = np.tensordot(weights, trains[-1], 1)
        new["u"] = (np.float32(beta ** steps) * state["u"] + heard @ self._readout).astype(np.float32)
        return new, trains

    def cost(self, trains: list[np.ndarray]) -> tuple[int, int]:
        """Spikes of the three layers, and the synaptic operations that they cause."""
        counts = [train.reshape(-1, train.shape[-1]).sum(0) for train in trains]
        synops = sum(int(np.dot(count, self.fan_outs[name])) for count, name in zip(counts, NAMES))
        return sum(int(count.sum()) for count in counts), synops


class RatePolicy(_Policy):
    """The ANN baseline: ReLU, no time."""

    def __init__(self, tensors: Tensors, layers: Sequence[int] = LAYERS) -> None:
        super().__init__(tensors, layers)
        self.multiplies = int(sum(fan_out.sum() for fan_out in self.fan_outs.values()))
        """Multiply-accumulates of a step: of all layers."""

    def answer(self, currents: np.ndarray) -> np.ndarray:
        """Readouts [..., ANSWERS] of currents [..., INPUTS]."""
        x = currents
        for w, b in zip(self._w, self._b):
            x = np.maximum(x @ w + b, 0)
        return x @ self._readout


def circuit(tensors: Tensors, layers: Sequence[int] = LAYERS) -> Circuit:
    """The network for other simulators: the input is what :func:`brain_regions.motor.coding.encode` makes."""
    check(tensors, layers)
    names = [INPUT, *NAMES]
    t = {name: value.astype(np.float32) for name, value in tensors.items()}
    return Circuit("motor", (INPUTS,), (
        *(Population(name, (size,), NEURON) for name, size in zip(names[1:], layers[1:])),
        Population("readout", (ANSWERS,), READOUT)), (
        *(Dense(source, target, t[f"w{k}"].T, t[f"b{k}"]) for k, (source, target) in enumerate(zip(names, names[1:]))),
        Dense("output", "readout", t["readout"].T)), MICRO_STEP)
