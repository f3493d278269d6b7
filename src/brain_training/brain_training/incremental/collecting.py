# SPDX-License-Identifier: Apache-2.0
"""Collects hard clips from the messages of one robot as they go by, from a brain that runs or from a recording.

The last seconds are held, pictures levelled as the network takes them: a clip may begin before what made it hard.
Of the standing messages (how the goal stands, the camera's lens, the room of a simulated robot) the newest goes into
each clip.
"""
from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, Callable, Sequence

import numpy as np

from brain_runtime.contract.optics import Mount
from brain_training.incremental.chooser import Chooser, Chosen
from brain_training.incremental.clip_files import Kept
from brain_training.incremental.hearing import OBJECTS, STATUS, TOPICS, Hearing

PICTURES, LENS, ODOM, LANGUAGE, WORLD = "camera/image_raw", "camera/camera_info", "odom", "lang/features", "sim/world"
IMAGE = "sensor_msgs/msg/Image"
KEPT = {PICTURES: IMAGE, LENS: "sensor_msgs/msg/CameraInfo", ODOM: "nav_msgs/msg/Odometry",
        OBJECTS: TOPICS[OBJECTS], STATUS: TOPICS[STATUS], LANGUAGE: "brain_interfaces/msg/LanguageFeatures",
        WORLD: "std_msgs/msg/String"}
"""What a clip holds, with the types: what is learned from, and what labels are made of."""
STANDING = (LENS, STATUS, LANGUAGE, WORLD)
TEACHER = "brain_interfaces/msg/DetectedObjects"
LATE = 0.5              # s after a clip's end in which what was told of its pictures still comes
HELD = 6.0              # s that are held
MOST_HELD = 4000        # messages
FEWEST = 2              # pictures of a clip
JITTER = 0.5            # s that messages may come out of order
PERIOD = 0.045          # s; pictures that come sooner are left out

USUAL = Mount(x=0.15, height=0.35)      # of the simulated robot's camera

Keep = Callable[[Chosen, Sequence[Kept]], None]


class Collector:
    """Collects.

    Args:
        chooser: what chooses.
        threshold: confidence from which on vision tells of a thing.
        keep: called with each clip: why it is one, and its messages.
        teacher: topic of labels that is kept too.
        mount: of the camera.

    Attributes:
        unreadable: pictures that could not be taken in.
    """

    def __init__(self, chooser: Chooser, threshold: float, keep: Keep, teacher: str | None = None,
                 mount: Mount = USUAL) -> None:
        self._chooser, self._hearing, self._keep = chooser, Hearing(threshold), keep
        self.topics = {**TOPICS, **KEPT, **({teacher: TEACHER} if teacher else {})}
        self._kept_topics = {*KEPT, *({teacher} if teacher else ())}
        self._held: deque[Kept] = deque(maxlen=MOST_HELD)
        self._standing: dict[str, Kept] = {}
        self._waiting: list[Chosen] = []
        self._mount, self._lens = mount, None
        self._picture = -1
        self._now = -1
        self.unreadable = 0

    def hear(self, topic: str, at: int, message: Any) -> None:
        """Takes in a message of one of ``topics``, received at ``at`` (ns).

        Raises:
            ClipProblem: of ``keep``.
        """
        if self._now - JITTER * 1e9 <= at < self._now:      # of several publishers, in the order of their arrival
            at = self._now
        if at < self._now:      # the clock was set back: what is held has no time any more
            self._held.clear()
            self._waiting.clear()
            self._picture = -1
        self._now = at
        if topic in self._kept_topics:
            self._hold(topic, at, message)
        heard = self._hearing.heard(topic, at / 1e9, message)
        self._waiting += self._chooser.tick(at / 1e9) if heard is None else self._chooser.hear(heard)
        self._write(at / 1e9 - LATE)

    def end(self) -> None:
        """The stream has ended. Raises as :meth:`hear`."""
        self._waiting += self._chooser.end()
        self._write(float("inf"))

    def _hold(self, topic: str, at: int, message: Any) -> None:
        kind = self.topics[topic]
        if topic == LENS:       # of a clip's pictures, which are level, it is another
            self._lens = message
            return
        if topic == PICTURES:
            from brain_regions.vision.levelling import level_info, level_mount      # torch

            if 0 <= at - self._picture < PERIOD * 1e9:
                return
            level = _level(message, self._mount, self._lens)
            if level is None:
                self.unreadable += 1
                return
            message, self._picture = level, at
            lens = level_info(level_mount(self._lens) or self._mount)
            lens.header.stamp = message.header.stamp
            self._standing[LENS] = Kept(LENS, self.topics[LENS], at, lens)
        if topic in STANDING:
            self._standing[topic] = Kept(topic, kind, at, message)
        self._held.append(Kept(topic, kind, at, message))
        while self._held[0].at < at - HELD * 1e9:
            self._held.popleft()

    def _write(self, before: float) -> None:
        for one in [one for one in self._waiting if one.end <= before]:
            self._waiting.remove(one)
            begin, end = one.begin * 1e9, one.end * 1e9
            kept = [held for held in self._held if begin <= held.at <= end + (
                0.0 if held.topic in (PICTURES, ODOM) else LATE * 1e9)]
            if sum(held.topic == PICTURES for held in kept) < FEWEST:
                continue
            there = {held.topic for held in kept}
            first = kept[0].at
            standing = [held._replace(at=min(held.at, first)) for topic, held in self._standing.items()
                        if topic not in there]
            self._keep(one, sorted([*standing, *kept], key=lambda held: held.at))


def _level(message: Any, mount: Mount, lens: Any) -> Any:
    """A level picture; None where it cannot be made."""
    from brain_training.recordings.views import picture_of      # torch, which the rules do without
    from brain_wire.messages import make

    try:
        picture = picture_of(message, Path("the robot"), PICTURES, mount, lens)
    except ValueError:
        return None
    rows, columns, _ = picture.shape
    made = make(IMAGE, height=rows, width=columns, encoding="rgb8", is_bigendian=0, step=3 * columns,
                data=np.ascontiguousarray(picture).reshape(-1))
    made.header.stamp, made.header.frame_id = message.header.stamp, message.header.frame_id
    return made
