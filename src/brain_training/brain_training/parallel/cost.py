# SPDX-License-Identifier: Apache-2.0
"""Costs and savings of a form of training, counted: bytes that a rank holds and sends, steps in a second."""
from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Iterable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

KINDS = ("parameters", "gradients", "optimizer")


@dataclass(frozen=True)
class Held:
    """B that one rank holds between two steps.

    Attributes:
        parameters, gradients, optimizer: of the network, and of the optimizer's state.
    """

    parameters: int
    gradients: int
    optimizer: int


def of_tensors(tensors: Iterable[Tensor | None]) -> int:
    """B of tensors, of those that are shared out this rank's part."""
    local = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors if tensor is not None)
    return sum(tensor.numel() * tensor.element_size() for tensor in local)


def held(network: nn.Module, optimizer: torch.optim.Optimizer) -> Held:
    """Counts the bytes that a rank holds after a step, before its gradients are dropped."""
    states = getattr(optimizer, "optim", optimizer).state.values()      # of ZeroRedundancyOptimizer its own part
    return Held(of_tensors(network.parameters()), of_tensors(p.grad for p in network.parameters()),
                of_tensors(value for state in states for value in state.values() if isinstance(value, Tensor)
                           and not getattr(value, "on_disk", False)))


@dataclass(frozen=True)
class Cost:
    """Costs of one training: memory, bytes sent, and speed.

    Attributes:
        plan, backend: as told.
        ranks: how many.
        held: by each rank.
        whole: what one process holds: all parameters and gradients, and the states of all ranks' parts together.
        sent: B that each rank sent in a step, on the mean.
        counted: by whom ``sent`` is counted.
        steps_per_s: with all that belongs to a step.
        notes: what is to be known beside.
    """

    plan: str
    backend: str
    ranks: int
    held: tuple[Held, ...]
    whole: Held
    sent: tuple[int, ...]
    counted: str
    steps_per_s: float
    notes: tuple[str, ...] = ()

    def report(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def line(which: str, cost: dict[str, Any]) -> str:
    """One line of a :meth:`Cost.report` for people."""
    parts = []
    for kind in KINDS:
        most, whole = max(held[kind] for held in cost["held"]), cost["whole"][kind]
        parts.append(f"{most / 1e6:.2f} MB of {kind}" + (f" in place of {whole / 1e6:.2f}" if most < whole else ""))
    return (f"{which} by {cost['plan']} ({cost['ranks']} ranks, {cost['backend']}): {cost['steps_per_s']:.2f} steps/s; "
            f"a rank holds {', '.join(parts)}, and sends {max(cost['sent']) / 1e6:.2f} MB a step ({cost['counted']})"
            + "".join(f"; {note}" for note in cost["notes"]))
