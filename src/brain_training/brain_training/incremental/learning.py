# SPDX-License-Identifier: Apache-2.0
"""Vision goes on learning from new clips, with old ones among them so that it does not forget the old rooms."""
from __future__ import annotations

from typing import Any, Mapping, NamedTuple

import numpy as np

from brain_training.federated import VisionLearner
from brain_training.vision_data import Clips, Labels, Studio

REPLAY = 0.5        # of the clips of a batch that are old ones, in the mean
STEPS, BATCH, RATE = 200, 8, 5e-4       # of Adam, as a training of a fleet that is not divided has them
OLD_CLIPS = 400     # at most, of the simulator's rooms, which the weights that ship have learned from
OLD_ROOMS = 2_000_000   # first seed of train of these rooms; the weights that ship have others of the same kind


class Course(NamedTuple):
    """Hyperparameters: steps, clips of a step, Adam's learning rate, and the share of old clips (0 to below 1)."""

    steps: int = STEPS
    batch: int = BATCH
    rate: float = RATE
    replay: float = REPLAY


class Mixed:
    """New and old clips as one source: of each epoch the share ``replay`` is old. As a Studio has them.

    Args:
        new, old: clips of as many pictures.
        replay: share of old clips.
        seed: of the training.

    Raises:
        ValueError: there is no new clip, no old one where some are wanted, or the share is none.
    """

    def __init__(self, new: Clips, old: Clips | None, replay: float, seed: int) -> None:
        if not 0.0 <= replay < 1.0:
            raise ValueError(f"the share of old clips is {replay:g}; it is 0 to below 1")
        if not len(new.images):
            raise ValueError("there is no new clip to learn from")
        if replay and (old is None or not len(old.images)):
            raise ValueError("there is no old clip to mix in")
        self.first_seed = seed * 10_000
        self._new, self._old = new, old
        # An epoch has each new clip once, but for the last of few, and as many old ones as the share asks for.
        self._news = max(len(new.images), 1)
        self._olds = round(self._news * replay / (1.0 - replay))

    def __len__(self) -> int:
        """Clips of an epoch."""
        return self._news + self._olds

    def take(self, number: int) -> Clips:
        """One clip; the new ones are first."""
        if number < self._news:
            return _clip(self._new, number)
        assert self._old is not None
        return _clip(self._old, (number - self._news) % len(self._old.images))

    def take_all(self, progress: Any, processes: int = 1) -> None:
        """They are there."""


def _clip(clips: Clips, number: int) -> Clips:
    return Clips(clips.images[number], Labels(*(part[number] for part in clips.labels)))


def joined(parts: list[Clips]) -> Clips:
    """Several as one: pictures [clips, frames, ...], labels [clips, frames, ...]."""
    return Clips(np.concatenate([one.images for one in parts]),
                 Labels(*(np.concatenate(each) for each in zip(*(one.labels for one in parts)))))


def old_clips(count: int, frames: int, seed: int) -> Clips:
    """Clips of the simulator's own rooms of train, in their plain look.

    Args:
        count: how many; :data:`OLD_CLIPS` at most.
        frames: pictures of each.
        seed: of the training.
    """
    rooms = -(-max(1, min(count, OLD_CLIPS)) // 4)
    return Studio(rooms, 4, frames, first_seed=OLD_ROOMS + 1000 * (seed % 1000)).take_all()


def go_on(weights: Mapping[str, np.ndarray], new: Clips, old: Clips | None, course: Course, seed: int
          ) -> tuple[dict[str, np.ndarray], Mapping[str, float]]:
    """Goes on from some weights; returns new ones, and what the training tells of itself.

    Raises:
        ValueError: see :class:`Mixed`; or the weights are not vision's.
    """
    learner = VisionLearner(Mixed(new, old, course.replay, seed), seed)
    found, _, told = learner.fit(weights, {"steps": course.steps, "batch": course.batch, "rate": course.rate,
                                           "adaptive": 1.0}, lambda: float("inf"))
    return found, told
