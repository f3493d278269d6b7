# SPDX-License-Identifier: Apache-2.0
"""One recording as pictures with what they show, 50 ms apart, and clips cut from it.

A recording is read through, never held: twice, since a label may be recorded long after its picture. Of the pictures
as many clips are kept as are asked for, each with the same chance.
"""
from __future__ import annotations

import logging
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np

from brain_runtime.contract.pictures import is_gray
from brain_regions.picture_watch import MIRRORED, PictureWatch
from brain_runtime.contract import odometry
from brain_runtime.contract.images import SMALLEST, LensError
from brain_sim import robot
from brain_training.recordings.bags import Bag, RecordingError, opened
from brain_training.recordings.library import IMAGES, LIST, OUTCOMES, SELF, Recording
from brain_training.recordings.outcomes import outcomes
from brain_training.recordings.own_labels import Odometry, OwnLabels
from brain_training.recordings.views import View, inner, picture_of, views

log = logging.getLogger(__name__)

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


Label = Callable[[int], "list[View] | None"]
"""What a picture shows, of its stamp (ns)."""


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
        poses = _poses(bag, recording, needed=own)
        label = _own(bag, recording, poses, source == OUTCOMES) if own else _told(bag, recording, source)
        wanted: dict[str, tuple[str, ...]] = {recording.pictures: IMAGES}
        info_topic = bag.lens_of(recording.pictures)
        if info_topic is not None:
            wanted[info_topic] = INFO
        info, last, taken, labelled, shown, gray, watch = None, None, None, 0, 0, 0, PictureWatch()
        for heard in bag.messages(wanted):
            if heard.topic == info_topic:
                info = heard.message
            else:
                stamp = heard.stamp
                if last is not None and stamp < last.stamp and not last.told and heard.told:
                    taken = None        # a driver's clock has come: what went before has no time
                elif last is not None and stamp < last.stamp:
                    raise RecordingError(f"{recording.path}: stamps of {recording.pictures} go back from "
                                         f"{last.stamp / 1e9:.3f} to {stamp / 1e9:.3f} s, as where a clock was set; "
                                         f"cut it there (`ros2 bag convert`), or take it out of the folder")
                last = heard
                if taken is not None and stamp - taken < EVERY:
                    continue
                try:
                    image = picture_of(heard.message, recording.path, recording.pictures, recording.mount, info)
                except LensError as error:
                    raise RecordingError(f"{recording.path}: {info_topic} is refused: {error}; take the recording out "
                                         f"of the folder, or record it with a right calibration") from error
                pose = poses.at(stamp) if poses is not None else None
                part = inner(image)
                if pose is not None and min(part.shape[:2]) >= SMALLEST and watch.take(
                        part, pose, stamp / 1e9) == MIRRORED:
                    raise RecordingError(f"{recording.path}: {MIRRORED} Where the camera hangs upside down, say so: "
                                         f"\"camera_roll\": 3.14 in {LIST}")
                seen = label(stamp)
                if is_gray(image):      # what color a thing has cannot be learned from it
                    gray, seen = gray + 1, seen and [view._replace(sure=False) for view in seen]
                labelled, shown = labelled + (seen is not None), shown + 1
                yield Frame(stamp, image, seen, taken is None or stamp - taken > GAP)
                taken = stamp
        if not labelled:
            what = f"no picture has odometry and {VISION}" if own else f"no picture has a label in {source}"
            raise RecordingError(f"{recording.path}: {what} of its own stamp ({shown} pictures); a label carries the "
                                 f"stamp of its picture, as vision's do")
        if gray:
            log.warning("%s: %d of %d pictures of %s are gray, and nothing is learned from them of what has a color",
                        recording.path, gray, shown, recording.pictures)


def _told(bag: Bag, recording: Recording, topic: str) -> Label:
    found = _objects(bag, recording, topic)

    def label(stamp: int) -> list[View] | None:
        message = found.get(stamp)
        return None if message is None else views(message, recording.mount)
    return label


def _poses(bag: Bag, recording: Recording, needed: bool) -> Odometry | None:
    """Poses of the recording; None where nobody needs them, and there are none."""
    if not needed and bag.topic(ODOM) is None:
        return None
    stamps, poses, judge, refused = [], [], odometry.Odometry(), ""
    for heard in bag.messages({ODOM: ("nav_msgs/msg/Odometry",)}):
        if judge.hear(heard.message, heard.stamp / 1e9):
            refused = judge.refused
            continue
        stamps.append(heard.stamp)
        poses.append(odometry.pose_of(heard.message))
    if refused and not stamps and needed:
        raise RecordingError(f"{recording.path}: {refused}; correct the driver, and record anew")
    return Odometry(stamps, poses)


def _own(bag: Bag, recording: Recording, poses: Odometry | None, by_outcomes: bool) -> Label:
    assert poses is not None
    ended = None
    if by_outcomes:
        statuses = [(heard.stamp, heard.message) for heard in bag.messages({STATUS: GOALS})]
        ended = outcomes(statuses, [heard.message for heard in bag.messages({LANGUAGE: FEATURES})])
        if not ended:
            raise RecordingError(f"{recording.path}: no goal with a color and a shape was reached in it, or ended at "
                                 f"something else; labels from {OUTCOMES} need {STATUS} and {LANGUAGE} of such goals")
    own = OwnLabels(_objects(bag, recording, VISION), poses, ended)
    return lambda stamp: own.views(stamp, recording.mount)


def _objects(bag: Bag, recording: Recording, topic: str) -> dict[int, Any]:
    """DetectedObjects by the stamp of their picture; one without a stamp belongs to the newest picture before it."""
    found: dict[int, Any] = {}
    unstamped = False
    for heard in bag.messages({topic: OBJECTS}):
        unstamped = unstamped or not heard.told
        found[heard.stamp] = heard.message
        if len(found) > MOST_LABELS:
            raise RecordingError(f"{recording.path} has more than {MOST_LABELS} labels in {topic}; split the recording "
                                 f"(`ros2 bag convert`)")
    picture = None
    for heard in bag.messages({topic: OBJECTS, recording.pictures: IMAGES}) if unstamped else ():
        if heard.topic == recording.pictures:
            picture = heard.stamp
        elif not heard.told and picture is not None:
            found[picture] = heard.message
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
