# SPDX-License-Identifier: Apache-2.0
"""A network of equal layers, whose stages are balanced: what a pipeline's formula is measured on.

The networks that ship have layers of every size, so the stages they are cut into take different times. Here each
layer has as many spiking neurons as the one before, so each stage has as much to do; only the first layer passes no
gradient on, and only the last is followed by the loss.
"""
from __future__ import annotations

from functools import partial
from typing import Any, Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from brain_training.neurons import LIF, LIFState, lif_run
from brain_training.parallel.chain import Chain, Kind, Micro, Said, Section, Values
from brain_training.task import Lost, Recipe, Task, stream

LAYERS, NEURONS, MICRO_STEPS = 24, 256, 10
BATCH = 64
NEURON = LIF(tau=0.020)


class Net(nn.Module):
    """Layers of spiking neurons, one after another; what is read is how often each neuron of the last one fires."""

    chain = f"{__name__}:EqualChain"

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(NEURONS, NEURONS) for _ in range(LAYERS))
        for layer in self.layers:       # so that spikes get through all of them
            nn.init.normal_(layer.weight, 0.0, 2.5 / NEURONS**0.5)

    def fire(self, number: int, spikes: Tensor) -> Tensor:
        """Spikes of a layer, of those that it hears, both [MICRO_STEPS, samples, NEURONS]."""
        charge = self.layers[number](spikes)
        return lif_run(charge, LIFState(torch.zeros_like(charge[0])), NEURON)[0]

    def forward(self, spikes: Tensor) -> Tensor:
        """Rates [samples, NEURONS] for spikes [samples, MICRO_STEPS, NEURONS]."""
        spikes = spikes.transpose(0, 1)
        for number in range(LAYERS):
            spikes = self.fire(number, spikes)
        return spikes.mean(0)


class EqualChain(Chain):
    """A section for each layer."""

    dims = 0, 0

    def sections(self, micro: Micro) -> list[Section]:
        """One after the other, each with the same cost."""
        names = [f"spikes.{number}" for number in range(LAYERS)]
        return [Section(name, partial(self._layer, number), (names[number - 1],) if number else (), (name,),
                        (f"layers.{number}.",), 1.0) for number, name in enumerate(names)]

    def kinds(self, micro: Micro) -> dict[str, Kind]:
        """Spikes of each layer."""
        kind = Kind((MICRO_STEPS, len(micro.batch[0]), NEURONS), True, (0, 1, 2))
        return {f"spikes.{number}": kind for number in range(LAYERS)}

    def _layer(self, number: int, values: Values, micro: Micro) -> Values:
        heard = values[f"spikes.{number - 1}"] if number else micro.batch[0].transpose(0, 1)
        return {f"spikes.{number}": self.network.fire(number, heard)}

    def lost(self, values: Values, micro: Micro) -> Lost:
        """Of the last layer's rates."""
        return self.task.lost(Said([values[f"spikes.{LAYERS - 1}"].mean(0)]), micro.batch, micro.rng())


class EqualLayers(Task):
    """Rates that are given shall be those of the last layer. What is learned is of no use; its cost is measured."""

    name = "layers"
    full, tiny = Recipe(steps=50, batch=BATCH, rate=0.001), Recipe(steps=3, batch=8, rate=0.001)

    def sample(self, seed: int, index: int, purpose: str = "layers") -> tuple[np.ndarray, np.ndarray]:
        """Random spikes [MICRO_STEPS, NEURONS], and rates [NEURONS]."""
        rng = stream(purpose, seed, index)
        spikes = (rng.random((MICRO_STEPS, NEURONS)) < 0.2).astype(np.float32)
        return spikes, rng.random(NEURONS).astype(np.float32)

    def build(self, seed: int) -> nn.Module:
        """The network."""
        return Net()

    def loss(self, network: Callable[..., Any], batch: tuple[Tensor, ...], rng: np.random.Generator) -> Tensor:
        """Mean squared difference of rates."""
        spikes, rates = batch
        return F.mse_loss(network(spikes), rates)

    @torch.inference_mode()
    def score(self, network: nn.Module, tell: Callable[[str], None]) -> dict[str, float]:
        """The loss on other samples."""
        spikes, rates = self.collate([self.sample(0, number, "layers, held out") for number in range(BATCH)])
        return {"loss": float(F.mse_loss(network(spikes), rates))}
