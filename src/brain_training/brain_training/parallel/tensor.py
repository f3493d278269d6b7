# SPDX-License-Identifier: Apache-2.0
"""Tensor parallel: the layers of a network are split over the ranks of a group, which compute one batch together.

How each network is split is said by :mod:`.tensor_networks` and :mod:`.tensor_reader`, what goes over the wire by
:mod:`.gathering`. Weights and their gradients, the optimizer's state, membranes and what autograd keeps of a layer are
divided by the ranks; spikes that come in are not.
"""
from __future__ import annotations

from typing import Any, Iterator, Mapping

import torch
import torch.distributed as dist
from torch import Tensor, nn

from brain_training.definitions.language import SpikingReader
from brain_training.definitions.motor import MotorNetwork
from brain_training.definitions.vision import SpikingVision
from brain_training.parallel.divided import declared
from brain_training.parallel.gathering import Gathering
from brain_training.parallel.tensor_networks import EXACT, MODES, Split, SplitMotor, SplitVision
from brain_training.parallel.tensor_reader import SplitReader
from brain_training.task import Task, TrainingError

CLASSES: dict[type[nn.Module], type[Split]] = {
    SpikingVision: SplitVision, SpikingReader: SplitReader, MotorNetwork: SplitMotor}


def split_network(task: Task | None, network: nn.Module, group: dist.ProcessGroup | None = None,
                  mode: str = EXACT) -> Split:
    """The own part of a network that all ranks have built from the same seed.

    Args:
        task: whose; named where it cannot be split.
        network: whole; it is not changed.
        group: of the ranks that share it; None: all.
        mode: ``exact``: the forward pass is that of the whole network, to the bit. ``classic``: Megatron's, column and
            row layers by turns, in which the last bits of a sum can flip a spike.

    Raises:
        TrainingError: this network cannot be split, or not over so many ranks.
        ValueError: there is no such mode.
    """
    if mode not in MODES:
        raise ValueError(f"no mode {mode!r} of tensor parallel; there are {' and '.join(MODES)}")
    whose = f"of {task.name} ({task.which})" if task else type(network).__name__
    cls = CLASSES.get(type(network)) or declared(network, "split", whose)
    if not getattr(network, "spiking", True):
        raise TrainingError(f"the network {whose} cannot be split by columns: what is gathered are spikes, of which it "
                            f"has none; train it with dp, or in one process")
    if cls is None:
        raise TrainingError(f"the network {whose} cannot be split by columns: its class {type(network).__name__} names "
                            f"no split network as `split`; train it with dp, zero or ps, or in one process")
    try:
        return cls.of(network, Gathering(group), mode)
    except ValueError as error:
        raise TrainingError(f"the network {whose} cannot be split over {dist.get_world_size(group)} ranks: {error}"
                            ) from error


def joined(network: Split) -> dict[str, Tensor]:
    """The state of the whole network, as its ``state_dict``; all ranks call it, and all have it."""
    return network.joined()


def shares(network: Split, optimizer: torch.optim.Optimizer) -> Iterator[tuple[int, str]]:
    """Number in the optimizer's state, and name in the network, of each parameter."""
    names = {id(value): name for name, value in network.named_parameters()}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return ((number, names[id(parameter)]) for number, parameter in enumerate(parameters))


def joined_optimizer(network: Split, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The state of an optimizer as it would be of the whole network; all ranks call it, and all have it."""
    found = optimizer.state_dict()
    return {**found, "state": joined_state(network, optimizer, found["state"])}


def joined_state(network: Split, optimizer: torch.optim.Optimizer, state: Mapping[int, Mapping[str, Tensor]]
                 ) -> dict[int, dict[str, Tensor]]:
    """The state (by number of the parameter) of a whole network's optimizer, of that of own parts."""
    found = {number: dict(values) for number, values in state.items()}
    for number, name in shares(network, optimizer):
        share = network.splits.get(name)
        if share is not None and number in found:
            own = network.tensor(name)
            found[number] = {what: share.joined(value, network.gathering) if value.shape == own.shape else value
                             for what, value in found[number].items()}
    return found


def parted_optimizer(network: Split, optimizer: torch.optim.Optimizer,
                     state: Mapping[int, Mapping[str, Tensor]]) -> dict[int, dict[str, Tensor]]:
    """The own part of the state (by number of the parameter) of a whole network's optimizer."""
    found = {number: dict(values) for number, values in state.items()}
    for number, name in shares(network, optimizer):
        share = network.splits.get(name)
        if share is not None and number in found:
            found[number] = {what: share.part(value, network.gathering.own(share.columns)) if value.dim() else value
                             for what, value in found[number].items()}
    return found


@torch.no_grad()
def norm(network: Split) -> Tensor:
    """Norm of all gradients of the whole network, of which each rank has a part; all ranks call it."""
    own, all_have = [torch.zeros(())], [torch.zeros(())]
    for name, value in network.named_parameters():
        if value.grad is not None:
            (own if name in network.splits else all_have).append(value.grad.norm().cpu())
    squares = torch.stack(own).square().sum().to(next(network.parameters()).device)
    dist.all_reduce(squares, group=network.gathering.group)
    return (squares.cpu() + torch.stack(all_have).square().sum()).sqrt()
