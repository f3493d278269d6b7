# SPDX-License-Identifier: Apache-2.0
"""Rendezvous of ranks: each writes into c10d's store where it is, and reads that of all others.

A store may hold what earlier groups wrote: torchrun gives the same one to the processes that it starts again. So rank 0
writes a new nonce first, and all else stands below it; and who reads all places takes them only with its own in it.
"""
from __future__ import annotations

import json
import os
import re
import socket
import time
import uuid
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from brain_collectives.errors import CollectiveError, TooLate
from brain_collectives.private import folder, seal, unseal

LONGEST = 4096      # B of what a rank says of itself
RUN, ALL = "zenoh/run", "all"       # keys: what rank 0 has begun; below it, the places of all ranks
LOOK = 0.5          # s between looks whether rank 0 has begun anew
NONCE = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Place:
    """Place of a rank: how others reach it, and what they must know of its link.

    Attributes:
        nonce: of this link, so that a rank that comes again is told from the one before.
        machine: the same at all that share a loopback interface and a folder of one user's sockets.
        host: address at which other machines reach it.
        port: at which it listens, where ranks are linked with each other.
        link: ``peers`` or ``router``, which must be the same at all.
        where: the router's endpoint.
        trusted: whether its link is authenticated on both sides, by certificates or a secret.
        pid: of its process.
        name: of its machine, for messages.
        lease: s of silence after which it takes another for dead.
        large: B from which it goes by chunks; must be the same at all.
    """

    nonce: str
    machine: str
    host: str
    port: int
    link: str
    where: str
    trusted: bool
    pid: int
    name: str
    lease: float
    large: int


def hold_port() -> socket.socket:
    """A socket that has a free port until Zenoh listens there; to be closed then.

    It does not listen itself, and both allow the address to be used again, so Zenoh may. So may another user's process:
    then the group does not come about, and none without the secret is let in.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("", 0))
    return holder


def new_place(link: str, host: str | None, where: str, trusted: bool, lease: float, large: int,
              port: int = 0) -> Place:
    """Makes this process's place, with a new nonce; ``port``: at which it listens, where ranks are linked as peers."""
    return Place(uuid.uuid4().hex, machine(), host or own_address(), port, link, where,
                 trusted, os.getpid(), socket.gethostname(), lease, large)


def machine() -> str:
    """Returns an identity that is the same at all processes that can be linked by sockets of one user.

    Those share the boot, the network namespace, and the folder.

    Raises:
        CollectiveError: others can enter the folder.
    """
    its = folder().stat()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}/{its.st_dev}.{its.st_ino}"
    except OSError:     # no Linux
        return f"{socket.gethostname()}/{uuid.getnode()}/{its.st_dev}.{its.st_ino}"


def own_address() -> str:
    """Address of this machine on the network by which it reaches ``MASTER_ADDR``; nothing is sent."""
    master = os.environ.get("MASTER_ADDR", "").strip() or "localhost"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


def exchange(store: dist.Store, rank: int, size: int, own: Place, timeout: timedelta, secret: str | None = None
             ) -> list[Place]:
    """Places of all ranks; with a secret those of ranks that have it.

    Raises:
        TooLate: not all have come; names them.
        CollectiveError: what a rank wrote does not read, or ranks are set up differently.
        DistNetworkError: the process that holds the store is gone.
    """
    until = time.monotonic() + timeout.total_seconds()
    places = _gather(store, size, own, until, secret) if rank == 0 else _join(store, rank, size, own, until, secret)
    if places is None:
        run = store.get(RUN).decode(errors="replace") if store.check([RUN]) else ""
        # Where rank 0 has not come, nothing stands there, or an earlier group as a whole: only rank 0 can be named.
        missing = tuple(r for r in range(size) if r != rank and run and not store.check([_key(run, r)])) or (0,)
        raise TooLate(f"{_ranks(missing)} of {size} did not come within {timeout.total_seconds():g} s; start as many "
                      f"processes as WORLD_SIZE says, all with the backend zenoh", missing)
    for other, place in enumerate(places):
        for setting, variable in (("link", "BRAIN_COLLECTIVES_LINK"), ("large", "BRAIN_COLLECTIVES_LARGE")):
            if getattr(place, setting) != getattr(own, setting):
                raise CollectiveError(f"rank {other} has {variable}={getattr(place, setting)} where this rank has "
                                      f"{getattr(own, setting)}; set the same for all ranks")
    return places


def _gather(store: dist.Store, size: int, own: Place, until: float, secret: str | None) -> list[Place] | None:
    """As rank 0: begins anew, and tells all ranks who has come. None: not all have."""
    run = own.nonce
    store.set(_key(run, 0), seal(json.dumps(asdict(own)), secret, _key(run, 0)))
    store.set(RUN, run)
    for other in range(1, size):
        while not _there(store, _key(run, other), until):
            if store.get(RUN).decode(errors="replace") != run:
                raise _twice(0)
            if time.monotonic() >= until:
                return None
    # its own it knows: what stands in the store may be another's, who says that this rank's link is to be trusted
    places = [own] + [_read(other, store.get(_key(run, other)), secret, _key(run, other)) for other in range(1, size)]
    store.set(_key(run, ALL), seal(json.dumps([asdict(place) for place in places]), secret, _key(run, ALL)))
    return places


def _join(store: dist.Store, rank: int, size: int, own: Place, until: float, secret: str | None) -> list[Place] | None:
    """As any other rank: comes to what rank 0 has begun, and again where it begins anew. None: not all came."""
    come, was_over = "", False
    while time.monotonic() < until:
        if not _there(store, RUN, until):
            continue
        run = store.get(RUN).decode(errors="replace")
        if run != come:
            was_over = store.check([_key(run, ALL)])    # then it was an earlier group's
            store.set(_key(run, rank), seal(json.dumps(asdict(own)), secret, _key(run, rank)))
            come = run
        if was_over:
            time.sleep(LOOK)
        elif _there(store, _key(run, ALL), until):
            places = _read_all(store.get(_key(run, ALL)), size, secret, _key(run, ALL))
            if places[rank] == own:
                return places
            raise _twice(rank)
    return None


def _there(store: dist.Store, key: str, until: float) -> bool:
    """Waits a moment for a key, or until a time; whether it is there.

    Raises:
        DistNetworkError: the process that holds the store is gone.
    """
    try:
        store.wait([key], timedelta(seconds=min(max(until - time.monotonic(), 0.001), LOOK)))
    except dist.DistNetworkError:
        raise
    except RuntimeError:
        return False
    return True


def _twice(rank: int) -> CollectiveError:
    return CollectiveError(f"rank {rank} is there twice; give each process a rank of its own, and each run a store of "
                           f"its own")


def _key(run: str, what: int | str) -> str:
    return f"zenoh/{run}/{what}"


def _read_all(data: bytes, size: int, secret: str | None, where: str) -> list[Place]:
    try:
        told = json.loads(unseal(data, secret, where))
        if not isinstance(told, list) or len(told) != size:
            raise ValueError(f"no list of {size}")
    except (ValueError, RecursionError) as error:
        raise CollectiveError(f"what rank 0 wrote into the store does not read ({error}); install the same version of "
                              f"brain_collectives for all ranks, and start as many as WORLD_SIZE says") from None
    return [_read(rank, json.dumps(place).encode()) for rank, place in enumerate(told)]


def _read(rank: int, data: bytes, secret: str | None = None, where: str = "") -> Place:
    try:
        if len(data) > LONGEST:
            raise ValueError(f"{len(data)} B")
        place = Place(**json.loads(unseal(data, secret, where)))
        kinds: dict[str, Any] = {"str": str, "int": int, "bool": bool, "float": (int, float)}
        for name, kind in Place.__annotations__.items():
            if not isinstance(getattr(place, name), kinds[kind]):
                raise ValueError(f"{name} is no {kind}")
        if not NONCE.fullmatch(place.nonce):    # a part of keys and of paths
            raise ValueError("its nonce is none")
        return place
    except (ValueError, TypeError, RecursionError) as error:
        raise CollectiveError(f"what rank {rank} wrote into the store does not read ({error}); install the same "
                              f"version of brain_collectives for all ranks") from None


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else "ranks " + ", ".join(map(str, ranks))
