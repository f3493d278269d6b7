# SPDX-License-Identifier: Apache-2.0
"""Links between peers that are made again.

Zenoh links two peers when the router introduces them to each other, once. A link that could not be made then, or that
breaks while both go on (on a machine so busy that one of them did not run for longer than the lease), stays away, and
neither hears the other any more, in silence: routers hand nothing on between peers.

A router introduces a peer whenever it comes. So a peer that misses another one that the router has closes its own link
with the router. Zenoh opens that again at once, and then the two are introduced anew.
"""
from __future__ import annotations

import json
import logging
import os
import socket
import threading

import zenoh

from brain_wire.endpoints import on_this_machine

PERIOD = 2.0        # s between two looks
WHOLE = 5           # looks from one at all that the router has to the next, where no link has broken
LATER = 2           # looks by which the peer of the lesser id waits for the other to act
SLOW = 3            # looks more for a peer that was never linked: it may be about to be
QUIET = 5           # looks from one introduction to the next: whoever answers for a router may name any number of peers
TRIES = 3           # introductions to a peer that was linked once; to one that never was: one, it may not want to be
ANSWER = 2.0        # s that the router gets
ROUTERS = "@/*/router"      # in which Zenoh's routers tell of their sessions

log = logging.getLogger(__name__)


class Relinking:
    """Watches over the links of one peer.

    Args:
        session: of it.
    """

    def __init__(self, session: zenoh.Session) -> None:
        self._session, self._own = session, str(session.info.zid())
        self._known: set[str] = set()
        self._missed: dict[str, int] = {}   # peers that are not linked, and for how many looks
        self._tried: dict[str, int] = {}
        self._looks, self._left = 0, -QUIET

    def run(self, ended: threading.Event) -> None:
        """Looks again and again, until the session is closed or ``ended`` is set."""
        while not ended.wait(PERIOD) and not self._session.is_closed():
            try:
                self.look()
            except zenoh.ZError as error:       # it is being closed
                log.debug("links were not looked at: %s", error)

    def look(self) -> None:
        """Looks once. Raises ZError where the session is closed."""
        linked = {str(zid) for zid in self._session.info.peers_zid()}
        lost = self._known - linked
        self._known |= linked
        self._looks += 1
        if not (lost or self._missed or self._looks % WHOLE == 1):
            return
        there = self._at_the_router()
        self._known &= there | linked
        self._missed = {zid: self._missed.get(zid, 0) + 1 for zid in there - linked - {self._own}}
        self._tried = {zid: tries for zid, tries in self._tried.items() if zid in self._missed}
        due = [zid for zid, looks in self._missed.items()
               if self._tried.get(zid, 0) < (TRIES if zid in self._known else 1)
               and looks > 1 + LATER * (zid > self._own) + SLOW * (zid not in self._known)]
        if due and self._looks - self._left >= QUIET:
            self._left = self._looks
            for zid in due:
                self._tried[zid] = self._tried.get(zid, 0) + 1
                self._missed[zid] = 0
            log.warning("no link with %s, which the router has; the router is to introduce %s again", ", ".join(
                sorted(due)), "it" if len(due) == 1 else "them")
            self._leave_the_router()

    def _at_the_router(self) -> set[str]:
        """Ids of peers that are linked with the router on this machine; those of another one cannot be reached."""
        found = set()
        for reply in self._session.get(ROUTERS, timeout=ANSWER):
            if reply.ok is None:
                continue
            try:
                for one in json.loads(reply.ok.payload.to_string())["sessions"]:
                    if one["whatami"] == "peer" and all(on_this_machine(link["dst"]) for link in one["links"]):
                        found.add(str(one["peer"]))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                # a router of another kind, or nobody's
                log.debug("what a router tells of its sessions cannot be read: %r", error)
        return found

    def _leave_the_router(self) -> None:
        routers = {str(zid) for zid in self._session.info.routers_zid()}
        for link in self._session.info.links():
            if str(link.zid) in routers:
                shut(str(link.src))


def shut(end: str) -> bool:
    """Closes the connection of this process whose own end is ``end``, as ``tcp/127.0.0.1:40123``; Zenoh has no call.

    Returns:
        Whether there was one.
    """
    port = end.rpartition(":")[2]
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6) and str(one.getsockname()[1]) == port:
                    one.getpeername()       # raises where it listens
                    one.shutdown(socket.SHUT_RDWR)
                    return True
        except OSError:     # closed meanwhile, or one that listens
            continue
    return False
