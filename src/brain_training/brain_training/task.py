# SPDX-License-Identifier: Apache-2.0
"""Base class of tasks, which are what is learned: a task has data, a network, a loss, an examination and a weight file.

How it is learned is a matter of :mod:`.trainer`.
"""
from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Mapping, NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from brain_sim.room import stable_hash
from brain_training.checkpoint import save_tensors
from brain_training.whole import ALONE, Whole

if TYPE_CHECKING:
    from brain_training.recordings import Bags

Progress = Callable[[str, int, int, str], None]
"""Called with (what, done, of, note)."""
NETWORKS = ("spiking", "ann")
"""A region's network, and the one of the same size without spikes that it is compared with."""

BASE = "base"
SIZES = {BASE: 1, "wide": 2, "large": 4}
"""How many times the hidden neurons of the network that a region runs."""


def sized(size: str) -> dict[str, str]:
    """Returns the arguments that tell a task its size: one that has the base size alone need not take any."""
    return {} if size == BASE else {"size": size}


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
    """Loss of a batch, and how hard its samples were.

    Attributes:
        value: loss, a scalar.
        hard: how hard each sample of the batch was, [batch], without gradient; None: the task does not ask.
    """

    value: Tensor
    hard: Tensor | None = None


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of a task that needs no more than these.

    Attributes:
        steps: how many.
        batch: samples of a step.
        rate: the highest learning rate.
    """

    steps: int = 1000
    batch: int = 32
    rate: float = 0.01


class Task(ABC):
    """Task that one network learns.

    It has to say what its samples are, the network, the loss and the score. All else has a default here: AdamW, one
    cycle of the learning rate, samples that are new in each step, or, where there are so many :attr:`samples` of them,
    all in an order that is drawn for each epoch; a weight file beside the module.

    A sample is a function of (seed, index) alone, whoever makes it and in whatever order; what else is random is drawn
    from the seed and the step. So any process can make any part of a batch. What a task learns about its samples on the
    way (which were hard, what a network drove into) is its curriculum: it changes in :meth:`begin` and :meth:`end`
    alone, and :meth:`state` has all of it.

    Args:
        which: one of :data:`NETWORKS`.
        quick: a tiny recipe, which shows that everything works; the weights are worth nothing.
        recipe: another one than the task's own.
        size: one of :data:`SIZES`, of the networks.

    Attributes:
        name: of the task, as in ``brain train NAME``.
        full, tiny: recipe of a training, and of one that only shows that it works. What is here asks of it what
            :class:`Recipe` has.
        samples: how many samples there are, from index 0, each of which a step takes once in an epoch; None: there is
            no end of them, and each step has new ones.
        apart: each network of the task is best trained in a process of its own; else they share what is prepared.
        longest: it takes longer than all others.
        threads: torch's, where nobody asks for others.
        beside: names of figures among those of the spiking network that are others', as a teacher's.
        clip: norm that gradients are cut at.
        counts: :meth:`loss` takes what it counts, and means over more than samples, from ``whole``. Else its value is
            a mean over the samples of the batch, and nothing has to be done for several processes.
        sizes: those of :data:`SIZES` that the task can build.
        looks: :meth:`begin` or :meth:`end` look at weights, or change them.
        whole: the batch of which this process has a part, or all.
    """

    name: ClassVar[str]
    apart: ClassVar[bool] = False
    longest: ClassVar[bool] = False
    threads: ClassVar[int] = 1
    beside: ClassVar[tuple[str, ...]] = ()
    clip: float = 1.0
    counts: ClassVar[bool] = False
    looks: ClassVar[bool] = True
    sizes: ClassVar[tuple[str, ...]] = (BASE,)
    whole: Whole = ALONE
    full: ClassVar[Any] = Recipe()
    tiny: ClassVar[Any] = Recipe(steps=3)
    samples: int | None = None

    def __init__(self, which: str = "spiking", *, quick: bool = False, recipe: Any = None, size: str = BASE) -> None:
        if which not in NETWORKS:
            raise ValueError(f"no network {which!r}; there are {' and '.join(NETWORKS)}")
        if size not in self.sizes:
            raise ValueError(f"the networks of {self.name} have no size {size!r}; there is {', '.join(self.sizes)}")
        self.which, self.quick, self.size = which, quick, size
        self.recipe = recipe or (self.tiny if quick else self.full)

    @property
    def spiking(self) -> bool:
        """True where the network has spikes."""
        return self.which == "spiking"

    @classmethod
    def files(cls) -> dict[str, Path]:
        """The weight file that ships, of each network. What is here: of the spiking one, beside the task's module."""
        return {"spiking": Path(inspect.getfile(cls)).with_name(f"{cls.name}.safetensors")}

    @classmethod
    def recorded(cls, bags: Bags, *, quick: bool) -> Any:
        """The recipe that trains on a robot's recordings.

        Raises:
            ValueError: the task has none, or the recordings cannot be used.
        """
        raise ValueError(f"{cls.name} is trained on the simulator's data alone, and takes no --bags; vision does")

    def check(self) -> None:
        """Raises ValueError where something is missing that training or examination need; before anything is done."""

    def share(self, other: Task) -> None:
        """Takes over what ``other``, a task of the same recipe, has prepared."""

    def prepare(self, seed: int, tell: Progress) -> None:
        """Makes what samples are cut from. It is called before anything below."""

    # -- the network -----------------------------------------------------------------------------------------------

    @abstractmethod
    def build(self, seed: int) -> nn.Module:
        """A network with the weights that a seed begins with, on the CPU.

        Others call :meth:`built`: torch's generator is set from the seed there.
        """

    def built(self, seed: int) -> nn.Module:
        """Calls :meth:`build` with torch's generator set from the seed; afterwards the generator is what it was before.

        Raises:
            TrainingError: it is no network, or has nothing to train.
        """
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            network = self.build(seed)
        if not isinstance(network, nn.Module) or not any(True for _ in network.parameters()):
            raise TrainingError(f"build of {self.name} ({self.which}) gives a {type(network).__name__} without "
                                f"parameters; it must give an nn.Module that has some")
        return network

    def together(self, network: nn.Module) -> None:
        """Lets what a network takes over a batch, as the mean and variance of its charges, be over :attr:`whole`.

        Called where several processes train. What is here does it for torch's batch normalization.
        """
        from brain_training.parallel.normalization import synchronize

        synchronize(network, self.whole)

    def optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        """Makes the optimizer: AdamW."""
        return torch.optim.AdamW(network.parameters(), lr=self.recipe.rate)

    def schedule(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        """Its learning rate, step by step."""
        if self.steps < 3:      # no room for a rise and a fall
            return torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
        return one_cycle(optimizer, self.recipe.rate, self.steps)

    # -- the data --------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(self.recipe.steps)

    def indices(self, seed: int, step: int) -> Sequence[int]:
        """The samples of a step, as indices; a curriculum may let them depend on the steps before."""
        batch = self.recipe.batch
        first = step * batch
        if self.samples is None:
            return range(first, first + batch)
        if self.samples < 1:
            raise TrainingError(f"the data of {self.name} are empty: its `samples` is {self.samples}")
        orders = {epoch: stream("order", seed, epoch).permutation(self.samples)
                  for epoch in range(first // self.samples, (first + batch - 1) // self.samples + 1)}
        return [int(orders[at // self.samples][at % self.samples]) for at in range(first, first + batch)]

    @abstractmethod
    def sample(self, seed: int, index: int) -> Any:
        """One sample."""

    def collate(self, samples: Sequence[Any]) -> tuple[Tensor, ...]:
        """A batch of samples, on the CPU. What is here stacks arrays and numbers, or each of a tuple of them."""
        try:
            batch = default_collate(list(samples))
        except (RuntimeError, TypeError) as error:
            raise TrainingError(f"samples of {self.name} do not make a batch: the first is {_outline(samples[0])}, and "
                                f"{_odd(samples)}; sample must give arrays of one shape and type") from error
        return tuple(batch) if isinstance(batch, (list, tuple)) else (batch,)

    # -- a step ----------------------------------------------------------------------------------------------------

    def begin(self, seed: int, step: int, network: nn.Module, tell: Progress) -> None:
        """Called before each step."""
        network.train()

    @abstractmethod
    def loss(self, network: nn.Module, batch: tuple[Tensor, ...], rng: np.random.Generator) -> Lost | Tensor:
        """Computes the loss of a batch; others call :meth:`lost`.

        Args:
            network: whose.
            batch: from :meth:`collate`, on the network's device.
            rng: of what is drawn for the whole step: the same for all parts of its batch.
        """

    def lost(self, network: Any, batch: tuple[Tensor, ...], rng: np.random.Generator) -> Lost:
        """Calls :meth:`loss` for a batch, and checks what it returns.

        Raises:
            TrainingError: it is not one number, or does not come from the network's weights.
        """
        said = self.loss(network, batch, rng)
        value, hard = said if isinstance(said, Lost) else (said, None)
        if not isinstance(value, Tensor) or value.dim():
            what = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise TrainingError(f"the loss of {self.name} ({self.which}) is {what}, and must be one number in a "
                                f"tensor; take the mean over the samples of the batch")
        if torch.is_grad_enabled() and not value.requires_grad:
            raise TrainingError(f"the loss of {self.name} ({self.which}) does not come from its network's weights: it "
                                f"has no gradient")
        return Lost(value, hard)

    def settle(self, network: nn.Module) -> None:
        """Puts weights back where they have to be; called after each step, wherever weights are changed.

        Each weight by itself: a parameter server changes some of them only.
        """

    def end(self, network: nn.Module, indices: Sequence[int], lost: Lost) -> None:
        """Called after each step, with its samples and what they made."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Returns the state of the curriculum: tensors, and values for JSON."""
        return {}, {}

    def mark(self) -> Any:
        """Returns a value that changes whenever :meth:`state` does, so that it need not be asked for in each step.

        None: ask in each.
        """
        return None

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Takes back what :meth:`state` gave; :meth:`prepare` was called before."""

    # -- what it comes to ------------------------------------------------------------------------------------------

    @abstractmethod
    def score(self, network: nn.Module, tell: Progress) -> dict[str, Any]:
        """Held-out figures of a trained network on the CPU, which may be changed."""

    def export(self, path: Path, network: nn.Module, training: dict[str, Any], figures: dict[str, Any]) -> None:
        """Writes the weight file of a trained network on the CPU, with how it was made and its held-out figures.

        What is here writes the network's ``state_dict`` as safetensors.
        """
        values = {"region": self.name, "network": self.which, "training": training, "held_out": figures}
        save_tensors(path, network.state_dict(), {"values": json.dumps(values)})


def _outline(sample: Any) -> str:
    """Describes a sample in a message: shapes and types of its parts."""
    if isinstance(sample, (list, tuple)):
        return f"({', '.join(map(_outline, sample))})"
    if isinstance(sample, (np.ndarray, Tensor)):
        return f"{str(sample.dtype).removeprefix('torch.')}{list(sample.shape)}"
    return type(sample).__name__


def _odd(samples: Sequence[Any]) -> str:
    """Finds the first sample that differs from sample 0 in shape or type, for a message."""
    first = _outline(samples[0])
    for number, sample in enumerate(samples):
        if _outline(sample) != first:
            return f"number {number} of {len(samples)} is {_outline(sample)}"
    return "so are the others"
