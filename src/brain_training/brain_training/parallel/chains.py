# SPDX-License-Identifier: Apache-2.0
"""The chains of vision and motor; language is :mod:`.chain_reader`."""
from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from brain_regions.motor import network as motor
from brain_training.definitions.motor import Answer
from brain_training.definitions.vision import settled
from brain_training.neurons import LIFState, li_weights, lif_run
from brain_regions.vision.network import COLUMNS, LAYERS_READ, OUTPUTS, Layer, sizes
from brain_training.parallel.chain import Chain, Kind, Micro, Said, Section, Values
from brain_training.task import Lost
from brain_training.vision import STEPS, began


class VisionChain(Chain):
    """A section for each layer, and the readout. A layer's spikes are one value for each picture of the clip."""

    dims = 0, 0

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Of the whole network, where ranks share its layers."""
        return getattr(self.network, "whole_layers", self.network.layers)

    def sections(self, micro: Micro) -> list[Section]:
        """One after the other; the readout hears two layers, of which one skips two sections."""
        frames, found = micro.batch[0].shape[1], []
        before: tuple[str, ...] = ()
        for k, (layer, (channels, rows, columns)) in enumerate(zip(self.layers, sizes(self.layers))):
            names = _each(layer.name, frames)
            fan = layer.inputs * layer.kernel[0] * layer.kernel[1]
            found.append(Section(layer.name, partial(self._layer, k), before, names,
                                 (f"convolutions.{k}.", f"norms.{k}."),
                                 channels * rows * columns * (fan if k else fan / max(micro.steps, 1) + 40)))
            before = names
        heard = tuple(name for k in LAYERS_READ for name in _each(self.layers[k].name, frames))
        found.append(Section("readout", self._readout, heard, _each("u", frames), ("readout.",),
                             OUTPUTS * COLUMNS * 128 / max(micro.steps, 1)))
        return found

    def kinds(self, micro: Micro) -> dict[str, Kind]:
        """Spikes [micro-steps, batch, channels, rows, columns] or rates, channels last; u [batch, OUTPUTS, COLUMNS]."""
        batch, frames = micro.batch[0].shape[:2]
        steady = self.network.steady
        spikes = {name: Kind((1 if steady else _steps(frame, micro), batch, *size), not steady, (0, 1, 3, 4, 2),
                             once=k not in LAYERS_READ)
                  for k, (layer, size) in enumerate(zip(self.layers, sizes(self.layers)))
                  for frame, name in enumerate(_each(layer.name, frames))}
        return spikes | {name: Kind((batch, OUTPUTS, COLUMNS), False, (0, 1, 2)) for name in _each("u", frames)}

    def _layer(self, k: int, values: Values, micro: Micro) -> Values:
        network, pictures, layer = self.network, micro.batch[0], self.network.layers[k]
        v, found = began(network, len(pictures), micro.steps)[f"v_{layer.name}"], {}
        for frame, name in enumerate(_each(layer.name, pictures.shape[1])):
            x = (values[f"{network.layers[k - 1].name}.{frame}"] if k
                 else pictures[:, frame].contiguous(memory_format=torch.channels_last)[None])
            found[name], v = network.fire(k, x, settled(v) if frame else v, _steps(frame, micro))
        return found

    def _readout(self, values: Values, micro: Micro) -> Values:
        frames, found = micro.batch[0].shape[1], {}
        u = torch.zeros(len(micro.batch[0]), OUTPUTS, COLUMNS, device=micro.batch[0].device)
        for frame, name in enumerate(_each("u", frames)):
            trains = [values[f"{self.network.layers[k].name}.{frame}"] for k in LAYERS_READ]
            found[name] = u = self.network._read(trains, u.detach(), _steps(frame, micro))
        return found

    def lost(self, values: Values, micro: Micro) -> Lost:
        """Of the answers to each picture."""
        said = [({"u": values[name]}, []) for name in _each("u", micro.batch[0].shape[1])]
        return self.task.lost(Said(said), micro.batch, micro.rng())


def _steps(frame: int, micro: Micro) -> int:
    """Micro-steps of a picture of a clip, as the task's loss has them: the first has those that are drawn."""
    return STEPS if frame else micro.steps


def _each(name: str, frames: int) -> tuple[str, ...]:
    return tuple(f"{name}.{frame}" for frame in range(frames))


class MotorChain(Chain):
    """A section for each layer, and the readout. Of a layer's spikes its neurons' rates skip to the loss, as floats."""

    dims = 1, 1, 1

    def sections(self, micro: Micro) -> list[Section]:
        """One after the other."""
        network, found = self.network, []
        for k, (before, after) in enumerate(zip(network.layers, network.layers[1:])):
            found.append(Section(
                motor.NAMES[k], partial(self._layer, k), (f"s{k - 1}",) if k else (), (f"s{k}", f"rate{k}"),
                (f"w{k}", f"b{k}"), after * (before if k else before / max(micro.steps, 1) + 40)))
        reads = ("s2", *(f"rate{k}" for k in range(3)))
        found.append(Section("readout", self._readout, reads, ("readouts",), ("readout", "mask"),
                             float(network.readout.numel() + motor.OUTPUTS)))
        return found

    def kinds(self, micro: Micro) -> dict[str, Kind]:
        """Spikes [steps * micro-steps, batch, neurons], rates [neurons]."""
        steps, batch, _ = micro.batch[0].shape
        found = {f"s{k}": Kind((steps * micro.steps, batch, n), True, (0, 1, 2))
                 for k, n in enumerate(self.network.layers[1:])}
        return found | {f"rate{k}": Kind((n,), False, (0,)) for k, n in enumerate(self.network.layers[1:])}

    def _layer(self, k: int, values: Values, micro: Micro) -> Values:
        x = self.network._charge(k, values[f"s{k - 1}"] if k else micro.batch[0])
        if not k:
            x = x.repeat_interleave(micro.steps, 0)
        spikes, _ = lif_run(x, LIFState(torch.zeros_like(x[0])), motor.NEURON)
        spikes = self.network._fired(k, spikes)
        return {f"s{k}": spikes, f"rate{k}": spikes.mean((0, 1))}

    def _readout(self, values: Values, micro: Micro) -> Values:
        spikes = values["s2"]
        kept, weights = li_weights(micro.steps, motor.READOUT, device=spikes.device)
        heard = self.network._answered(torch.tensordot(weights, spikes.unflatten(0, (-1, micro.steps)), ([0], [1])))
        u, found = torch.zeros_like(heard[0]), []
        for one in heard:
            u = kept * u + one
            found.append(u)
        return {"readouts": torch.stack(found)}

    def lost(self, values: Values, micro: Micro) -> Lost:
        """Of the readouts, and of rates: the loss takes the mean of each neuron's spikes, which a rate is of itself."""
        rates: list[Tensor] = [values[f"rate{k}"][None, None] for k in range(3)]
        said = Answer(values["readouts"], {}, rates)
        return self.task.lost(Said([said]), micro.batch, micro.rng())
