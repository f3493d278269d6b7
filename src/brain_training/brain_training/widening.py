# SPDX-License-Identifier: Apache-2.0
"""A vision with more neurons that computes what a trained one does, to be trained on (Net2WiderNet, Chen et al. 2015).

Each neuron of the hidden layers becomes several that hear the same and so fire together; what a neuron gave to the next
is divided among them, unevenly, so that training drives them apart. What is computed stays, but for rounding: a
spike of each of them adds up to the charge that the one spike was.
"""
from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from brain_regions.vision.network import LAYERS, LAYERS_READ, widened
from brain_training.definitions.vision import SpikingVision

EVEN = 4.0      # how evenly a neuron's part is divided (of a Dirichlet distribution)


def widen(network: SpikingVision, factor: int, seed: int = 0) -> SpikingVision:
    """A folded network with ``factor`` times the hidden neurons that answers what ``network`` does.

    Args:
        network: folded, of the layers that a region runs.
        factor: 1 or more.
        seed: of how parts are divided.

    Raises:
        ValueError: the network has other layers.
    """
    if network.layers != LAYERS:
        raise ValueError("this network is not of the size that a region runs, and only such a one is widened")
    rng = np.random.default_rng(np.random.SeedSequence([seed, factor, 0x31DE]))
    wide = SpikingVision(widened(factor)).folded()
    with torch.no_grad():
        for k, (mine, old) in enumerate(zip(wide.convolutions, network.convolutions)):
            weight = old.weight.repeat(factor, 1, 1, 1)
            mine.weight.copy_(_divided(weight, factor, rng) if k else weight)
            mine.bias.copy_(old.bias.repeat(factor))
        parts = torch.split(network.readout.weight, [LAYERS[k].outputs for k in LAYERS_READ], dim=1)
        wide.readout.weight.copy_(torch.cat([_divided(part, factor, rng) for part in parts], 1))
        wide.readout.bias.copy_(network.readout.bias)
    return wide


def _divided(weight: Tensor, factor: int, rng: np.random.Generator) -> Tensor:
    """Weights [out, factor * in, ...] of [out, in, ...], whose parts add up to what they were."""
    shares = rng.dirichlet([EVEN] * factor, tuple(weight.shape[:2])).astype(np.float32)     # [out, in, factor]
    spread = torch.from_numpy(shares).movedim(-1, 1)                                        # [out, factor, in]
    return (weight[:, None] * spread.reshape(*spread.shape, *[1] * (weight.dim() - 2))).flatten(1, 2)
