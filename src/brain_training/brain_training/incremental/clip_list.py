# SPDX-License-Identifier: Apache-2.0
"""The clips that a list names, by drive: what is trained on, and what is examined by. One that is bad is left out."""
from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Callable, NamedTuple, Sequence

import numpy as np

from brain_training.incremental.clip_files import name_of
from brain_training.incremental.learning import joined
from brain_training.recordings.bags import RecordingError
from brain_training.recordings.library import Recording, find, room_of
from brain_training.recordings.reading import frames
from brain_training.recordings.views import asked
from brain_training.recordings.vision import cut
from brain_training.vision_data import Clips, Way

FRAMES = 2          # pictures of a training clip, as robots of a fleet have them
OF_EACH = 4         # training clips that are cut from one hard clip
MOST_PICTURES = 200     # of a clip: 10 s
Tell = Callable[[str], None]


class Clip(NamedTuple):
    """A clip that is there: its drive, and the recording that it is."""

    drive: str
    recording: Recording


def read(listed: Path, root: Path | None = None) -> list[Path]:
    """Paths in a list, a line each; those that are not absolute are in ``root``, or beside the list.

    Raises:
        OSError: it cannot be read.
    """
    lines = listed.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return [(root or listed.parent) / line.strip() for line in lines if line.strip()]


def clips_of(paths: Sequence[Path], tell: Tell) -> list[Clip]:
    """Those that can be read, each once; of the others ``tell`` is told why. Rooms of val and test are left out."""
    found: dict[str, Clip] = {}
    for path in paths:
        try:
            for recording in find([path]):
                room = room_of(recording.path)
                if room not in (None, "train"):
                    raise RecordingError(f"{recording.path} shows a room of the simulator's split {room}; rooms of "
                                         f"train are learned from, and no others")
                found.setdefault(recording.digest, Clip(drive_of(path), recording))
        except RecordingError as problem:
            tell(f"left out: {problem}")
    return list(found.values())


def drive_of(path: Path) -> str:
    """The drive of a clip: of its name, or the file itself."""
    name = name_of(path.name)
    return path.stem if name is None else f"{name.robot}-{name.drive}"


def training(clips: Sequence[Clip], labels: str, seed: int, tell: Tell) -> tuple[Clips | None, list[str]]:
    """Training clips, and the drives that they are of; None: there is none.

    Args:
        clips: which.
        labels: see :func:`brain_training.recordings.reading.frames`.
        seed: of which pictures.
        tell: told of those that cannot be used.
    """
    parts, drives = [], []
    for clip in clips:
        try:
            parts.append(cut([clip.recording], labels, FRAMES, OF_EACH, seed, lambda done, of: None))
            drives.append(clip.drive)
        except RecordingError as problem:
            tell(f"left out: {problem}")
    return (joined(parts) if parts else None), sorted(set(drives))


def held_out(clips: Sequence[Clip], labels: str, tell: Tell) -> dict[str, list[Way]]:
    """Ways to examine by, by drive."""
    found: dict[str, list[Way]] = {}
    for clip in clips:
        images, objects = [], []
        try:
            for frame in frames(clip.recording, labels):
                images.append(frame.image)
                objects.append(None if frame.seen is None else asked(frame.seen, frame.image))
                if len(images) == MOST_PICTURES:
                    break
        except RecordingError as problem:
            tell(f"left out: {problem}")
            continue
        found.setdefault(clip.drive, []).append(Way(np.stack(images), objects, (), clip.recording.mount.height))
    return found


def kept_back(drive: str) -> bool:
    """Tells whether a drive that could be trained on is kept for the choice of the threshold: one in five is."""
    return hashlib.sha256(drive.encode("utf-8", "surrogateescape")).digest()[0] % 5 == 0
