# SPDX-License-Identifier: Apache-2.0
"""Query server of one side of a fleet: answers what others ask on a key, each asker in turn, and bounds what waits.

Who asks is hostile until it is shown otherwise, and each has a key of its own. So what waits is kept by key, and one of
each key is answered in turn: who asks much, or what takes long, delays another by one of its questions at most.
"""
from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from typing import Callable

import zenoh
from zenoh.handlers import Callback

from brain_edge.messages.rate_limit import Bucket
from brain_wire import Session
from brain_wire.rate_limited_log import RateLimitedLog

EACH = 4            # questions of one key that wait; an asker of ours has one under way, and asks again after a cut
ROOM = 64 * 2**20   # bytes of all that wait
LOOK = 1.0          # s between two looks at whether the session is closed


class Turns:
    """Questions that wait, by the key that they came on. What gives way is let go of, and so not answered.

    Args:
        most: of all keys. Beyond it, or beyond :data:`ROOM`, the oldest of the key with the most bytes gives way.
        each: of one key; beyond it the oldest gives way.
    """

    def __init__(self, most: int, each: int = EACH) -> None:
        self._most, self._each = most, each
        self._waiting: OrderedDict[str, deque[tuple[zenoh.Query, int]]] = OrderedDict()    # the next key first
        self._sizes: dict[str, int] = {}
        self._count = self._bytes = 0
        self._changed = threading.Condition()

    def put(self, key: str, question: zenoh.Query, size: int) -> None:
        """Has a question of so many bytes wait."""
        gone = []
        with self._changed:
            self._waiting.setdefault(key, deque()).append((question, size))
            self._add(key, 1, size)
            if len(self._waiting[key]) > self._each:
                gone.append(self._oldest(key))
            while self._count > self._most or self._bytes > ROOM:
                gone.append(self._oldest(max(self._waiting, key=self._sizes.__getitem__)))
            self._changed.notify()
        for one in gone:
            one.drop()

    def get(self, timeout: float) -> zenoh.Query | None:
        """The oldest question of the key whose turn it is; None where none comes within ``timeout`` s."""
        with self._changed:
            if not self._waiting and not self._changed.wait_for(lambda: bool(self._waiting), timeout):
                return None
            key = next(iter(self._waiting))
            question = self._oldest(key)
            if key in self._waiting:
                self._waiting.move_to_end(key)
            return question

    def _oldest(self, key: str) -> zenoh.Query:
        question, size = self._waiting[key].popleft()
        self._add(key, -1, -size)
        if not self._waiting[key]:
            del self._waiting[key], self._sizes[key]
        return question

    def _add(self, key: str, count: int, size: int) -> None:
        self._sizes[key] = self._sizes.get(key, 0) + size
        self._count += count
        self._bytes += size


def answer(session: Session, key: str, longest: int, serve: Callable[[zenoh.Query], None], name: str,
           limited_log: RateLimitedLog, *, waiting: int = 256, each: int = EACH) -> None:
    """Answers in a thread of its own, until the session is closed.

    Args:
        session: open session.
        key: on which it is asked, with ``*`` for all robots.
        longest: bytes that a question, and what goes with it, may have; a longer one is refused before it waits.
        serve: replies to one.
        name: what is answered, for the thread and the log.
        limited_log: where it is told that ``serve`` raised.
        waiting, each: questions that may wait, and of one key; older ones give way.
    """
    turns = Turns(waiting, each)

    def receive(query: zenoh.Query) -> None:    # in Zenoh's thread: it only puts aside
        sizes = [0 if part is None else len(part) for part in (query.payload, query.attachment)]
        if max(sizes) > longest:
            with query:
                query.reply_err(f"it has {max(sizes)} bytes, and at most {longest} bytes are taken")
            return
        turns.put(str(query.key_expr), query, sum(sizes))

    def run() -> None:
        kept = queryable    # else it is undeclared as soon as nobody has it
        while kept is not None and not session.zenoh.is_closed():
            query = turns.get(LOOK)
            if query is None:
                continue
            try:
                with query:
                    serve(query)
            except zenoh.ZError as error:   # who asked has gone, or the session
                limited_log(f"{name} lost", f"{name}: an answer could not be sent: {error}")
            except Exception:   # whatever one of them is, the next is answered
                limited_log(name, f"{name}: one could not be answered", trace=True, level=logging.ERROR)
            query = None    # what it holds is freed while nobody asks

    queryable = session.zenoh.declare_queryable(key, Callback(receive, indirect=False), complete=True)
    session.run(run, name)


class Buckets:
    """Rate limit of each robot: see :class:`brain_edge.messages.rate_limit.Bucket`.

    Args:
        rate, burst: of each.
        most: robots that are known at once; with one more, all begin anew.
    """

    def __init__(self, rate: float, burst: float, most: int) -> None:
        self._rate, self._burst, self._most = rate, burst, most
        self._buckets: dict[str, Bucket] = {}

    def of(self, robot: str) -> Bucket:
        """A robot's own."""
        if robot not in self._buckets:
            if len(self._buckets) >= self._most:
                self._buckets.clear()
            self._buckets[robot] = Bucket(self._rate, self._burst)
        return self._buckets[robot]
