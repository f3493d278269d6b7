# SPDX-License-Identifier: Apache-2.0
"""Chooses hard clips from recordings that there are, by the rules by which a robot chooses while it drives."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

from brain_sim.room import stable_hash
from brain_training.incremental.chooser import Chooser
from brain_training.incremental.clip_files import ClipFolder, name_of
from brain_training.incremental.collecting import LENS, PICTURES, Collector
from brain_training.incremental.hearing import TOPICS
from brain_training.incremental.rules import Rule
from brain_training.recordings.bags import RecordingError, opened
from brain_training.recordings.library import IMAGES, Recording, find
from brain_training.task import stream


class Found(NamedTuple):
    """Clips of a recording: its name, clips by rule, finds that no share was left for, by rule, and topics it lacks."""

    recording: str
    clips: dict[str, int]
    passed_over: dict[str, int]
    lacks: tuple[str, ...]


def choose(folders: Sequence[Path], robot: str, into: ClipFolder, rules: Sequence[Rule], most: int, threshold: float,
           teacher: str | None = None, tell: Callable[[Found], None] = lambda found: None) -> list[Found]:
    """Reads recordings, and keeps their hard clips.

    Args:
        folders: with recordings.
        robot: whose they are.
        into: where clips are kept.
        rules, most, threshold, teacher: see :class:`.chooser.Chooser` and :class:`.collecting.Collector`.
        tell: told of each recording.

    Raises:
        RecordingError: one cannot be used.
        ClipProblem: a clip cannot be written.
    """
    found = []
    for recording in find(list(folders)):
        if name_of(recording.path.name) is None:    # a clip is no recording to choose from
            found.append(_one(recording, robot, into, rules, most, threshold, teacher))
            tell(found[-1])
    return found


def _one(recording: Recording, robot: str, into: ClipFolder, rules: Sequence[Rule], most: int, threshold: float,
         teacher: str | None) -> Found:
    drive = f"{re.sub(r'[^A-Za-z0-9]', '_', recording.name)[:24]}_{recording.digest[:8]}"
    clips: dict[str, int] = {}

    def keep(chosen: Any, kept: Any) -> None:
        into.add(robot, drive, chosen.rule, chosen.hardness, kept)
        clips[chosen.rule] = clips.get(chosen.rule, 0) + 1

    chooser = Chooser(rules, most, stream("incremental random", 0, stable_hash(recording.name)))
    collector = Collector(chooser, threshold, keep, teacher, recording.mount)
    with opened(recording.path) as bag:
        topics = {topic: (kind,) for topic, kind in collector.topics.items() if bag.topic(topic) is not None}
        for topic in (PICTURES, LENS):
            topics.pop(topic, None)
        named = {recording.pictures: PICTURES}
        wanted = {recording.pictures: IMAGES}
        if (lens := bag.lens_of(recording.pictures)) is not None:
            named[lens], wanted[lens] = LENS, (collector.topics[LENS],)
        lacking = tuple(topic for topic in TOPICS if topic not in topics)
        if len(lacking) == len(TOPICS):
            raise RecordingError(f"{recording.path} has none of {', '.join(TOPICS)}, so no rule can find anything in "
                                 f"it; record these too, or take the recording out of the folder")
        if teacher is not None and teacher not in topics:
            raise RecordingError(f"{recording.path} has no topic {teacher} of labels; record it too, or leave out "
                                 f"--teacher")
        for heard in bag.messages({**topics, **wanted}):
            collector.hear(named.get(heard.topic, heard.topic), heard.at, heard.message)
    collector.end()
    return Found(recording.name, clips, chooser.passed_over, lacking)
