# SPDX-License-Identifier: Apache-2.0
"""Watch: who is on the graph, who left, and whose messages cannot meet ours.

The graph is what the liveliness tokens of a domain tell. A token that vanishes counts as a death only when it has not
come back within a moment, and never while our own link to the router is down: then nothing is known of anybody.

Anybody can declare any token, as many as they like: what is no token of ROS 2 is passed over, only so many are kept,
and each look ends. What was missed meanwhile is asked for once it is quiet, beside the subscription: a second one that
takes its place is not told of every token that leaves.
"""
from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections import deque
import time
from typing import Callable, Iterable

import zenoh
from zenoh.handlers import Callback, RingChannel

from brain_wire import names
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.session import Session

DEBOUNCE = 0.3          # s a node may be without tokens before it counts as gone
AFTER_RELINK = 1.5      # s that others have to come back too after our router did
POLL = 0.05             # s between looks, where a thread of its own is asked for
CAPACITY = 16384        # tokens that may wait between two looks
MOST = 8192             # tokens that are kept; a graph of 100 nodes has about 4000
AT_A_LOOK = 2000        # tokens that one look takes in: some 20 ms
AGAIN = 1.0             # s between two times that all tokens are asked for, after some were missed
AGAIN_FULL = 10.0       # s between them while no more are kept
CONFIRM = 1.0           # s in which the router tells of all
WARNINGS = 100          # peers that are warned of

log = logging.getLogger(__name__)
limited_log = RateLimitedLog(log)


class _Census:
    """All tokens that there are, told once more by a subscription of its own: ``told`` has them in order.

    Zenoh's query for tokens is of no use: 1.10 answers it now and then with none of those that there are.

    Args:
        session: open session.
        key: of the tokens.
        now: s.
    """

    def __init__(self, session: Session, key: str, now: float) -> None:
        self.told: deque[str] = deque()
        self.confirmed: set[str] = set()
        self.left: set[str] = set()     # since it began: what tells of them may be older
        self.whole = True
        self.until = now + CONFIRM
        self._subscriber = session.zenoh.liveliness().declare_subscriber(
            key, Callback(self._hear, indirect=False), history=True)

    def _hear(self, sample: zenoh.Sample) -> None:
        if sample.kind != zenoh.SampleKind.PUT:
            return
        if len(self.told) < CAPACITY:
            self.told.append(str(sample.key_expr))
        else:
            self.whole = False

    def close(self) -> None:
        with contextlib.suppress(zenoh.ZError):     # the session was closed
            self._subscriber.undeclare()

    def note(self, token: str, alive: bool) -> None:
        """Takes down what came or left meanwhile, as far as there is room."""
        for tokens, there in ((self.confirmed, alive), (self.left, not alive)):
            if not there:
                tokens.discard(token)
            elif len(tokens) < CAPACITY:
                tokens.add(token)
            else:
                self.whole = False


class Watch:
    """Follows the graph of one domain. It does nothing by itself: call :meth:`poll` now and then, or :meth:`start`.

    Args:
        session: open session.
        domain: ROS domain; None: ``ROS_DOMAIN_ID``.
        own: our publishers and subscriptions, which others are compared with.
        on_node: told of each node's coming (True) and going (False), by fully qualified name.
        on_link: told when the link to the router goes (False) and comes back (True).
        warn: told of peers that we cannot talk to; None: the log.
    """

    def __init__(self, session: Session, domain: int | None = None, *,
                 own: Callable[[], Iterable[names.Endpoint]] = tuple,
                 on_node: Callable[[str, bool], None] | None = None, on_link: Callable[[bool], None] | None = None,
                 warn: Callable[[str], None] | None = None) -> None:
        self._session = session
        self._own = own
        self._on_node, self._on_link, self._warn = on_node, on_link, warn or log.warning
        self._endpoints: dict[str, names.Endpoint] = {}     # by token
        self._publishers: dict[bytes, str] = {}             # tokens by global id
        self._alive: dict[str, set[str]] = {}
        self._missing: dict[str, float] = {}
        self._warned: set[tuple[str, str, str]] = set()
        self._missed = False                        # tokens that came were not taken in
        self._census: _Census | None = None         # while an answer is waited for
        self._asked = -math.inf                     # when it was asked for
        self._linked = True
        self._patient_until = -math.inf
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        domain = names.domain_id() if domain is None else domain
        self._key = f"{names.TOKEN_SPACE}/{domain}/**"
        self._subscriber = session.zenoh.liveliness().declare_subscriber(self._key, RingChannel(CAPACITY), history=True)

    # -- what is there -----------------------------------------------------------------------------------------------

    def nodes(self) -> list[str]:
        """Fully qualified names of all nodes, sorted; one that vanished counts until the debounce is over."""
        with self._lock:
            return sorted(self._alive.keys() | self._missing.keys())

    def endpoints(self, topic: str | None = None, kind: str | None = None) -> list[names.Endpoint]:
        """Publishers, subscriptions and services, all or those of a topic (fully qualified) or kind."""
        with self._lock:
            found = list(self._endpoints.values())
        return [e for e in found if e.kind != names.NODE and topic in (None, e.topic) and kind in (None, e.kind)]

    def publisher(self, gid: bytes) -> names.Endpoint | None:
        """Looks up the publisher with a global id, as attachments carry it; None: it is not known."""
        with self._lock:
            token = self._publishers.get(gid)
            return None if token is None else self._endpoints.get(token)

    @property
    def linked(self) -> bool:
        """True if there was a link to a router or a peer at the last look."""
        return self._linked

    # -- following ---------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Takes in what has changed and tells it. Raises nothing that a token could bring about."""
        now = time.monotonic()
        self._look_at_link(now)
        taken = 0
        while taken < AT_A_LOOK and (sample := self._next()) is not None:
            taken += 1
            self._handle(sample, now)
        if taken == AT_A_LOOK:
            self._missed = True     # who comes so late may have lost some
        elif self._census is not None:
            self._count(self._census, now)
        elif self._missed and self._linked and now - self._asked >= (
                AGAIN if len(self._endpoints) < MOST else AGAIN_FULL):
            self._ask(now)
        if not self._linked or now < self._patient_until:
            return
        for name in [n for n, since in self._missing.items() if now - since >= DEBOUNCE]:
            with self._lock:
                del self._missing[name]
            self._tell(name, False)

    def _handle(self, sample: zenoh.Sample, now: float) -> None:
        """Takes in one token that came or left."""
        token, alive = str(sample.key_expr), sample.kind == zenoh.SampleKind.PUT
        if self._census is not None:
            self._census.note(token, alive)
        self._guarded(token, alive, now)

    def _guarded(self, token: str, alive: bool, now: float) -> None:
        """Takes in a token: whatever is wrong with it, the next one is looked at."""
        try:
            self._take(token, alive, now)
        except Exception as error:  # whoever watches goes on, and with it a supervisor or a region
            limited_log("token", f"a liveliness token could not be taken in: {type(error).__name__}", trace=True)

    def _next(self) -> zenoh.Sample | None:
        try:
            return self._subscriber.handler.try_recv()
        except zenoh.ZError:
            return None  # the session was closed

    def _ask(self, now: float) -> None:
        """Asks for all tokens; those that are not told of within a moment are gone."""
        try:
            self._census = _Census(self._session, self._key, now)
        except zenoh.ZError:
            return  # the session was closed
        self._missed, self._asked = False, now

    def _count(self, census: _Census, now: float) -> None:
        """Takes in what has been told so far, and at the end drops what was not told of."""
        for _ in range(min(len(census.told), AT_A_LOOK)):
            token = census.told.popleft()
            if token not in census.left:
                self._guarded(token, True, now)
                census.confirmed.add(token)
        if now < census.until or census.told:
            return
        census.close()
        self._census = None
        if not (census.whole and self._linked):
            self._missed = True     # who was not told of may be there
            return
        for token in [t for t in self._endpoints if t not in census.confirmed]:
            self._take(token, False, now)

    def _look_at_link(self, now: float) -> None:
        linked = self._session.linked
        if linked == self._linked:
            return
        self._linked = linked
        if linked:
            self._patient_until = now + AFTER_RELINK
        if self._on_link is not None:
            self._on_link(linked)

    def _take(self, token: str, alive: bool, now: float) -> None:
        try:
            endpoint = names.parse_token(token)
        except names.NameProblem as problem:
            limited_log("no token", f"passed over what somebody declared: {problem}")
            return
        with self._lock:
            if alive:
                if token not in self._endpoints and len(self._endpoints) >= MOST:
                    self._missed = True
                    limited_log("too many", f"more than {MOST} liveliness tokens: who comes now is not seen before "
                                            f"others leave; somebody floods domain {endpoint.domain}")
                    return
                self._endpoints[token] = endpoint
            elif self._endpoints.pop(token, None) is None:
                return
            if endpoint.kind == names.PUBLISHER:
                if alive:
                    self._publishers[names.gid(token)] = token
                else:
                    self._publishers.pop(names.gid(token), None)
        if endpoint.kind == names.NODE:
            self._take_node(endpoint.name, token, alive, now)
        elif alive:
            self._compare(endpoint)

    def _take_node(self, name: str, token: str, alive: bool, now: float) -> None:
        with self._lock:
            tokens = self._alive.setdefault(name, set())
            known = bool(tokens) or name in self._missing
            if alive:
                tokens.add(token)
                self._missing.pop(name, None)
            else:
                tokens.discard(token)
                if not tokens:
                    del self._alive[name]
                    if known:
                        self._missing[name] = now
        if alive and not known:
            self._tell(name, True)

    def _tell(self, name: str, alive: bool) -> None:
        if self._on_node is not None:
            self._on_node(name, alive)

    def _compare(self, other: names.Endpoint) -> None:
        for own in self._own():
            if own.topic != other.topic or other.kind not in (names.PUBLISHER, names.SUBSCRIPTION):
                continue
            key = (other.name, other.topic, other.dds_type + other.type_hash)
            if key in self._warned or len(self._warned) >= WARNINGS:
                continue
            if own.dds_type != other.dds_type:
                self._warned.add(key)
                self._warn(f"{other.name} has {other.topic} with type {other.type[:80]}, but here it carries "
                           f"{own.type}: they do not hear each other; give one of the topics another name by remapping")
            elif own.type_hash != other.type_hash:
                self._warned.add(key)
                self._warn(f"{other.name} has {other.topic} with another version of {own.type}: its hash is "
                           f"{other.type_hash[:80]}, ours {own.type_hash}, so they do not hear each other; install the "
                           f"same version of its package on both sides and rebuild")

    # -- for those who have no loop of their own ---------------------------------------------------------------------

    def start(self) -> Watch:
        """Polls in a thread, in which the callbacks then run."""
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stop.wait(POLL):
            self.poll()

    def wait_for(self, condition: Callable[[Watch], bool], timeout: float) -> bool:
        """Follows the graph until ``condition(self)`` holds, for up to ``timeout`` s; whether it does."""
        until = time.monotonic() + timeout
        while True:
            if self._thread is None:
                self.poll()
            if condition(self):
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(POLL / 2)

    def close(self) -> None:
        """Stops following."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5.0)
        if not self._session.zenoh.is_closed():
            self._subscriber.undeclare()
            if self._census is not None:
                self._census.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
