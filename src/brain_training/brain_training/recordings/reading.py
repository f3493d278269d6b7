# SPDX-License-Identifier: Apache-2.0
"""One recording as pictures with what they show, 50 ms apart, and clips cut from it.

A recording is read through, never held: twice, since a label may be recorded long after its picture. Of the pictures
as many clips are kept as are asked for, each with the same chance.
"""
from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np

from brain_runtime.contract import odometry
from brain_runtime.contract.images import LensError
from brain_sim import robot
from brain_training.recordings.bags import Bag, RecordingError, opened
from brain_training.recordings.library import IMAGES, OUTCOMES, SELF, Recording, stamp_of
from brain_training.recordings.outcomes import outcomes
from brain_training.recordings.own_labels import Odometry, OwnLabels
from brain_training.recordings.views import View, focal_of, picture_of, views

OBJECTS = ("brain_interfaces/msg/DetectedObjects",)
INFO = ("sensor_msgs/msg/CameraInfo",)
VISION, ODOM = "vision/objects", "odom"
STATUS, LANGUAGE = "goal/status", "lang/features"
GOALS, FEATURES = ("brain_interfaces/msg/GoalStatus",), ("brain_interfaces/msg/LanguageFeatures",)
EVERY = round(0.9e9 / robot.CAMERA_RATE)    # ns; pictures that come sooner are left out
GAP = round(3e9 / robot.CAMERA_RATE)        # ns; a clip does not go on behind a longer gap
MOST_LABELS = 2_000_000                     # labelled pictures of one recording


class Frame(NamedTuple):
    """A picture of a recording.

    Attributes:
        stamp: ns.
        image: uint8 [HEIGHT, WIDTH, 3].
        seen: what it shows; None: nobody has said.
        begins: it does not follow the one before.
    """

    stamp: int
    image: np.ndarray
    seen: list[View] | None
    begins: bool


Label = Callable[[int, float], "list[View] | None"]
"""What a picture shows, of (stamp in ns, focal length in px)."""


def frames(recording: Recording, source: str) -> Iterator[Frame]:
    """The pictures of a recording, 50 ms apart, with what ``source`` says they show.

    Args:
        recording: which.
        source: topic of DetectedObjects that carry the stamps of their pictures; or :data:`.library.SELF`, or
            :data:`.library.OUTCOMES`.

    Raises:
        RecordingError: the bag is torn, lacks a topic, holds a picture or message that cannot be read, its stamps go
            back, or no picture has a label.
    """
    with opened(recording.path) as bag:
        own = source in (SELF, OUTCOMES)
        label = _own(bag, recording, source == OUTCOMES) if own else _told(bag, recording, source)
        wanted: dict[str, tuple[str, ...]] = {recording.pictures: IMAGES}
        info_topic = recording.pictures.rpartition("/")[0] + "/camera_info"
        if bag.topic(info_topic) is not None:
            wanted[info_topic] = INFO
        info, last, taken, labelled, shown = None, None, None, 0, 0
        for heard in bag.messages(wanted):
            if heard.topic == info_topic:
                info = heard.message
            else:
                stamp = stamp_of(heard.message)
                if last is not None and stamp < last:
                    raise RecordingError(f"{recording.path}: stamps of {recording.pictures} go back from "
                                         f"{last / 1e9:.3f} to {stamp / 1e9:.3f} s, as where a clock was set; cut it "
                                         f"there (`ros2 bag convert`), or take it out of the folder")
                last = stamp
                if taken is not None and stamp - taken < EVERY:
                    continue
                image = picture_of(heard.message, recording.path, recording.pictures)
                try:
                    seen = label(stamp, focal_of(info))
                except LensError as error:
                    raise RecordingError(f"{recording.path}: {info_topic} is refused: {error}; take the recording out "
                                         f"of the folder, or record it with a right calibration") from error
                labelled, shown = labelled + (seen is not None), shown + 1
                yield Frame(stamp, image, seen, taken is None or stamp - taken > GAP)
                taken = stamp
        if not labelled:
            what = f"no picture has odometry and {VISION}" if own else f"no picture has a label in {source}"
            raise RecordingError(f"{recording.path}: {what} of its own stamp ({shown} pictures); a label carries the "
                                 f"stamp of its picture, as vision's do")


def _told(bag: Bag, recording: Recording, topic: str) -> Label:
    found = _objects(bag, recording, topic)

    def label(stamp: int, focal: float) -> list[View] | None:
        message = found.get(stamp)
        return None if message is None else views(message, recording.mount, focal)
    return label


def _own(bag: Bag, recording: Recording, by_outcomes: bool) -> Label:
    stamps, poses, judge, refused = [], [], odometry.Odometry(), ""
    for heard in bag.messages({ODOM: ("nav_msgs/msg/Odometry",)}):
        stamp = stamp_of(heard.message)
        if judge.hear(heard.message, stamp / 1e9):
            refused = judge.refused
            continue
        stamps.append(stamp)
        poses.append(odometry.pose_of(heard.message))
    if refused and not stamps:
        raise RecordingError(f"{recording.path}: {refused}; correct the driver, and record anew")
    ended = None
    if by_outcomes:
        statuses = [(stamp_of(heard.message), heard.message) for heard in bag.messages({STATUS: GOALS})]
        ended = outcomes(statuses, [heard.message for heard in bag.messages({LANGUAGE: FEATURES})])
        if not ended:
            raise RecordingError(f"{recording.path}: no goal with a color and a shape was reached in it, or ended at "
                                 f"something else; labels from {OUTCOMES} need {STATUS} and {LANGUAGE} of such goals")
    own = OwnLabels(_objects(bag, recording, VISION), Odometry(stamps, poses), ended)
    return lambda stamp, focal: own.views(stamp, recording.mount, focal)


def _objects(bag: Bag, recording: Recording, topic: str) -> dict[int, Any]:
    """DetectedObjects by the stamp of their picture."""
    found: dict[int, Any] = {}
    for heard in bag.messages({topic: OBJECTS}):
        found[stamp_of(heard.message)] = heard.message
        if len(found) > MOST_LABELS:
            raise RecordingError(f"{recording.path} has more than {MOST_LABELS} labels in {topic}; split the recording "
                                 f"(`ros2 bag convert`)")
    return found


class Clip(NamedTuple):
    """Pictures in a row: uint8 [frames, HEIGHT, WIDTH, 3], and what each shows."""

    images: np.ndarray
    seen: list[list[View] | None]


def clips(recording: Recording, source: str, length: int, most: int, rng: np.random.Generator, *,
          apart: int = 1) -> list[Clip]:
    """At most ``most`` clips of ``length`` pictures in a row, whose last one has a label; each with the same chance.

    Args:
        recording, source: see :func:`frames`.
        rng: of the choice.
        apart: pictures from the beginning of one clip to that of the next, at least.
    """
    kept: list[tuple[int, Clip]] = []
    row: list[Frame] = []
    count = since = 0
    for frame in frames(recording, source):
        row = [frame] if frame.begins else [*row, frame][-length:]
        since += 1
        if len(row) < length or frame.seen is None or count and since < apart:
            continue
        place = count if count < most else int(rng.integers(count + 1))
        count, since = count + 1, 0
        if place < most:
            clip = count, Clip(np.stack([f.image for f in row]), [f.seen for f in row])
            kept[place:place + 1] = [clip]
    return [clip for _, clip in sorted(kept, key=lambda pair: pair[0])]


def of_split(recordings: Sequence[Recording], split: str) -> list[Recording]:
    """Those of a split."""
    return [recording for recording in recordings if recording.split == split]
