# SPDX-License-Identifier: Apache-2.0
"""Sources of a task's pictures: a folder of a robot's recordings, or a look of the simulator, to try things out.

A look is written ``look:hue=0.25,light=0.9,tint=1/0.85/0.65``, each as :class:`brain_training.looks.Look` has it; with
``rooms=`` and ``first=`` for how many rooms, and the seed of the first.
"""
from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from brain_training.lifelong.pictures import NAMES, WINDOW, looked, windows
from brain_training.looks import Look
from brain_training.recordings.bags import RecordingError, opened
from brain_training.recordings.library import IMAGES, Recording, find
from brain_training.recordings.reading import INFO
from brain_training.recordings.views import picture_of
from brain_training.recordings.vision import recorded_clips
from brain_training.vision_data import Clips, Studio

LOOK = "look:"
FRAMES = 2              # pictures of a recorded clip
MOST_CLIPS = 400        # of a folder
EVERY = 1.0             # s between two pictures of a window
MOST_PICTURES = 20_000  # that are judged of a folder
ROOMS, MOST_ROOMS = 40, 2000
PER_ROOM = WINDOW       # places of a room


class Source(Protocol):
    """Pictures of one site."""

    def windows(self) -> np.ndarray:
        """Numbers of windows of pictures, [windows, numbers]; labels are not asked for."""

    def clips(self) -> Clips:
        """Labelled clips [clips, frames, ...]."""


class Recorded(NamedTuple):
    """Recordings of a folder.

    Attributes:
        folder: of them.
        labels: see :func:`brain_training.recordings.reading.frames`.
        seed: of which clips are taken.
        every: s between two pictures of a window.
    """

    folder: Path
    labels: str
    seed: int
    every: float = EVERY

    def windows(self) -> np.ndarray:
        """See :class:`Source`; raises RecordingError."""
        found, left = [], MOST_PICTURES
        for recording in find([self.folder]):
            numbers = self._numbers(recording, left)
            left -= len(numbers)
            found.append(windows(numbers))
        all_of = np.concatenate(found)
        if not len(all_of):
            raise RecordingError(f"{self.folder} has no {WINDOW} pictures {self.every:g} s apart, by which a site is "
                                 f"known; record for longer, or give a smaller --every")
        return all_of

    def _numbers(self, recording: Recording, most: int) -> np.ndarray:
        """Numbers of pictures of one recording, as far apart as they should be: [pictures, numbers]."""
        numbers: list[np.ndarray] = []
        taken: int | None = None
        with opened(recording.path) as bag:
            lens, info = bag.lens_of(recording.pictures), None
            for heard in bag.messages({recording.pictures: IMAGES, **({lens: INFO} if lens else {})}):
                if heard.topic == lens:
                    info = heard.message
                elif len(numbers) < most and (taken is None or abs(heard.stamp - taken) >= self.every * 1e9):
                    taken = heard.stamp
                    picture = picture_of(heard.message, recording.path, recording.pictures, recording.mount, info)
                    numbers.append(looked(picture[None])[0])
        return np.stack(numbers) if numbers else np.zeros((0, len(NAMES)))

    def clips(self) -> Clips:
        """See :class:`Source`; raises RecordingError."""
        return recorded_clips([self.folder], self.labels, FRAMES, MOST_CLIPS, self.seed)


class Simulated:
    """Rooms of the simulator that have a look.

    Args:
        look: of them.
        rooms, first: how many, and the seed of the first.
    """

    def __init__(self, look: Look, rooms: int, first: int) -> None:
        self.look = look
        self._studio = Studio(rooms, PER_ROOM, 1, first_seed=first, look=look)

    def windows(self) -> np.ndarray:
        """See :class:`Source`: one window of each room."""
        return windows(looked(self._studio.take_all().images[:, -1]))

    def clips(self) -> Clips:
        """See :class:`Source`."""
        return self._studio.take_all()


def source(text: str, labels: str, seed: int, every: float = EVERY) -> Source:
    """Makes the source of pictures that a person named.

    Args:
        text: a folder, or a look.
        labels: of recordings.
        seed: of which clips are taken.
        every: s between two pictures of a window.

    Raises:
        ValueError: it is no look; says why.
    """
    if not text.startswith(LOOK):
        return Recorded(Path(text).expanduser(), labels, seed, every)
    words: dict[str, str] = {}
    for part in filter(None, text.removeprefix(LOOK).split(",")):
        key, _, value = part.partition("=")
        words[key.strip()] = value.strip()
    try:
        rooms, first = int(words.pop("rooms", ROOMS)), int(words.pop("first", 0))
        tint = [float(one) for one in words.pop("tint", "1/1/1").split("/")]
        numbers = {key: float(words.pop(key)) for key in ("light", "saturation", "hue") if key in words}
        if words:
            raise ValueError(f"there is no {next(iter(words))[:40]!r}")
        if len(tint) != 3:
            raise ValueError("tint has three numbers")
        if not (1 <= rooms <= MOST_ROOMS and 0 <= first < 2**31):
            raise ValueError(f"rooms are 1 to {MOST_ROOMS}, and first is 0 or more")
        return Simulated(Look(tint=(tint[0], tint[1], tint[2]), **numbers), rooms, first)
    except ValueError as error:
        raise ValueError(f"{text[:120]!r} is no look of the simulator: {error}; as in look:hue=0.25,light=0.9,"
                         f"tint=1/0.85/0.65,rooms=40,first=0") from None
