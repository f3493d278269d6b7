# SPDX-License-Identifier: Apache-2.0
"""Base of trainers whose ranks share one network: each has the whole batch and a part of the weights."""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Sequence

import torch.distributed as dist
from torch import Tensor, nn

from brain_training.parallel.cost import Held, held, of_tensors
from brain_training.parallel.costed import Costed
from brain_training.parallel.group import Ranks
from brain_training.parallel.how import How
from brain_training.task import Lost, Task


class OneNetwork(Costed, ABC):
    """Trains one network with all ranks of a group.

    A checkpoint is of the whole network and the whole optimizer's state: it is resumed from by any number of ranks.

    Args:
        task, seed, more: as of :class:`Trainer`.
        group: of the ranks; None: all.
        how: what the command line says of it.
    """

    def __init__(self, task: Task, seed: int, *, group: dist.ProcessGroup | None = None, how: How = How(), **more: Any
                 ) -> None:
        self.group, self.rank = group, dist.get_rank(group)
        super().__init__(task, seed, ranks=Ranks(group, exact=how.exact), how=how, **more)

    @abstractmethod
    def norm(self) -> Tensor:
        """Norm of all gradients of the whole network; all ranks call it."""

    def cut(self) -> float:
        """By the norm of the whole network's gradients."""
        total = self.norm()
        nn.utils.clip_grads_with_norm_(self.network.parameters(), self.task.clip, total.to(self.device))
        return float(total)

    # -- the end ---------------------------------------------------------------------------------------------------

    def gathered(self, lost: Lost) -> Lost:
        """All ranks have the loss of all samples; what is held now is counted."""
        if self._held is None:
            self._held = held(self.network, self.optimizer)
        return super().gathered(lost)

    def whole_held(self, optimizers: Sequence[int]) -> Held:
        """The tensors of the whole network, put together; all ranks call it."""
        size = sum(p.numel() * p.element_size() for p in self.task.built(self.seed).parameters())
        states = self.states()[1]["state"].values()
        return Held(size, size, of_tensors(value for state in states for value in state.values()
                                           if isinstance(value, Tensor)))
