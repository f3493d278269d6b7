# SPDX-License-Identifier: Apache-2.0
"""The trainer whose network's layers are split over the ranks of a group, see :mod:`.tensor`."""
from __future__ import annotations

from typing import Any, Mapping

import torch.distributed as dist
from torch import Tensor, nn

from brain_training.checkpoint_folder import Part
from brain_training.parallel import tensor
from brain_training.parallel.data import unsplit
from brain_training.parallel.group import Ranks
from brain_training.parallel.how import How
from brain_training.parallel.one_network import OneNetwork
from brain_training.parallel.tensor_networks import EXACT, Split
from brain_training.task import Task
from brain_training.trainer import Trainer


class TensorTrainer(OneNetwork):
    """Trains one network whose layers are split.

    Args:
        task, seed, more: as of :class:`Trainer`.
        group: of the ranks; None: all.
        mode: ``exact`` or ``classic``, see :func:`.tensor.split_network`.

    Raises:
        TrainingError: the network cannot be split so.
    """

    network: Split

    def __init__(self, task: Task, seed: int, *, group: dist.ProcessGroup | None = None, mode: str = EXACT,
                 **more: Any) -> None:
        self.mode = mode
        super().__init__(task, seed, group=group, **more)

    def wrapped(self, network: nn.Module) -> nn.Module:
        """The own part of the network, which the task sees, too."""
        self.network = tensor.split_network(self.task, network, self.group, self.mode)
        return self.network

    def norm(self) -> Tensor:
        """Of all ranks' parts."""
        return tensor.norm(self.network)

    def states(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        """Whole tensors, gathered."""
        return self.network.joined(), tensor.joined_optimizer(self.network, self.optimizer)

    def own(self) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """The own columns."""
        weights = {name: self._part(name, value) for name, value in self.network.state_dict().items()}
        optimizer = self.optimizer.state_dict()
        state = {number: dict(values) for number, values in optimizer["state"].items()}
        for number, name in tensor.shares(self.network, self.optimizer):
            state[number] = {what: self._part(name, value) if value.dim() else value
                             for what, value in state.get(number, {}).items()}
        return weights, {**optimizer, "state": state}

    def _part(self, name: str, value: Tensor) -> Tensor:
        """As DCP wants to know it; a dimension that has its columns several times is written as two."""
        share = self.network.splits.get(name)
        if share is None:
            return value
        start = self.network.gathering.own(share.columns).start
        if share.blocks == 1:
            return Part.of(value, share.dim, start, share.columns)
        return Part.of(value.detach().unflatten(share.dim, (share.blocks, -1)), share.dim + 1, start, share.columns)

    def shapes(self) -> dict[str, list[int]]:
        """See :class:`.costed.Costed`."""
        found = {}
        for name, share in self.network.splits.items():
            if share.blocks > 1:
                shape = list(self.network.tensor(name).shape)
                shape[share.dim] = share.columns * share.blocks
                found[f"network.{name}"] = shape
        for number, name in tensor.shares(self.network, self.optimizer):
            for what, value in self.optimizer.state_dict()["state"].get(number, {}).items():
                if f"network.{name}" in found and value.dim():
                    found[f"optimizer.{number}.{what}"] = found[f"network.{name}"]
        return found

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The checkpoint, with the own part of the optimizer's state."""
        found = super().read()
        if found is None:
            return None
        tensors, values = found
        state: dict[int, dict[str, Tensor]] = {}
        for name in [name for name in tensors if name.startswith("optimizer.")]:
            _, number, what = name.split(".", 2)
            state.setdefault(int(number), {})[what] = tensors.pop(name)
        for number, own in tensor.parted_optimizer(self.network, self.optimizer, state).items():
            tensors |= {f"optimizer.{number}.{what}": value for what, value in own.items()}
        return tensors, values

    def take(self, weights: Mapping[str, Tensor]) -> None:
        """Takes the own part."""
        self.network.take(weights)

    def trained(self) -> nn.Module:
        """The whole network; all ranks have it."""
        return self.network.whole()


def make(task: Task, seed: int, *, ranks: Ranks, how: How, **more: Any) -> Trainer:
    """The trainer of a plan with ``tp`` alone; the ANN baseline, which is not split, is trained data parallel."""
    if not task.spiking:
        return unsplit(task, seed, ranks, how, **more)
    return TensorTrainer(task, seed, group=ranks.group, how=how, mode=how.tensor, **more)
