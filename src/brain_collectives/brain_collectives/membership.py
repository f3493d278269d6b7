# SPDX-License-Identifier: Apache-2.0
"""Membership of ranks: a liveliness token for each rank, and when one that is gone means a death.

A token vanishes within milliseconds of its process's end, and after the lease where the process stands still. It also
vanishes with a link, which comes back. So a rank is dead when its token has been away for ``DEBOUNCE``. While this
rank's own link is away the clocks stand; when it is back, or this rank stood still itself, the others get the time
that they may need to come back too. Who has taken a rank for dead tells all others, so that they agree; and a rank
that was taken for dead is told so when it comes back.
"""
from __future__ import annotations

import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Callable

import zenoh

from brain_collectives.counting import COUNTERS
from brain_collectives.errors import CollectiveError, Refused
from brain_collectives.header import Malformed, What, write, write_ranks
from brain_collectives.settings import ROUTER

if TYPE_CHECKING:
    from brain_collectives.link import Link

DEBOUNCE = 0.2      # s; a link that flaps is back in half of it
# s that a put waits for room on a link. Above the 5 s after which a router gives up a rank that does not read, so that
# the others do not give up the router.
CONGESTION = 10.0
RECONNECT = 10.0    # s that a rank gets to connect anew; seen: 4
BEAT = 0.5          # s between looks whether this process stood still

log = logging.getLogger(__name__)


class Membership:
    """Membership of the ranks of the default group.

    Args:
        link: of this process.
        prefix: of its keys.

    Attributes:
        seen: ranks whose tokens were there once.
        dead: why each rank that was declared dead was, by rank.
        gone: ranks that have ended well.
        refusal: why the other ranks have gone on without this one; empty: they have not.
    """

    def __init__(self, link: Link, prefix: str) -> None:
        self.seen: set[int] = set()
        self.dead: dict[int, str] = {}
        self.gone: set[int] = set()
        self.refusal = ""
        self._link = link
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._missing: dict[int, float] = {}
        self._patient_until = 0.0       # no rank is taken for dead before
        self._routers: set[str] = set()
        self._cut = False               # this rank's own link to all routers is away
        self._lock = threading.Lock()
        session, places = link.session.zenoh, link.places
        self._tokens = {f"{prefix}/token/{rank}/{place.nonce}": rank for rank, place in enumerate(places)}
        put = zenoh.handlers.Callback(self._events.put, indirect=False)
        self._listeners = [session.liveliness().declare_token(f"{prefix}/token/{link.rank}/{places[link.rank].nonce}"),
                           session.liveliness().declare_subscriber(f"{prefix}/token/*/*", put, history=True),
                           session.info.declare_transport_events_listener(put, history=True)]
        self._thread = threading.Thread(target=self._watch, name="brain_collectives membership", daemon=True)

    def start(self) -> None:
        """Begins with the watch; what has happened since this was made was kept for it."""
        self._thread.start()

    def later(self, do: Callable[[], None]) -> None:
        """Has something done in the thread of the watch: what sends is not to hold up what receives."""
        self._events.put(do)

    # What others tell

    def left(self, rank: int) -> None:
        """A rank has said that it ends."""
        self.gone.add(rank)

    def told(self, source: int, ranks: list[int]) -> None:
        """A rank has taken others for dead, perhaps this one."""
        if source in self.dead:
            return
        for rank in ranks:
            if rank == self._link.rank:
                self._refuse(f"rank {source} took this rank (rank {rank}) for dead, since it stood still or was cut "
                             f"off for longer than the lease of {self._link.places[source].lease:g} s, and the others "
                             f"went on without it; let this process end, and start a new one")
            elif 0 <= rank < self._link.size:
                self._declare(rank, f"told by rank {source}")

    def _refuse(self, why: str) -> None:
        if not self.refusal:
            self.refusal = why
            self._link.fail(Refused(why))

    def absent(self) -> set[int]:
        """Ranks whose tokens are away at present."""
        with self._lock:
            return set(self._missing)

    # The watch

    def close(self) -> None:
        """Ends the watch."""
        self._events.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * BEAT)

    def _watch(self) -> None:
        looked = time.monotonic()
        while True:
            pause = self._pause(looked)
            try:
                event = self._events.get(timeout=pause)
            except queue.Empty:
                event = ()
            now = time.monotonic()
            if now - looked > pause + self._link.settings.lease / 2:
                # This process stood still: what it missed is not the others' fault.
                self._patient_until = max(self._patient_until, now + self._link.settings.lease)
            looked = now
            if event is None:
                return
            self._do(lambda: self._take(event, now))

    def _pause(self, now: float) -> float:
        """s until the next rank would be dead."""
        with self._lock:
            missing = list(self._missing.values())
        if not missing or self._cut:
            return BEAT
        return min(max(self._due(min(missing)) - now, 0.001), BEAT)

    def _take(self, event: Any, now: float) -> None:
        if isinstance(event, zenoh.Sample):
            self._token_changed(event, now)
        elif isinstance(event, zenoh.TransportEvent):
            self._link_changed(event, now)
        elif callable(event):
            event()
        self._look(now)

    def _do(self, what: Callable[[], None]) -> None:
        try:
            what()
        except Malformed as problem:
            COUNTERS.malformed += 1
            log.debug("dropped a message: %s", problem)
        except CollectiveError:
            log.debug("the session is closed meanwhile")
        except Exception as problem:    # noqa: B902 # a watch that ended would leave all waiting for ever
            log.exception("the watch over the ranks failed")
            self._link.fail(CollectiveError(f"the watch over the ranks failed at rank {self._link.rank} "
                                            f"({type(problem).__name__}: {problem})"))

    def _token_changed(self, sample: zenoh.Sample, now: float) -> None:
        rank = self._tokens.get(str(sample.key_expr))
        if rank is None or rank == self._link.rank:
            return
        if sample.kind == zenoh.SampleKind.PUT:
            self.seen.add(rank)
            with self._lock:
                missed = self._missing.pop(rank, None)
            if rank in self.dead:
                self._link.refuse(rank)
            elif missed is not None:
                self._came_back()
        elif rank not in self.dead and rank not in self.gone:
            with self._lock:
                self._missing.setdefault(rank, now)

    def _link_changed(self, event: zenoh.TransportEvent, now: float) -> None:
        """The own link to a router came or went; links between peers are told by their tokens."""
        if self._link.settings.link != ROUTER or event.transport.whatami != zenoh.WhatAmI.ROUTER:
            return
        if event.kind == zenoh.SampleKind.PUT:
            self._routers.add(str(event.transport.zid))
            if self._cut:
                self._cut = False
                self._patient_until = now + CONGESTION + RECONNECT
                self._came_back()
        else:
            self._routers.discard(str(event.transport.zid))
            self._cut = not self._routers

    def _came_back(self) -> None:
        """Lets who waits ask anew: what was under way when a link was lost may be lost."""
        for group in self._link.groups():
            group.link_back()

    def _due(self, since: float) -> float:
        """Computes when a rank is dead whose token has been away since then."""
        live = set(range(self._link.size)) - set(self.dead) - self.gone - {self._link.rank}
        patience = DEBOUNCE
        if not self._link.local and len(live) > 1 and live <= set(self._missing) and self._link.settings.link != ROUTER:
            # All at once, over a network: it is rather this rank that is cut off.
            patience = self._link.settings.lease
        return max(since + patience, self._patient_until)

    def _look(self, now: float) -> None:
        with self._lock:
            missing = dict(self._missing)
        if not missing or self._cut:
            return
        lost = [rank for rank, since in missing.items() if rank not in self.gone and now >= self._due(since)]
        if lost and self._link.settings.link == ROUTER and not self._link.session.linked:
            self._cut = True        # the event that says so is still to come
            return
        for rank in lost:
            place = self._link.places[rank]
            self._declare(rank, f"process {place.pid} on {place.name} ended, stood still for longer than the lease of "
                                f"{place.lease:g} s, or was cut off")
        with self._lock:
            for rank in [*lost, *(self.gone & set(missing))]:
                self._missing.pop(rank, None)

    def _declare(self, rank: int, why: str) -> None:
        with self._lock:
            if rank in self.dead or rank in self.gone or self.refusal:
                return
            self.dead[rank] = why
        live = tuple(r for r in range(self._link.size)
                     if r not in self.dead and r not in self.gone and r != self._link.rank)
        for group in self._link.groups():
            group.rank_died(rank, why)
        try:    # The dead one is told when it comes back: its link, if it has one, may hang.
            self._link.send(live, write(What.DEAD, self._link.rank), write_ranks([rank]))
        except CollectiveError:
            return      # the session is closed meanwhile, by this process
