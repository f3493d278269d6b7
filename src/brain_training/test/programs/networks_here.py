# SPDX-License-Identifier: Apache-2.0
"""The networks that are trained, with weights from a seed, batches for them, and losses that hear all they say."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from brain_training.definitions.language import SpikingReader
from brain_training.definitions.motor import MotorNetwork
from brain_regions.vision.network import HEIGHT, INPUTS, WIDTH
from brain_training.definitions.vision import SpikingVision

NAMES = ("vision", "language", "motor")


class Made(NamedTuple):
    """What a network made of a batch: loss, all that it answers, and spikes by layer where it gives them."""

    loss: Tensor
    answers: list[Tensor]
    trains: list[Tensor]


def network(name: str) -> nn.Module:
    """Before training."""
    torch.manual_seed(1)
    if name == "vision":
        found = SpikingVision().to(memory_format=torch.channels_last)
        for norm in found.norms:
            norm.momentum = 1.0     # what one batch tells is enough for neurons to fire
        return found
    return SpikingReader() if name == "language" else MotorNetwork(np.random.default_rng(0))


def made(name: str, net: Any, seed: int = 5, size: int = 3) -> Made:
    """Of a small batch, in training mode; vision sees two pictures with its membranes carried over."""
    drawn = torch.Generator().manual_seed(seed)
    net.train()
    if name == "vision":
        pictures = torch.randn(2, size, INPUTS, HEIGHT, WIDTH, generator=drawn)
        state, trains, values = net.rest(size), [], []
        for number, picture in enumerate(pictures):
            net.steady = number == 0        # by rates, and as it runs
            state, fired = net(picture.contiguous(memory_format=torch.channels_last), state, 6)
            values.append(state["u"])
            state = {key: value.detach() for key, value in state.items()}
            trains += fired
        return Made(torch.stack([u.square().mean() for u in values]).sum(), values, trains)
    if name == "motor":
        answer = net(torch.rand(4, size, net.w0.shape[0], generator=drawn), net.rest(size), 6)
        busy = sum(train.mean((0, 1)).square().mean() for train in answer.trains)
        return Made(answer.readouts.square().mean() + busy, [answer.readouts], answer.trains)
    lengths = torch.tensor([21, 20, 15, 18, 21])[:size]
    answer = net(torch.randint(97, 120, (size, 21), generator=drawn), lengths)
    heard = [answer.evidence, answer.verb, answer.rates, *answer.activity]
    return Made(sum(part.square().mean() for part in heard), heard, [])
