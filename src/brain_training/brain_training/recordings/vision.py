# SPDX-License-Identifier: Apache-2.0
"""Clips for vision from recordings, beside the simulator's or instead of them, and held-out ways."""
from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Sequence

import numpy as np

from brain_sim.room import stable_hash
from brain_training.recordings import Bags
from brain_training.recordings.bags import RecordingError
from brain_training.recordings.library import LIST, SPLITS, Recording, find
from brain_training.recordings.reading import clips, of_split
from brain_training.recordings.views import asked, labels, shown
from brain_training.task import stream
from brain_training.vision_data import Clips, Labels, Progress, Recipe, Studio, Way

MOST_WAYS = 10      # of each recording that is held out


@dataclass(frozen=True)
class Recorded(Recipe):
    """As many clips as :class:`brain_training.vision_data.Recipe` asks for, of which a share is cut from recordings.

    Attributes:
        folders: of the recordings, which every process of the training reads.
        source: of the labels; see :func:`.reading.frames`.
        share: of recorded clips.
        recordings: name, split and digest of each: others are another training.
    """

    folders: tuple[str, ...] = ()
    source: str = ""
    share: float = 1.0
    recordings: tuple[tuple[str, str, str], ...] = ()

    def studio(self, seed: int) -> Pool:
        """The clips of a training's seed."""
        return Pool(self, seed)

    def found(self) -> list[Recording]:
        """The recordings.

        Raises:
            RecordingError: they are not those any more that the training began with.
        """
        now = find([Path(folder) for folder in self.folders])
        if _identity(now) != tuple(map(tuple, self.recordings)):
            raise RecordingError(f"the recordings in {', '.join(self.folders)} are not those that this training began "
                                 f"with; put them back, or train anew")
        return now

    def ways(self, purpose: str, length: int, progress: Progress) -> list[Way]:
        """Held-out ways of at most ``length`` pictures: for the ``threshold`` of split val, to ``report`` of test."""
        chosen, found = of_split(self.found(), "val" if purpose == "threshold" else "test"), []
        for number, recording in enumerate(chosen):
            cut = clips(recording, self.source, length, MOST_WAYS, _draws("ways", 0, recording), apart=length)
            found += [Way(c.images, [None if seen is None else asked(seen, image) for seen, image in zip(
                c.seen, c.images)], (), recording.mount.height) for c in cut]
            progress(number + 1, len(chosen))
        if not found:
            names = ", ".join(str(recording.path) for recording in chosen)
            raise RecordingError(f"{names}: no {length} pictures in a row to examine by ({length / 20:g} s without a "
                                 f"gap, the last with a label); hold out a longer recording in {LIST}")
        return found


def recipe(plain: Recipe, bags: Bags) -> Recorded:
    """Makes a recipe that trains on recordings with as many clips as ``plain`` has.

    Raises:
        RecordingError: a recording cannot be used, or one of the splits has none.
        ValueError: the share is none.
    """
    if not 0.0 < bags.share <= 1.0:
        raise ValueError(f"--bag-share is {bags.share}; it is above 0, and 1 where nothing is the simulator's")
    found = find(bags.folders)
    for split in SPLITS:
        if not of_split(found, split):
            have = ", ".join(f"{r.name} ({r.split})" for r in found[:8])
            raise RecordingError(f"no recording is in the split {split}: {have}; name one in {LIST} in the folder, or "
                                 f"record more: train is learned from, val chooses the threshold, test is reported")
    return Recorded(**asdict(plain), folders=tuple(map(str, bags.folders)), source=bags.labels, share=bags.share,
                    recordings=_identity(found))


class Pool:
    """Clips of recordings and of the simulator, as a :class:`brain_training.vision_data.Studio` has the latter.

    The first are the simulator's. The recorded ones are taken from each recording of split train alike; where there
    are fewer than are wanted, they are taken again.

    Args:
        recipe: how many of what.
        seed: of the training.
    """

    def __init__(self, recipe: Recorded, seed: int) -> None:
        self.first_seed = seed * 10_000
        self._recipe, self._seed = recipe, seed
        self._count = recipe.rooms * recipe.clips_per_room + recipe.scenes
        self._simulated = self._count - max(1, round(recipe.share * self._count))
        self._studio = Studio(recipe.rooms, recipe.clips_per_room, recipe.frames, scenes=recipe.scenes,
                              first_seed=self.first_seed, mounted=True)
        self._pool: Clips | None = None
        self._order = np.zeros(0, int)

    def __len__(self) -> int:
        """Returns the number of clips."""
        return self._count

    def take(self, number: int) -> Clips:
        """One clip: pictures [frames, HEIGHT, WIDTH, 3] and labels [frames, SLOTS, COLUMNS]."""
        if number < self._simulated:
            return self._studio.take(number)
        if self._pool is None:
            self._read(lambda done, of: None)
        assert self._pool is not None
        place = self._order[(number - self._simulated) % len(self._order)]
        return Clips(self._pool.images[place], Labels(*(part[place] for part in self._pool.labels)))

    def take_all(self, progress: Progress, processes: int = 1) -> None:
        """Makes all of them, which :meth:`take` then gives at once; see :meth:`Studio.take_all`."""
        if self._pool is None:
            self._read(progress)
        if self._simulated:
            self._studio.take_all(progress, processes, self._simulated)

    def _read(self, progress: Progress) -> None:
        """Cuts the recorded clips."""
        r = self._recipe
        chosen = of_split(r.found(), "train")
        each = math.ceil((self._count - self._simulated) / len(chosen))
        self._pool = cut(chosen, r.source, r.frames, each, self._seed, progress)
        self._order = stream("recorded clips", self._seed).permutation(len(self._pool.images))


def recorded_clips(folders: Sequence[Path], source: str, length: int, most: int, seed: int) -> Clips:
    """Clips of recordings of split train: of what a robot has seen in one place, no other split is needed.

    Args:
        folders: with recordings.
        source: of the labels; see :func:`.reading.frames`.
        length: pictures of a clip.
        most: clips.
        seed: of which are taken.

    Raises:
        RecordingError: they cannot be used.
    """
    chosen = of_split(find(list(folders)), "train")
    if not chosen:
        raise RecordingError(f"no recording in {', '.join(map(str, folders))} is in the split train; name one in "
                             f"{LIST} in the folder, or record more")
    return cut(chosen, source, length, math.ceil(most / len(chosen)), seed, lambda done, of: None)


def cut(chosen: Sequence[Recording], source: str, length: int, each: int, seed: int, progress: Progress) -> Clips:
    """Clips of some recordings, ``each`` of one at most."""
    images, told = [], []
    for number, recording in enumerate(chosen):
        for clip in clips(recording, source, length, each, _draws("clips", seed, recording)):
            images.append(clip.images)
            columns = [labels(seen, recording.mount.height, shown(image))
                       for seen, image in zip(clip.seen, clip.images)]
            told.append(Labels(*(np.stack(parts) for parts in zip(*columns))))
        progress(number + 1, len(chosen))
    if not images:
        raise RecordingError(f"{', '.join(str(c.path) for c in chosen)}: no {length} pictures in a row, the last "
                             f"with a label; record pictures at 10 Hz or more")
    return Clips(np.stack(images), Labels(*(np.stack(parts) for parts in zip(*told))))


def _draws(purpose: str, seed: int, recording: Recording) -> np.random.Generator:
    return stream(f"recorded {purpose}", seed, stable_hash(recording.name))


def _identity(found: list[Recording]) -> tuple[tuple[str, str, str], ...]:
    return tuple((recording.name, recording.split, recording.digest) for recording in found)
