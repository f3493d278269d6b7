# SPDX-License-Identifier: Apache-2.0
"""A task's loss as a module: torch's wrappers then see one forward pass in a step, whatever the task calls."""
from __future__ import annotations

from torch import Tensor, nn

from brain_training.task import Lost, Task, stream


def of_whole(task: Task, lost: Lost, samples: int) -> Lost:
    """Makes the loss of a part of so many samples that of the whole batch; a task that counts has done so already."""
    if task.counts:
        return lost
    (value,) = task.whole.means(samples, lost.value)
    return Lost(value, lost.hard)


class WholeLoss(nn.Module):
    """The loss of the whole batch, of which this process has a part.

    Args:
        task: whose.
        network: that the task calls; its parameters are this module's.
    """

    def __init__(self, task: Task, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self._task = task

    def forward(self, batch: tuple[Tensor, ...], seed: int, step: int, samples: int) -> Lost:
        """The value of the whole batch, with the gradient of this part, and how hard the samples of this part were.

        Args:
            batch: the part.
            seed, step: of the training; what is drawn for the step is the same for all parts.
            samples: how many the part has.
        """
        return of_whole(self._task, self._task.lost(self.network, batch, stream("step", seed, step)), samples)
