# SPDX-License-Identifier: Apache-2.0
"""The Zenoh session that a process has for all its groups, and the keys by which ranks reach each other.

Each rank hears two keys: ``brain_collectives/RUN/to/RANK`` and ``brain_collectives/RUN/all``. The group, the call and
the step stand in the header (`brain_collectives.header`), so a new group declares nothing and is ready at once. Zenoh
calls back in a thread of its own; there messages are only sorted into mailboxes.

Copies of a tensor's data: one from the tensor into the message, one by each transport out of and into its socket, one
from the message when it is taken; from there it is summed or written into the tensor's memory.
"""
from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from datetime import timedelta
from typing import Any, Protocol

import zenoh

from brain_collectives import background
from brain_collectives.counting import COUNTERS
from brain_collectives.errors import CollectiveError, RankDied, TooLate
from brain_collectives.header import Header, Malformed, What, read, read_ranks, write, write_ranks
from brain_collectives.membership import Membership
from brain_collectives.rendezvous import Place
from brain_collectives.sent import TO_ALL, Kept
from brain_collectives.settings import PEERS, Settings
from brain_wire.session import Session
from brain_wire.wakeup import Signal

SPACE = "brain_collectives"
HELLO_EVERY = 0.05      # s between greetings to a rank that has not answered
LEAVING_EVERY = 0.2     # s between goodbyes to a rank that has not answered
PARKED = 1 << 14        # messages that wait for groups which this rank has not made yet; of B as many as are kept

log = logging.getLogger(__name__)


class Post(Protocol):
    """Receiver to which a link delivers: one for each group."""

    number: int
    members: tuple[int, ...]

    def receive(self, header: Header, payload: zenoh.ZBytes) -> None:
        """Takes a message, in Zenoh's thread."""

    def rank_died(self, rank: int, why: str) -> None:
        """Takes note of a death."""

    def rank_left(self, rank: int) -> None:
        """Takes note that a rank sends nothing more."""

    def link_back(self) -> None:
        """Takes note that messages may have been lost."""

    def fail(self, failure: CollectiveError) -> None:
        """Ends all that is under way, and all later calls, with an error."""

    def closed(self) -> None:
        """Takes note that the link was closed."""


class Link:
    """A process's link with all ranks of the default group.

    Args:
        session: open; closed with the link.
        places: of all ranks.
        rank: own.
        settings: from the environment.

    Attributes:
        trusted: whether objects may come by it: it is authenticated at all ranks, or by sockets of this user alone.
        failure: why nothing can be done any more; None: it can.
    """

    def __init__(self, session: Session, places: list[Place], rank: int, settings: Settings) -> None:
        self.session, self.places, self.rank, self.settings = session, places, rank, settings
        self.size = len(places)
        self.run = places[0].nonce
        self.local = len({place.machine for place in places}) == 1
        self.trusted = all(p.trusted for p in places) or self.local and settings.link == PEERS
        self.failure: CollectiveError | None = None
        self.kept = Kept(settings.keep)
        self._groups: dict[int, Post] = {}
        self._closed_groups: set[int] = set()
        self._retired: set[int] = set()
        self._parked: list[tuple[Header, zenoh.ZBytes]] = []
        self._room = settings.keep      # B that may still be parked
        self._overflowed = False        # something was not: groups that are made from then on ask for it
        self._lock = threading.Lock()
        self._here: set[int] = set()
        self._heard = Signal()
        self._left: set[int] = set()
        self._is_closed = False
        self._under_way: dict[int, tuple[int, ...]] = {}    # ranks to which each thread sends just now
        prefix, z = f"{SPACE}/{self.run}", session.zenoh
        # Keys are sent in full: an id that is declared while a link comes up is now and then unknown at the other
        # end, and then Zenoh drops all that comes under it.
        self._quality: dict[str, Any] = {"congestion_control": zenoh.CongestionControl.BLOCK, "express": True,
                                         "allowed_destination": zenoh.Locality.REMOTE,
                                         "priority": zenoh.Priority.INTERACTIVE_HIGH}
        self._all = zenoh.KeyExpr(f"{prefix}/all")
        self._to = [zenoh.KeyExpr(f"{prefix}/to/{other}") for other in range(self.size)]
        # From here on other ranks are heard, and answered: all that this needs stands above.
        self.membership = Membership(self, prefix)
        # In Zenoh's own thread, which saves a change of threads; `_arrive` only sorts.
        arrive = zenoh.handlers.Callback(self._arrive, indirect=False)
        self._hears = [z.declare_subscriber(f"{prefix}/{key}", arrive) for key in ("all", f"to/{rank}")]
        self.membership.start()
        _links.add(self)

    # Sending

    def send(self, ranks: tuple[int, ...], header: bytes, payload: Any = b"", key: tuple[int, ...] = ()) -> None:
        """Sends a message to ranks of the default group, but not to this one.

        Args:
            payload: ``bytes``, of which Zenoh keeps a reference and no copy.
            key: under which it is kept in case the link is lost; empty: not.

        Raises:
            CollectiveError: the session is closed.
        """
        data, thread = zenoh.ZBytes(payload), threading.get_ident()
        gone = self.membership.gone if key else ()      # data: who has left takes none, and its end would hold up a put
        try:
            self._under_way[thread] = ranks
            if len(ranks) == self.size and self.size > 2 and not gone:
                self._keep(key, TO_ALL, header, data)
                self._put(self._all, data, header)
                return
            for rank in ranks:
                if rank != self.rank and rank not in gone:
                    self._keep(key, rank, header, data)
                    self._put(self._to[rank], data, header)
        except zenoh.ZError as error:
            raise CollectiveError(f"the link of rank {self.rank} is closed ({error})") from None
        finally:
            self._under_way.pop(thread, None)

    def _keep(self, key: tuple[int, ...], rank: int, header: bytes, data: zenoh.ZBytes) -> None:
        """Keeps a message, before it is sent: who asks for it at once must not be told that it is forgotten."""
        if key:
            self.kept.keep((*key, rank), header, data)
            COUNTERS.sent(len(data))

    def _put(self, key: zenoh.KeyExpr, payload: zenoh.ZBytes, header: bytes) -> None:
        self.session.zenoh.put(key, payload, attachment=header, **self._quality)

    def send_again(self, rank: int, key: tuple[int, ...]) -> bool:
        """Sends a message again that was lost; whether it was still kept."""
        found = self.kept.find((*key, rank), (*key, TO_ALL))
        if found is None:
            return False
        with COUNTERS.lock:
            COUNTERS.resent += 1
        self._put(self._to[rank], found.payload, found.header)
        return True

    # Receiving

    def _arrive(self, sample: zenoh.Sample) -> None:
        """Sorts data that has come; what is to be answered, another thread does. In Zenoh's thread."""
        try:
            header = read(sample.attachment.to_bytes() if sample.attachment is not None else b"")
            if not 0 <= header.source < self.size or header.source == self.rank:
                raise Malformed(f"no rank {header.source} can have sent it")
        except Malformed as problem:
            COUNTERS.malformed += 1
            log.debug("dropped a message: %s", problem)
            return
        payload = sample.payload
        if header.what == What.DATA or header.what == What.POINT:
            COUNTERS.received(len(payload))
            self._deliver(header, payload)
        else:
            self.membership.later(lambda: self._answer(header, payload))

    def _deliver(self, header: Header, payload: zenoh.ZBytes) -> None:
        if header.source in self.membership.dead:
            self.membership.later(lambda: self.refuse(header.source))
            return
        with self._lock:
            group = self._groups.get(header.group)
            if group is None:
                if header.group not in self._closed_groups:
                    if len(self._parked) < PARKED and len(payload) <= self._room:
                        self._parked.append((header, payload))
                        self._room -= len(payload)
                    else:
                        self._overflowed = True
                return
        if header.source in group.members:
            group.receive(header, payload)

    def _answer(self, header: Header, payload: zenoh.ZBytes) -> None:
        """Does what another rank asks; in the thread of the membership.

        Raises:
            Malformed: the payload does not read.
            CollectiveError: the session is closed.
        """
        what, source = header.what, header.source
        if what == What.HELLO:
            self.send((source,), write(What.HERE, self.rank))
        elif what == What.HERE:
            self._greeted(source)
        elif what == What.DEAD:
            self.membership.told(source, read_ranks(payload.to_bytes()))
        elif what == What.LEAVING:
            self.membership.left(source)
            # Not while a thread sends to it: that put would hang on a link that is closed. It asks again.
            if not any(source in ranks for ranks in list(self._under_way.values())):
                self.send((source,), write(What.LEFT, self.rank))
            for group in self.groups():
                group.rank_left(source)
            self._greeted(source)
        elif what == What.LEFT:
            self._left.add(source)
            self._heard.set()
        else:
            self._deliver(header, payload)

    def _greeted(self, rank: int) -> None:
        self._here.add(rank)
        self._heard.set()

    # Groups

    def add(self, group: Post) -> None:
        """Delivers to a group from now on, and what came for it before."""
        with self._lock:
            waiting = [parked for parked in self._parked if parked[0].group == group.number]
            self._parked = [parked for parked in self._parked if parked[0].group != group.number]
            # Under the lock: what comes meanwhile is not to overtake what waits.
            for header, payload in waiting:
                self._room += len(payload)
                if header.source in group.members:
                    group.receive(header, payload)
            if self._overflowed:
                group.link_back()
            self._closed_groups.discard(group.number)
            self._groups[group.number] = group
        for rank in group.members:
            if rank in self.membership.dead:
                group.rank_died(rank, self.membership.dead[rank])
            if rank in self.membership.gone:
                group.rank_left(rank)
        if self.failure is not None:
            group.fail(self.failure)

    def fail(self, failure: CollectiveError) -> None:
        """Ends all that is under way in all groups, and all later calls, with an error; the first stays."""
        self.failure = self.failure or failure
        for group in self.groups():
            group.fail(self.failure)

    def remove(self, group: Post) -> int:
        """Delivers no more to a group; how many are left that are in use."""
        with self._lock:
            self._groups.pop(group.number, None)
            self._closed_groups.add(group.number)
            return len(set(self._groups) - self._retired)

    def retire(self, group: Post) -> None:
        """Does not count a group as in use any more, but delivers to it still."""
        with self._lock:
            self._retired.add(group.number)

    def groups(self) -> list[Post]:
        """All groups of this link."""
        return list(self._groups.values())

    def refuse(self, rank: int) -> None:
        """Tells a rank that was taken for dead that it is."""
        self.send((rank,), write(What.DEAD, self.rank), write_ranks([rank]))

    # Beginning and end

    @property
    def is_closed(self) -> bool:
        """True where nothing can be sent any more."""
        return self._is_closed

    def greet(self, timeout: timedelta) -> None:
        """Waits until each rank hears this one, is heard by it, and would be missed.

        Raises:
            RankDied: one has come and is gone again.
            TooLate: some do not answer; names them.
        """
        others = set(range(self.size)) - {self.rank}
        until = time.monotonic() + timeout.total_seconds()
        hello = write(What.HELLO, self.rank)
        while missing := others - (self._here & self.membership.seen):
            if self.failure is not None:
                raise self.failure
            dead = tuple(sorted(missing & self.membership.dead.keys()))
            if dead:
                raise RankDied(f"{named(dead)} died while the ranks met: {self.membership.dead[dead[0]]}", dead)
            if time.monotonic() > until:
                raise TooLate(f"{named(sorted(missing))} did not answer over Zenoh within "
                              f"{timeout.total_seconds():g} s, by {self.session.endpoint}; is it reachable from here, "
                              f"and may it use the keys {SPACE}/**?", tuple(sorted(missing)))
            self.send(tuple(missing), hello)
            self._heard.wait(HELLO_EVERY)

    def close(self) -> None:
        """Says goodbye and ends the session. May be called twice."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        for group in self.groups():
            group.closed()
        try:
            self._say_goodbye()
        except CollectiveError:
            log.debug("the session was closed before")
        self.membership.close()
        self.session.close()
        _links.discard(self)

    def _say_goodbye(self) -> None:
        """Waits until the others have heard all that was sent: closing drops what is still on its way."""
        until = time.monotonic() + self.settings.lease
        others, leaving = set(range(self.size)) - {self.rank}, write(What.LEAVING, self.rank)
        while self.failure is None and self.session.linked:
            # Who ends as well needs nothing more; who is silent for the lease is dead.
            ended = self.membership.gone | self.membership.dead.keys() | self.membership.absent()
            waited_for = others - self._left - ended
            if time.monotonic() >= until or not waited_for:
                return
            self.send(tuple(waited_for), leaving)
            self._heard.wait(LEAVING_EVERY)


_links: weakref.WeakSet[Link] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Before brain_wire closes the sessions, which it does in any case: a process would hang on an open one."""
    background.ask_to_end()
    for link in list(_links):
        link.close()
    background.wait_for_end()


def named(ranks: list[int] | tuple[int, ...]) -> str:
    """Ranks, in words."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else "ranks " + ", ".join(map(str, ranks))
