# SPDX-License-Identifier: Apache-2.0
"""Tiny tasks that ranks train in a second: one without batch statistics, and one with."""
from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from brain_regions.membranes import LIF
from brain_training.neurons import LIFState, lif_run
from brain_training.task import Lost, Task, one_cycle, stream

NEURON = LIF()


@dataclass(frozen=True)
class Recipe:
    steps: int = 50
    batch: int = 10
    rate: float = 0.02


class Spiker(nn.Module):
    """Two layers of spikes and a readout; first dimensions of parameters are 2, 1 and odd."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(2, 5, 12) * 0.4)
        self.bias = nn.Parameter(torch.full((1, 12), 0.1))
        self.second = nn.Parameter(torch.randn(24, 9) * 0.5)
        self.readout = nn.Linear(9, 3)

    def forward(self, x):
        """[batch, 5] to [batch, 3] and mean rates [9]."""
        charge = torch.cat([x @ self.first[0] + self.bias, x @ self.first[1] - self.bias], -1)
        spikes, _ = lif_run(charge.expand(8, *charge.shape), LIFState(torch.zeros_like(charge)), NEURON)
        charge = spikes @ self.second + 0.2
        spikes, _ = lif_run(charge, LIFState(torch.zeros_like(charge[0])), NEURON)
        rates = spikes.mean(0)
        return self.readout(rates), rates.mean(0)


class Spikes(Task):
    """Learns which of three numbers is the greatest. Some samples count more; what was hardest comes again."""

    name, clip, counts = "spikes", 0.5, True
    full = tiny = Recipe()
    wrong_at = None         # index of a sample that is no number

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.again = torch.zeros(1, dtype=torch.int64)

    @classmethod
    def files(cls):
        return {}

    def build(self, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Spiker()

    def optimizer(self, network):
        return torch.optim.AdamW(network.parameters(), lr=self.recipe.rate)

    def schedule(self, optimizer):
        return one_cycle(optimizer, self.recipe.rate, self.steps)

    @property
    def steps(self):
        return self.recipe.steps

    def indices(self, seed, step):
        if step % 10 == 9:      # the rest of something: fewer samples than four ranks
            return [1000 + step, *self.again.tolist()]
        return [*range(step * self.recipe.batch, (step + 1) * self.recipe.batch), *self.again.tolist()]

    def sample(self, seed, index):
        x = stream("spikes", seed, index).normal(size=5).astype(np.float32)
        return x if index != self.wrong_at else x * np.float32(np.nan)

    def collate(self, samples):
        return (torch.from_numpy(np.stack(samples)),)

    def loss(self, network, batch, rng):
        (x,) = batch
        said, rates = network(x)
        hard = nn.functional.cross_entropy(said, x[:, :3].argmax(-1), reduction="none") + 0 * x.sum(-1)
        weight = 1 + 2 * (x[:, 3] > 0).float()
        value, count = self.whole.sums((hard * weight).sum(), weight.sum())
        (rates,) = self.whole.means(len(x), rates)
        return Lost(value / count + (rates - 0.2).square().mean() + 0.01 * float(rng.normal()), hard.detach())

    @torch.no_grad()
    def end(self, network, indices, lost):
        assert lost.hard.shape == (len(indices),), (lost.hard.shape, len(indices))
        self.again = torch.tensor([indices[int(lost.hard.argmax())]])

    @torch.no_grad()
    def settle(self, network):
        network.second.clamp_(-0.6, 0.6)

    def state(self):
        return {"again": self.again}, {}

    def restore(self, tensors, values):
        self.again = tensors["again"]

    def score(self, network, tell):
        return {}

    def export(self, path, network, training, figures):
        raise AssertionError


class Normed(Spikes):
    """The same, with batch normalization, and a loss that is a mean over samples: nothing is done for ranks."""

    name, counts, looks = "normed", False, False

    def build(self, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return nn.Sequential(nn.Conv2d(1, 6, (1, 2)), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, (1, 2)),
                                 nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(12, 3)).double()

    def loss(self, network, batch, rng):
        x = batch[0].double()
        hard = nn.functional.cross_entropy(network(x[:, None, None]), x[:, :3].argmax(-1), reduction="none")
        return Lost(hard.mean(), hard.detach().float())

    def settle(self, network):
        pass


def sha(network):
    """Of all weights and statistics."""
    found = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        found.update(name.encode() + value.contiguous().numpy().tobytes())
    return found.hexdigest()
