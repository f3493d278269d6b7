# SPDX-License-Identifier: Apache-2.0
"""Serves models to robots: each asks on the key with its own name, for one piece at a time."""
from __future__ import annotations

import json
import logging
from typing import Callable

import zenoh

from brain_fleet.messages.answering import Buckets, answer
from brain_fleet.models.model_file import LARGEST, PATTERN, ModelProblem
from brain_fleet.models.parts import PIECE
from brain_fleet.models.registry import Registry
from brain_fleet.schema import FormProblem, check, read_json
from brain_fleet.store import StoreProblem
from brain_security.fleet_keys import models, robot_of
from brain_wire import Session
from brain_wire.messages import clip_utf8
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

LONGEST = 1000                      # bytes of a question
RATE, BURST = 20e6, 40e6            # bytes a second of one robot, and at once
ROBOTS = 20_000                     # whose rates are kept
WAIT = "wait"                       # what a robot is told that asks for more
FORM = {"type": "object", "required": ["digest"], "properties": {
    "digest": {"type": "string", "pattern": PATTERN}, "offset": {"type": "integer", "minimum": 0, "maximum": LARGEST}}}

limited_log = RateLimitedLog(logging.getLogger(__name__))


class Serving:
    """Answers robots until the session is closed.

    Args:
        session: open session.
        registry: of the models.
        barred: whether a robot was revoked, and is not answered.
    """

    def __init__(self, session: Session, registry: Registry, barred: Callable[[str], bool]) -> None:
        self._registry, self._barred = registry, barred
        self._buckets = Buckets(RATE, BURST, ROBOTS)
        answer(session, models("*"), LONGEST, self._serve, "models", limited_log)

    def _serve(self, query: zenoh.Query) -> None:
        key = str(query.key_expr)
        try:
            robot = robot_of(key, "models")
            if robot is None:
                raise FormProblem(f"{quoted(key)} is no robot's key")
            if self._barred(robot):
                raise FormProblem(f"{robot} was revoked")
            asked = read_json(b"" if query.payload is None else query.payload.to_bytes(), LONGEST)
            check(asked, FORM)
            bucket = self._buckets.of(robot)
            if bucket.wait() > 0.0:
                raise FormProblem(WAIT)
            if "offset" in asked:
                found = self._registry.piece(asked["digest"], asked["offset"])
            else:
                found = json.dumps(self._registry.record(asked["digest"])).encode()
            bucket.take(len(found) + PIECE // 16)      # a question costs something too
            query.reply(key, found)
        except (FormProblem, ModelProblem, StoreProblem) as problem:
            query.reply_err(clip_utf8(str(problem), 500))
