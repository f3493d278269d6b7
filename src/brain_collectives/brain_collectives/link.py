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
import json
import logging
import threading
import time
import weakref
from datetime import timedelta
from typing import Any, Protocol

import torch.distributed as dist
import zenoh

from brain_collectives.counting import COUNTERS
from brain_collectives.errors import CollectiveError, TooLate
from brain_collectives.header import Header, Malformed, What, read, read_ranks, write, write_ranks
from brain_collectives.membership import Membership
from brain_collectives.rendezvous import Place, exchange, hold_port, new_place
from brain_collectives.sent import TO_ALL, Kept
from brain_collectives.settings import PEERS, Settings, from_environment
from brain_wire.refusal import open_to_a_network
from brain_wire.session import NoRouter, Session, SessionProblem, insert, session_config
from brain_wire.waking import Signal

SPACE = "brain_collectives"
HELLO_EVERY = 0.05      # s between greetings to a rank that has not answered
LOOK = 0.005            # s between looks whether all links are up
GOODBYE = 1.0           # s that other ranks get to say that they have heard all
CONGESTION = 600        # s that a put waits for a slow rank; a dead one is cut off by the lease
PARKED = 1 << 14        # messages that wait for groups which this rank has not made yet

log = logging.getLogger(__name__)


class Post(Protocol):
    """What a link delivers to: one for each group."""

    number: int
    members: tuple[int, ...]

    def receive(self, header: Header, payload: zenoh.ZBytes) -> None:
        """Takes a message, in Zenoh's thread."""

    def rank_died(self, rank: int, why: str) -> None:
        """Takes note of a death."""

    def rank_left(self, rank: int) -> None:
        """Takes note that a rank sends nothing more."""

    def refused(self, why: str) -> None:
        """Takes note that the others have gone on without this rank."""

    def link_back(self) -> None:
        """Takes note that messages may have been lost."""

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
        trusted: whether objects may come by it: it is authenticated at all ranks, or all are on this machine.
        losses: how often links came back.
    """

    def __init__(self, session: Session, places: list[Place], rank: int, settings: Settings) -> None:
        self.session, self.places, self.rank, self.settings = session, places, rank, settings
        self.size = len(places)
        self.run = places[0].nonce
        self.local = len({place.machine for place in places}) == 1
        self.trusted = all(p.trusted for p in places) or self.local and all(p.loopback for p in places)
        self.losses = 0
        self.kept = Kept(settings.keep)
        self._groups: dict[int, Post] = {}
        self._closed_groups: set[int] = set()
        self._retired: set[int] = set()
        self._parked: list[tuple[Header, zenoh.ZBytes]] = []
        self._lock = threading.Lock()
        self._here: set[int] = set()
        self._heard = Signal()
        self._left: set[int] = set()
        self._is_closed = False
        prefix, z = f"{SPACE}/{self.run}", session.zenoh
        self.membership = Membership(self, prefix)
        # In Zenoh's own thread, which saves a change of threads; `_arrive` only sorts.
        arrive = zenoh.handlers.Callback(self._arrive, indirect=False)
        self._hears = [z.declare_subscriber(f"{prefix}/{key}", arrive) for key in ("all", f"to/{rank}")]
        # Keys are sent in full: an id that is declared while a link comes up is now and then unknown at the other
        # end, and then Zenoh drops all that comes under it.
        self._quality: dict[str, Any] = {"congestion_control": zenoh.CongestionControl.BLOCK, "express": True,
                                         "allowed_destination": zenoh.Locality.REMOTE,
                                         "priority": zenoh.Priority.INTERACTIVE_HIGH}
        self._all = zenoh.KeyExpr(f"{prefix}/all")
        self._to = [zenoh.KeyExpr(f"{prefix}/to/{other}") for other in range(self.size)]
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
        data = zenoh.ZBytes(payload)
        try:
            if len(ranks) == self.size and self.size > 2:
                self._put(self._all, data, header)
                if key:
                    self.kept.keep((*key, TO_ALL), header, data)
                    COUNTERS.sent(len(data))
                return
            for rank in ranks:
                if rank != self.rank:
                    self._put(self._to[rank], data, header)
                    if key:
                        self.kept.keep((*key, rank), header, data)
                        COUNTERS.sent(len(data))
        except zenoh.ZError as error:
            raise CollectiveError(f"the link of rank {self.rank} is closed ({error})") from None

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
                if header.group not in self._closed_groups and len(self._parked) < PARKED:
                    self._parked.append((header, payload))
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
            self.send((source,), write(What.LEFT, self.rank))
            self.membership.left(source)
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
                if header.source in group.members:
                    group.receive(header, payload)
            self._closed_groups.discard(group.number)
            self._groups[group.number] = group
        for rank in group.members:
            if rank in self.membership.dead:
                group.rank_died(rank, self.membership.dead[rank])
            if rank in self.membership.gone:
                group.rank_left(rank)
        if self.membership.refusal:
            group.refused(self.membership.refusal)

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
        """Whether nothing can be sent any more."""
        return self._is_closed

    def greet(self, timeout: timedelta) -> None:
        """Waits until each rank hears this one and is heard by it.

        Raises:
            TooLate: some do not answer; names them.
        """
        others = set(range(self.size)) - {self.rank}
        until = time.monotonic() + timeout.total_seconds()
        hello = write(What.HELLO, self.rank)
        while missing := others - self._here:
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
        """Waits a while until the others have heard all that was sent: closing drops what is still on its way."""
        until = time.monotonic() + GOODBYE
        others = tuple(r for r in range(self.size) if r != self.rank)
        if self.membership.refusal or not self.session.linked:
            return
        self.send(others, write(What.LEAVING, self.rank))
        while True:
            # Who ends as well needs nothing more.
            ended = self.membership.gone | self.membership.dead.keys() | self.membership.absent()
            waited_for = set(others) - self._left - ended
            left = until - time.monotonic()
            if left <= 0 or not waited_for:
                return
            self._heard.wait(min(left, HELLO_EVERY))


_links: weakref.WeakSet[Link] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Before brain_wire closes the sessions, which it does in any case: a process would hang on an open one."""
    for link in list(_links):
        link.close()


def named(ranks: list[int] | tuple[int, ...]) -> str:
    """Ranks, in words."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else "ranks " + ", ".join(map(str, ranks))


def open_link(store: dist.Store, rank: int, size: int, timeout: timedelta, settings: Settings | None = None) -> Link:
    """Links this process with all ranks that meet at a store, by the environment's settings where none are given.

    Raises:
        CollectiveError: the settings are wrong, ranks are missing, or there is no router.
    """
    settings = settings or from_environment()
    try:
        if settings.link == PEERS:
            with hold_port() as holder:
                own = new_place(PEERS, settings.host, "", False, True, settings.lease, settings.large,
                                holder.getsockname()[1])
                places = exchange(store, rank, size, own, timeout)
                session = _linked_with(places, rank, settings, timeout)
        else:
            config, endpoint, credentials = session_config(None, *[settings.identity] if settings.identity else [])
            local = not open_to_a_network(endpoint) and credentials is None
            own = new_place(settings.link, settings.host, endpoint, credentials is not None, local, settings.lease,
                            settings.large)
            places = exchange(store, rank, size, own, timeout)
            _tune(config, settings)
            session = Session(zenoh.open(config), f"the router at {endpoint}", credentials)
    except (NoRouter, SessionProblem, zenoh.ZError) as problem:
        raise CollectiveError(f"rank {rank} has no link: {problem}") from problem
    link = Link(session, places, rank, settings)
    try:
        link.greet(timeout)
    except BaseException:
        link.close()
        raise
    return link


def _tune(config: zenoh.Config, settings: Settings) -> None:
    """What Zenoh is told in either case."""
    insert(config, "transport/link/tx/lease", str(int(settings.lease * 1000)), "our settings")
    insert(config, "transport/link/tx/queue/congestion_control/block/wait_before_close", str(CONGESTION * 1000000),
           "our settings")


def _linked_with(places: list[Place], rank: int, settings: Settings, timeout: timedelta) -> Session:
    """A session that is linked with each other rank's; of two ranks the higher one connects."""
    own = places[rank]
    one_machine = len({place.machine for place in places}) == 1
    hosts = ["127.0.0.1" if one_machine else place.host for place in places]
    endpoints = [f"tcp/{f'[{host}]' if ':' in host else host}:{place.port}" for host, place in zip(hosts, places)]
    if open_to_a_network(endpoints[rank]):
        log.warning("%s is not secured: whoever reaches it can put data into this group; link by a router with the "
                    "brain's certificates (BRAIN_SECURITY), or use a network of your own", endpoints[rank])
    config = zenoh.Config()
    for key, value in {
            "mode": "peer", "listen/endpoints": [endpoints[rank]], "connect/endpoints": endpoints[:rank],
            "connect/timeout_ms": int(timeout.total_seconds() * 1000), "connect/exit_on_failure": True,
            "connect/retry": {"period_init_ms": 20, "period_max_ms": 200, "period_increase_factor": 2},
            "scouting/multicast/enabled": False, "scouting/gossip/enabled": False,
            "open/return_conditions/connect_scouted": False, "open/return_conditions/declares": False,
            "transport/unicast/max_sessions": 2 * len(places) + 16, "transport/shared_memory/enabled": one_machine,
            "transport/link/tx/keep_alive": 4,
    }.items():
        insert(config, key, json.dumps(value), "our settings")
    _tune(config, settings)
    session = Session(zenoh.open(config), f"{endpoints[rank]} of rank {rank}, process {own.pid}")
    until = time.monotonic() + timeout.total_seconds()
    # What is declared while a link comes up may not get there; that the ranks hear each other is found out afterwards.
    while len(session.zenoh.info.peers_zid()) < len(places) - 1 and time.monotonic() < until:
        time.sleep(LOOK)
    return session
