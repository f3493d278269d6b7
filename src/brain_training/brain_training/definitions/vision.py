# SPDX-License-Identifier: Apache-2.0
"""The networks of vision in torch, as they are trained; :mod:`brain_regions.vision.network` is made of them and runs.

`SpikingVision` carries membrane potentials from frame to frame. `AnnBaseline` is the same network with ReLU for the
neurons and without time, to compare with. All tensors are made where the weights or the inputs are.
"""
from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from brain_training.neurons import LIFState, li_weights, lif_by_rate, lif_rate, lif_run
from brain_regions.vision import weights
from brain_regions.vision.network import (LAYERS, LEFT, MICRO_STEP, NEURON, OBJECT, READOUT, ROWS, Layers, Looking,
                                          Rates, sizes, widened)
from brain_regions.weight_files import Loaded

GAIN = 0.5      # of the normalization before the neurons at the start of training: about one in ten then fires


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


def _mean(x: Tensor) -> Tensor:
    """Mean over the first axis of five, of which the third, the channels, lies innermost and stays so."""
    return x.permute(0, 1, 3, 4, 2).sum(0).permute(0, 3, 1, 2) / len(x)


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

    def __init__(self, layers: Layers = LAYERS) -> None:
        super().__init__()
        self.layers = layers
        self.convolutions = nn.ModuleList(
            nn.Conv2d(y.inputs, y.outputs, y.kernel, y.stride, y.padding, y.dilation) for y in layers)
        self.norms = nn.ModuleList(nn.BatchNorm2d(y.outputs) for y in layers)
        self.readout = nn.Conv1d(sum(layers[k].outputs for k in layers.read), layers.outputs, 1)
        with torch.no_grad():
            self.readout.bias.view(-1, ROWS)[:, OBJECT] = -2.0  # few columns show an object

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


def settled(v: Tensor) -> Tensor:
    """Brings potentials into the range that they have where a new picture comes, without gradient."""
    return v.detach().clamp(*(NEURON.threshold * part for part in LEFT))


def carried(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """State in which a new picture finds the network that looked at another, without gradient."""
    return {name: value.detach() if name == "u" else settled(value) for name, value in state.items()}


class SpikingVision(_Network):
    """The spiking network."""

    steady = False

    def live(self) -> Looking:
        """Makes what a region runs, of a folded network. Raises ValueError where it is not folded."""
        return Looking(tensors(self), self.layers)

    def __init__(self, layers: Layers = LAYERS) -> None:
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
        state["u"] = torch.zeros(batch, self.layers.outputs, self.layers.columns, device=device)
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
        new["u"] = self._read([trains[k] for k in self.layers.read], state["u"], steps)
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
        """Potentials of the readout after the spikes of the layers that it hears, from those before."""
        kept, weights = li_weights(steps, READOUT, MICRO_STEP, u.device)
        if self.steady:
            weights = weights.sum(0, keepdim=True)
        heard = torch.cat([torch.tensordot(weights, train.squeeze(-2).float(), 1) for train in trains], dim=1)
        answer = F.conv1d(heard, self.readout.weight) + (1 - kept) * self.readout.bias[:, None]
        return kept * u + answer


class AnnBaseline(_Network):
    """The same layers with ReLU, one picture at a time."""

    def live(self) -> Rates:
        """Makes what a region runs, of a folded network. Raises ValueError where it is not folded."""
        return Rates(tensors(self), self.layers)

    def forward(self, image: Tensor) -> Tensor:
        """Answer [batch, OUTPUTS, COLUMNS] for pictures [batch, INPUTS, HEIGHT, WIDTH]."""
        heard = []
        for k in range(len(self.layers)):
            image = F.relu(self._charge(k, image))
            if k in self.layers.read:
                heard.append(image.squeeze(-2))
        return self.readout(torch.cat(heard, dim=1))


def tensors(network: nn.Module) -> dict[str, np.ndarray]:
    """Weights of a folded network by name, as in a weight file.

    Raises:
        ValueError: it is not folded.
    """
    if not all(isinstance(norm, nn.Identity) for norm in network.norms):    # type: ignore[union-attr]
        raise ValueError("this network still normalizes its charges; take its folded() copy")
    return {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}


def save(path: Path, network: SpikingVision | AnnBaseline, training: dict[str, Any], report: dict[str, Any]) -> None:
    """Writes a folded network's weights; see :func:`brain_regions.vision.weights.save`."""
    weights.save(path, tensors(network), training, report, ann=isinstance(network, AnnBaseline), layers=network.layers)


def load(path: Path = weights.SHIPPED, *, ann: bool = False, times: int = 1) -> tuple[Any, Loaded]:
    """A folded network, and what its file tells; see :func:`brain_regions.vision.weights.load`, which raises."""
    loaded = weights.load(path, ann=ann, times=times)
    network = (AnnBaseline if ann else SpikingVision)(widened(times)).folded()
    network.load_state_dict({name: torch.from_numpy(value) for name, value in loaded.tensors.items()})
    return network, loaded
