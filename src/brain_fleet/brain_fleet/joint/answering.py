# SPDX-License-Identifier: Apache-2.0
"""The cloud's side: hard pictures of robots are answered one by one, each robot on the key with its own name.

Nothing is kept for later: of what waits the newest few stay, and a robot that asks too much is told so.
"""
from __future__ import annotations

import logging
from typing import Callable

import zenoh

from brain_fleet.joint.helper import Helper, HelperProblem
from brain_fleet.messages.answering import Buckets, answer
from brain_fleet.schema import FormProblem
from brain_security.fleet_keys import robot_of, second
from brain_wire import Session
from brain_wire.messages import clip_utf8
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

WAITING = 4                     # questions; an older one is worthless by the time that it would be answered
QUESTION = 48 * 1024            # bytes: a picture of 96 x 64, and room; less than a pipe takes in (64 KiB on Linux)
RATE, BURST = 1e6, 2e5          # bytes a second of one robot, and at once
ROBOTS = 20_000                 # whose rates are kept

limited_log = RateLimitedLog(logging.getLogger("brain.second"))


class Answering:
    """Answers robots until the session is closed.

    Args:
        session: open session, in which or beside which a router runs that robots reach.
        helper: what computes.
        barred: whether a robot was revoked, and is not answered.
        rate, burst: bytes a second of one robot, and at once.
    """

    def __init__(self, session: Session, helper: Helper, barred: Callable[[str], bool], *, rate: float = RATE,
                 burst: float = BURST) -> None:
        self._helper, self._barred = helper, barred
        self._buckets = Buckets(rate, burst, ROBOTS)
        answer(session, second("*"), QUESTION, self._serve, "second", limited_log, waiting=WAITING, each=1)

    def _serve(self, query: zenoh.Query) -> None:
        key = str(query.key_expr)
        try:
            robot = robot_of(key, "second")
            if robot is None:
                raise FormProblem(f"{quoted(key)} is no robot's key")
            if self._barred(robot):
                raise FormProblem(f"{robot} was revoked")
            if query.payload is None or not len(query.payload):
                raise FormProblem(f"a hard picture has at most {QUESTION} bytes, and not none")
            bucket = self._buckets.of(robot)
            if bucket.wait() > 0.0:
                raise FormProblem("too many hard pictures at once")
            bucket.take(len(query.payload))
            query.reply(key, self._helper.ask(query.payload.to_bytes()))
        except (FormProblem, HelperProblem) as problem:
            query.reply_err(clip_utf8(str(problem), 500))
