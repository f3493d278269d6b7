# SPDX-License-Identifier: Apache-2.0
"""ZeRO: data parallel whose ranks share out the optimizer's state (1), gradients too (2), parameters too (3).

S. Rajbhandari and others: ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC20. 1 is torch's
ZeroRedundancyOptimizer: whole tensors go to one rank or another. 2 and 3 are ``fully_shard``: a part of every tensor is
at each rank between steps; 2 keeps whole parameters from the forward pass to the end of the backward pass, 3 drops them
between.
"""
from __future__ import annotations

import copy
import inspect
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ContextManager, Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from brain_training.parallel.cost import Held
from brain_training.parallel.data import DataParallelTrainer
from brain_training.parallel.group import InOrder, Ranks
from brain_training.parallel.how import How
from brain_training.parallel.mesh import mesh
from brain_training.parallel.whole_loss import WholeLoss
from brain_training.task import Task
from brain_training.trainer import Trainer


class SharedOptimizerTrainer(DataParallelTrainer):
    """ZeRO 1."""

    def optimized(self) -> torch.optim.Optimizer:
        """The task's optimizer, of which each rank has that of some of the tensors."""
        plain = super().optimized()
        known = inspect.signature(type(plain)).parameters
        defaults = {name: value for name, value in plain.defaults.items() if name in known}
        groups = [{**{name: value for name, value in group.items() if name in known or name == "params"}}
                  for group in plain.param_groups]
        from torch.distributed.optim import ZeroRedundancyOptimizer     # half a second, which 2 and 3 do not need

        return ZeroRedundancyOptimizer(groups, type(plain), process_group=(
            self.mesh.shard if self.mesh else self.ranks.group), **defaults)

    def own(self) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """See :class:`.costed.Costed`; of the optimizer the state of the own tensors."""
        shared: Any = self.optimizer
        numbers = {id(parameter): number for number, parameter in enumerate(
            parameter for group in shared.param_groups for parameter in group["params"])}
        state = {numbers[id(parameter)]: its for parameter, its in shared.optim.state.items()}
        return self.network.state_dict(), {**torch.optim.Optimizer.state_dict(self.optimizer), "state": state}

    def states(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        """See :class:`Trainer`; of the others than rank 0 the optimizer's is empty."""
        shared: Any = self.optimizer
        shared.consolidate_state_dict(to=0)
        empty: dict[str, Any] = {"state": {}, "param_groups": shared.param_groups}
        return self.weights(), empty if self.ranks.rank else shared.state_dict()

    def whole_held(self, optimizers: Sequence[int]) -> Held:
        """See :class:`DataParallelTrainer`."""
        replicas = dist.get_world_size() // dist.get_world_size(self.mesh.shard) if self.mesh else 1
        return replace(super().whole_held(optimizers), optimizer=sum(optimizers) // replicas)


def placed(parameter: Tensor, size: int) -> Shard:
    """The dimension that a parameter is shared out along: the first, or the longest that ``size`` ranks divide.

    What no dimension divides evenly is shared out along the first, and some ranks have more of it than others.
    """
    if parameter.dim() == 0 or parameter.shape[0] % size == 0:
        return Shard(0)
    fits = [dim for dim in range(parameter.dim()) if parameter.shape[dim] % size == 0]
    return Shard(max(fits, key=lambda dim: parameter.shape[dim])) if fits else Shard(0)


class ShardedTrainer(DataParallelTrainer):
    """ZeRO 2 and 3."""

    def wrapped(self, network: nn.Module) -> nn.Module:
        """The loss with parameters shared out among ranks."""
        self.task.together(network)
        for each in network.parameters():   # fully_shard takes no other layout
            each.data = each.data.contiguous()
        self._outline = copy.deepcopy(network).to("meta")
        # in the order of all ranks gradients are summed by ourselves, over replicas too
        hybrid = self.mesh.hybrid if self.mesh else None
        group = self.mesh.shard if self.mesh else self.ranks.group
        alone = hybrid is None or self.how.exact
        self._mesh = DeviceMesh.from_group(group, self.device.type) if alone else hybrid
        size = dist.get_world_size(group)
        model = WholeLoss(self.task, network)
        assert self.how.plan is not None
        fully_shard(model, mesh=self._mesh, reshard_after_forward=self.how.plan.zero == 3,
                    shard_placement_fn=lambda parameter: placed(parameter, size),
                    offload_policy=CPUOffloadPolicy() if self.how.offload == "all" else OffloadPolicy())
        model.set_gradient_divide_factor(1.0)
        model.set_force_sum_reduction_for_comms(True)
        model.set_custom_reduce_scatter(
            InOrder(self.ranks, self.ranks.size // size) if alone else InOrder(Ranks(group)))
        if alone and size == 1 and self.ranks.size > 1:     # shard=1: torch scatters nothing in a group of one
            model.set_all_reduce_hook(self.ranks.sum_)
        return model

    @contextmanager
    def _accumulated(self, last: bool) -> Iterator[None]:
        self._model.set_requires_gradient_sync(last)
        yield

    def syncing(self, last: bool) -> ContextManager[Any]:
        """See :class:`DataParallelTrainer`."""
        return self._accumulated(last)

    def cut(self) -> float:
        """By the norm over all ranks' parts; with ``exact`` of whole gradients, one after another."""
        if self.how.exact:
            return super().cut()
        norm = nn.utils.clip_grad_norm_(list(self.network.parameters()), self.task.clip)
        return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)

    @contextmanager
    def looking(self) -> Iterator[nn.Module]:
        """Another network of whole parameters, where the task looks at them; what it makes of them is shared out.

        Another one, for a task may hand them to NumPy, and then torch cannot drop them any more.
        """
        if not self.task.looks:
            yield self.network
            return
        self._outline.load_state_dict(_whole(self.network.state_dict()), assign=True)
        self._outline.train(self.network.training)
        yield self._outline
        self.network.train(self._outline.training)
        with torch.no_grad():
            for parameter, value in zip(self.network.parameters(), self._outline.parameters()):
                parameter.to_local().copy_(self._part(parameter, value.detach()).to_local())
        self._outline.to("meta")

    def _part(self, parameter: Tensor, value: Tensor) -> DTensor:
        """A whole tensor, which all ranks have, shared out as a parameter is; a part stays as it is."""
        assert isinstance(parameter, DTensor)
        if isinstance(value, DTensor):
            return value
        return distribute_tensor(value.to(parameter.device), self._mesh, parameter.placements, src_data_rank=None)

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def room(self, name: str, size: torch.Size, dtype: torch.dtype) -> Tensor:
        """See :class:`Trainer`: a part, shared out as the parameter is."""
        kind, _, rest = name.partition(".")
        target = None
        if kind == "network":
            target = self.network.state_dict().get(rest)
        elif kind == "optimizer":
            target = [p for group in self.optimizer.param_groups for p in group["params"]][int(rest.partition(".")[0])]
        if isinstance(target, DTensor) and target.shape == size:
            return torch.empty_like(target, dtype=dtype, requires_grad=False)
        return super().room(name, size, dtype)

    def weights(self) -> Mapping[str, Tensor]:
        """See :class:`DataParallelTrainer`: put together, one after another."""
        return _whole(self.network.state_dict())

    def states(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        """See :class:`Trainer`: put together, one after another."""
        optimizer = self.optimizer.state_dict()
        return self.weights(), {
            **optimizer, "state": {number: _whole(state) for number, state in optimizer["state"].items()}}

    def take(self, weights: Mapping[str, Tensor]) -> None:
        """Each rank its part."""
        own = self.network.state_dict()
        if set(own) != set(weights):
            raise ValueError(f"its tensors are {', '.join(sorted(set(own) ^ set(weights)))} others")
        with torch.no_grad():
            for name, value in weights.items():
                target = own[name]
                if value.shape != target.shape:
                    raise ValueError(f"{name} is {tuple(value.shape)}, not {tuple(target.shape)}")
                if isinstance(target, DTensor):
                    target.to_local().copy_(self._part(target, value).to_local())
                else:
                    target.copy_(value)

    def like(self, parameter: Tensor, value: Tensor) -> Tensor:
        """See :class:`Trainer`."""
        return self._part(parameter, value)

    def trained(self) -> nn.Module:
        """A network of its own with whole parameters, on the CPU."""
        weights = self.weights()
        network = self.task.built(self.seed)
        network.load_state_dict({name: value.cpu() for name, value in weights.items()})
        return network.train(self.network.training)

    def whole_held(self, optimizers: Sequence[int]) -> Held:
        """See :class:`DataParallelTrainer`."""
        states = self.optimizer.state.values()
        return replace(super().whole_held(optimizers), optimizer=sum(
            value.numel() * value.element_size() for state in states for value in state.values()
            if isinstance(value, Tensor)))


def _whole(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors put together from all ranks' parts."""
    return {name: value.full_tensor() if isinstance(value, DTensor) else value for name, value in tensors.items()}


def make(task: Task, seed: int, *, ranks: Ranks, how: How, **more: Any) -> Trainer:
    """The trainer of a plan with ``zero``."""
    assert how.plan is not None
    cls = SharedOptimizerTrainer if how.plan.zero == 1 else ShardedTrainer
    if how.plan.shard:
        device = torch.device(more.get("device", "cpu")).type
        return cls(task, seed, ranks=ranks, how=how, mesh=mesh(how.plan, device), **more)
    return cls(task, seed, ranks=ranks, how=how, **more)
