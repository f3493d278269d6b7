# SPDX-License-Identifier: Apache-2.0
"""The definition of the motor network, in torch, with gradients, and of its ANN baseline: what is trained.

What a region runs is made of it: :meth:`MotorNetwork.live` gives :mod:`brain_regions.motor.network`, in NumPy, where
the layers are described; tests hold both to each other. All tensors are made where the weights or the inputs are.
"""
from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from brain_regions.motor import network as live
from brain_regions.motor.coding import MODE_AT, STILL, preferred_turns
from brain_training.neurons import LIFState, li_weights, lif_run

MOST_BIAS = 0.15        # of the layers that hear spikes: alone it makes nobody fire (the gain of a membrane is 4.5)
INHIBITION = -3.0       # of the whole first layer by the modes in which nothing is to move
SPREAD = (0.12, 0.11, 0.13)     # of the weights of each layer at first
FIRST_BIAS = 0.02
State = dict[str, Tensor]


class Answer(NamedTuple):
    """Outputs of some steps.

    Attributes:
        readouts: [steps, batch, ANSWERS].
        state: after the last one.
        trains: spikes of each layer, [steps * micro-steps, batch, neurons]; none of the baseline, which has no spikes.
    """

    readouts: Tensor
    state: State
    trains: list[Tensor]


class MotorNetwork(nn.Module):
    """The network.

    Args:
        rng: of the weights before training.
        spiking: leaky integrate-and-fire neurons; else ReLU and no time: the ANN baseline.
        layers: sizes, as :func:`brain_regions.motor.network.widened` gives them.
    """

    def __init__(self, rng: np.random.Generator, spiking: bool = True, layers: Sequence[int] = live.LAYERS) -> None:
        super().__init__()
        self.spiking, self.layers = spiking, tuple(layers)
        for name, value in fresh(rng, layers).items():
            self.register_parameter(name, nn.Parameter(torch.from_numpy(value)))
        self.register_buffer("mask", torch.from_numpy(live.populations().T.copy()))

    def rest(self, batch: int) -> State:
        """State before the first step, on the device of the weights: potentials by layer, and readouts."""
        sizes = {f"v{k}": n for k, n in enumerate(self.layers[1:])} | {"u": live.ANSWERS}
        return {name: torch.zeros(batch, n, device=self.readout.device) for name, n in sizes.items()}

    def forward(self, currents: Tensor, state: State, steps: int) -> Answer:
        """Integrates step after step.

        Args:
            currents: [steps, batch, INPUTS], each constant for ``steps`` micro-steps.
            state: from :meth:`rest` or the last call; not changed. The baseline has none, and gives it back.
            steps: micro-steps of each step, 1 or more.
        """
        new = dict(state)
        x = self._charge(0, currents)
        if not self.spiking:
            for k in range(3):
                x = F.relu(x if k == 0 else self._charge(k, x))
            return Answer(self._answered(x), new, [])
        x, trains = x.repeat_interleave(steps, 0), []
        for k in range(3):
            if k:
                x = self._charge(k, x)
            x, (new[f"v{k}"],) = lif_run(x, LIFState(state[f"v{k}"]), live.NEURON)
            x = self._fired(k, x)
            trains.append(x)
        kept, weights = li_weights(steps, live.READOUT, device=x.device)
        heard = self._answered(torch.tensordot(weights, x.unflatten(0, (-1, steps)), ([0], [1])))
        u, found = state["u"], []
        for one in heard:
            u = kept * u + one
            found.append(u)
        new["u"] = u
        return Answer(torch.stack(found), new, trains)

    def _charge(self, k: int, x: Tensor) -> Tensor:
        """Computes the input of layer ``k`` from currents or spikes [..., neurons before]."""
        return x @ getattr(self, f"w{k}") + getattr(self, f"b{k}")

    def _fired(self, k: int, spikes: Tensor) -> Tensor:
        """The spikes that layer ``k`` hands on; who splits the layer over processes has those of all of them."""
        return spikes

    def _answered(self, heard: Tensor) -> Tensor:
        """Reads the answers, [..., ANSWERS], out of the last layer's activity [..., OUTPUTS]."""
        return heard @ (self.readout * self.mask)

    @torch.no_grad()
    def bound(self) -> None:
        """Keeps what silence rests on: no neuron fires by its bias alone, and STOP and IDLE inhibit the first layer."""
        for bias in (self.b1, self.b2):
            bias.clamp_(max=MOST_BIAS if self.spiking else 0.0)
        for mode in STILL:
            self.w0[MODE_AT + mode].clamp_(max=INHIBITION)

    def folded(self) -> dict[str, np.ndarray]:
        """Weights by name as a file holds them: rounded to half precision."""
        found = {name: value.detach().cpu().numpy() for name, value in self.named_parameters()}
        found["readout"] = found["readout"] * self.mask.cpu().numpy()
        return {name: value.astype(np.float16) for name, value in found.items()}

    def live(self) -> live.SpikingPolicy | live.RatePolicy:
        """The network as a region runs it, with the weights as a file holds them."""
        return (live.SpikingPolicy if self.spiking else live.RatePolicy)(self.folded(), self.layers)


def of_weights(tensors: Mapping[str, np.ndarray], spiking: bool = True) -> MotorNetwork:
    """A network with the weights of a file."""
    live.check(tensors)
    network = MotorNetwork(np.random.default_rng(0), spiking)
    state = {name: torch.from_numpy(np.asarray(value, np.float32)) for name, value in tensors.items()}
    network.load_state_dict({**state, "mask": network.mask})
    return network.eval()


def fresh(rng: np.random.Generator, layers: Sequence[int] = live.LAYERS) -> dict[str, np.ndarray]:
    """Weights before training.

    The inputs of the modes in which nothing is to move inhibit the whole first layer, so that STOP is one step away
    from the start on.
    """
    tensors: dict[str, np.ndarray] = {}
    for k, (before, after) in enumerate(zip(layers, layers[1:])):
        spread = SPREAD[k] * (live.LAYERS[k] / before) ** 0.5   # as much charge from more neurons
        tensors[f"w{k}"] = (spread * rng.standard_normal((before, after))).astype(np.float32)
        tensors[f"b{k}"] = np.full(after, FIRST_BIAS if k == 0 else 0.0, np.float32)
    for mode in STILL:
        tensors["w0"][MODE_AT + mode] = INHIBITION
    readout = np.zeros((live.OUTPUTS, live.ANSWERS), np.float32)
    readout[live.LINEAR, 0] = live.RATE / 32
    readout[live.LINEAR, 0][24:] *= -0.4             # a few neurons for driving back
    readout[live.ANGULAR, 1] = live.RATE / 48 * 2 * preferred_turns(48)
    for answer, members in enumerate(live.STATES, 2):
        readout[members, answer] = live.RATE / 8
    tensors["readout"] = readout
    return tensors
