# SPDX-License-Identifier: Apache-2.0
"""The trainer of several forms in one run: replicas share a batch, and each is cut into stages, or its layers split.

Each form works in a group of its own (:mod:`.mesh`), and knows nothing of the others: a replica's network is what
:mod:`.tensor` and :mod:`.pipeline` make of it, and what a loss or a normalization takes of the whole batch it takes of
the ranks that have the same part of the network in all replicas. So do gradients. With stages they are summed once in a
step, after the last micro-batch; else by DistributedDataParallel or ``fully_shard``, as without tp.
"""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from brain_training.parallel import tensor
from brain_training.parallel.cost import Held, of_tensors
from brain_training.parallel.data import DataParallelTrainer, unsplit
from brain_training.parallel.group import Ranks
from brain_training.parallel.how import How
from brain_training.parallel.mesh import Mesh, mesh
from brain_training.parallel.pipeline import Pipeline
from brain_training.parallel.tensor_networks import Split
from brain_training.parallel.zero import SharedOptimizerTrainer, ShardedTrainer
from brain_training.task import Lost, Task, stream
from brain_training.trainer import Trainer
from brain_training.whole import ALONE


class MeshTrainer(DataParallelTrainer):
    """Trains replicas of a network, each of which several ranks share.

    A checkpoint is that of one process: rank 0 of all writes it. Any other is taken up.

    Args:
        task, seed, more: as of :class:`DataParallelTrainer`.
        ranks: all of them.
        how: the plan, and what belongs to it.
        mesh: the groups of the plan.

    Attributes:
        pipeline: the stages of this rank; None: the plan has none.

    Raises:
        PlanError: a batch has too few samples for the plan.
        TrainingError: the network cannot be split, or cut, so.
    """

    mesh: Mesh
    parted = False      # what a rank holds is a part in more than one way, so it is put together

    def __init__(self, task: Task, seed: int, *, ranks: Ranks, how: How, mesh: Mesh, **more: Any) -> None:
        self.pipeline: Pipeline | None = None
        super().__init__(task, seed, ranks=Ranks(mesh.dp, exact=how.exact), how=how, world=ranks, mesh=mesh, **more)

    def wrapped(self, network: nn.Module) -> nn.Module:
        """The own part of the network; where it is cut into stages, none that is called."""
        plan = self.how.plan
        assert plan is not None
        if plan.tp > 1:
            network = self.network = tensor.split_network(self.task, network, self.mesh.tp, self.how.tensor)
        if plan.pp == 1:
            return super().wrapped(network)
        if plan.dp == 1:
            self.task.whole = ALONE     # as in one process, with its bits
        else:
            self.task.together(network)
        self.pipeline = Pipeline(self.task, network, self.how.micros, self.how.schedule, self.mesh.pp)
        for name in ("live", "folded"):     # who reads weights has them gathered
            if hasattr(network, name):
                setattr(network, name, self._gathering(self.pipeline, getattr(network, name)))
        return network

    @staticmethod
    def _gathering(pipeline: Pipeline, read: Callable[[], Any]) -> Callable[[], Any]:
        def gathered() -> Any:
            pipeline.joined()
            return read()

        return gathered

    # -- a step ----------------------------------------------------------------------------------------------------

    def passed(self, indices: Sequence[int]) -> Lost:
        """Through the network of this replica, or its stages, and back; gradients are those of all replicas."""
        if self.pipeline is None:
            return super().passed(indices)
        seed, step = self.seed, self.step

        def rng() -> Any:
            return stream("step", seed, step)

        if len(indices) < self.ranks.size:      # the rest of a curriculum, see DataParallelTrainer
            self._sizes = []
            with self.ranks.apart():
                lost = self.pipeline.step(self.batch(indices), rng)
        else:
            own = self._parted(indices)
            lost = self.pipeline.step(self.batch(own), rng, self._sizes)
        self._sum(count=self.ranks.rank == 0 or bool(self._sizes))
        return lost

    @torch.no_grad()
    def _sum(self, count: bool) -> None:
        """Sums the gradients of all replicas; where this one does not count, its own are 0."""
        grads = [p.grad for p in self.network.parameters() if p.grad is not None]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        if not count:
            flat.zero_()
        self.ranks.sum_(flat)
        for grad, part in zip(grads, flat.split([grad.numel() for grad in grads])):
            grad.copy_(part.view_as(grad))

    @torch.no_grad()
    def cut(self) -> float:
        """By the norm of the whole network's gradients: of each tensor, then of those norms, as torch does."""
        grads = {name: p.grad for name, p in self.network.named_parameters()}
        found = torch.zeros(2, len(grads), device=self.device, dtype=torch.get_default_dtype())
        for number, (name, grad) in enumerate(grads.items()):
            if grad is not None:
                found[0, number], found[1, number] = torch.linalg.vector_norm(self._local(grad)), 1.0
        norms, there = found
        if self._shared:
            norms = self._root(norms, torch.ones_like(there), self.mesh.shard)
        if isinstance(self.network, Split):
            splits = torch.tensor([name in self.network.splits for name in grads], device=self.device)
            norms = self._root(norms, splits, self.mesh.tp)
        if self.pipeline is not None:       # all but the owner of a tensor have 0
            told = torch.stack([norms, there])
            dist.all_reduce(told, group=self.mesh.pp)
            norms, there = told
        norm = torch.linalg.vector_norm(norms[there > 0])
        share = torch.clamp(self.task.clip / (norm + 1e-6), max=1.0)    # as torch's clip_grads_with_norm_ has it
        for grad in grads.values():
            if grad is not None:
                self._here(grad).mul_(share)
        return float(norm)

    @property
    def _shared(self) -> bool:
        """True where gradients are parts of those of own columns, and not summed up by their norm as wholes."""
        return self.how.plan is not None and self.how.plan.zero >= 2 and not self.how.exact

    def _local(self, grad: Tensor) -> Tensor:
        """Returns the tensor that this rank takes the norm of."""
        if not isinstance(grad, DTensor):
            return grad
        return grad.to_local() if self._shared else grad.full_tensor().contiguous()

    @staticmethod
    def _here(grad: Tensor) -> Tensor:
        return grad.to_local() if isinstance(grad, DTensor) else grad

    @staticmethod
    def _root(norms: Tensor, which: Tensor, group: dist.ProcessGroup) -> Tensor:
        """Norms of tensors that have parts at all ranks of a group, of those of the parts."""
        squares = norms.square() * which
        dist.all_reduce(squares, group=group)
        return torch.where(which > 0, squares.sqrt(), norms)

    def whose(self) -> str:
        """Names replicas whose samples made a loss or norm no number; of a pipeline the last stage knows."""
        wrong = torch.zeros(self.ranks.size)
        wrong[self.ranks.wrong()] = 1.0
        who = sum(self.world.gather(wrong)).nonzero().flatten().tolist()    # type: ignore[union-attr]
        return f", by what part {', '.join(map(str, who))} of dp={self.ranks.size} made of its samples" if who else ""

    # -- checkpoints -----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def weights(self) -> Mapping[str, Tensor]:
        """Whole tensors, of all columns and all stages; all ranks call it."""
        found = dict(super().weights())
        if isinstance(self.network, Split):
            splits, gathering = self.network.splits, self.network.gathering
            found = {name: splits[name].joined(value, gathering) if name in splits else value
                     for name, value in found.items()}
        return found if self.pipeline is None else self.pipeline.shared(found)

    def states(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        """See :class:`Trainer`: of all columns and all stages."""
        weights, found = super().states()
        state = found["state"]
        if isinstance(self.network, Split):
            state = tensor.joined_state(self.network, self.optimizer, state)
        if self.pipeline is not None:
            owner, rank = self.pipeline.owner, self.pipeline.rank
            names = {id(parameter): name for name, parameter in self.network.named_parameters()}
            parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
            own = {number: one for number, one in state.items()
                   if owner.get(names[id(parameters[number])], rank) == rank}
            every: list[Any] = [None] * self.pipeline.size
            dist.all_gather_object(every, own, group=self.mesh.pp)
            state = {number: one for of_rank in every for number, one in sorted(of_rank.items())}
        return weights, {**found, "state": dict(sorted(state.items()))}

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The checkpoint, with the own columns of the optimizer's state."""
        found = super().read()
        if found is None or not isinstance(self.network, Split):
            return found
        tensors, values = found
        state: dict[int, dict[str, Tensor]] = {}
        for name in [name for name in tensors if name.startswith("optimizer.")]:
            _, number, what = name.split(".", 2)
            state.setdefault(int(number), {})[what] = tensors.pop(name)
        for number, own in tensor.parted_optimizer(self.network, self.optimizer, state).items():
            tensors |= {f"optimizer.{number}.{what}": value for what, value in own.items()}
        return tensors, values

    def take(self, weights: Mapping[str, Tensor]) -> None:
        """Takes the own columns."""
        if isinstance(self.network, Split):
            splits, gathering = self.network.splits, self.network.gathering
            weights = {name: splits[name].part(value, gathering.own(splits[name].columns)) if name in splits else value
                       for name, value in weights.items()}
        super().take(weights)

    # -- the end ---------------------------------------------------------------------------------------------------

    def trained(self) -> nn.Module:
        """The whole network; all ranks have it."""
        weights = self.weights()
        network = self.task.built(self.seed)
        network.load_state_dict({name: value.cpu() for name, value in weights.items()})
        return network.train(self.network.training)

    def whole_held(self, optimizers: Sequence[int]) -> Held:
        """The tensors of the whole network, put together; all ranks call it."""
        size = sum(p.numel() * p.element_size() for p in self.task.built(self.seed).parameters())
        states = self.states()[1]["state"].values()
        return Held(size, size, of_tensors(value for state in states for value in state.values()
                                           if isinstance(value, Tensor)))


class MeshSharedOptimizerTrainer(MeshTrainer, SharedOptimizerTrainer):
    """The same with ZeRO 1 over the replicas."""


class MeshShardedTrainer(MeshTrainer, ShardedTrainer):
    """The same with ZeRO 2 and 3 over the replicas; there are no stages."""


def make(task: Task, seed: int, *, ranks: Ranks, how: How, **more: Any) -> Trainer:
    """The trainer of a plan with several forms; the ANN baseline, which no form divides, is trained data parallel."""
    plan = how.plan
    assert plan is not None
    if not task.spiking:
        return unsplit(task, seed, ranks, how, **more)
    groups = mesh(plan, torch.device(more.get("device", "cpu")).type)
    cls = (MeshTrainer, MeshSharedOptimizerTrainer, MeshShardedTrainer, MeshShardedTrainer)[plan.zero]
    return cls(task, seed, ranks=ranks, how=how, mesh=groups, **more)
