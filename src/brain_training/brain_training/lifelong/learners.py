# SPDX-License-Identifier: Apache-2.0
"""One task after another with one network: fine-tuned on (naive), by EWC, or with replay. All in the same steps.

Replay mixes clips of the earlier tasks' memories into each batch (Robins, Catastrophic forgetting, rehearsal and
pseudorehearsal, Connection Science 7, 1995; Rolnick et al., Experience replay for continual learning, NeurIPS 2019).
The library of tasks trains weights for each task with the same function :func:`fit`, see :mod:`.learning`.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from brain_training.definitions.vision import SpikingVision, carried
from brain_training.federated import Kept, network_of, weights_of
from brain_training.lifelong.ewc import Penalty, anchored, fisher
from brain_training.lifelong.memory import CAPACITY, Reservoir, joined
from brain_training.task import stream
from brain_training.vision import STEPS, VisionTask, loss
from brain_training.vision_data import Clips, Recipe
from brain_training.whole import Whole

LEARNERS = ("naive", "ewc", "replay")
Weights = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Steps:
    """Hyperparameters by which a task is learned.

    Attributes:
        steps: how many.
        batch: clips of a step.
        rate: of Adam at the beginning; it falls to 0 as a cosine.
        share: of replay: of a batch that is earlier tasks' clips.
        strength: of EWC: lambda.
        samples: of EWC: clips that Fisher's information is measured on.
    """

    steps: int = 160
    batch: int = 8
    rate: float = 3e-3
    share: float = 0.5
    strength: float = 30.0
    samples: int = 64


class _Counted(Whole):
    """The batch of which a clip is a part: it counts objects' columns over all of it.

    Args:
        count: of such columns in the batch.
    """

    def __init__(self, count: float) -> None:
        self._count = torch.tensor(count)

    def sums(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """See :meth:`Whole.sums`; the last part is the count."""
        return (*parts[:-1], self._count)


class _Drawn(VisionTask):
    """Clips in shuffled epochs, mirrored and of other brightness as :mod:`brain_training.vision` has them."""

    def __init__(self, clips: Clips, seed: int) -> None:
        super().__init__(recipe=Recipe(rooms=len(clips.images), clips_per_room=1, batch=1))
        self._studio, self._seed, self._place = Kept(clips, seed), seed, 0

    def next(self, count: int) -> list[Any]:
        """The next samples."""
        found = [self.sample(self._seed, index) for index in range(self._place, self._place + count)]
        self._place += count
        return found


def lost(network: SpikingVision, sample: tuple[Tensor, ...], count: float, steps: int = STEPS) -> Tensor:
    """Loss of one clip, summed over its columns and divided by ``count``.

    Args:
        network: folded.
        sample: pictures [1, frames, 3, rows, columns] and targets [1, frames, SLOTS, 6, COLUMNS].
        count: columns that show objects, of a picture of the batch; 1 gives the negative log likelihood, but for a
            constant.
        steps: micro-steps of a picture.
    """
    pictures, target = sample
    state, values = network.rest(), []
    for frame in range(pictures.shape[1]):
        state, _ = network(pictures[:, frame].contiguous(memory_format=torch.channels_last), state, steps)
        values.append(loss(state["u"], target[:, frame], _Counted(count)))
        state = carried(state)
    return torch.stack(values).mean()


def fit(weights: Weights, clips: Clips, how: Steps, seed: int, *, memory: Clips | None = None,
        penalty: Penalty | None = None, tell: Callable[[int, int], None] = lambda done, of: None
        ) -> dict[str, np.ndarray]:
    """Learns a task.

    A batch goes through the network clip by clip: the arrays of one clip stay in the processor's caches, and it takes
    less time. Of clips of one picture the gradient is that of the batch; of longer ones objects are counted in the mean
    over a clip's pictures.

    Args:
        weights: to begin with.
        clips: of the task.
        how: its recipe.
        seed: of the order of clips; with the same seed, on the same machine, the same weights come out.
        memory: of earlier tasks, for replay.
        penalty: of EWC.
        tell: called with the steps done and to do.

    Raises:
        ValueError: the weights are not vision's.
    """
    network = network_of(weights).train()
    new = _Drawn(clips, seed)
    old = None if memory is None else _Drawn(memory, seed + 1)
    replayed = 0 if old is None else round(how.share * how.batch)
    optimizer = torch.optim.Adam(network.parameters(), lr=how.rate)
    for step in range(how.steps):
        for group in optimizer.param_groups:
            group["lr"] = how.rate * 0.5 * (1.0 + math.cos(math.pi * step / how.steps))
        samples = new.next(how.batch - replayed) + (old.next(replayed) if old is not None else [])
        optimizer.zero_grad()
        batch = [new.collate([sample]) for sample in samples]
        frames = batch[0][0].shape[1]
        count = max(sum(float((target[:, :, :, 0] >= 0).sum()) for _, target in batch) / frames, 1.0)
        for sample in batch:
            lost(network, sample, count).backward()
        if penalty is not None:
            penalty.of(network).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), new.clip)
        optimizer.step()
        tell(step + 1, how.steps)
    return weights_of(network)


def information(network: SpikingVision, clips: Clips, samples: int, seed: int) -> dict[str, Tensor]:
    """Fisher's information of a network in a task, by :func:`.ewc.fisher`."""
    drawn = _Drawn(clips, seed)
    batch = [drawn.collate([sample]) for sample in drawn.next(samples)]
    return fisher(network, [lambda sample=sample: lost(network, sample, 1.0) for sample in batch])


class Sequential:
    """One network that learns task after task.

    Args:
        kind: one of :data:`LEARNERS`.
        weights: to begin with.
        how: recipe of each task.
        seed: of all that is drawn.

    Raises:
        ValueError: there is no such learner.
    """

    def __init__(self, kind: str, weights: Weights, how: Steps, seed: int) -> None:
        if kind not in LEARNERS:
            raise ValueError(f"no learner {kind!r}; there are {', '.join(LEARNERS)}")
        self.kind, self.weights, self._how, self._seed = kind, dict(weights), how, seed
        self._memories: list[Reservoir] = []
        self._penalty: Penalty | None = None
        self._learned = 0

    def learn(self, clips: Clips, fitted: Weights | None = None) -> None:
        """Learns the next task.

        Args:
            clips: of it.
            fitted: weights that :func:`fit` made of it where they are known: all begin the first task alike.
        """
        seed = task_seed(self._seed, self._learned)
        memory = joined([one.clips for one in self._memories]) if self._memories else None
        self.weights = dict(fitted) if fitted is not None else fit(
            self.weights, clips, self._how, seed, memory=memory, penalty=self._penalty)
        self._learned += 1
        if self.kind == "replay":
            self._memories.append(Reservoir(CAPACITY, seed))
            self._memories[-1].add(clips)
        elif self.kind == "ewc":
            network = network_of(self.weights)
            new = information(network, clips, self._how.samples, seed + 2)
            self._penalty = (Penalty(new, anchored(network), self._how.strength) if self._penalty is None
                             else self._penalty.after(network, new))


def task_seed(seed: int, number: int) -> int:
    """The seed of a task's training."""
    return int(stream("lifelong task", seed, number).integers(2**31))


def matrix_figures(matrix: Sequence[Sequence[float]]) -> dict[str, float]:
    """Computes the figures of a matrix R[i][j], F1 of task j after task i was learned.

    ``backward`` is backward transfer, the mean over tasks but the last of R[last][j] - R[j][j] (Lopez-Paz and Ranzato,
    Gradient episodic memory for continual learning, NeurIPS 2017, equation 3). ``forgetting`` is the mean over the same
    of the best that was reached before the end minus what is left (Chaudhry et al., Riemannian walk for incremental
    learning, ECCV 2018, section 4). ``last`` is the mean of the last row.
    """
    count = len(matrix)
    earlier = range(count - 1)
    best = [max(matrix[i][j] for i in range(j, count - 1)) for j in earlier]
    return {"last": float(np.mean(matrix[-1])),
            "backward": float(np.mean([matrix[-1][j] - matrix[j][j] for j in earlier])) if count > 1 else 0.0,
            "forgetting": float(np.mean([best[j] - matrix[-1][j] for j in earlier])) if count > 1 else 0.0}
