# SPDX-License-Identifier: Apache-2.0
"""The spiking network of vision as a robot runs it: one picture at a time, without gradients.

It computes what :class:`.network.SpikingVision` computes, which is what is trained; tests hold both to each other.
Membranes and readout run in NumPy and only the convolutions in torch, in arrays whose channels lie next to each other;
charges become spikes where they are, so that a picture's arrays stay in the processor's caches.
"""
from __future__ import annotations

from typing import Mapping, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from brain_regions.circuits import INPUT, fan_outs, neurons
from brain_regions.lesions import Lesion
from brain_regions.membranes import lif_run
from brain_regions.neurons import li_weights
from brain_regions.vision.network import (COLUMNS, INPUTS, LAYERS_READ, MICRO_STEP, NEURON, OUTPUTS, READOUT,
                                          SpikingVision, circuit, sizes)

BYTE = 255      # micro-steps that can be counted in one


class Looked(NamedTuple):
    """Result of a look at a picture.

    Attributes:
        state: the new one.
        trains: spikes that each layer hands on, bool [steps, rows, columns, channels].
        spikes, synops: how many spikes, and the accumulates that they cause by their actual fan-out.
    """

    state: dict[str, np.ndarray]
    trains: list[np.ndarray]
    spikes: int
    synops: int


def current(picture: np.ndarray) -> np.ndarray:
    """Makes a level picture, uint8 [HEIGHT, WIDTH, 3], input of layer 0: float32 [1, HEIGHT, WIDTH, INPUTS]."""
    x = np.empty((1, *picture.shape[:2], INPUTS), np.float32)
    seen = picture.any(-1)
    colors = x[0, ..., :3]
    np.divide(picture, np.float32(127.5), out=colors, dtype=np.float32)
    colors -= np.float32(1.0)
    colors[~seen] = 0.0
    x[0, ..., 3] = seen
    return x


class Looking:
    """A folded network, made ready to be run.

    Args:
        network: what to run.
        device: where the convolutions are computed; membranes are NumPy's.

    Raises:
        ValueError: it is not folded.
    """

    def __init__(self, network: SpikingVision, device: str = "cpu") -> None:
        if not all(isinstance(norm, nn.Identity) for norm in network.norms):
            raise ValueError("this network still normalizes its charges; run its folded() copy")
        if device != "cpu":
            # by default a convolution rounds to 10 bits there, and other neurons fire
            torch.backends.cudnn.conv.fp32_precision = "ieee"
        self.layers = network.layers
        self._device = device
        self._convolutions = [(c.weight.detach().to(device), c.bias.detach().to(device), c.stride, c.padding,
                               c.dilation) for c in network.convolutions]
        self._read = np.ascontiguousarray(network.readout.weight.detach()[..., 0].numpy().T)    # [heard, OUTPUTS]
        self._bias = network.readout.bias.detach().numpy()
        self._weights: dict[int, tuple[np.float32, np.ndarray, np.ndarray]] = {}    # by the number of micro-steps
        whole = circuit(network)
        leaving, self.neurons = fan_outs(whole), neurons(whole)
        self.multiplies = int(leaving[INPUT].sum())     # multiply-accumulates of a picture, which the first layer hears
        # of each neuron of a layer, what its spike counts for: as a spike, and as synaptic operations
        self._worth = [np.stack([np.ones(n.size, np.float32), n.transpose(1, 2, 0).reshape(-1)])
                       for n in (leaving[layer.name] for layer in self.layers)]

    def rest(self) -> dict[str, np.ndarray]:
        """State of a network that has seen nothing: potentials [rows, columns, channels], answer [COLUMNS, OUTPUTS]."""
        state = {f"v_{layer.name}": np.zeros((rows, columns, channels), np.float32)
                 for layer, (channels, rows, columns) in zip(self.layers, sizes(self.layers))}
        return {**state, "u": np.zeros((COLUMNS, OUTPUTS), np.float32)}

    def look(self, picture: np.ndarray, state: dict[str, np.ndarray], steps: int, silent: bool = False,
             lesions: Mapping[str, Lesion] = {}) -> Looked:
        """Looks at a picture for ``steps`` micro-steps.

        Args:
            picture: uint8 [HEIGHT, WIDTH, 3].
            state: from :meth:`rest` or the last call; it is not changed.
            steps: number of micro-steps, 0 or more. The answer is ``u`` of the new state.
            silent: no layer's spikes reach the next or the readout.
            lesions: by name of the layer.
        """
        if steps == 0:
            return Looked(state, [np.zeros((0, *state[f"v_{layer.name}"].shape), bool) for layer in self.layers], 0, 0)
        x = current(picture)
        kept, weights, answer = self._readings(steps)
        new, trains, heard, spikes, synops = {}, [], [], 0.0, 0.0
        for k, layer in enumerate(self.layers):
            x, fired, new[f"v_{layer.name}"] = self._fire(k, x, state[f"v_{layer.name}"], steps)
            if layer.name in lesions:
                lesions[layer.name](fired)
                np.copyto(x, fired)
                self._hand_on(k, fired)
            if silent:
                x.fill(0.0)
                fired.fill(False)
            counted = self.count(k, fired)      # while it is at hand
            spikes, synops = spikes + counted[0], synops + counted[1]
            trains.append(fired)
            if k in LAYERS_READ:
                heard.append(np.dot(weights, x.reshape(steps, -1)).reshape(COLUMNS, -1))
        new["u"] = state["u"] * kept
        new["u"] += np.dot(np.concatenate(heard, 1), self._read)
        new["u"] += answer
        return Looked(new, trains, int(spikes), int(synops))

    def _fire(self, k: int, x: np.ndarray, v: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Runs the neurons of layer ``k``.

        Args:
            x: what it hears, [steps, rows, columns, channels] of its inputs; of the picture one step for all.
            v: potentials at the end of the last picture.

        Returns:
            Spikes as float32 and as bool [steps, rows, columns, channels], and the new potentials.
        """
        x = self._charge(k, x)
        fired = np.empty((steps, *v.shape), bool)
        # the picture's charge is the same in all micro-steps; others have room for the spikes
        x, v = lif_run(x, v, NEURON, MICRO_STEP, fired, x) if k else lif_run(
            np.broadcast_to(x[0], fired.shape), v, NEURON, MICRO_STEP, fired)
        return x, fired, v

    def _hand_on(self, k: int, fired: np.ndarray) -> None:
        """Called with the spikes of layer ``k`` where they are others than it fired."""

    def _charge(self, k: int, x: np.ndarray) -> np.ndarray:
        """Computes the input of layer ``k``: [steps, rows, columns, channels] of its inputs, then of its neurons."""
        charge = F.conv2d(torch.from_numpy(x).to(self._device).permute(0, 3, 1, 2), *self._convolutions[k])
        return charge.permute(0, 2, 3, 1).cpu().numpy()

    def _readings(self, steps: int) -> tuple[np.float32, np.ndarray, np.ndarray]:
        """Returns the share of the readout that so many micro-steps keep, each one's weight, and what the bias adds."""
        if steps not in self._weights:
            kept, weights = li_weights(steps, READOUT, MICRO_STEP)
            self._weights[steps] = np.float32(kept), weights.numpy(), np.float32(1 - kept) * self._bias
        return self._weights[steps]

    def count(self, k: int, fired: np.ndarray) -> tuple[float, float]:
        """Spikes and synaptic operations of layer ``k``'s train, bool [steps, rows, columns, channels]."""
        fired, found = fired.reshape(len(fired), -1), np.zeros(2)
        for start in range(0, len(fired), BYTE):
            # eight neurons to a word, each with a byte to be counted in
            each = np.add.reduce(fired[start:start + BYTE].view(np.uint64), 0).view(np.uint8)
            found += np.dot(self._worth[k], each.astype(np.float32))
        return float(found[0]), float(found[1])
