# SPDX-License-Identifier: Apache-2.0
"""A gradient that is no number, of a loss that is one, ends a training before weights change."""
from __future__ import annotations

import pytest
import torch
from torch import nn

from brain_training.task import Recipe, Task, TrainingError
from brain_training.trainer import Trainer


class Root(Task):
    """Its loss has the root of 0 in its last step."""

    name, full = "root", Recipe(steps=4, batch=2)
    calls = 0

    def sample(self, seed, index):
        return torch.ones(3)

    def build(self, seed):
        return nn.Linear(3, 1)

    def loss(self, network, batch, rng):
        self.calls += 1
        out = network(batch[0]).square().mean()
        return out + (network(batch[0]).sum() * 0).abs().sqrt() if self.calls == 4 else out

    def score(self, network, tell):
        return {}


def test_it_is_told_and_weights_and_checkpoint_stay(tmp_path):
    trainer = Trainer(Root(), 0, checkpoint=tmp_path / "root.checkpoint", period=0.0)
    with pytest.raises(TrainingError, match="norm of the gradient of root .* is nan after 3 steps"):
        trainer.run()
    assert all(torch.isfinite(p).all() for p in trainer.network.parameters())
    again = Trainer(Root(), 0, checkpoint=tmp_path / "root.checkpoint")
    assert again.resume() == 3 and all(torch.isfinite(p).all() for p in again.network.parameters())


def test_a_recipe_without_steps_is_named():
    with pytest.raises(TrainingError, match=r"root \(spiking\) has 0 steps; its recipe must have at least one"):
        Trainer(Root(recipe=Recipe(steps=0)), 0)
