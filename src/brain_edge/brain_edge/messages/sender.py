# SPDX-License-Identifier: Apache-2.0
"""The sender: one thread that delivers what waits for all peers, one delivery to each at a time.

A delivery is a query, and its reply the acknowledgement. What was not acknowledged is delivered again, however often.
A delivery without messages now and then tells that the other end is there, and has the same history.
"""
from __future__ import annotations

import logging
import math
import sqlite3
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Callable

import zenoh
from zenoh.handlers import Callback

from brain_edge.messages import envelope, history
from brain_edge.messages.delivery_counters import DeliveryCounters
from brain_edge.messages.envelope import Answer, Position, Request
from brain_edge.messages.outbox import Diverged, Outbox
from brain_edge.messages.rate_limit import RETRY, Bucket
from brain_edge.schema import FormProblem
from brain_edge.store import Store, StoreProblem
from brain_wire import Session
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted
from brain_wire.wakeup import Signal

PATIENCE = 10.0     # s for an answer; a link that was cut tells nobody
KEEP = 30.0         # s between two times that the age of the database is written down
LOOK = 1.0          # s between two looks at what has waited too long
REFUSED = 2.0       # s before a peer is asked again that did not understand
TIMEOUT = b"Timeout"    # what Zenoh itself answers where nobody has

log = logging.getLogger(__name__)
limited_log = RateLimitedLog(log)


@dataclass
class Hooks:
    """Callbacks of the sender; called in its thread.

    Attributes:
        apart: a peer was set apart: its name and why.
        begun: a new epoch began: the peer, and how many messages were let go of; within the transaction.
        heard: a peer has answered.
        refused: a peer could not apply a message: peer, stream, number, reason.
    """

    apart: Callable[[str, str], None] = lambda peer, why: None
    begun: Callable[[sqlite3.Connection, str, int], None] = lambda db, peer, dropped: None
    heard: Callable[[str], None] = lambda peer: None
    refused: Callable[[str, str, int, str], None] = lambda peer, stream, number, why: None


@dataclass
class _Route:
    """State of the deliveries to one peer."""

    key: str
    keepalive: float
    due: float = 0.0                    # steady time of the next delivery at the latest
    asked: int | None = None            # number of the delivery that is on its way
    since: float = 0.0
    failures: int = 0
    loaded: bool = False                # whether it has messages
    format: int = envelope.NEWEST
    ahead: dict[str, Position] = field(default_factory=dict)    # acknowledged, and not on the disk yet


class Sender:
    """Delivers what an outbox holds.

    Args:
        session: open session.
        store, outbox: what waits, and where.
        founds: whether this end begins epochs, as the cloud does.
        bucket: bytes that may be sent a second; None: no limit.
        hooks: see there.
        software: version that others are told.
        tally: counts what deliveries come to.
        installation: of the robot that this is.
    """

    def __init__(self, session: Session, store: Store, outbox: Outbox, *, founds: bool, bucket: Bucket | None = None,
                 hooks: Hooks | None = None, software: str = "", tally: DeliveryCounters | None = None,
                 installation: str | None = None) -> None:
        self._installation = installation
        self._session, self._store, self._outbox = session, store, outbox
        self._founds, self._bucket, self._hooks, self._software = founds, bucket, hooks or Hooks(), software
        self._tally = tally or DeliveryCounters()
        self._routes: dict[str, _Route] = {}
        self._orders: deque[tuple[str, str, object]] = deque()      # from any thread: what, peer, more
        self._wake = Signal()
        self._number = 0
        self._stopping = False
        self._kept = self._looked = time.monotonic()

    def start(self) -> None:
        """Begins to deliver, until the session is closed or :meth:`stop`."""
        self._session.run(self._run, "sender")

    def stop(self) -> None:
        """Ends the thread; what waits is delivered by the next one."""
        self._stopping = True
        self._wake.set()

    def serve(self, peer: str, key: str, keepalive: float) -> None:
        """Delivers to a peer from now on: on ``key``, and at least every ``keepalive`` s."""
        self._tell("serve", peer, _Route(key, keepalive))

    def wake(self, peer: str) -> None:
        """There is something for a peer, or it is back: deliver now."""
        self._tell("wake", peer)

    def reads(self, peer: str, newest: int) -> None:
        """A peer has said which format it reads at most."""
        self._tell("reads", peer, newest)

    def _tell(self, what: str, peer: str, more: object = None) -> None:
        self._orders.append((what, peer, more))
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping and not self._session.zenoh.is_closed():
            try:
                pause = self._turn()
            except StoreProblem as problem:
                limited_log("store", f"{problem}; deliveries go on when it can be written")
                pause = 1.0
            except Exception:   # whatever one peer answers, the others' messages are delivered
                limited_log("turn", "a delivery failed", trace=True, level=logging.ERROR)
                pause = 1.0
            self._wake.wait(pause)

    def _turn(self) -> float:
        """Does what is due; returns the seconds until something is due again."""
        while self._orders:
            what, peer, more = self._orders.popleft()
            if what == "serve":
                if isinstance(more, _Route) and peer not in self._routes:
                    self._routes[peer] = more
            elif (route := self._routes.get(peer)) is not None:
                if what == "reads" and isinstance(more, int):
                    route.format = max(envelope.OLDEST, min(envelope.NEWEST, more))
                elif what == "wake":
                    route.failures = 0
                    route.due = min(route.due, time.monotonic())
                else:
                    self._ended(peer, route, *more)     # type: ignore[misc]
        self._housekeeping()
        soonest = math.inf
        for peer, route in self._routes.items():
            now = time.monotonic()
            if route.asked is not None:
                if now - route.since < PATIENCE + 1.0:      # Zenoh ends it sooner
                    continue
                route.asked = None
                self._tally.unanswered += 1
            held = self._bucket.wait() if self._bucket is not None else 0.0
            if route.due <= now and held <= 0.0:
                self._deliver(peer, route, now)
            soonest = min(soonest, max(route.due - now, held) if route.asked is None else PATIENCE)
        return max(0.0, min(soonest, KEEP))

    def _housekeeping(self) -> None:
        """Lets go of what is of no use any more, and writes down how old the database is."""
        now = time.monotonic()
        if now - self._kept < KEEP and not (now - self._looked >= LOOK and self._outbox.overdue()):
            return
        self._looked = now
        try:
            with self._store.change() as db:
                self._outbox.expire(db)
                if self._outbox.untidy():
                    self._outbox.tidy(db)
                self._store.elapsed.keep(db)
        except StoreProblem as problem:     # what waits is delivered all the same
            limited_log("housekeeping", str(problem))
        self._kept = now

    def _deliver(self, peer: str, route: _Route, now: float) -> None:
        known = self._store.read("SELECT epoch, apart, pending, installation FROM peers WHERE name = ?", (peer,))
        epoch, apart, pending, meant = known[0] if known else (None, None, 0, None)
        if self._founds and (epoch is None or (apart is not None and not pending)):
            route.due = now + route.keepalive   # it has to come by itself
            return
        # One that has not heard of its new epoch is only told that there is one: then it asks.
        shut = epoch is None or apart is not None or pending
        portions = [] if shut else self._outbox.take(peer, route.ahead)
        request = Request(self._store.member, peer, self._store.incarnation, epoch, portions,
                          None if self._founds else apart, self._software,
                          # in an older format another installation would take it for its own
                          route.format if meant is None else max(3, route.format),
                          installation=meant if self._founds else self._installation)
        data = envelope.write_request(request)
        self._number += 1
        number, came = self._number, []

        def receive(reply: zenoh.Reply) -> None:
            came.append(reply)

        def end() -> None:
            self._tell("ended", peer, (number, came))

        route.loaded = bool(portions)
        route.asked, route.since, route.due = number, now, now + route.keepalive
        try:
            self._session.zenoh.get(route.key, handler=Callback(receive, end, indirect=False), payload=data,
                                    target=zenoh.QueryTarget.ALL, consolidation=zenoh.ConsolidationMode.NONE,
                                    timeout=PATIENCE)
        except zenoh.ZError as error:
            route.asked = None
            self._failed(route)
            limited_log("query", f"a delivery to {peer} could not be sent: {quoted(str(error))}")
            return
        self._tally.sent_bytes += len(data)
        if self._bucket is not None:
            self._bucket.take(len(data))

    def _failed(self, route: _Route, least: float = 0.0) -> None:
        route.failures += 1
        route.due = time.monotonic() + max(least, RETRY.delay(route.failures))

    def _ended(self, peer: str, route: _Route, number: int, came: list[zenoh.Reply]) -> None:
        if number != route.asked:
            return      # long given up
        route.asked = None
        came = [reply for reply in came if reply.err is None or reply.err.payload.to_bytes() != TIMEOUT]
        answer = self._answer(peer, came)
        if answer is None:
            if came:
                self._tally.refused += 1
            else:
                self._tally.unanswered += 1
            self._failed(route, REFUSED if came else 0.0)
            if came:
                self._other_format(route)
            return
        if answer.formats is not None:
            route.format = min(envelope.NEWEST, answer.formats[1])
        route.failures = 0
        self._tally.took.observe(time.monotonic() - route.since)
        self._hooks.heard(peer)
        self._tally.put_aside += len(answer.refused)
        for stream, seq, why in answer.refused:
            self._hooks.refused(peer, stream, seq, why)
        try:
            progress = self._take_in(peer, route, answer)
        except StoreProblem:
            # what is acknowledged need not be sent again, though it cannot be forgotten yet
            route.ahead = {**route.ahead, **answer.applied}
            self._failed(route)
            raise
        if answer.wait:
            route.due = time.monotonic() + answer.wait
            limited_log(f"wait {peer}", f"{peer} cannot take messages now: {quoted(answer.why)}")
        elif progress:
            route.due = time.monotonic()
        elif route.loaded:      # it took nothing of what it was given
            self._failed(route)

    @staticmethod
    def _other_format(route: _Route) -> None:
        """Tries the format before at once: who refuses a delivery may be older, and not know its format."""
        if route.format > envelope.OLDEST:
            route.format -= 1
            route.due = time.monotonic()
        else:
            route.format = envelope.NEWEST

    def _answer(self, peer: str, came: list[zenoh.Reply]) -> Answer | None:
        """The peer's answer; None where there is none that can be read."""
        for reply in came:
            try:
                if reply.ok is None:
                    why = b"" if reply.err is None else reply.err.payload.to_bytes()[:envelope.WHY]
                    limited_log(f"refusal {peer}", f"{peer} refused a delivery: "
                                f"{quoted(why.decode('utf-8', 'replace'))}")
                    continue
                if len(reply.ok.payload) > envelope.ANSWER:
                    raise FormProblem(f"it has {len(reply.ok.payload)} bytes")
                answer = envelope.read_answer(reply.ok.payload.to_bytes())
                if (answer.sender, answer.to) != (peer, self._store.member):
                    raise FormProblem(f"it is from {answer.sender} to {answer.to}")
                return answer
            except FormProblem as problem:
                limited_log(f"answer {peer}", f"what {peer} answers cannot be read: {problem}")
        return None

    def _take_in(self, peer: str, route: _Route, answer: Answer) -> bool:
        """Does what an answer asks for; whether there is more to deliver at once."""
        apart, more, done = answer.apart, False, 0
        try:
            with self._store.change() as db:
                dropped = None if self._founds else history.adopt(db, peer, answer, self._outbox)
                if dropped is not None:
                    self._hooks.begun(db, peer, dropped)
                    route.ahead.clear()
                    return True
                known = history.read(db, peer)
                if self._founds and (known is None or known.epoch != answer.epoch):
                    return False    # from before it was taken in anew
                if apart is None:
                    if known is None or known.apart is not None or known.epoch != answer.epoch:
                        return False
                    more = self._outbox.acknowledge(db, peer, answer.applied) > 0
                    done = self._outbox.delivered
                    route.ahead.clear()
            self._tally.sent += done
        except Diverged as problem:
            apart, more = str(problem), True    # the other end is to be told
        if apart is not None:
            with self._store.change() as db:
                # How far the peer is: that much it need not be told again in a new epoch.
                db.executemany("UPDATE outgoing SET doubt = MAX(doubt, ?) WHERE peer = ? AND stream = ?",
                               [(place.seq, peer, stream) for stream, place in answer.applied.items()])
                new = history.set_apart(db, peer, apart)
            if new:
                self._hooks.apart(peer, apart)
        return more
