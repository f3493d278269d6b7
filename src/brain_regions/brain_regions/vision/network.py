# SPDX-License-Identifier: Apache-2.0
"""The spiking network of vision: a level picture in, per azimuth column what object is there, where and how far.

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

`SpikingVision` carries membrane potentials from frame to frame, and is what is trained: the definition. :mod:`.looking`
is made of its folded copy, and is what a region runs. `AnnBaseline` is the same network with ReLU for the neurons
and without time, to compare with. All tensors are made where the weights or the inputs are.
"""
from __future__ import annotations

import copy
import math
from typing import NamedTuple, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from brain_regions.circuits import INPUT, Circuit, Convolution, Population
from brain_regions.neurons import LI, LIF, LIFState, li_weights, lif_by_rate, lif_rate, lif_run

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


LAYERS = (
    Layer("edges", INPUTS, 16, (5, 5), (2, 2), (2, 2)),     # 16 x 40 x 64
    Layer("parts", 16, 24, (3, 3), (2, 1), (1, 1)),         # 24 x 20 x 64
    Layer("shapes", 24, 48, (3, 3), (2, 1), (1, 1)),        # 48 x 10 x 64
    Layer("columns", 48, 96, (10, 3), (1, 1), (0, 1)),      # 96 x  1 x 64: a column's whole height at once
    Layer("near", 96, 96, (1, 3), (1, 1), (0, 3), (1, 3)),  # and its neighbours, for what is near and wide
    Layer("wide", 96, 96, (1, 3), (1, 1), (0, 8), (1, 8)),
)


def widened(factor: int) -> tuple[Layer, ...]:
    """The layers with so many times the channels: for training; a region runs :data:`LAYERS`."""
    return tuple(layer._replace(inputs=layer.inputs * (factor if k else 1), outputs=layer.outputs * factor)
                 for k, layer in enumerate(LAYERS))


NEURON = LIF(tau=0.020, threshold=1.0, slope=4.0)
READOUT = LI(tau=0.020)
GAIN = 0.5      # of the normalization before the neurons at the start of training: about one in ten then fires

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


def directions() -> np.ndarray:
    """Directions [HEIGHT, WIDTH, 3] that a level picture's pixels show: unit vectors, x ahead, y to the left, z up."""
    azimuth = (WIDTH / 2 - 0.5 - np.arange(WIDTH)) * RESOLUTION
    elevation = (TOP - (np.arange(HEIGHT) + 0.5) * RESOLUTION)[:, None]
    flat = np.cos(elevation)
    return np.stack(np.broadcast_arrays(flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)), -1)


def column_angles() -> Tensor:
    """Azimuth of each column's middle, rad, positive to the left: [COLUMNS]."""
    return (COLUMNS / 2 - 0.5 - torch.arange(COLUMNS)) * (RESOLUTION * WIDTH / COLUMNS)


def prepare(images: Tensor) -> Tensor:
    """Input of the network from level pictures.

    Args:
        images: uint8 [..., HEIGHT, WIDTH, 3].

    Returns:
        float32 [..., INPUTS, HEIGHT, WIDTH]: the colors -1..1, and 1; all 0 where the camera does not see.
    """
    seen = (images != 0).any(-1, keepdim=True)
    colors = images.to(torch.float32).div_(127.5).sub_(1.0).mul_(seen)
    return torch.cat((colors, seen), -1).movedim(-1, -3)


def sizes(layers: Sequence[Layer] = LAYERS) -> list[tuple[int, int, int]]:
    """Channels, rows and columns of each layer."""
    rows, columns, found = HEIGHT, WIDTH, []
    for layer in layers:
        rows, columns = (
            (size + 2 * p - d * (k - 1) - 1) // s + 1
            for size, p, d, k, s in zip((rows, columns), layer.padding, layer.dilation, layer.kernel, layer.stride))
        found.append((layer.outputs, rows, columns))
    return found


def _mean(x: Tensor) -> Tensor:
    """Mean over the first axis of five, of which the third, the channels, lies innermost and stays so."""
    return x.permute(0, 1, 3, 4, 2).sum(0).permute(0, 3, 1, 2) / len(x)


LAYERS_READ = (3, 5)
"""Numbers of the layers that the readout hears."""


class _Network(nn.Module):
    """The weights that both networks have: convolutions, their normalization while training, and the readout.

    Args:
        layers: of the network; those of a wider one make another network, for measurements.

    Attributes:
        steady: charges are normalized over the batch while it is trained, and there is no time. The training of the
            spiking one begins so, with the rates of its neurons for their spikes; then it runs in micro-steps, and its
            charges are normalized as they will be when it is folded.
    """

    steady = True

    def __init__(self, layers: Sequence[Layer] = LAYERS) -> None:
        super().__init__()
        self.layers = tuple(layers)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(y.inputs, y.outputs, y.kernel, y.stride, y.padding, y.dilation) for y in layers)
        self.norms = nn.ModuleList(nn.BatchNorm2d(y.outputs) for y in layers)
        self.readout = nn.Conv1d(sum(layers[k].outputs for k in LAYERS_READ), OUTPUTS, 1)
        with torch.no_grad():
            self.readout.bias.view(SLOTS, ROWS)[:, OBJECT] = -2.0  # few columns show an object

    def folded(self):
        """A copy for inference, with the normalization multiplied into the weights."""
        other = copy.deepcopy(self).eval()
        other.steady = type(self).steady
        for k, (convolution, norm) in enumerate(zip(other.convolutions, other.norms)):
            if isinstance(norm, nn.BatchNorm2d):
                other.convolutions[k] = nn.utils.fuse_conv_bn_eval(convolution, norm)
                other.norms[k] = nn.Identity()
        return other.to(memory_format=torch.channels_last)

    def _charge(self, k: int, x: Tensor) -> Tensor:
        """Computes the input of layer ``k`` from ``x`` [batch, channels, rows, columns]."""
        return self._normalized(k, self.convolutions[k](x))

    def _normalized(self, k: int, charge: Tensor) -> Tensor:
        """Normalizes the input of layer ``k``."""
        return self.norms[k].train(self.training and self.steady)(charge)

    def _heard(self, k: int, spikes: Tensor) -> Tensor:
        """The spikes that layer ``k`` hears."""
        return spikes

    def _fired(self, k: int, spikes: Tensor) -> Tensor:
        """The spikes that layer ``k`` hands on; who splits the layer over processes has those of all of them."""
        return spikes


class SpikingVision(_Network):
    """The spiking network."""

    steady = False

    def __init__(self, layers: Sequence[Layer] = LAYERS) -> None:
        super().__init__(layers)
        with torch.no_grad():
            for norm in self.norms:
                norm.weight.fill_(GAIN)

    def rest(self, batch: int = 1) -> dict[str, Tensor]:
        """State of a network that has seen nothing, on the device of its weights.

        It has the potentials by layer [batch, channels, rows, columns], and the readout's [batch, OUTPUTS, COLUMNS].
        """
        device = self.readout.weight.device
        state = {
            f"v_{layer.name}": torch.zeros(batch, *size, device=device).to(memory_format=torch.channels_last)
            for layer, size in zip(self.layers, sizes(self.layers))}
        state["u"] = torch.zeros(batch, OUTPUTS, COLUMNS, device=device)
        return state

    def midway(self, batch: int = 1) -> dict[str, Tensor]:
        """State of a network that looks at pictures for long: potentials lie anywhere between 0 and the threshold.

        They are spread evenly, the same each time (multiples of the golden ratio, whose fractions fill 0..1). The
        readout's are 0.
        """
        state = self.rest(batch)
        for k, layer in enumerate(self.layers):
            v = state[f"v_{layer.name}"]
            rows, columns = v.shape[-2:]
            places = torch.arange(rows * columns, dtype=torch.float64, device=v.device).view(rows, columns)
            channels = torch.tensor(self._channels(k), dtype=torch.float64, device=v.device).view(-1, 1, 1)
            v.copy_((0.618033988749895 * places + 0.414213562373095 * channels).frac_().mul_(NEURON.threshold))
        return state

    def _channels(self, k: int) -> range:
        """Numbers of the channels of layer ``k``; who splits it over processes has some of them."""
        return range(self.layers[k].outputs)

    def forward(self, image: Tensor, state: dict[str, Tensor], steps: int, silent: bool = False
                ) -> tuple[dict[str, Tensor], list[Tensor]]:
        """Looks at pictures for ``steps`` micro-steps.

        Args:
            image: [batch, INPUTS, HEIGHT, WIDTH] from :func:`prepare`.
            state: from :meth:`rest` or the last call; it is not changed.
            steps: number of micro-steps, 0 or more. The answer is ``u`` of the new state.
            silent: no layer's spikes reach the next or the readout.

        Returns:
            The new state, and the spikes of each layer [steps, batch, channels, rows, columns]; while it is
            :attr:`steady`, their rates [1, batch, ...], and no potential but ``u`` is another.
        """
        if steps == 0:
            return state, [torch.zeros_like(state[f"v_{layer.name}"]).expand(0, -1, -1, -1, -1)
                           for layer in self.layers]
        new, trains, x = {}, [], image[None]
        for k, layer in enumerate(self.layers):
            name = f"v_{layer.name}"
            x, new[name] = self.fire(k, x, state[name], steps)
            if silent:
                x = torch.zeros_like(x)
            trains.append(x)
        new["u"] = self._read([trains[k] for k in LAYERS_READ], state["u"], steps)
        return new, trains

    def fire(self, k: int, x: Tensor, v: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Runs layer ``k``.

        Args:
            x: what it hears, [steps, batch, channels, rows, columns]; [1, ...] of the picture, or of steady rates.
            v: potentials [batch, channels, rows, columns] before.
            steps: number of micro-steps, at least 1.

        Returns:
            Spikes [steps, batch, channels, rows, columns], or steady rates [1, ...]; and the new potentials. The
            gradient passes through the mean of what the layer hears.
        """
        x = self._heard(k, x)
        learns = torch.is_grad_enabled()
        mean = self._charge(k, _mean(x)) if learns or self.steady else None
        if self.steady:
            return self._fired(k, lif_rate(mean, NEURON, MICRO_STEP)[None]), v
        with torch.no_grad():
            charge = (self._charge(k, x.flatten(0, 1)).unflatten(0, x.shape[:2]) if len(x) > 1 or mean is None
                      else mean[None]).expand(steps, -1, -1, -1, -1)
        before = LIFState(v.detach().to(charge.dtype) if learns else v)
        x, after = (lif_run(charge, before, NEURON, MICRO_STEP) if mean is None
                    else lif_by_rate(charge, mean, before, NEURON, MICRO_STEP))
        return self._fired(k, x), after.v

    def _read(self, trains: Sequence[Tensor], u: Tensor, steps: int) -> Tensor:
        """Potentials of the readout after the spikes of :data:`LAYERS_READ`, from those before."""
        kept, weights = li_weights(steps, READOUT, MICRO_STEP, u.device)
        if self.steady:
            weights = weights.sum(0, keepdim=True)
        heard = torch.cat([torch.tensordot(weights, train.squeeze(-2).float(), 1) for train in trains], dim=1)
        answer = F.conv1d(heard, self.readout.weight) + (1 - kept) * self.readout.bias[:, None]
        return kept * u + answer


class AnnBaseline(_Network):
    """The same layers with ReLU, one picture at a time."""

    def forward(self, image: Tensor) -> Tensor:
        """Answer [batch, OUTPUTS, COLUMNS] for pictures [batch, INPUTS, HEIGHT, WIDTH]."""
        heard = []
        for k in range(len(self.layers)):
            image = F.relu(self._charge(k, image))
            if k in LAYERS_READ:
                heard.append(image.squeeze(-2))
        return self.readout(torch.cat(heard, dim=1))


def circuit(network: SpikingVision) -> Circuit:
    """A folded network for other simulators: the input is what :func:`prepare` makes, the output the answer.

    The answer's axes are (OUTPUTS, 1, COLUMNS); the readout hears each of its two layers by a projection of its own.
    """
    populations = [Population(layer.name, size, NEURON) for layer, size in zip(network.layers, sizes(network.layers))]
    names = [INPUT, *(layer.name for layer in network.layers)]
    projections = [
        Convolution(source, y.name, c.weight.detach().numpy(), c.bias.detach().numpy(), y.stride, y.padding, y.dilation)
        for source, y, c in zip(names, network.layers, network.convolutions)]
    heard = torch.split(network.readout.weight.detach(), [network.layers[k].outputs for k in LAYERS_READ], dim=1)
    biases = [network.readout.bias.detach().numpy(), None]
    projections += [Convolution(network.layers[k].name, "readout", weight[..., None].numpy(), bias)
                    for k, weight, bias in zip(LAYERS_READ, heard, biases)]
    populations.append(Population("readout", (OUTPUTS, 1, COLUMNS), READOUT))
    return Circuit("vision", (INPUTS, HEIGHT, WIDTH), tuple(populations), tuple(projections), MICRO_STEP)
