# SPDX-License-Identifier: Apache-2.0
"""The trainer whose network is cut into stages over the ranks of a group, see :mod:`.pipeline`."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from brain_training.parallel.data import unsplit
from brain_training.parallel.group import Ranks
from brain_training.parallel.how import How
from brain_training.parallel.one_network import OneNetwork
from brain_training.parallel.pipeline import ONE_F_ONE_B, Pipeline
from brain_training.task import Lost, Task, stream
from brain_training.trainer import Trainer


class PipelineTrainer(OneNetwork):
    """Trains one network whose layers are cut into stages.

    Gradients and the optimizer's state are of the own stages alone. Each rank keeps the weights of all, which are those
    of the last gathering where they are others': whoever reads them by ``live()`` or ``folded()`` has them gathered.

    Args:
        task, seed, more: as of :class:`Trainer`.
        micros: micro-batches of a step.
        schedule: see :data:`.pipeline.SCHEDULES`.
        each: stages of a rank; None: as the schedule needs.
        group: of the ranks; None: all.

    Raises:
        TrainingError: these do not fit.
    """

    def __init__(self, task: Task, seed: int, *, micros: int, schedule: str = ONE_F_ONE_B, each: int | None = None,
                 group: dist.ProcessGroup | None = None, **more: Any) -> None:
        self._asked = micros, schedule, each
        super().__init__(task, seed, group=group, **more)

    def wrapped(self, network: nn.Module) -> nn.Module:
        """The network, which gathers weights before somebody reads them."""
        micros, schedule, each = self._asked
        self.pipeline = Pipeline(self.task, network, micros, schedule, self.group, each)
        for name in ("live", "folded"):
            if hasattr(network, name):
                setattr(network, name, self._gathering(getattr(network, name)))
        return network

    def _gathering(self, read: Callable[[], Any]) -> Callable[[], Any]:
        def gathered() -> Any:
            self.pipeline.joined()
            return read()

        return gathered

    def passed(self, indices: Sequence[int]) -> Lost:
        """Through all stages and back, micro-batch by micro-batch."""
        seed, step = self.seed, self.step
        return self.pipeline.step(self.batch(indices), lambda: stream("step", seed, step))

    def norm(self) -> Tensor:
        """Of all stages' gradients."""
        own = [parameter.grad.norm() for parameter in self.network.parameters() if parameter.grad is not None]
        squares = torch.stack(own).square().sum()
        dist.all_reduce(squares, group=self.group)
        return squares.sqrt()

    def own(self) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Returns the state of the own stages, and of what belongs to no stage."""
        found, owner = self.optimizer.state_dict(), self.pipeline.owner
        names = {id(parameter): name for name, parameter in self.network.named_parameters()}
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        state = {number: its for number, its in found["state"].items()
                 if owner.get(names[id(parameters[number])], self.rank) == self.rank}
        weights = {name: value for name, value in self.network.state_dict().items()
                   if owner.get(name, self.rank) == self.rank}
        return weights, {**found, "state": state}

    def states(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        """Whole tensors, each from the rank of its stage."""
        found = self.own()[1]
        own = found["state"]
        every: list[Any] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(every, own, group=self.group)
        state = {number: one for of_rank in every for number, one in of_rank.items()}
        return self.pipeline.joined(), {**found, "state": dict(sorted(state.items()))}

    def trained(self) -> nn.Module:
        """The whole network; all ranks have it."""
        self.pipeline.joined()
        for name in ("live", "folded"):     # nothing has to be gathered any more
            self.network.__dict__.pop(name, None)
        return self.network.cpu()


def make(task: Task, seed: int, *, ranks: Ranks, how: How, **more: Any) -> Trainer:
    """The trainer of a plan with ``pp`` alone; the ANN baseline, which is not cut, is trained data parallel."""
    if not task.spiking:
        return unsplit(task, seed, ranks, how, **more)
    return PipelineTrainer(task, seed, group=ranks.group, how=how, micros=how.micros, schedule=how.schedule,
                           **more)
