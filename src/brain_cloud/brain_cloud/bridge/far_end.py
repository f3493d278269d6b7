# SPDX-License-Identifier: Apache-2.0
"""The cloud's end of the bridge: what robots send up goes to a region in the cloud's tier, one by one, and is answered.

Each robot is on the key with its own name. Nothing is kept for later: of what waits the newest few stay, and a robot
that is above its budget is told so. Stamps of robots may be equal, and answers late: so on the cloud's net each
message has a stamp of its own.
"""
from __future__ import annotations

import itertools
import logging
import time
from typing import Any, Callable

import zenoh

from brain_cloud.bridge.tier import Tier
from brain_cloud.enrolment.asker import asker
from brain_edge.bridge.crossing import Crossing
from brain_edge.messages.answering import Buckets, answer
from brain_edge.schema import FormProblem
from brain_wire import Node, Session, messages
from brain_wire.messages import clip_utf8, make
from brain_wire.rate_limited_log import RateLimitedLog

WAITING = 4             # messages; an older one is worthless by the time that it would be answered
PATIENCE = 5.0          # s for an answer; a robot has long stopped waiting by then
LOOK = 0.1              # s between two looks at whether the region is there
ROBOTS = 20_000         # whose budgets are kept

limited_log = RateLimitedLog(logging.getLogger("brain.bridge"))


class FarEnd:
    """Answers robots until the session is closed.

    Args:
        session: open session, in which or beside which a router runs that robots reach.
        tier: where the region runs that answers.
        crossing: topics, and the budget of each robot.
        barred: whether a robot was revoked, and is not answered.
    """

    def __init__(self, session: Session, tier: Tier, crossing: Crossing, barred: Callable[[str], bool]) -> None:
        self._tier, self._crossing, self._barred = tier, crossing, barred
        self._buckets = Buckets(crossing.rate, crossing.burst, ROBOTS)
        self._numbers = itertools.count(1)
        node = Node(tier.session, f"bridge_{crossing.name}", domain=tier.domain)
        self._up = node.publisher(crossing.up, crossing.up_type, crossing.up_qos)
        self._down = node.subscription(crossing.down, crossing.down_type, crossing.down_qos)
        answer(session, crossing.key("*"), crossing.longest, self._serve, crossing.name, limited_log, waiting=WAITING,
               each=1)

    def _serve(self, query: zenoh.Query) -> None:
        key, crossing = str(query.key_expr), self._crossing
        try:
            robot = asker(key, crossing.name, self._barred)
            data = b"" if query.payload is None else query.payload.to_bytes()
            bucket = self._buckets.of(robot)
            if data and bucket.wait() > 0.0:
                raise FormProblem(f"too many {crossing.what} at once")
            bucket.take(len(data))
            message = crossing.read(data)
            query.reply(key, b"" if message is None else messages.encode(self._answer(message)))
        except FormProblem as problem:
            query.reply_err(clip_utf8(str(problem), 500))

    def _answer(self, message: Any) -> Any:
        """Asks the region. Raises FormProblem where it says nothing."""
        own = message.header.stamp
        message.header.stamp = stamp = make("builtin_interfaces/msg/Time", sec=own.sec,
                                            nanosec=next(self._numbers) % 10**9)
        if self._tier.up:
            self._up.publish(message)
        end = time.monotonic() + PATIENCE
        while self._tier.up and time.monotonic() < end:
            for said in self._down.messages(LOOK):
                if said.header.stamp == stamp:
                    said.header.stamp = own
                    for origin in said.origins:
                        if origin.stamp == stamp:
                            origin.stamp = own
                    return said
        raise FormProblem(f"the region that answers {self._crossing.what} has ended, or hangs; it is started again")
