# SPDX-License-Identifier: Apache-2.0
"""A robot's side: what its brain says on ``vision/hard`` is asked of the cloud, and answers go back to the brain.

One question is under way at a time; the pictures that come meanwhile are let go of, and so is an answer that is late.
Pictures leave the robot by its owner's consent only, counted in parcels of a megabyte.
"""
from __future__ import annotations

import logging
import time
from typing import Any

from brain_fleet.belonging.consent import Consent, ConsentProblem, NoConsent
from brain_fleet.joint.answering import QUESTION
from brain_fleet.messages.question import NOTHING, NoAnswer, NotGiven, ask
from brain_security.fleet_keys import second
from brain_wire import Node, Session, messages
from brain_wire.messages import MessageError
from brain_wire.qos import FEATURE, SENSOR
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted
from brain_wire.wakeup import Flag

IMAGE, OBJECTS = "sensor_msgs/msg/Image", "brain_interfaces/msg/DetectedObjects"
HARD, ANSWERS = "vision/hard", "vision/second"
ANSWER = 16 * 1024      # bytes
PARCEL = 10**6          # bytes that are counted at once, before they leave
LASTS = 60.0            # s after which the owner's consent is looked up again
REFUSED = 5.0           # s after a refusal in which the owner is not asked again: each is written down
LOOK = 0.5              # s between two looks at whether it is to end

log = logging.getLogger("brain.second")
limited_log = RateLimitedLog(log)


class Asking:
    """Carries questions of one brain to the cloud, and answers back.

    Args:
        node: of ours, in the brain's domain and namespace.
        cloud: open session that reaches the cloud's router.
        robot: its name in its fleet.
        consent: of the robot's owner.
        deadline: s that an answer may take.

    Attributes:
        asked, answered: how many so far.
    """

    def __init__(self, node: Node, cloud: Session, robot: str, consent: Consent, deadline: float) -> None:
        self._cloud, self._robot, self._consent, self._deadline = cloud, robot, consent, deadline
        self._hard = node.subscription(HARD, IMAGE, SENSOR)
        self._second = node.publisher(ANSWERS, OBJECTS, FEATURE)
        self._left, self._until, self._refused = 0, 0.0, float("-inf")
        self.asked = self.answered = 0

    def run(self, stop: Flag) -> None:
        """Asks until ``stop``."""
        while not stop.is_set():
            for picture in self._hard.messages(timeout=LOOK):
                self.turn(picture)
                if stop.is_set():
                    return

    def turn(self, picture: Any) -> None:
        """Asks about one picture, and hands on what is answered in time."""
        question = messages.encode(picture)
        if len(question) > QUESTION:
            limited_log("size", f"a picture on {HARD} has {len(question)} bytes, and at most {QUESTION} are sent")
        elif self._may(len(question)):
            self.asked += 1
            found = self._ask(question)
            if found is not None and found.header.stamp == picture.header.stamp:
                self.answered += 1
                self._second.publish(found)

    def _may(self, size: int) -> bool:
        """Checks the owner's consent to let so many bytes leave; they are counted before."""
        if time.monotonic() < self._refused + REFUSED:
            return False
        if size > self._left or time.monotonic() > self._until:
            try:
                if size <= self._left and self._consent.answer("pictures").allowed:
                    self._until = time.monotonic() + LASTS      # the rest of the parcel is counted already
                    self._left -= size
                    return True
                with self._consent.leaving("pictures", PARCEL, "hard pictures of vision", "cloud"):
                    self._left, self._until = PARCEL, time.monotonic() + LASTS
            except (NoConsent, ConsentProblem) as problem:
                self._left, self._refused = 0, time.monotonic()
                limited_log("consent", f"no picture is asked about: {problem}")
                return False
        self._left -= size
        return True

    def _ask(self, question: bytes) -> Any | None:
        try:
            data = ask(self._cloud, second(self._robot), question, self._deadline)
            if 0 < len(data) <= ANSWER:
                return messages.decode(data, OBJECTS)
        except (NoAnswer, NotGiven) as problem:
            if str(problem) != NOTHING:
                limited_log("cloud", str(problem))
        except MessageError as error:
            limited_log("answer", f"what the cloud answers cannot be read: {quoted(str(error)[:80])}")
        return None
