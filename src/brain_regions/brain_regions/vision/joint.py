# SPDX-License-Identifier: Apache-2.0
"""Vision that asks a larger network elsewhere about pictures that it is unsure of, and never waits long for it.

Its own network looks at every picture. One that it is unsure of (:func:`.asking.doubt`) goes out on ``vision/hard``,
and its objects are told when ``vision/second`` has the answer, or its own when the deadline has passed. Where odometry
tells how the camera has moved, an answer holds for the pictures that follow, too, and answers about several pictures
are put together. Objects are told in the order of pictures.

What waits is no part of the region's state: after a restart it would be old.
"""
from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Any

from brain_regions.past import Past, Pose
from brain_regions.vision import decode, opinions
from brain_regions.vision.asking import Asking, Picture, Rules, Stamp, doubt
from brain_regions.vision.decode import Found
from brain_regions.vision.region import Camera, Vision, VisionParameters
from brain_runtime import FEATURE, SENSOR, In, Out, parameter
from brain_runtime.contract.odometry import Odometry
from brain_wire import messages
from brain_wire.messages import make

log = logging.getLogger(__name__)

TELL = 1.0      # s between two reports of what was asked
STALE = 0.5     # s from which on odometry is not used


@dataclass(frozen=True)
class JointParameters(VisionParameters):
    """Rules for asking another network, and for how long it is waited for."""

    doubt: float = parameter(0.02, "objects in a picture that may be wrong, by the network's own confidences, from "
                                   "which on the picture is hard", low=0.0, high=100.0)
    share: float = parameter(0.5, "of the pictures that may be asked about, in the long run; 0: none", low=0.0,
                             high=1.0)
    most_rate: float = parameter(10.0, "pictures that may be asked about in a second", unit="Hz", low=0.01,
                                 high=100.0)
    deadline: float = parameter(0.15, "that an answer may take; a hard picture waits as long", unit="s", low=0.0,
                                high=0.5)
    carry: float = parameter(1.0, "for which an answer holds for later pictures, where odometry is heard, and "
                                  "until which nothing is asked again unless the camera turns; 0: for none", unit="s",
                             low=0.0, high=1.5)
    turn: float = parameter(0.2, "of the camera, after which it is asked again before that", unit="rad", low=0.01,
                            high=math.pi)
    sure: float = parameter(0.5, "objects of answers, of all that still count together, that are less sure are not "
                                 "told; in one answer 0.5 is where its network sees an object", low=0.0, high=1.0)
    misses: int = parameter(3, "deadlines in a row, after which nobody is waited for any more", low=1, high=1000)
    probe: float = parameter(1.0, "between two questions then, whether anybody is back", unit="s", low=0.05,
                             high=3600.0)


class JointVision(Vision):
    """A small network that asks a large one; :class:`.second.SecondVision` answers."""

    Parameters = JointParameters
    rate = 50.0     # Hz at which deadlines are looked at, whether pictures come or not
    baselines = {}
    ablations = {"silent": {"silent": True}, "asking=off": {"share": 0.0}, "carry=off": {"carry": 0.0}}

    odom = In("odom", "nav_msgs/msg/Odometry", SENSOR, device=True)
    second = In("vision/second", "brain_interfaces/msg/DetectedObjects", FEATURE.with_depth(8), trigger=True,
                every=True, device=True)

    objects = replace(Vision.objects, stamp_from=None)      # which have the stamp of their own picture
    hard = Out("vision/hard", "sensor_msgs/msg/Image", SENSOR, stamp_from="image")
    asked = Out("vision/asked", qos=SENSOR, codec="json", on_demand=True)

    def configure(self, parameters) -> None:
        """Loads torch and the weights.

        Raises:
            ParameterError, WeightsError: a parameter or the weight file does not fit.
        """
        super().configure(parameters)
        self._begin()

    def activate(self) -> None:
        """Nothing waits, and of whoever answers nothing is known."""
        self._begin()

    def _begin(self) -> None:
        self._past, self._since, self._told_at = Past(), 0.0, 0.0
        self._asked_by: Camera | None = None
        self._odometry = Odometry()
        self._asking = Asking(self._rules())
        self._looked: tuple[list[Found], list[Found], Camera] | None = None

    def on_parameter(self, name: str, value: Any) -> None:
        """See :meth:`brain_regions.trained.Trained.on_parameter`. What waits goes on to wait by the new rules."""
        super().on_parameter(name, value)
        self._asking.rules = self._rules()

    def _rules(self) -> Rules:
        p = self.parameters
        return Rules(share=p.share, rate=p.most_rate, deadline=p.deadline, carry=p.carry, turn=p.turn,
                     misses=p.misses, probe=p.probe)

    @property
    def counts(self) -> dict[str, int]:
        """Counters since the region was activated.

        ``pictures``, those that were ``hard``, ``asked`` about, ``answered`` in time; deadlines that were ``missed``;
        answers that were ``late`` (or about another picture) and ``broken``; pictures that were told by the opinion
        about an earlier one (``carried``); how often nobody was waited for any more (``away``).
        """
        names = ("pictures", "hard", "asked", "answered", "missed", "late", "broken", "carried", "away")
        return {name: self._asking.counts[name] for name in names}

    def step(self, inbox, state, dt, rng):
        """Takes in answers, looks at a new picture, and tells what is due."""
        asking, was_away = self._asking, self._asking.away
        asking.now += dt
        self._since += dt
        self._follow(inbox)
        for answer in inbox.each("second"):
            if answer.new:
                self._hear(answer.message)
        self._looked = None
        outbox, state = super().step(inbox, state, self._since, rng)
        if self._looked is not None:
            self._since = 0.0
            outbox["hard"] = self._take(inbox.get("image"), *self._looked)
        outbox["objects"] = [self._tell_of(picture) for picture in asking.leave()]
        if asking.away is not was_away:
            log.warning("%s: nobody answers in time on vision/second: no picture waits for it; it is asked each %g s "
                        "whether it is back", self.name, self.parameters.probe) if asking.away else log.info(
                            "%s: vision/second is answered again", self.name)
        if "asked" in self.wanted and asking.now - self._told_at >= TELL:
            self._told_at = asking.now
            outbox["asked"] = self.asked({**self.counts, "is_away": asking.away, "waiting": asking.waiting},
                                         source=self.name)
        return outbox, state

    def _objects(self, votes, camera) -> Any:     # told when it is due
        self._looked = decode.named(votes or (), camera.mount.height), self._sure_of(votes, camera), camera

    # -- what comes in -----------------------------------------------------------------------------------------------

    def _follow(self, inbox) -> None:
        pose = self._odometry.pose(inbox, STALE)
        if pose is not None and inbox.new("odom"):
            self._past.put(messages.time_seconds(inbox.get("odom").header.stamp), pose)

    def _camera(self, stamp: Stamp) -> Pose | None:
        pose = self._past.at(stamp[0] + 1e-9 * stamp[1])
        return None if pose is None or self._asked_by is None else opinions.camera(pose, self._asked_by.mount)

    def _hear(self, message: Any) -> None:
        found = opinions.read(message)
        if found is None:
            self._complain_of("an answer on vision/second holds numbers that no object has; it is left out")
        elif self._asked_by is not None:    # else nobody has asked
            found = opinions.through(self._asked_by.mount.height, found)
        self._asking.hear((message.header.stamp.sec, message.header.stamp.nanosec), found)

    def _complain_of(self, what: str) -> None:
        if what not in self._complained:
            self._complained.add(what)
            log.warning("%s: %s", self.name, what)

    # -- what goes out -----------------------------------------------------------------------------------------------

    def _take(self, image: Any, found: list[Found], own: list[Found], camera: Camera) -> Any:
        """Takes a picture into line, with what may be in it and what is told of it; the question about it, or None."""
        stamp = image.header.stamp.sec, image.header.stamp.nanosec
        self._asked_by = camera
        self._asking.half = min(camera.sight.left, -camera.sight.right)
        picture = Picture(stamp, own, self._camera(stamp), (image.header.stamp, camera))
        if not self._asking.take(picture, doubt(found) >= self.parameters.doubt):
            return None
        seen = camera.sight.level(self._seen)
        return self.hard(header=make("std_msgs/msg/Header", frame_id="camera"), height=seen.shape[0],
                         width=seen.shape[1], encoding="rgb8", step=3 * seen.shape[1], data=seen.reshape(-1))

    def _tell_of(self, picture: Picture) -> Any:
        (stamp, camera), found = picture.more, picture.own
        if picture.answer is not None:
            found = self._sure(picture.answer.found)
        elif picture.before is not None:
            then, now = self._camera(picture.before.stamp), self._camera(picture.stamp)
            if then is not None and now is not None:
                self._asking.counts["carried"] += 1
                found = opinions.carried(self._sure(picture.before.found), found, then, now, self._asking.half)
        message = self._told(found, camera)
        message.header.stamp = stamp
        message.origins = [make("brain_interfaces/msg/Origin", source=self.image.topic, stamp=stamp)]
        return message

    def _sure(self, found: list[Found]) -> list[Found]:
        return [one for one in found if one.confidence >= self.parameters.sure]
