# SPDX-License-Identifier: Apache-2.0
"""What is learned: a task has data, a network, a loss, an examination and a weight file.

How it is learned is a matter of :mod:`.trainer`.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Callable, ClassVar, Mapping, NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from brain_sim.room import stable_hash

Progress = Callable[[str, int, int, str], None]
"""Called with (what, done, of, note)."""
NETWORKS = ("spiking", "ann")
"""A region's network, and the one of the same size without spikes that it is compared with."""


def stream(purpose: str, seed: int, *numbers: int) -> np.random.Generator:
    """The random stream of one purpose in training: the same in every process and on every machine.

    Args:
        purpose: what for.
        seed: of the training.
        numbers: of the sample, the step or whatever else is drawn for.
    """
    return np.random.default_rng(np.random.SeedSequence([stable_hash(f"brain/training/{purpose}"), seed, *numbers]))


def torch_stream(purpose: str, seed: int, *numbers: int) -> torch.Generator:
    """The same for what torch draws, on the CPU."""
    return torch.Generator().manual_seed(int(stream(purpose, seed, *numbers).integers(2**62)))


def one_cycle(optimizer: torch.optim.Optimizer, rate: float, steps: int, warm: float = 0.1,
              **more: Any) -> torch.optim.lr_scheduler.LRScheduler:
    """One rise of the learning rate to ``rate`` in the first part ``warm`` of the steps, and one fall."""
    # less than two steps of rise make torch divide by zero
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=max(warm, 2 / steps),
                                               **more)


class TrainingError(RuntimeError):
    """A training cannot go on; says why and the remedy."""


class Lost(NamedTuple):
    """What a batch made.

    Attributes:
        value: loss, a scalar.
        hard: how hard each sample of the batch was, [batch], without gradient; None: the task does not ask.
    """

    value: Tensor
    hard: Tensor | None = None


class Task(ABC):
    """What is learned by one network.

    A sample is a function of (seed, index) alone, whoever makes it and in whatever order; what else is random is drawn
    from the seed and the step. So any process can make any part of a batch. What a task learns about its samples on the
    way (which were hard, what a network drove into) is its curriculum: it changes in :meth:`begin` and :meth:`end`
    alone, and :meth:`state` has all of it.

    Args:
        which: one of :data:`NETWORKS`.
        quick: a tiny recipe, which shows that everything works; the weights are worth nothing.
        recipe: another one than the task's own.

    Attributes:
        name: of the task, as in ``brain train NAME``.
        apart: each network of the task is best trained in a process of its own; else they share what is prepared.
        longest: it takes longer than all others.
        threads: torch's, where nobody asks for others.
        beside: names of figures among those of the spiking network that are others', as a teacher's.
        clip: norm that gradients are cut at.
    """

    name: ClassVar[str]
    apart: ClassVar[bool] = False
    longest: ClassVar[bool] = False
    threads: ClassVar[int] = 1
    beside: ClassVar[tuple[str, ...]] = ()
    clip: ClassVar[float] = 1.0
    full: ClassVar[Any]
    tiny: ClassVar[Any]

    def __init__(self, which: str = "spiking", *, quick: bool = False, recipe: Any = None) -> None:
        if which not in NETWORKS:
            raise ValueError(f"no network {which!r}; there are {' and '.join(NETWORKS)}")
        self.which, self.quick = which, quick
        self.recipe = recipe or (self.tiny if quick else self.full)

    @property
    def spiking(self) -> bool:
        """Whether the network has spikes."""
        return self.which == "spiking"

    @classmethod
    @abstractmethod
    def files(cls) -> dict[str, Path]:
        """The weight file that ships, of each network."""

    def check(self) -> None:
        """Raises ValueError where something is missing that training or examination need; before anything is done."""

    def share(self, other: Task) -> None:
        """Takes over what ``other``, a task of the same recipe, has prepared."""

    def prepare(self, seed: int, tell: Progress) -> None:
        """Makes what samples are cut from. It is called before anything below."""

    # -- the network -----------------------------------------------------------------------------------------------

    @abstractmethod
    def build(self, seed: int) -> nn.Module:
        """A network with the weights that a seed begins with, on the CPU."""

    @abstractmethod
    def optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        """What changes the weights."""

    @abstractmethod
    def schedule(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        """Its learning rate, step by step."""

    # -- the data --------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def steps(self) -> int:
        """How many there are."""

    @abstractmethod
    def indices(self, seed: int, step: int) -> Sequence[int]:
        """The samples of a step, as indices; a curriculum may let them depend on the steps before."""

    @abstractmethod
    def sample(self, seed: int, index: int) -> Any:
        """One sample."""

    @abstractmethod
    def collate(self, samples: Sequence[Any]) -> tuple[Tensor, ...]:
        """A batch of samples, on the CPU."""

    # -- a step ----------------------------------------------------------------------------------------------------

    def begin(self, seed: int, step: int, network: nn.Module, tell: Progress) -> None:
        """Called before each step."""
        network.train()

    @abstractmethod
    def loss(self, network: nn.Module, batch: tuple[Tensor, ...], rng: np.random.Generator) -> Lost:
        """What is to become less.

        Args:
            network: whose.
            batch: from :meth:`collate`, on the network's device.
            rng: of what is drawn for the whole step: the same for all parts of its batch.
        """

    def end(self, network: nn.Module, indices: Sequence[int], lost: Lost) -> None:
        """Called after each step, with its samples and what they made."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What the curriculum has come to: tensors, and what JSON can say."""
        return {}, {}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Takes back what :meth:`state` gave; :meth:`prepare` was called before."""

    # -- what it comes to ------------------------------------------------------------------------------------------

    @abstractmethod
    def score(self, network: nn.Module, tell: Progress) -> dict[str, Any]:
        """Held-out figures of a trained network on the CPU, which may be changed."""

    @abstractmethod
    def export(self, path: Path, network: nn.Module, training: dict[str, Any], figures: dict[str, Any]) -> None:
        """Writes the weight file of a trained network on the CPU, with how it was made and its held-out figures."""
