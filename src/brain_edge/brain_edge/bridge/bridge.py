# SPDX-License-Identifier: Apache-2.0
"""A robot's end of the bridge: what its brain says on one topic goes to the cloud, and answers go back to the brain.

One message is under way at a time; those that come meanwhile are let go of, and so is an answer that is late. Nothing
leaves the robot but by its owner's consent and within the budget. Where the cloud, the link or this process is gone,
the brain hears no answer, and goes on alone.
"""
from __future__ import annotations

import logging
import time
from typing import Any

from brain_edge.bridge.crossing import Crossing
from brain_edge.enrolment.consent import Consent, Parcels
from brain_edge.messages.question import NOTHING, NoAnswer, NotGiven, ask
from brain_edge.messages.rate_limit import Bucket
from brain_wire import Node, Session, messages
from brain_wire.messages import MessageError
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted
from brain_wire.wakeup import Flag

LOOK = 0.5              # s between two looks at whether it is to end

limited_log = RateLimitedLog(logging.getLogger("brain.bridge"))


class Bridge:
    """Carries one crossing between a brain and the cloud.

    Args:
        node: of ours, in the brain's domain and namespace.
        cloud: open session that reaches the cloud's router.
        robot: its name in its fleet.
        crossing: topics, and their budget.
        consent: of the robot's owner.
        deadline: s from a message's receipt until its answer is late.

    Attributes:
        asked, answered: how many so far.
    """

    def __init__(self, node: Node, cloud: Session, robot: str, crossing: Crossing, consent: Consent, deadline: float
                 ) -> None:
        self._cloud, self._robot, self._crossing, self._deadline = cloud, robot, crossing, deadline
        self._guard = Parcels(consent, crossing.consent, crossing.what, "cloud")
        self._budget = Bucket(crossing.rate, crossing.burst)
        self._up = node.subscription(crossing.up, crossing.up_type, crossing.up_qos)
        self._down = node.publisher(crossing.down, crossing.down_type, crossing.down_qos)
        self.asked = self.answered = 0

    def run(self, stop: Flag) -> None:
        """Carries until ``stop``."""
        while not stop.is_set():
            for arrival in self._up.wait(LOOK):
                self._carry(arrival.data, arrival.received)

    def _carry(self, data: bytes, received: float) -> None:
        """Takes one message up, and hands on what is answered in time."""
        crossing, left = self._crossing, received + self._deadline - time.monotonic()
        if len(data) > crossing.longest:
            limited_log("size", f"a message on {crossing.up} has {len(data)} bytes, and at most {crossing.longest} "
                                f"cross")
        elif left > 0.0 and self._budget.wait() == 0.0 and (stamp := self._stamp(data)) is not None \
                and self._guard.let(len(data)):
            self._budget.take(len(data))
            self.asked += 1
            answer = self._ask(data, left)
            if answer is not None and answer.header.stamp == stamp:
                self.answered += 1
                self._down.publish(answer)

    def _stamp(self, data: bytes) -> Any | None:
        try:
            return messages.decode(data, self._crossing.up_type).header.stamp
        except MessageError as error:
            limited_log("message", f"a message on {self._crossing.up} cannot be read: {quoted(str(error)[:80])}")
            return None

    def _ask(self, data: bytes, patience: float) -> Any | None:
        try:
            answer = ask(self._cloud, self._crossing.key(self._robot), data, patience)
            if 0 < len(answer) <= self._crossing.longest_answer:
                return messages.decode(answer, self._crossing.down_type)
        except (NoAnswer, NotGiven) as problem:
            if str(problem) != NOTHING:
                limited_log("cloud", str(problem))
        except MessageError as error:
            limited_log("answer", f"what the cloud answers cannot be read: {quoted(str(error)[:80])}")
        return None
