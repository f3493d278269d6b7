# SPDX-License-Identifier: Apache-2.0
"""A network as a chain of sections, which a pipeline cuts into stages.

A section is a layer, or a few: it takes values by name, integrates all its micro-steps over the whole clip, and adds
values by name. Membranes begin and end in it. What crosses a cut are the values that were made before it and are asked
for behind it, those that skip sections among them. The batch itself (pictures, text, labels) is made by every process,
and crosses nothing.

The loss is the task's own: it is given the last values by a stand-in for the network, which first tells what the loss
asks of a network (:func:`asked`). So no loss is written twice.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, ClassVar, Iterable, NamedTuple, Sequence

import numpy as np
from torch import Tensor, nn

from brain_training.parallel.together import bounds
from brain_training.parallel.whole_loss import of_whole
from brain_training.task import Lost, Task

Values = dict[str, Tensor]


class Micro(NamedTuple):
    """A micro-batch.

    Attributes:
        number: which, from 0.
        share: part of the step's samples, 0 to 1; of several replicas that of all of them.
        batch: as the task collates it.
        steps: micro-steps that the loss asks for; 0: it does not say.
        rng: what the loss draws from, the same for all micro-batches of a step; called anew for each.
    """

    number: int
    share: float
    batch: tuple[Tensor, ...]
    steps: int
    rng: Callable[[], np.random.Generator]


class Kind(NamedTuple):
    """Layout of a value where it crosses a cut.

    Attributes:
        shape: of the tensor.
        spikes: 0 or 1, which go as one bit each; else floats.
        order: axes as they lie in memory, the one with the largest stride first.
        most: of whole numbers from 0 the greatest that there may be, which go in as few bytes as that needs; 0: any.
        once: who takes it asks for its mean over the first axis: the gradient is the same along it, and goes back once.
    """

    shape: tuple[int, ...]
    spikes: bool
    order: tuple[int, ...]
    most: int = 0
    once: bool = False


class Section(NamedTuple):
    """One part of a chain.

    Attributes:
        name: of it.
        run: makes new values of those that it reads.
        reads, writes: names of values.
        weights: names, or their beginnings with a dot or underscore, of parameters and buffers that it alone uses.
        cost: multiplications and neurons' steps of a sample, by which stages are balanced.
    """

    name: str
    run: Callable[[Values, Micro], Values]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    weights: tuple[str, ...]
    cost: float


class Chain(ABC):
    """The sections of one network.

    Args:
        task: whose.
        network: the whole one; sections use its weights and its methods.

    Attributes:
        dims: the samples' axis of each tensor of a batch.
    """

    dims: ClassVar[tuple[int, ...]]

    def __init__(self, task: Task, network: Any) -> None:
        self.task, self.network = task, network

    @abstractmethod
    def sections(self, micro: Micro) -> list[Section]:
        """All of them; ``micro`` says of how long a clip."""

    @abstractmethod
    def kinds(self, micro: Micro) -> dict[str, Kind]:
        """All values that may cross a cut."""

    @abstractmethod
    def lost(self, values: Values, micro: Micro) -> Lost:
        """The task's loss, of what the last section wrote."""

    def begin(self, micros: int) -> None:
        """Called before each step of so many micro-batches."""

    def micros(self, batch: tuple[Tensor, ...], count: int, rng: Callable[[], np.random.Generator],
               replicas: Sequence[int] = ()) -> list[Micro]:
        """A batch in parts, of which the first may be larger by one sample.

        Args:
            batch: as the task collates it; of several replicas that of this one.
            count: of parts.
            rng: what the loss draws from.
            replicas: samples of each replica's batch; none: there is this one alone.
        """
        parts = [part.tensor_split(count, dim) for part, dim in zip(batch, self.dims)]
        ends = [bounds(samples, count) for samples in replicas or [batch[0].shape[self.dims[0]]]]
        sizes = [sum(each[number + 1] - each[number] for each in ends) for number in range(count)]
        steps = asked(self.task, batch, rng())
        return [Micro(number, size / sum(sizes), tuple(one), steps, rng)
                for number, (size, one) in enumerate(zip(sizes, zip(*parts)))]

    def told(self, values: Values, micro: Micro) -> Lost:
        """The loss of a micro-batch of all replicas together, with the gradient of this one's samples."""
        return of_whole(self.task, self.lost(values, micro), micro.batch[0].shape[self.dims[0]])

    def whole(self, micro: Micro) -> Lost:
        """The loss by all sections, one after the other, in one process."""
        values: Values = {}
        for section in self.sections(micro):
            values |= section.run(values, micro)
        return self.told(values, micro)

    def owned(self, sections: Iterable[Section]) -> list[str]:
        """Names of the parameters and buffers of some sections."""
        prefixes = [weight for section in sections for weight in section.weights]
        return [name for name in self.network.state_dict() if any(
            name == prefix or prefix[-1] in "._" and name.startswith(prefix) for prefix in prefixes)]


class _Asked(Exception):
    """Ends a loss once it has said what it asks for."""


class _Asking:
    """Stands in for a network, and takes down how it is called."""

    def __init__(self) -> None:
        self.steps = 0

    def rest(self, batch: int) -> Values:
        """No state."""
        return {}

    midway = rest

    def __call__(self, *arguments: Any) -> None:
        self.steps = next((one for one in arguments if isinstance(one, int)), 0)
        raise _Asked


class Said:
    """Stands in for a network that has already answered.

    Args:
        answers: of each call.
    """

    def __init__(self, answers: Sequence[Any]) -> None:
        self._answers = iter(answers)

    def rest(self, batch: int) -> Values:
        """No state."""
        return {}

    midway = rest

    def __call__(self, *arguments: Any) -> Any:
        return next(self._answers)


def asked(task: Task, batch: tuple[Tensor, ...], rng: np.random.Generator) -> int:
    """Returns the number of micro-steps for which a task's loss asks a network; 0 where it does not say."""
    asking = _Asking()
    try:
        task.loss(asking, batch, rng)      # type: ignore[arg-type]
    except _Asked:
        pass
    return asking.steps


def needed(sections: Sequence[Section], cut: int) -> list[str]:
    """Names of the values that cross the cut before section ``cut``, in the order in which they were made."""
    made = [name for section in sections[:cut] for name in section.writes]
    later = {name for section in sections[cut:] for name in section.reads}
    return [name for name in made if name in later]


def cuts(costs: Sequence[float], stages: int) -> list[int]:
    """First section of each stage, so that the costliest stage costs least.

    Raises:
        ValueError: there are fewer sections than stages.
    """
    if not 0 < stages <= len(costs):
        raise ValueError(f"{len(costs)} sections cannot be cut into {stages} stages; take 1 to {len(costs)}")
    # best[n]: the most that a stage costs, and the cuts, for the sections up to each end with n stages
    best: dict[int, tuple[float, list[int]]] = {end: (sum(costs[:end]), [0]) for end in range(1, len(costs) + 1)}
    for count in range(2, stages + 1):
        best = {end: min((max(best[cut][0], sum(costs[cut:end])), [*best[cut][1], cut])
                         for cut in range(count - 1, end) if cut in best)
                for end in range(count, len(costs) + 1)}
    return best[len(costs)][1]


class Stage(nn.Module):
    """Some sections in a row, as a module with their weights, for torch's pipelines.

    Args:
        chain: of which network.
        sections: numbers, from first to last.
        example: any micro-batch of the clips' length.

    Attributes:
        owned: names of the parameters and buffers.
        takes, gives: names of the values that come from the stage before, and go to the next.
        micros: micro-batches of a step, set before it.
        hard: of each micro-batch, where this is the last stage and the loss says it.
    """

    def __init__(self, chain: Chain, sections: range, example: Micro) -> None:
        super().__init__()
        all_of_them = chain.sections(example)
        self._chain, self._numbers = (chain,), sections     # in a tuple: its network is no part of this module
        self.owned = chain.owned(all_of_them[k] for k in sections)
        parameters = dict(chain.network.named_parameters())
        self._weights = nn.ParameterList([parameters[name] for name in self.owned if name in parameters])
        self.is_last = sections.stop == len(all_of_them)
        self.takes, self.gives = (needed(all_of_them, cut) for cut in (sections.start, sections.stop))
        self.micros: list[Micro] = []
        self.hard: dict[int, Tensor | None] = {}

    def forward(self, *taken: Tensor, number: Tensor) -> tuple[Tensor, ...] | Tensor:
        """Values that the next stage takes, or the micro-batch's part of the loss.

        Args:
            taken: values, in the order of ``takes``.
            number: of the micro-batch, [1].
        """
        (chain,), micro = self._chain, self.micros[int(number)]
        values, sections = dict(zip(self.takes, taken)), chain.sections(micro)
        for k in self._numbers:
            values |= sections[k].run(values, micro)
        if self.is_last:
            lost = chain.told(values, micro)
            self.hard[micro.number] = lost.hard
            return lost.value * micro.share
        # torch takes the graphs of outputs apart, which it can of no view and of nothing that only passes through
        return tuple(values[name].clone() if values[name].is_leaf or values[name]._is_view() else values[name]
                     for name in self.gives)
