# SPDX-License-Identifier: Apache-2.0
"""The spiking network of vision, in NumPy: a level picture in, per azimuth column what object is there, where, how far.

A level picture shows what a camera sees as if it hung level: its columns are equal in azimuth and its rows in
elevation, whatever the lens and the mounting. What the camera does not see is black in it (0, 0, 0), and nothing else.
So a thing looks the same to the network from each side of a picture and through each lens, and the row in which it
stands on the floor tells how many heights of the camera it is away.

Six layers of leaky integrate-and-fire neurons. The first gets the picture as a constant current, computed once a
frame; all others hear spikes alone. Columns of the picture stay columns of the network to the end, so that where
something is needs not be learned. A linear readout of leaky integrators answers for each column:

    is an object here?  which color?  which shape?  how far aside is its center, how far away is it, how wide?

It answers twice, for the nearest object that the column shows and for the next one: over a low one that is near, a far
one can be seen.

A picture leaves potentials many thresholds deep or high, which would go on to speak of it for longer than the next one
is looked at. So they are brought into a narrow range (:data:`LEFT`) where a look begins.

:class:`Looking` is the network, and carries membrane potentials from frame to frame; :class:`Rates`, its ANN baseline,
has ReLU for neurons and no time. What is trained, and what these are held to, is ``brain_training.definitions.vision``,
in torch.
"""
from __future__ import annotations

import math
from typing import Iterable, Mapping, NamedTuple

import numpy as np

from brain_regions.circuits import INPUT, Circuit, Convolution, Population, fan_outs, neurons, synapses
from brain_regions.convolutions import Charging, Convolving
from brain_regions.lesions import Lesion
from brain_regions.membranes import LI, LIF, decay, lif_run

WIDTH, HEIGHT = 128, 80
"""Pixels of a level picture."""
RESOLUTION = math.radians(0.9375)
"""Angle (rad) of a pixel, across and down: 120 by 75 degrees in all."""
TOP = math.radians(15.0)
"""Elevation (rad) of the upper edge."""
COLUMNS = 64
INPUTS = 4
"""Channels of the input: red, green, blue, and whether the camera sees there."""
INPUT_SCALING = "rgb8 / 127.5 - 1, and 1; 0, 0, 0: 0, and 0"
MICRO_STEP = 0.05 / 6
"""h (s) of vision's neurons: six in the 50 ms between two pictures."""


class Layer(NamedTuple):
    """One convolution and its neurons; pairs are (rows, columns)."""

    name: str
    inputs: int
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int] = (1, 1)


class Layers(tuple[Layer, ...]):
    """The layers of a network, from the picture on.

    Args:
        layers: of it.
        size: rows and columns of its picture.
        read: numbers of the layers, of one row, that the readout hears.
        slots: answers of each column of them.
    """

    size: tuple[int, int]
    read: tuple[int, ...]
    slots: int

    def __new__(cls, layers: Iterable[Layer], size: tuple[int, int] = (HEIGHT, WIDTH), read: tuple[int, ...] = (3, 5),
                slots: int = 2) -> Layers:
        """Makes one."""
        made = super().__new__(cls, layers)
        made.size, made.read, made.slots = size, read, slots
        return made

    def of(self, layers: Iterable[Layer]) -> Layers:
        """Other layers between the same picture and the same answer."""
        return Layers(layers, self.size, self.read, self.slots)

    @property
    def columns(self) -> int:
        """Columns that are answered for."""
        return sizes(self)[-1][2]

    @property
    def outputs(self) -> int:
        """Rows of the answer."""
        return self.slots * ROWS


LAYERS = Layers((
    Layer("edges", INPUTS, 16, (5, 5), (2, 2), (2, 2)),     # 16 x 40 x 64
    Layer("parts", 16, 24, (3, 3), (2, 1), (1, 1)),         # 24 x 20 x 64
    Layer("shapes", 24, 48, (3, 3), (2, 1), (1, 1)),        # 48 x 10 x 64
    Layer("columns", 48, 96, (10, 3), (1, 1), (0, 1)),      # 96 x  1 x 64: a column's whole height at once
    Layer("near", 96, 96, (1, 3), (1, 1), (0, 3), (1, 3)),  # and its neighbours, for what is near and wide
    Layer("wide", 96, 96, (1, 3), (1, 1), (0, 8), (1, 8)),
))


def widened(factor: int, layers: Layers = LAYERS) -> Layers:
    """The layers with so many times the channels: for training; a region runs :data:`LAYERS`."""
    return layers.of(layer._replace(inputs=layer.inputs * (factor if k else 1), outputs=layer.outputs * factor)
                     for k, layer in enumerate(layers))


NEURON = LIF(tau=0.020, threshold=1.0, slope=4.0)
READOUT = LI(tau=0.020)
LEFT = 0.0, 0.5     # of the threshold: what potentials are brought between when a new picture comes
COLORS, KINDS = 8, 5
"""Classes of color and kind. The first four colors and three kinds are DetectedObject's, in the order of its constants;
the others (orange, purple, white, black; cone, and what has no name) are told apart so that they are taken for none of
these."""
OBJECT, COLOR, SHAPE, ASIDE, DISTANCE, EXTENT = (
    slice(0, 1), slice(1, 9), slice(9, 14), slice(14, 15), slice(15, 16), slice(16, 17))
"""Rows of one answer: logit of an object; logits of the colors and of the kinds; angle from the column to the center
(in units of ASIDE_UNIT rad, positive to the left); log of the distance from the camera (in heights of the camera above
the floor); log of the width (rad)."""
ROWS = 17
SLOTS = 2
"""Answers of a column: for the nearest object in it, and for the next."""
OUTPUTS = SLOTS * ROWS
ASIDE_UNIT = 0.1
LAYERS_READ = LAYERS.read
BYTE = 255      # micro-steps that can be counted in one

Tensors = Mapping[str, np.ndarray]
"""Weights by name, as in a weight file: ``convolutions.0.weight``, ``convolutions.0.bias``, ..., ``readout.bias``."""


def directions() -> np.ndarray:
    """Directions [HEIGHT, WIDTH, 3] that a level picture's pixels show: unit vectors, x ahead, y to the left, z up."""
    azimuth = (WIDTH / 2 - 0.5 - np.arange(WIDTH)) * RESOLUTION
    elevation = (TOP - (np.arange(HEIGHT) + 0.5) * RESOLUTION)[:, None]
    flat = np.cos(elevation)
    return np.stack(np.broadcast_arrays(flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)), -1)


def column_angles() -> np.ndarray:
    """Azimuth of each column's middle, rad, positive to the left: float32 [COLUMNS]."""
    return ((COLUMNS / 2 - 0.5 - np.arange(COLUMNS)) * (RESOLUTION * WIDTH / COLUMNS)).astype(np.float32)


def sizes(layers: Layers = LAYERS) -> list[tuple[int, int, int]]:
    """Channels, rows and columns of each layer."""
    (rows, columns), found = layers.size, []
    for layer in layers:
        rows, columns = (
            (size + 2 * p - d * (k - 1) - 1) // s + 1
            for size, p, d, k, s in zip((rows, columns), layer.padding, layer.dilation, layer.kernel, layer.stride))
        found.append((layer.outputs, rows, columns))
    return found


def settled(v: np.ndarray) -> np.ndarray:
    """Brings potentials into the range that they have where a new picture comes."""
    return np.clip(v, NEURON.threshold * LEFT[0], NEURON.threshold * LEFT[1])


def check(tensors: Tensors, layers: Layers = LAYERS) -> None:
    """Raises ValueError or KeyError where shapes do not fit."""
    shapes: dict[str, tuple[int, ...]] = {}
    for k, layer in enumerate(layers):
        shapes[f"convolutions.{k}.weight"] = layer.outputs, layer.inputs, *layer.kernel
        shapes[f"convolutions.{k}.bias"] = (layer.outputs,)
    shapes["readout.weight"] = layers.outputs, sum(layers[k].outputs for k in layers.read), 1
    shapes["readout.bias"] = (layers.outputs,)
    for name, shape in shapes.items():
        if tensors[name].shape != shape:
            raise ValueError(f"{name} has shape {tensors[name].shape}, but {shape} is needed")
    if more := sorted(tensors.keys() - shapes.keys()):
        raise ValueError(f"{', '.join(more)[:80]} is none of the network's weights")


def circuit(tensors: Tensors, layers: Layers = LAYERS) -> Circuit:
    """The network for other simulators: the input is what :func:`current` makes, the output the answer.

    The answer's axes are (OUTPUTS, 1, COLUMNS); the readout hears each of its two layers by a projection of its own.
    """
    populations = [Population(layer.name, size, NEURON) for layer, size in zip(layers, sizes(layers))]
    names = [INPUT, *(layer.name for layer in layers)]
    projections = [
        Convolution(source, y.name, tensors[f"convolutions.{k}.weight"], tensors[f"convolutions.{k}.bias"], y.stride,
                    y.padding, y.dilation) for k, (source, y) in enumerate(zip(names, layers))]
    read, start = tensors["readout.weight"], 0
    for k in layers.read:
        heard = np.ascontiguousarray(read[:, start:start + layers[k].outputs, :, None])
        projections.append(Convolution(layers[k].name, "readout", heard, None if start else tensors["readout.bias"]))
        start += layers[k].outputs
    populations.append(Population("readout", (layers.outputs, 1, layers.columns), READOUT))
    return Circuit("vision", (INPUTS, *layers.size), tuple(populations), tuple(projections), MICRO_STEP)


def multiplies(tensors: Tensors, layers: Layers = LAYERS) -> int:
    """Multiply-accumulates of a picture in the ANN baseline."""
    whole = circuit(tensors, layers)
    return sum(synapses(whole, projection) for projection in whole.projections)


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


class _Vision:
    def __init__(self, tensors: Tensors, layers: Layers = LAYERS, device: str = "cpu") -> None:
        check(tensors, layers)
        self.layers = layers
        self._charges = [self._charging(tensors[f"convolutions.{k}.weight"], tensors[f"convolutions.{k}.bias"], layer,
                                        device) for k, layer in enumerate(layers)]
        self._read = np.ascontiguousarray(tensors["readout.weight"][..., 0].T, np.float32)      # [heard, OUTPUTS]
        self._bias = np.asarray(tensors["readout.bias"], np.float32)

    @staticmethod
    def _charging(weight: np.ndarray, bias: np.ndarray, layer: Layer, device: str) -> Charging:
        if device == "cpu":
            return Convolving(weight, bias, layer.stride, layer.padding, layer.dilation)
        from brain_regions.torch_device import on_device

        return on_device(weight, bias, layer.stride, layer.padding, layer.dilation, device)


class Looking(_Vision):
    """The network with the weights of a file. Charges become spikes where they are, so arrays stay in caches.

    Args:
        tensors: its weights.
        layers: that they are of.
        device: where the convolutions are computed, by torch where it is not ``cpu``; membranes are NumPy's.

    Raises:
        ValueError, KeyError: the weights are of other layers.
    """

    def __init__(self, tensors: Tensors, layers: Layers = LAYERS, device: str = "cpu") -> None:
        super().__init__(tensors, layers, device)
        self._weights: dict[int, tuple[np.float32, np.ndarray, np.ndarray]] = {}    # by the number of micro-steps
        whole = circuit(tensors, layers)
        leaving, self.neurons = fan_outs(whole), neurons(whole)
        self.multiplies = int(leaving[INPUT].sum())     # multiply-accumulates of a picture, which the first layer hears
        # of each neuron of a layer, what its spike counts for: as a spike, and as synaptic operations
        self._worth = [np.stack([np.ones(n.size, np.float32), n.transpose(1, 2, 0).reshape(-1)])
                       for n in (leaving[layer.name] for layer in self.layers)]

    def rest(self) -> dict[str, np.ndarray]:
        """State of a network that has seen nothing: potentials [rows, columns, channels], answer [COLUMNS, OUTPUTS]."""
        state = {f"v_{layer.name}": np.zeros((rows, columns, channels), np.float32)
                 for layer, (channels, rows, columns) in zip(self.layers, sizes(self.layers))}
        return {**state, "u": np.zeros((self.layers.columns, self.layers.outputs), np.float32)}

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
            if k in self.layers.read:
                heard.append(np.dot(weights, x.reshape(steps, -1)).reshape(x.shape[2], -1))
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
        x, v = self._charges[k](x), settled(v)
        fired = np.empty((steps, *v.shape), bool)
        # the picture's charge is the same in all micro-steps; others have room for the spikes
        x, v = lif_run(x, v, NEURON, MICRO_STEP, fired, x) if k else lif_run(
            np.broadcast_to(x[0], fired.shape), v, NEURON, MICRO_STEP, fired)
        return x, fired, v

    def _hand_on(self, k: int, fired: np.ndarray) -> None:
        """Called with the spikes of layer ``k`` where they are others than it fired."""

    def _readings(self, steps: int) -> tuple[np.float32, np.ndarray, np.ndarray]:
        """Returns the share of the readout that so many micro-steps keep, each one's weight, and what the bias adds."""
        if steps not in self._weights:
            beta = decay(READOUT.tau, MICRO_STEP)
            weights = ((1 - beta) * beta ** np.arange(steps - 1, -1, -1)).astype(np.float32)
            self._weights[steps] = np.float32(beta ** steps), weights, np.float32(1 - beta ** steps) * self._bias
        return self._weights[steps]

    def count(self, k: int, fired: np.ndarray) -> tuple[float, float]:
        """Spikes and synaptic operations of layer ``k``'s train, bool [steps, rows, columns, channels]."""
        fired, found = fired.reshape(len(fired), -1), np.zeros(2)
        for start in range(0, len(fired), BYTE):
            # eight neurons to a word, each with a byte to be counted in
            each = np.add.reduce(fired[start:start + BYTE].view(np.uint64), 0).view(np.uint8)
            found += np.dot(self._worth[k], each.astype(np.float32))
        return float(found[0]), float(found[1])


class Rates(_Vision):
    """The ANN baseline with the weights of a file."""

    def answer(self, picture: np.ndarray) -> np.ndarray:
        """Answer [COLUMNS, OUTPUTS] to a level picture, uint8 [HEIGHT, WIDTH, 3]."""
        x, heard = current(picture), []
        for k, charge in enumerate(self._charges):
            x = charge(x)
            np.maximum(x, 0.0, out=x)
            if k in self.layers.read:
                heard.append(x.reshape(x.shape[2], -1))
        return np.dot(np.concatenate(heard, 1), self._read) + self._bias
