# SPDX-License-Identifier: Apache-2.0
"""The aggregator on the wire: it answers robots, takes in their weights, and ends rounds when that is due.

The key on which a robot asks has its name in it, and the cloud's router lets each certificate use its own key alone: so
what names another sender than its key is refused, and no robot can hand in, or decline, for another.
"""
from __future__ import annotations

import logging
import shutil
import threading
import time
from collections import OrderedDict
from typing import Any, Callable, Mapping

import zenoh

from brain_cloud.blobs.serving import Collection, Serving
from brain_cloud.enrolment.asker import asker
from brain_cloud.federated.records import RecordsProblem
from brain_cloud.federated.rounds import Refused, Rounds, Task
from brain_edge.blobs.carry import LEARNING
from brain_edge.blobs.store import PIECE, SHA256, BlobProblem, Blobs, NoRoom
from brain_cloud.federated import round_messages
from brain_cloud.federated.round_messages import CHUNK, RoundMessage
from brain_edge.messages.answering import Buckets, answer
from brain_edge.schema import FormProblem, check, load_schema
from brain_security.fleet_keys import learn
from brain_wire import Session
from brain_wire.messages import clip_utf8
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

BYTES = 20e6            # a second that one robot may hand in, and twice that at once
COMING = "coming"       # the folder of updates that have come in part
PARTLY = 64             # of them; the disk that they take is bounded by it
SILENT = 30.0           # s after which one of which no more came makes room for another
ROBOTS = 20_000         # whose rates are kept
AGAIN = 2.0             # s after which a robot is to try again that cannot be served just now

log = logging.getLogger("brain.learning")
limited_log = RateLimitedLog(log)


class Aggregator(Collection):
    """Answers robots until the session is closed.

    Args:
        session: open session, in which or beside which a router runs that robots reach.
        rounds: the training.
        barred: whether a robot was revoked, and is not answered.
        blobs: by which weights are carried; None: one of its own.
    """

    def __init__(self, session: Session, rounds: Rounds, barred: Callable[[str], bool] = lambda robot: False,
                 blobs: Serving | None = None) -> None:
        self._session, self._barred, self._lock = session, barred, threading.RLock()
        self.follow(rounds)
        self._buckets = Buckets(BYTES, 2 * BYTES, ROBOTS)
        (blobs or Serving(session, barred)).collections[LEARNING] = self
        answer(session, learn("*"), round_messages.LONGEST, self._serve, "learning", limited_log)
        session.run(self._watch, "learning rounds")

    def follow(self, rounds: Rounds) -> None:
        """Answers robots about another training from now on."""
        with self._lock:
            self._rounds, self._folder = rounds, rounds.folder / COMING
            # Updates that have come in part: by robot, when a part came last, and where. Two threads take them.
            self._coming: OrderedDict[str, tuple[float, Blobs]] = OrderedDict()
            for folder in sorted(self._folder.glob("*"))[:PARTLY]:      # of before a kill
                self._coming[folder.name] = time.monotonic(), Blobs(folder)

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
            robot = asker(key, "learn", self._barred)
            data = b"" if query.payload is None else query.payload.to_bytes()
            bucket = self._buckets.of(robot)
            held = bucket.wait()
            if held > 0.0:
                query.reply(key, round_messages.write({
                    "wait_s": min(held, 60.0), "why": "more came than one robot may send"}, framed=data[:1] != b"{"))
                return
            bucket.take(len(data))
            question = round_messages.read(data, "question")
            if question.head["from"] != robot:
                raise FormProblem(f"it says that it is from {question.head['from']}, on the key of {robot}: each "
                                  f"speaks for itself only")
            found, weights = self._answer(robot, question)
        except FormProblem as problem:
            limited_log(f"refuse {key}", f"refused what came on {quoted(key)}: {problem}")
            query.reply_err(clip_utf8(str(problem), 500))
            return
        query.reply(key, round_messages.write(found, weights, question.framed))

    def _answer(self, robot: str, question: RoundMessage) -> tuple[dict[str, Any], bytes]:
        """Answer, and the weights that go with it in a frame."""
        do = question.head["do"]
        try:
            if do == "get":
                return self._get(question)
            return {"task": self._task, "put": self._put, "decline": self._decline}[do](robot, question), b""
        except Refused as problem:
            self._drop(robot)
            return {"refused": str(problem)[:500]}, b""
        except (RecordsProblem, NoRoom) as problem:
            limited_log("records", str(problem))
            return {"wait_s": AGAIN, "why": "the cloud cannot write to its disk just now"}, b""

    def _task(self, robot: str, question: RoundMessage) -> dict[str, Any]:
        found = self._rounds.task(robot, tuple(question.head.get("learners", ())))
        if isinstance(found, Task):
            return {"run": found.run, "round": found.attempt, "version": found.version, "digest": found.digest,
                    "size": found.size, "left_s": found.left_s, "learner": found.learner,
                    "config": dict(found.config)}
        return {"wait_s": found.seconds, "why": found.why, "over": found.over}

    def _get(self, question: RoundMessage) -> tuple[dict[str, Any], bytes]:
        """Weights in a frame, for a robot of the release before."""
        head = _needs(question, "digest", "offset")
        data = self._weights(head["digest"])
        return {"size": len(data)}, data[head["offset"]:head["offset"] + CHUNK] if question.framed else b""

    def _weights(self, named: str) -> bytes:
        data = self._rounds.weights(named)
        if data is None:
            raise Refused("the weights are others meanwhile")
        return data

    def _put(self, robot: str, question: RoundMessage) -> dict[str, Any]:
        head = _needs(question, "run", "round", "version", "digest", "size", "examples")
        if self._rounds.taken(robot, head["digest"], head["round"], head["version"]):
            return {"taken": True}
        named, size = SHA256 + head["digest"], head["size"]
        with self._lock:
            found = self._came(robot, named, head.get("offset", 0), size, question.data, head)
            blobs = self._coming[robot][1] if "wait_s" not in found else None
            if blobs is None or found["have"] < size:
                return found
            try:
                path = blobs.finish(named, size)
            except NoRoom:
                raise
            except BlobProblem:
                raise Refused("what came is not what its digest says") from None
            assert path is not None     # all of it has come
            data = path.read_bytes()
        self._rounds.take(robot, head["run"], head["round"], head["version"], data, head["examples"],
                          head.get("metrics", {}))
        self._drop(robot)
        return {"taken": True, "have": size}

    def _came(self, robot: str, named: str, offset: int, size: int, data: bytes, head: Mapping[str, Any]
              ) -> dict[str, Any]:
        """Takes a part of an update, or none; answers with how much of it has come.

        Raises:
            Refused: none that began so can be taken. NoRoom: the disk is full.
        """
        expected = self._rounds.expected(head["run"], head["round"], head["version"])
        if size != expected:
            raise Refused(f"it has {size} bytes, and the weights of this network have {expected}")
        with self._lock:
            if robot not in self._coming and not self._room():
                return {"wait_s": AGAIN, "why": f"{PARTLY} robots hand in just now"}
            _, blobs = self._coming.get(robot, (0.0, Blobs(self._folder / robot)))
            self._coming[robot] = time.monotonic(), blobs
            self._coming.move_to_end(robot)
            for other in blobs.sizes().keys() - {named}:
                blobs.forget(other)     # it hands in another one now
            if blobs.have(named) + len(data) > size and data and offset == blobs.have(named):
                raise Refused(f"more than {size} bytes came")
            return {"have": blobs.write(named, offset, data)}

    def about(self, robot: str, digest: str) -> dict[str, Any]:
        """Bytes of the weights as they are now. Raises BlobProblem: these are others."""
        return {"size": len(self._given(digest))}

    def piece(self, robot: str, digest: str, offset: int) -> bytes:
        """Bytes of the weights as they are now. Raises BlobProblem: these are others."""
        return self._given(digest)[offset:offset + PIECE]

    def _given(self, digest: str) -> bytes:
        try:
            return self._weights(digest.removeprefix(SHA256))
        except Refused as problem:
            raise BlobProblem(str(problem)) from None

    def take(self, robot: str, digest: str, offset: int, size: int, data: bytes, about: Mapping[str, Any]
             ) -> dict[str, Any]:
        """Takes a part of an update; see :class:`Collection`. ``about``: its run, round and version.

        Raises:
            FormProblem: it is not told what it is. BlobProblem: it is of no use. NoRoom.
        """
        for name in ("run", "round", "version"):
            if name not in about:
                raise FormProblem(f"about.{name} is missing")
            check(about[name], load_schema("brain_cloud.federated", "question")["properties"][name], f"about.{name}")
        try:
            found = self._came(robot, digest, offset, size, data, about)
        except Refused as problem:
            self._drop(robot)
            raise BlobProblem(str(problem)) from None
        return {"have": 0, **found}

    def _room(self) -> bool:
        """Makes room for one more update that comes in part, where one of those has stopped coming.

        One that goes on keeps its place: robots that take it from each other would all begin again, for ever.
        """
        if len(self._coming) >= PARTLY:
            robot, (came, _) = next(iter(self._coming.items()))     # of which a part came the longest ago
            if time.monotonic() - came <= SILENT:
                return False
            self._drop(robot)
        return True

    def _drop(self, robot: str) -> None:
        """Lets go of what has come of a robot's update."""
        with self._lock:
            if self._coming.pop(robot, None) is not None:
                shutil.rmtree(self._folder / robot, ignore_errors=True)

    def _decline(self, robot: str, question: RoundMessage) -> dict[str, Any]:
        head = _needs(question, "run", "round", "why")
        self._rounds.decline(robot, head["run"], head["round"], head["why"])
        return {"wait_s": 1.0, "why": "noted"}


def _needs(question: RoundMessage, *names: str) -> dict[str, Any]:
    for name in names:
        if name not in question.head:
            raise FormProblem(f"{name} is missing")
    return question.head
