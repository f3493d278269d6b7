# SPDX-License-Identifier: Apache-2.0
"""The aggregator on the wire: one thread in the cloud that answers robots, and ends rounds when that is due.

The key on which a robot asks has its name in it, and the cloud's router lets each certificate use its own key alone: so
what names another sender than its key is refused, and no robot can hand in, or decline, for another.
"""
from __future__ import annotations

import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Callable

import zenoh

from brain_fleet.federated import frames
from brain_fleet.federated.frames import CHUNK, Frame
from brain_fleet.federated.records import RecordsProblem
from brain_fleet.federated.rounds import Refused, Rounds, Task
from brain_fleet.federated.weights import digest
from brain_fleet.messages.answering import Buckets, answer
from brain_fleet.schema import FormProblem
from brain_security.fleet_keys import learn, robot_of
from brain_wire import Session
from brain_wire.messages import clip_utf8
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

BYTES = 20e6            # a second that one robot may hand in, and twice that at once
PARTLY = 64             # updates that have come in part; the memory that they take is bounded by it
SILENT = 30.0           # s after which one of which no more came makes room for another
ROBOTS = 20_000         # whose rates are kept
AGAIN = 2.0             # s after which a robot is to try again that cannot be served just now

log = logging.getLogger("brain.learning")
limited_log = RateLimitedLog(log)


@dataclass
class _Partly:
    """Update that has come in part: digest and round, and its bytes so far."""

    named: tuple[str, int]
    came: float = field(default_factory=time.monotonic)
    data: bytearray = field(default_factory=bytearray)


class Aggregator:
    """Answers robots until the session is closed.

    Args:
        session: open session, in which or beside which a router runs that robots reach.
        rounds: the training.
        barred: whether a robot was revoked, and is not answered.
    """

    def __init__(self, session: Session, rounds: Rounds, barred: Callable[[str], bool] = lambda robot: False) -> None:
        self._session, self._rounds, self._barred = session, rounds, barred
        self._partly: OrderedDict[str, _Partly] = OrderedDict()
        self._buckets = Buckets(BYTES, 2 * BYTES, ROBOTS)
        answer(session, learn("*"), frames.LONGEST, self._serve, "learning", limited_log)
        session.run(self._watch, "learning rounds")

    def _watch(self) -> None:
        """Ends rounds at their deadline, though nobody asks."""
        while not self._session.zenoh.is_closed():
            try:
                pause = self._rounds.turn()
            except Exception:
                limited_log("turn", "a round could not be ended", trace=True, level=logging.ERROR)
                pause = 1.0
            time.sleep(min(max(pause, 0.02), 0.5))

    def _serve(self, query: zenoh.Query) -> None:
        key = str(query.key_expr)
        try:
            robot = robot_of(key, "learn")
            if robot is None:
                raise FormProblem(f"{quoted(key)} is no robot's key")
            if self._barred(robot):
                raise FormProblem(f"{robot} was revoked")
            data = b"" if query.payload is None else query.payload.to_bytes()
            bucket = self._buckets.of(robot)
            held = bucket.wait()
            if held > 0.0:
                query.reply(key, frames.write({"wait_s": min(held, 60.0), "why": "more came than one robot may send"}))
                return
            bucket.take(len(data))
            frame = frames.read(data, "question")
            if frame.head["from"] != robot:
                raise FormProblem(f"it says that it is from {frame.head['from']}, on the key of {robot}: each speaks "
                                  f"for itself only")
            found = self._answer(robot, frame)
        except FormProblem as problem:
            limited_log(f"refuse {key}", f"refused what came on {quoted(key)}: {problem}")
            query.reply_err(clip_utf8(str(problem), 500))
            return
        query.reply(key, found)

    def _answer(self, robot: str, frame: Frame) -> bytes:
        do = {"task": self._task, "get": self._get, "put": self._put, "decline": self._decline}[frame.head["do"]]
        try:
            return do(robot, frame)
        except Refused as problem:
            self._partly.pop(robot, None)
            return frames.write({"refused": str(problem)[:500]})
        except RecordsProblem as problem:
            limited_log("records", str(problem))
            return frames.write({"wait_s": AGAIN, "why": "the cloud cannot write to its disk just now"})

    def _task(self, robot: str, frame: Frame) -> bytes:
        found = self._rounds.task(robot, tuple(frame.head.get("learners", ())))
        if isinstance(found, Task):
            return frames.write({"run": found.run, "round": found.attempt, "version": found.version, "digest":
                                 found.digest, "size": found.size, "left_s": found.left_s, "learner": found.learner,
                                 "config": dict(found.config)})
        return frames.write({"wait_s": found.seconds, "why": found.why, "over": found.over})

    def _get(self, robot: str, frame: Frame) -> bytes:
        head = _needs(frame, "digest", "offset")
        data = self._rounds.weights(head["digest"])
        if data is None:
            raise Refused("the weights are others meanwhile")
        return frames.write({"size": len(data)}, data[head["offset"]:head["offset"] + CHUNK])

    def _put(self, robot: str, frame: Frame) -> bytes:
        head = _needs(frame, "run", "round", "version", "digest", "size", "offset", "examples")
        if self._rounds.taken(robot, head["digest"], head["round"], head["version"]):
            return frames.write({"taken": True})
        size = self._rounds.expected(head["run"], head["round"], head["version"])
        if head["size"] != size:
            raise Refused(f"it has {head['size']} bytes, and the weights of this network have {size}")
        named = head["digest"], head["round"]
        partly = self._partly.get(robot)
        if partly is None and not self._room():
            return frames.write({"wait_s": AGAIN, "why": f"{PARTLY} robots hand in just now"})
        if partly is None or partly.named != named:
            partly = self._partly[robot] = _Partly(named)
        self._partly.move_to_end(robot)
        partly.came = time.monotonic()
        if head["offset"] == len(partly.data):
            if len(partly.data) + len(frame.data) > size:
                raise Refused(f"more than {size} bytes came")
            partly.data += frame.data
        if len(partly.data) < size:
            return frames.write({"have": len(partly.data)})
        data = bytes(partly.data)
        del self._partly[robot]
        if digest(data) != head["digest"]:
            raise Refused("what came is not what its digest says")
        self._rounds.take(robot, head["run"], head["round"], head["version"], data, head["examples"],
                          head.get("metrics", {}))
        return frames.write({"taken": True, "have": size})

    def _room(self) -> bool:
        """Makes room for one more update that comes in part, where one of those has stopped coming.

        One that goes on keeps its place: robots that take it from each other would all begin again, for ever.
        """
        if len(self._partly) >= PARTLY:
            robot, one = next(iter(self._partly.items()))   # of which a part came the longest ago
            if time.monotonic() - one.came <= SILENT:
                return False
            del self._partly[robot]
        return True

    def _decline(self, robot: str, frame: Frame) -> bytes:
        head = _needs(frame, "run", "round", "why")
        self._rounds.decline(robot, head["run"], head["round"], head["why"])
        return frames.write({"wait_s": 1.0, "why": "noted"})


def _needs(frame: Frame, *names: str) -> dict[str, Any]:
    for name in names:
        if name not in frame.head:
            raise FormProblem(f"{name} is missing")
    return frame.head
