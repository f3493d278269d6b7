# SPDX-License-Identifier: Apache-2.0
"""Small tasks that processes of tests train."""
from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from brain_training.task import NETWORKS, Lost, Task, one_cycle, stream


@dataclass(frozen=True)
class Recipe:
    steps: int = 30
    batch: int = 16
    rate: float = 0.02
    drawn: int = 4      # hardest samples, which come again


class Sums(Task):
    """Learns a sum and a product; what was hardest in a step comes again in the next. The first biases are bounded."""

    name, clip = "sums", 0.5
    full, tiny = Recipe(), Recipe(steps=5)

    def __init__(self, which="spiking", *, quick=False, recipe=None):
        super().__init__(which, quick=quick, recipe=recipe)
        self.again, self.chapter = torch.empty(0, dtype=torch.int64), 0

    @classmethod
    def files(cls):
        return {}

    def build(self, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 2))
            network.register_buffer("seen", torch.zeros(()))
            return network

    def optimizer(self, network):
        return torch.optim.AdamW(network.parameters(), lr=self.recipe.rate, betas=(0.9, 0.98))

    def schedule(self, optimizer):
        return one_cycle(optimizer, self.recipe.rate, self.steps)

    @property
    def steps(self):
        return self.recipe.steps

    def begin(self, seed, step, network, tell):
        super().begin(seed, step, network, tell)
        self.chapter = step // 7

    def indices(self, seed, step):
        fresh = range(step * self.recipe.batch, (step + 1) * self.recipe.batch)
        return [*fresh, *self.again.tolist()]

    def sample(self, seed, index):
        return stream("sums", seed, index).normal(size=6).astype(np.float32)

    def collate(self, samples):
        return (torch.from_numpy(np.stack(samples)),)

    def loss(self, network, batch, rng):
        (x,) = batch
        network.seen += len(x)
        wanted = torch.stack([x.sum(1), x[:, 0] * x[:, 1]], 1)
        off = (network(x) - wanted + 0.001 * float(rng.normal())).square().mean(1)
        return Lost(off.mean(), off.detach())

    def settle(self, network):
        with torch.no_grad():
            network[0].bias.clamp_(-0.2, 0.2)

    def end(self, network, indices, lost):
        hardest = lost.hard.topk(min(self.recipe.drawn, len(lost.hard))).indices.sort().values
        self.again = torch.tensor(list(indices))[hardest]

    def state(self):
        return {"again": self.again}, {"chapter": self.chapter}

    def restore(self, tensors, values):
        self.again, self.chapter = tensors["again"], values["chapter"]

    def score(self, network, tell):
        return {}

    def export(self, path, network, training, figures):
        raise AssertionError


class Both(Task):
    """Two networks that learn a mean, each in a process of its own.

    Where the environment has HOLD, training waits in the middle as long as there is a file of that name; with HOLDS
    that of one network alone.
    """

    name, apart, middle = "both", True, 6
    full = tiny = Recipe(steps=12)

    @classmethod
    def files(cls):
        return {which: Path(f"both_{which}.safetensors") for which in NETWORKS}

    def build(self, seed):
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))

    def begin(self, seed, step, network, tell):
        super().begin(seed, step, network, tell)
        while step == self.middle and self.which in os.environ.get("HOLDS", self.which) \
                and Path(os.environ.get("HOLD", "/nothing")).exists():
            time.sleep(0.02)

    def sample(self, seed, index):
        return stream("both", seed, index).normal(size=6).astype(np.float32)

    def loss(self, network, batch, rng):
        return (network(batch[0])[:, 0] - batch[0].mean(1)).square().mean()

    def score(self, network, tell):
        return {"off": 0.0}


def bits(network):
    return {name: value.detach().numpy().tobytes() for name, value in network.state_dict().items()}
