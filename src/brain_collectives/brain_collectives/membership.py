# SPDX-License-Identifier: Apache-2.0
"""Who is there: a liveliness token for each rank, and when one that is gone means a death.

A token vanishes within milliseconds of its process's end, and after the lease where the process stands still. It also
vanishes with a link, which comes back. So a rank is dead when its token has been away for ``DEBOUNCE``; while this
rank's own link is away, or it stood still itself, the clocks stand, and begin ``RECONNECT`` anew when it is back. Who
has taken a rank for dead tells all others, so that they agree; and a rank that was taken for dead is told so when it
comes back.
"""
from __future__ import annotations

import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Callable

import zenoh

from brain_collectives.counting import COUNTERS
from brain_collectives.errors import CollectiveError
from brain_collectives.header import Malformed, What, write, write_ranks
from brain_collectives.settings import ROUTER

if TYPE_CHECKING:
    from brain_collectives.link import Link

DEBOUNCE = 0.2      # s; a link that flaps is back in half of it
RECONNECT = 2.0     # s that other ranks get to come back after this rank's own link did; they try each 0.2 s
TICK = 0.05         # s between looks while a rank is missed
BEAT = 0.5          # s between looks otherwise

log = logging.getLogger(__name__)


class Membership:
    """Which ranks of the default group are there.

    Args:
        link: of this process.
        prefix: of its keys.

    Attributes:
        dead: why each rank that was declared dead was, by rank.
        gone: ranks that have ended well.
        refusal: why the other ranks have gone on without this one; empty: they have not.
    """

    def __init__(self, link: Link, prefix: str) -> None:
        self.dead: dict[int, str] = {}
        self.gone: set[int] = set()
        self.refusal = ""
        self._link = link
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._missing: dict[int, float] = {}
        self._back = -RECONNECT         # when this rank's own link came back, or it went on after it stood still
        self._cut = False
        self._lock = threading.Lock()
        session, places = link.session.zenoh, link.places
        self._tokens = {f"{prefix}/token/{rank}/{place.nonce}": rank for rank, place in enumerate(places)}
        self._token = session.liveliness().declare_token(f"{prefix}/token/{link.rank}/{places[link.rank].nonce}")
        self._watched = session.liveliness().declare_subscriber(
            f"{prefix}/token/*/*", zenoh.handlers.Callback(self._events.put, indirect=False), history=True)
        self._links = session.info.declare_transport_events_listener(
            zenoh.handlers.Callback(self._events.put, indirect=False))
        self._thread = threading.Thread(target=self._watch, name="brain_collectives membership", daemon=True)
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
            for group in self._link.groups():
                group.refused(why)

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
            pause = TICK if self._missing or self._cut else BEAT
            try:
                event = self._events.get(timeout=pause)
            except queue.Empty:
                event = ()
            now = time.monotonic()
            if now - looked > pause + self._link.settings.lease / 2:
                self._back = now        # this process stood still: what it missed is not the others' fault
            looked = now
            if event is None:
                return
            if isinstance(event, zenoh.Sample):
                self._token_changed(event, now)
            elif isinstance(event, zenoh.TransportEvent):
                self._link_changed(now)
            elif callable(event):
                self._do(event)
            self._look(now)

    def _do(self, what: Callable[[], None]) -> None:
        try:
            what()
        except Malformed as problem:
            COUNTERS.malformed += 1
            log.debug("dropped a message: %s", problem)
        except CollectiveError:
            log.debug("the session is closed meanwhile")

    def _token_changed(self, sample: zenoh.Sample, now: float) -> None:
        rank = self._tokens.get(str(sample.key_expr))
        if rank is None or rank == self._link.rank:
            return
        if sample.kind == zenoh.SampleKind.PUT:
            with self._lock:
                missed = self._missing.pop(rank, None)
            if rank in self.dead:
                self._link.refuse(rank)
            elif missed is not None:
                self._came_back()
        elif rank not in self.dead and rank not in self.gone:
            with self._lock:
                self._missing.setdefault(rank, now)

    def _link_changed(self, now: float) -> None:
        """The own link to a router came or went; links between peers are told by their tokens."""
        if self._link.settings.link != ROUTER:
            return
        cut = not self._link.session.linked
        if self._cut and not cut:
            self._back = now
            self._came_back()
        self._cut = cut

    def _came_back(self) -> None:
        """What was under way when a link was lost may be lost: who waits for something is to ask for it."""
        self._link.losses += 1
        for group in self._link.groups():
            group.link_back()

    def _look(self, now: float) -> None:
        if not self._missing:
            if self._cut:
                self._link_changed(now)
            return
        self._link_changed(now)
        if self._cut:
            return
        with self._lock:
            missing = dict(self._missing)
        live = set(range(self._link.size)) - set(self.dead) - self.gone - {self._link.rank}
        patience = DEBOUNCE
        if not self._link.local and len(live) > 1 and live <= set(missing) and self._link.settings.link != ROUTER:
            # All at once, over a network: it is rather this rank that is cut off.
            patience = self._link.settings.lease
        lost = [rank for rank, since in missing.items()
                if rank not in self.gone and now >= max(since + patience, self._back + RECONNECT)]
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
        try:
            for other in (*live, rank):
                self._link.send((other,), write(What.DEAD, self._link.rank), write_ranks([rank]))
        except CollectiveError:
            return      # the session is closed meanwhile, by this process
