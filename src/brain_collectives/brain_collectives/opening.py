# SPDX-License-Identifier: Apache-2.0
"""Links a process with all ranks that meet at a store: by a router, or each with each other."""
from __future__ import annotations

import json
import logging
import os
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist
import zenoh

from brain_collectives.errors import CollectiveError
from brain_collectives.link import Link
from brain_collectives.membership import CONGESTION
from brain_collectives.private import clear, folder, known_by
from brain_collectives.rendezvous import Place, exchange, hold_port, new_place
from brain_collectives.settings import PEERS, ROUTER, SECRET_VARIABLE, Settings, from_environment
from brain_wire.credentials import OPERATOR
from brain_wire.endpoints import open_to_a_network
from brain_wire.session import NoRouter, Session, SessionProblem, insert, open_session

LOOK = 0.005            # s between looks whether all links are up
ROUTER_PATIENCE = 10.0  # s to wait for a router that is not there yet

log = logging.getLogger(__name__)


def open_link(store: dist.Store, rank: int, size: int, timeout: timedelta, settings: Settings | None = None) -> Link:
    """Links this process with all ranks that meet at a store, by the environment's settings where none are given.

    Raises:
        CollectiveError: the settings are wrong, ranks are missing, or there is no router.
    """
    settings = settings or from_environment()
    until = time.monotonic() + timeout.total_seconds()
    try:
        if settings.link == PEERS:
            with hold_port() as holder:
                own = new_place(PEERS, settings.host, "", settings.secret is not None, settings.lease, settings.large,
                                holder.getsockname()[1])
                places = exchange(store, rank, size, own, timeout, settings.secret)
                session = _linked_with(places, rank, settings, _left(until))
        else:
            # Before the others are told of this rank: who meets is linked already.
            session = open_session(identity=settings.identity or OPERATOR, more=_tuning(settings),
                                   patience=min(timeout.total_seconds(), ROUTER_PATIENCE))
            own = new_place(ROUTER, settings.host, session.endpoint, session.credentials is not None, settings.lease,
                            settings.large)
            try:
                places = exchange(store, rank, size, own, timeout, settings.secret)
            except BaseException:
                session.close()
                raise
    except (NoRouter, SessionProblem, zenoh.ZError) as problem:
        raise CollectiveError(f"rank {rank} has no link: {problem}") from problem
    link = Link(session, places, rank, settings)
    try:
        link.greet(_left(until))
    except BaseException:
        link.close()
        raise
    return link


def _left(until: float) -> timedelta:
    """Returns what is left of the one timeout that all of the opening has; a little in any case."""
    return timedelta(seconds=max(until - time.monotonic(), 0.5))


def _tuning(settings: Settings) -> dict[str, Any]:
    """Returns the configuration of Zenoh for links by a router and between peers, by key.

    Where the other end of a link says goodbye while a put waits for room on it, Zenoh closes that link only after the
    put has given up: for so long this rank cannot connect anew. And while a put waits for a peer that is silent for the
    lease, nothing of this rank gets through to the other peers, who would take it for dead after a lease more.
    """
    patience = CONGESTION if settings.link == ROUTER else settings.lease
    return {"transport/link/tx/lease": int(settings.lease * 1000),
            "transport/link/tx/queue/congestion_control/block/wait_before_close": int(patience * 1e6)}


def _linked_with(places: list[Place], rank: int, settings: Settings, timeout: timedelta) -> Session:
    """A session that is linked with each other rank's; of two ranks the higher one connects."""
    own, secret = places[rank], settings.secret
    one_machine = len({place.machine for place in places}) == 1
    if one_machine:
        clear(folder())
        endpoints = [f"unixsock-stream/{folder()}/{place.nonce}" for place in places]
    elif os.environ.get("LOCAL_WORLD_SIZE") == str(len(places)):
        raise CollectiveError("the store says of a rank that it is on another machine, or of another user, where all "
                              "were started on this one (LOCAL_WORLD_SIZE); who else writes into the store?")
    else:
        endpoints = [f"tcp/{f'[{place.host}]' if ':' in place.host else place.host}:{place.port}" for place in places]
        if secret is None and open_to_a_network(endpoints[rank]):
            log.warning("%s is not secured: whoever reaches it can put data into this group; give all ranks the same "
                        "%s, or link them by a router with the brain's certificates (BRAIN_SECURITY)", endpoints[rank],
                        SECRET_VARIABLE)
    config = zenoh.Config()
    with known_by(None if one_machine else secret) as more:
        for key, value in {
                "mode": "peer", "listen/endpoints": [endpoints[rank]], "connect/endpoints": endpoints[:rank],
                "connect/timeout_ms": int(timeout.total_seconds() * 1000), "connect/exit_on_failure": True,
                "connect/retry": {"period_init_ms": 20, "period_max_ms": 200, "period_increase_factor": 2},
                "scouting/multicast/enabled": False, "scouting/gossip/enabled": False,
                "open/return_conditions/connect_scouted": False, "open/return_conditions/declares": False,
                "transport/unicast/max_sessions": 2 * len(places) + 16, "transport/shared_memory/enabled": one_machine,
                "transport/link/tx/keep_alive": 4, **_tuning(settings), **more,
        }.items():
            insert(config, key, json.dumps(value), "our settings")
        session = Session(zenoh.open(config), f"{endpoints[rank]} of rank {rank}, process {own.pid}")
    until = time.monotonic() + timeout.total_seconds()
    # What is declared while a link comes up may not get there; that the ranks hear each other is found out afterwards.
    while len(session.zenoh.info.peers_zid()) < len(places) - 1 and time.monotonic() < until:
        time.sleep(LOOK)
    return session
