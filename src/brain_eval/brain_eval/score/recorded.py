# SPDX-License-Identifier: Apache-2.0
"""A recording as vision sees it: what came when, and what it tells of each picture with membranes carried."""
from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from brain_eval.score.labels import VIEW, Labelled, Picture
from brain_eval.score.looker import IMAGE, INFO, STATIC, Looker, Seen
from brain_eval.score.views import Target, targets
from brain_runtime.contract.pictures import of_message
from brain_runtime.command.lacking import lacks
from brain_runtime.contract import images
from brain_runtime.contract.declared import named
from brain_runtime.contract.frames import FLOORS, FrameError, Frames
from brain_runtime.contract.optics import Mount

READER = "brain_training.recordings.bags"       # which reads recordings to learn from them, and lies above this
COMPRESSED = "sensor_msgs/msg/CompressedImage"
USUAL = ("camera/image_raw", "camera/image_raw/compressed")
BEGIN = 1.0             # s, on the clock of a vision, of a recording's first message
LONG = 2.5              # times the usual time between two messages, from which on it is a gap
FILES = (".mcap", ".db3")


class RecordingProblem(ValueError):
    """A recording cannot be looked at; names it and the remedy."""


class Times(NamedTuple):
    """Arrivals of a topic's messages.

    Attributes:
        count: of them.
        unstamped: of these, whose stamp is 0.
        rate: a second, by their stamps.
        gaps: how often the time between two was much longer than usual; longest: of them (s).
        age: from the stamp to the recording, middle and 95th percentile (s); NaN where there are no stamps.
    """

    count: int
    unstamped: int
    rate: float
    gaps: int
    longest: float
    age: tuple[float, float]


class Shown(NamedTuple):
    """A picture of a recording, and what each vision told of it.

    Attributes:
        at: s since the recording began.
        picture: uint8 [rows, columns, 3].
        lens: of it.
        mount: of the camera.
        told: by vision, surest first; one that refused it is missing.
        label: of the picture; None: nobody has labelled it.
        targets: what it shows of the label.
    """

    at: float
    picture: np.ndarray
    lens: images.Lens
    mount: Mount
    told: dict[str, list[Seen]]
    label: Picture | None
    targets: tuple[Target, ...]


class Report(NamedTuple):
    """Report of a recording.

    Attributes:
        pictures: topic of them.
        times: by topic.
        refused: pictures that could not be looked at, by the reason.
    """

    pictures: str
    times: dict[str, Times]
    refused: dict[str, int]


def recordings_in(path: Path) -> list[Path]:
    """Recordings of a path: itself, or those in its folders: a folder with a bag's metadata, or a bag's file."""
    if not path.is_dir():
        return [path] if path.suffix in FILES else []
    if (path / "metadata.yaml").exists():
        return [path]
    return [one for child in sorted(path.iterdir()) if not child.name.startswith(".") for one in recordings_in(child)]


def play(path: Path, lookers: Mapping[str, Looker], label: Callable[[str], Picture | None],
         show: Callable[[Shown], None], topic: str = "", view: float = VIEW) -> Report:
    """Plays a recording to some visions, each picture once, in the order of recording.

    Args:
        path: of the recording.
        lookers: by name; they begin at rest.
        label: gives the label of a picture by the SHA-256 of its message's data.
        show: called with each picture.
        topic: of the pictures; empty: the usual one, or the only one.
        view: of the camera (rad), where no CameraInfo tells it.

    Raises:
        RecordingProblem: it cannot be read; says why.
    """
    try:
        opened, error_of = named(f"{READER}:opened", "brain score"), named(f"{READER}:RecordingError", "brain score")
    except ModuleNotFoundError as error:
        raise RecordingProblem(f"{path} is a recording: {lacks(error.name or 'brain_training')}") from None
    try:
        with opened(path) as bag:
            return _play(bag, path, lookers, label, show, topic, view)
    except error_of as error:
        raise RecordingProblem(str(error)) from error


def _play(bag: Any, path: Path, lookers: Mapping[str, Looker], label: Callable[[str], Picture | None],
          show: Callable[[Shown], None], topic: str, view: float) -> Report:
    pictures = topic or _pictures(bag, path)
    lens_topic = bag.lens_of(pictures)
    wanted: dict[str, tuple[str, ...]] = {pictures: (IMAGE, COMPRESSED)}
    if lens_topic is not None:
        wanted[lens_topic] = (INFO,)
    for looker in lookers.values():     # what a vision hears of a robot, it hears of its recording
        wanted |= {name: (kind,) for name, kind in looker.hears.items() if bag.topic(name) in bag.of_types((kind,))}
    clocks: dict[str, _Clock] = {name: _Clock() for name in wanted}
    refused: dict[str, int] = {}
    mount = _mount(bag, pictures)
    for looker in lookers.values():
        looker.rest(view, mount)
    info, begin = None, None
    for heard in bag.messages(wanted):
        begin = heard.at if begin is None else begin
        now = BEGIN + (heard.at - begin) / 1e9
        clocks[heard.topic].take(heard)
        if heard.topic == lens_topic:
            info = heard.message
        elif heard.topic == pictures:
            try:
                picture = of_message(heard.message)
                lens = images.lens(info, (picture.shape[1], picture.shape[0]), view)
            except ValueError as error:
                refused[str(error)] = refused.get(str(error), 0) + 1
                continue
            told = {}
            for name, looker in lookers.items():
                seen = looker.look(picture, info, now, heard.stamp / 1e9)
                if looker.refused:
                    refused[looker.refused] = refused.get(looker.refused, 0) + 1
                else:
                    told[name] = seen
            labelled = label(hashlib.sha256(bytes(heard.message.data)).hexdigest())
            objects: Sequence[Labelled] = () if labelled is None else labelled.objects
            show(Shown(now - BEGIN, picture, lens, mount, told, labelled, targets(objects, lens, mount)))
        else:
            for looker in lookers.values():
                looker.hear(wanted[heard.topic][0], heard.message, now)
    return Report(pictures, {name: clock.times() for name, clock in clocks.items()}, refused)


def _pictures(bag: Any, path: Path) -> str:
    """Topic of the pictures: the usual one, or the only one. Raises RecordingProblem."""
    found = bag.of_types((IMAGE, COMPRESSED))
    for name in USUAL:
        if bag.topic(name) in found:
            return name
    if len(found) != 1:
        raise RecordingProblem(f"{path} has {'no pictures' if not found else f'pictures in {chr(44).join(found)}'}; "
                               + ("record some" if not found else "say which with --pictures TOPIC"))
    return found[0]


def _mount(bag: Any, pictures: str) -> Mount:
    """Mounting of the camera by the recording's fixed frames; else it is level, and its height is not known."""
    known = Frames()
    frame = next((heard.message.header.frame_id for heard in bag.messages({pictures: (IMAGE, COMPRESSED)})), "")
    if bag.topic(STATIC) is not None:
        for heard in bag.messages({STATIC: ("tf2_msgs/msg/TFMessage",)}):
            try:
                known.take(heard.message)
            except FrameError:
                continue        # of others' frames; what is missing then is not known
    for base in reversed(FLOORS):
        try:
            return known.mount(frame, base)
        except FrameError:
            continue
    return Mount(height=math.nan)


class _Clock:
    """Arrivals of a topic's messages."""

    def __init__(self) -> None:
        self._stamps: list[int] = []
        self._ages: list[int] = []
        self._unstamped = 0

    def take(self, heard: Any) -> None:
        if not hasattr(heard.message, "header"):
            self._stamps.append(heard.at)
            return
        told = heard.told
        self._unstamped += not told
        self._stamps.append(told or heard.at)
        if told:
            self._ages.append(heard.at - told)

    def times(self) -> Times:
        stamps = np.array(sorted(self._stamps), np.int64)
        between = np.diff(stamps) / 1e9
        usual = float(np.median(between)) if len(between) else 0.0
        gaps = between[between > LONG * usual] if usual > 0.0 else between[:0]
        lasted = float(stamps[-1] - stamps[0]) / 1e9 if len(stamps) else 0.0
        age = (tuple(float(v) / 1e9 for v in np.percentile(self._ages, [50, 95])) if self._ages
               else (math.nan, math.nan))
        return Times(len(stamps), self._unstamped, (len(stamps) - 1) / lasted if lasted > 0.0 else 0.0, len(gaps),
                     float(gaps.max()) if len(gaps) else 0.0, (age[0], age[1]))


def names_of(told: Iterable[Seen], threshold: float) -> set[str]:
    """Names of what is told from a threshold on, as ``red ball``; ``something`` of what has none."""
    return {f"{seen.color} {seen.kind}" if seen.color and seen.kind else "something"
            for seen in told if seen.confidence >= threshold}
