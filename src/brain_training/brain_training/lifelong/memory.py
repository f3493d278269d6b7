# SPDX-License-Identifier: Apache-2.0
"""A few clips of all that were seen, each with the same chance: what a task is replayed from.

Algorithm R of Vitter, Random sampling with a reservoir, ACM Transactions on Mathematical Software 11, 1985. Which clips
are kept depends on the seed and on how many were seen, and not on when the process was started again.
"""
from __future__ import annotations

from typing import Sequence

import numpy as np

from brain_training.task import stream
from brain_training.vision_data import Clips, Labels

CAPACITY = 48           # clips of a task


class Reservoir:
    """Some clips of many.

    Args:
        capacity: most that are kept.
        seed: of which are kept.
        clips: kept before; None: none.
        seen: how many clips those were kept of.

    Raises:
        ValueError: that cannot be.
    """

    def __init__(self, capacity: int, seed: int, clips: Clips | None = None, seen: int = 0) -> None:
        kept = 0 if clips is None else len(clips.images)
        if not 0 <= kept <= min(capacity, seen) or kept < min(capacity, seen):
            raise ValueError(f"{kept} clips kept of {seen} do not fit a memory of {capacity}")
        self.capacity, self.seed, self.seen = capacity, seed, seen
        self._clips = [] if clips is None else [one(clips, number) for number in range(kept)]

    def __len__(self) -> int:
        """Returns the number of clips that are kept."""
        return len(self._clips)

    def add(self, clips: Clips) -> None:
        """Takes clips [clips, frames, ...] in their order."""
        for number in range(len(clips.images)):
            self.seen += 1
            if len(self._clips) < self.capacity:
                self._clips.append(one(clips, number))
                continue
            place = int(stream("lifelong reservoir", self.seed, self.seen).integers(self.seen))
            if place < self.capacity:
                self._clips[place] = one(clips, number)

    @property
    def clips(self) -> Clips:
        """Clips that are kept, [clips, frames, ...]; raises ValueError where there is none."""
        return stacked(self._clips)


def one(clips: Clips, number: int) -> Clips:
    """One of several clips, as a copy."""
    return Clips(clips.images[number].copy(), Labels(*(part[number].copy() for part in clips.labels)))


def stacked(clips: Sequence[Clips]) -> Clips:
    """Several single clips as [clips, frames, ...]; raises ValueError where there is none."""
    return Clips(np.stack([clip.images for clip in clips]),
                 Labels(*(np.stack(parts) for parts in zip(*(clip.labels for clip in clips)))))


def joined(parts: Sequence[Clips]) -> Clips:
    """Clips [clips, frames, ...] of several, behind each other; raises ValueError where there is none."""
    return Clips(np.concatenate([part.images for part in parts]),
                 Labels(*(np.concatenate(arrays) for arrays in zip(*(part.labels for part in parts)))))


def some(clips: Clips, numbers: Sequence[int] | np.ndarray) -> Clips:
    """Those of some numbers."""
    chosen = np.asarray(numbers, int)
    return Clips(clips.images[chosen], Labels(*(part[chosen] for part in clips.labels)))
