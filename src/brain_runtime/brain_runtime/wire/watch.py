# SPDX-License-Identifier: Apache-2.0
"""Watch: who is on the graph, who left, and whose messages cannot meet ours.

The graph is what the liveliness tokens of a domain tell. A token that vanishes counts as a death only when it has not
come back within a moment, and never while our own link to the router is down: then nothing is known of anybody.
"""
from __future__ import annotations

import logging
import math
import threading
import time
from typing import Callable, Iterable

import zenoh
from zenoh.handlers import RingChannel

from brain_runtime.wire import names
from brain_runtime.wire.session import Session

DEBOUNCE = 0.3          # s a node may be without tokens before it counts as gone
AFTER_RELINK = 1.5      # s that others have to come back too after our router did
POLL = 0.05             # s between looks, where a thread of its own is asked for
CAPACITY = 16384        # tokens that may wait between two looks

log = logging.getLogger(__name__)


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
        self._endpoints: dict[str, names.Endpoint] = {}
        self._alive: dict[str, set[str]] = {}
        self._missing: dict[str, float] = {}
        self._warned: set[tuple[str, str, str]] = set()
        self._linked = True
        self._patient_until = -math.inf
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        domain = names.domain_id() if domain is None else domain
        self._subscriber = session.zenoh.liveliness().declare_subscriber(
            f"{names.TOKEN_SPACE}/{domain}/**", RingChannel(CAPACITY), history=True)

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
        """Who publishes with a global id, as attachments carry it."""
        return next((e for e in self.endpoints(kind=names.PUBLISHER) if names.gid(e.token()) == gid), None)

    @property
    def linked(self) -> bool:
        """Whether there was a link to a router or a peer at the last look."""
        return self._linked

    # -- following ---------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Takes in what has changed and tells it."""
        now = time.monotonic()
        self._look_at_link(now)
        while (sample := self._next()) is not None:
            self._take(str(sample.key_expr), sample.kind == zenoh.SampleKind.PUT, now)
        if not self._linked or now < self._patient_until:
            return
        for name in [n for n, since in self._missing.items() if now - since >= DEBOUNCE]:
            with self._lock:
                del self._missing[name]
            self._tell(name, False)

    def _next(self) -> zenoh.Sample | None:
        try:
            return self._subscriber.handler.try_recv()
        except zenoh.ZError:
            return None  # the session was closed

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
            log.debug("%s", problem)
            return
        with self._lock:
            if alive:
                self._endpoints[token] = endpoint
            else:
                self._endpoints.pop(token, None)
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
            if key in self._warned:
                continue
            if own.dds_type != other.dds_type:
                self._warned.add(key)
                self._warn(f"{other.name} has {other.topic} with type {other.type}, but here it carries {own.type}: "
                           f"they do not hear each other; give one of the topics another name by remapping")
            elif own.type_hash != other.type_hash:
                self._warned.add(key)
                self._warn(f"{other.name} has {other.topic} with another version of {own.type}: its hash is "
                           f"{other.type_hash}, ours {own.type_hash}, so they do not hear each other; install the "
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

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
