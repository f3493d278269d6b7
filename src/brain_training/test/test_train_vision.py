# SPDX-License-Identifier: Apache-2.0
"""Training of vision, end to end on a tiny set: it learns, the same from the same seed, and never from `test`."""
import numpy as np
import pytest
import torch

from brain_regions.vision import weights
from brain_regions.vision.network import AnnTwin, SpikingVision
from brain_training.train_vision import train_vision
from brain_training.vision import Recipe, fit
from brain_training.vision_data import make_clips


def test_the_split_test_is_refused():
    with pytest.raises(ValueError, match="refuses"):
        make_clips(1, 1, 1, split="test")


@pytest.mark.parametrize("cls", [SpikingVision, AnnTwin])
def test_the_loss_falls(cls):
    torch.manual_seed(0)
    losses = fit(cls(), make_clips(4, 4, 2), Recipe(epochs=6, batch=4), 0)
    assert losses[-1] < 0.75 * losses[0]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights_and_a_file_that_loads(tmp_path):
    first, second, twin = (tmp_path / f"{name}.safetensors" for name in "abc")
    report = train_vision(first, twin, seed=7, quick=True, threads=1)
    train_vision(second, tmp_path / "d.safetensors", seed=7, quick=True, threads=1)
    assert weights.load(twin, twin=True)[1]["f1"] == report["twin"]["f1"]
    with pytest.raises(weights.WeightsError, match="twin"):
        weights.load(first, twin=True)
    a, b = weights.load(first), weights.load(second)
    assert all(torch.equal(x, y) for x, y in zip(a[0].state_dict().values(), b[0].state_dict().values()))
    assert a[1]["objects"] == report["spiking"]["objects"] > 0
    assert np.isfinite(report["spiking"]["losses"]).all()
