# SPDX-License-Identifier: Apache-2.0
"""Elastic weight consolidation: weights that earlier tasks depend on are held where they were.

Kirkpatrick et al., Overcoming catastrophic forgetting in neural networks, PNAS 114, 2017, equation 3: to the loss of a
new task is added ``sum_i lambda / 2 * F_i * (theta_i - theta*_i)**2``, where F is the diagonal of Fisher's information
and theta* the weights after the earlier task. For several tasks this is the online form, with one F and one theta*
whatever their number: Schwarz et al., Progress and compress, ICML 2018, section 3.3; F is ``decay * F`` of before plus
that of the last task, and theta* the weights after it.

F is the mean over samples of the squared gradient of one sample's log likelihood, with the labels that the sample has
(the empirical Fisher).
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Penalty:
    """Penalty of elastic weight consolidation (EWC), which holds weights near those after the last task.

    Attributes:
        fisher: by name, as the weights.
        anchor: weights after the last task, by name.
        strength: lambda.
    """

    fisher: dict[str, Tensor]
    anchor: dict[str, Tensor]
    strength: float

    def of(self, network: nn.Module) -> Tensor:
        """Computes the term that is added to the loss."""
        return self.strength / 2 * torch.stack([
            (self.fisher[name] * (value - self.anchor[name]).square()).sum()
            for name, value in network.named_parameters()]).sum()

    def after(self, network: nn.Module, fisher: dict[str, Tensor], decay: float = 1.0) -> Penalty:
        """That of one task more, with which the network has just been trained."""
        return Penalty({name: decay * self.fisher[name] + value for name, value in fisher.items()},
                       anchored(network), self.strength)


def anchored(network: nn.Module) -> dict[str, Tensor]:
    """A network's weights, as a copy."""
    return {name: value.detach().clone() for name, value in network.named_parameters()}


def fisher(network: nn.Module, samples: Sequence[Callable[[], Tensor]]) -> dict[str, Tensor]:
    """Diagonal of Fisher's information.

    Args:
        network: trained; its gradients are lost.
        samples: of each, what gives its negative log likelihood, a scalar.

    Raises:
        ValueError: there is no sample.
    """
    if not samples:
        raise ValueError("Fisher's information needs a sample")
    found = {name: torch.zeros_like(value) for name, value in network.named_parameters()}
    for sample in samples:
        network.zero_grad()
        sample().backward()
        for name, value in network.named_parameters():
            if value.grad is not None:
                found[name] += value.grad.square() / len(samples)
    network.zero_grad()
    return found
