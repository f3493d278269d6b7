# SPDX-License-Identifier: Apache-2.0
"""How one side of a fleet answers what others ask on a key: one by one, and whatever one asks, the next too."""
from __future__ import annotations

import logging
from typing import Callable

import zenoh
from zenoh.handlers import RingChannel

from brain_fleet.messages.pace import Bucket
from brain_wire import Session
from brain_wire.seldom import Seldom


def answer(session: Session, key: str, waiting: int, serve: Callable[[zenoh.Query], None], name: str, seldom: Seldom
           ) -> None:
    """Answers in a thread of its own, until the session is closed.

    Args:
        session: open session.
        key: on which it is asked, with ``*`` for all robots.
        waiting: questions that may wait; older ones give way.
        serve: replies to one.
        name: what is answered, for the thread and the log.
        seldom: where it is told that ``serve`` raised.
    """
    queryable = session.zenoh.declare_queryable(key, RingChannel(waiting), complete=True)

    def run() -> None:
        while True:
            try:
                query = queryable.recv()
            except zenoh.ZError:
                return      # the session is closed
            try:
                with query:
                    serve(query)
            except Exception:   # whatever one of them is, the next is answered
                seldom(name, f"{name}: one could not be answered", trace=True, level=logging.ERROR)

    session.run(run, name)


class Buckets:
    """What each robot may bring: see :class:`brain_fleet.messages.pace.Bucket`.

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
