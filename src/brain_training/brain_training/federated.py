# SPDX-License-Identifier: Apache-2.0
"""The vision that robots of a fleet train on what they have themselves: the entry point ``vision`` of brain.learners.

It is the network as it ships, without the normalization that training from scratch has: its statistics would be those
of one robot's rooms, and their mean no other's. It goes on from the weights that it is given, with a few batches of the
robot's own clips; the task of :mod:`.vision` says what a sample and the loss are.
"""
from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import torch

from brain_regions.vision.network import LAYERS, widened
from brain_regions.vision.weights import WIDEST
from brain_training.definitions.vision import SpikingVision, tensors
from brain_training.recordings.vision import recorded_clips
from brain_training.task import one_cycle, stream
from brain_training.vision import VisionTask
from brain_training.vision_data import Clips, Recipe

STEPS, BATCH, RATE = 10, 8, 0.05    # where the plan does not say
FRAMES = 2                          # pictures of a clip
MOST_CLIPS = 400                    # of a robot's recordings
SHORT = 2                           # steps that are no cycle
MARGIN = 1.5                        # steps that are left undone rather than be late


class Kept:
    """Clips that are there, as a :class:`brain_training.vision_data.Studio` has them.

    Args:
        clips: pictures [clips, frames, ...] and labels [clips, frames, ...].
        seed: of the training.
    """

    def __init__(self, clips: Clips, seed: int) -> None:
        self.first_seed, self._clips = seed * 10_000, clips

    def __len__(self) -> int:
        """Returns the number of clips."""
        return len(self._clips.images)

    def take(self, number: int) -> Clips:
        """One clip."""
        return Clips(self._clips.images[number], type(self._clips.labels)(*(part[number]
                                                                            for part in self._clips.labels)))

    def take_all(self, progress: Any, processes: int = 1) -> None:
        """They are there."""


class _Own(VisionTask):
    """The task on clips that are there."""

    def __init__(self, source: Any, batch: int) -> None:
        super().__init__(recipe=Recipe(rooms=len(source), clips_per_room=1, batch=batch))
        self._studio = source


class VisionLearner:
    """Trains vision from the weights that it is given.

    Args:
        source: of clips: :class:`Kept`, or a Studio of the simulator, of the training's ``seed``.
        seed: of the order of clips.

    Raises:
        ValueError: there are no clips.
    """

    def __init__(self, source: Any, seed: int) -> None:
        if not len(source):
            raise ValueError("this robot has no clips to learn from")
        self._source, self._seed = source, seed
        self._place = 0         # in the endless row of shuffled epochs

    def fit(self, weights: Mapping[str, np.ndarray], config: Mapping[str, float], left: Callable[[], float]
            ) -> tuple[dict[str, np.ndarray], int, Mapping[str, float]]:
        """See :class:`brain_cloud.federated.learner.Learner`.

        Of ``config`` it takes ``steps``, ``batch``, ``rate``, ``proximal_mu``, ``adaptive``: 1 for Adam, and
        ``cycle``: 1 for a rate that rises and falls within these steps, as vision is trained with.

        Raises:
            ValueError: the weights are not vision's, or there is no time for one step.
        """
        steps, batch = int(config.get("steps", STEPS)), max(1, min(int(config.get("batch", BATCH)), 256))
        drawn_back = float(config.get("proximal_mu", 0.0))
        task = _Own(self._source, batch)
        network = network_of(weights).train()
        begun = [value.detach().clone() for value in network.parameters()]
        rate = float(config.get("rate", RATE))
        optimizer = _optimizer(network, rate, bool(config.get("adaptive", False)))
        schedule = one_cycle(optimizer, rate, steps) if config.get("cycle", False) and steps > SHORT else None
        losses: list[float] = []
        lasted = 0.0
        while len(losses) < steps and left() > MARGIN * lasted:
            since = time.monotonic()
            indices = range(self._place, self._place + batch)
            self._place += batch
            samples = task.collate([task.sample(self._seed, index) for index in indices])
            optimizer.zero_grad()
            value = task.loss(network, samples, stream("federated step", self._seed, self._place)).value
            losses.append(value.item())
            if drawn_back:
                value = value + drawn_back / 2 * sum((now - then).square().sum()
                                                     for now, then in zip(network.parameters(), begun))
            value.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), task.clip)
            optimizer.step()
            if schedule is not None:
                schedule.step()
            lasted = time.monotonic() - since
        if not losses:
            raise ValueError("there is no time for one step before the deadline")
        return weights_of(network), len(self._source), {"loss": float(np.mean(losses)), "steps": float(len(losses))}


def _optimizer(network: SpikingVision, rate: float, adaptive: bool) -> torch.optim.Optimizer:
    """Plain gradient descent, or Adam.

    In a fleet plain: Adam gives each robot steps of one size, so one that has nothing to learn any more pulls as hard
    as one that has, and their mean comes to rest elsewhere than a training on the pictures of all.
    """
    if adaptive:
        return torch.optim.Adam(network.parameters(), lr=rate)
    return torch.optim.SGD(network.parameters(), lr=rate)


def network_of(weights: Mapping[str, np.ndarray]) -> SpikingVision:
    """A folded network with some weights, of the size that they are of.

    Raises:
        ValueError: they are not vision's.
    """
    times = min(max(np.size(weights.get("convolutions.0.bias", ())) // LAYERS[0].outputs, 1), WIDEST)
    network = SpikingVision(widened(times)).folded()
    try:
        network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    except RuntimeError as error:
        raise ValueError(f"these are not the weights of vision: {' '.join(str(error).split())[:150]}") from None
    return network


def weights_of(network: SpikingVision) -> dict[str, np.ndarray]:
    """A copy of the weights of a folded network, by name."""
    return {name: value.copy(order="C") for name, value in tensors(network).items()}


def vision(data: Sequence[str], labels: str, seed: int) -> VisionLearner:
    """The learner of a robot's recordings.

    Args:
        data: folders with recordings.
        labels: see :func:`brain_training.recordings.reading.frames`.
        seed: of which clips are taken.

    Raises:
        RecordingError: they cannot be used.
    """
    torch.set_num_threads(1)    # the brain computes beside it
    clips = recorded_clips([Path(folder) for folder in data], labels, FRAMES, MOST_CLIPS, seed)
    return VisionLearner(Kept(clips, seed), seed)
