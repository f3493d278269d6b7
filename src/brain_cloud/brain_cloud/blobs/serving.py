# SPDX-License-Identifier: Apache-2.0
"""Serves blobs to robots, and takes in theirs, in a thread of its own: the cloud's side of brain_edge.blobs.carry.

Each robot speaks on the key with its own name, which the router holds its certificate to. What a robot may have or
hand in each collection says for itself.
"""
from __future__ import annotations

import json
import logging
from typing import Any, Callable, Mapping

import zenoh

from brain_cloud.enrolment.asker import asker
from brain_edge.blobs.carry import CLIPS, LARGEST, LEARNING, LONGEST, MODELS, QUESTION
from brain_edge.blobs.store import PATTERN, PIECE, BlobProblem
from brain_edge.messages.answering import Buckets, answer
from brain_edge.messages.question import WAIT
from brain_edge.schema import FormProblem, check, read_json
from brain_edge.store import StoreProblem
from brain_security.fleet_keys import blobs, models
from brain_wire import Session
from brain_wire.messages import clip_utf8
from brain_wire.rate_limited_log import RateLimitedLog

RATE, BURST = 20e6, 40e6            # bytes a second of one robot, and at once
ROBOTS = 20_000                     # whose rates are kept
# What robots of the release before ask for models, on a key of its own; no one of this release does.
OLD_LONGEST = 1000
OLD_QUESTION = {"type": "object", "required": ["digest"], "properties": {
    "digest": {"type": "string", "pattern": PATTERN}, "offset": {"type": "integer", "minimum": 0, "maximum": LARGEST}}}

# What is said of collections that a cloud has only where it is started so.
ABSENT = {CLIPS: "this cloud takes no pictures in; start it with --pictures",
          LEARNING: "this cloud has nothing that is learned; start it with --learn"}

limited_log = RateLimitedLog(logging.getLogger(__name__))


class Collection:
    """Blobs of one kind. What it does not do is refused; it says so by BlobProblem, StoreProblem or FormProblem."""

    def about(self, robot: str, digest: str) -> Mapping[str, Any]:
        """Plain values that a robot is told of a blob."""
        raise BlobProblem("nothing of this kind is given")

    def piece(self, robot: str, digest: str, offset: int) -> bytes:
        """Bytes of a blob from ``offset`` on, at most :data:`PIECE`."""
        raise BlobProblem("nothing of this kind is given")

    def take(self, robot: str, digest: str, offset: int, size: int, data: bytes, about: Mapping[str, Any]
             ) -> Mapping[str, Any]:
        """Takes a piece of a blob, or none; answers with ``have``, and with ``wait_s`` where it is to be tried again.

        Args:
            size: bytes of all of it.
            about: as the robot tells it: plain values, of bounded length, and otherwise whatever it likes.
        """
        raise BlobProblem("nothing of this kind is taken in")


class Serving:
    """Answers robots until the session is closed.

    Args:
        session: open session.
        barred: whether a robot was revoked, and is not answered.

    Attributes:
        collections: by name; may be added to.
    """

    def __init__(self, session: Session, barred: Callable[[str], bool]) -> None:
        self.collections: dict[str, Collection] = {}
        self._barred, self._buckets = barred, Buckets(RATE, BURST, ROBOTS)
        answer(session, blobs("*"), PIECE, self._serve, "blobs", limited_log)
        answer(session, models("*"), OLD_LONGEST, self._serve, "models", limited_log)

    def _serve(self, query: zenoh.Query) -> None:
        key = str(query.key_expr)
        try:
            end = key.rpartition("/")[2]
            robot = asker(key, end if end == MODELS else "blobs", self._barred)
            asked = read_json(b"" if query.payload is None else query.payload.to_bytes(), LONGEST)
            check(asked, OLD_QUESTION if end == MODELS else QUESTION)
            bucket = self._buckets.of(robot)
            if bucket.wait() > 0.0:
                raise FormProblem(WAIT)
            data = b"" if query.attachment is None else query.attachment.to_bytes()
            found = self._answer(robot, asked, data)
            bucket.take(len(found) + len(data) + PIECE // 16)   # a question costs something too
            query.reply(key, found)
        except (FormProblem, BlobProblem, StoreProblem) as problem:
            query.reply_err(clip_utf8(str(problem), 500))

    def _answer(self, robot: str, asked: Mapping[str, Any], data: bytes) -> bytes:
        of = asked.get("of", MODELS)
        collection = self.collections.get(of)
        if collection is None:
            raise BlobProblem(ABSENT.get(of, f"this cloud has no {of} for robots"))
        digest, offset = asked["digest"], asked.get("offset", 0)
        do = asked.get("do") or ("get" if "offset" in asked else "about")
        if do == "get":
            return collection.piece(robot, digest, offset)
        if do == "put":
            if "size" not in asked:
                raise FormProblem("size is missing")
            return json.dumps(collection.take(robot, digest, offset, asked["size"], data, asked.get("about", {}))
                              ).encode()
        return json.dumps(collection.about(robot, digest)).encode()
