# SPDX-License-Identifier: Apache-2.0
"""How ranks find each other: each writes into c10d's store where it is, and reads that of all others."""
from __future__ import annotations

import json
import os
import socket
import time
import uuid
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from brain_collectives.errors import CollectiveError, TooLate

LONGEST = 4096      # B of what a rank says of itself


@dataclass(frozen=True)
class Place:
    """Where a rank is.

    Attributes:
        nonce: of this link, so that a rank that comes again is told from the one before.
        machine: the same at all that share a loopback interface.
        host: address at which other machines reach it.
        port: at which it listens, where ranks are linked with each other.
        link: ``peers`` or ``router``, which must be the same at all.
        where: the router's endpoint.
        trusted: whether its link is authenticated by certificates on both sides.
        loopback: whether its link stays on the machine.
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
    loopback: bool
    pid: int
    name: str
    lease: float
    large: int


def hold_port() -> socket.socket:
    """A socket that has a free port, and keeps it from all others until Zenoh listens there; to be closed then.

    It does not listen itself, and both allow the address to be used again, so Zenoh may.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("", 0))
    return holder


def new_place(link: str, host: str | None, where: str, trusted: bool, loopback: bool, lease: float, large: int,
              port: int = 0) -> Place:
    """Where this process is, with a new nonce; ``port``: at which it listens, where ranks are linked as peers."""
    return Place(uuid.uuid4().hex, machine(), host or own_address(), port, link, where,
                 trusted, loopback, os.getpid(), socket.gethostname(), lease, large)


def machine() -> str:
    """What is the same at all processes that share a loopback interface: the boot and the network namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:     # no Linux
        return f"{socket.gethostname()}/{uuid.getnode()}"


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


def exchange(store: dist.Store, rank: int, size: int, own: Place, timeout: timedelta) -> list[Place]:
    """Places of all ranks.

    Raises:
        TooLate: not all have come; names them.
        CollectiveError: what a rank wrote does not read, or ranks are set up differently.
    """
    store.set(_key(rank), json.dumps(asdict(own)))
    until = time.monotonic() + timeout.total_seconds()
    for other in range(size):
        try:
            store.wait([_key(other)], timedelta(seconds=max(until - time.monotonic(), 0.001)))
        except (dist.DistStoreError, RuntimeError) as error:
            missing = tuple(r for r in range(size) if not store.check([_key(r)]))
            raise TooLate(f"{_ranks(missing)} of {size} did not come within {timeout.total_seconds():g} s; start as "
                          f"many processes as WORLD_SIZE says, all with the backend zenoh ({type(error).__name__})",
                          missing) from None
    places = [_read(other, store.get(_key(other))) for other in range(size)]
    if places[rank] != own:
        raise CollectiveError(f"rank {rank} is there twice: process {places[rank].pid} on {places[rank].name} has it "
                              f"too. Give each process a rank of its own, and each run a store of its own")
    for other, place in enumerate(places):
        for setting, variable in (("link", "BRAIN_COLLECTIVES_LINK"), ("large", "BRAIN_COLLECTIVES_LARGE")):
            if getattr(place, setting) != getattr(own, setting):
                raise CollectiveError(f"rank {other} has {variable}={getattr(place, setting)} where this rank has "
                                      f"{getattr(own, setting)}; set the same for all ranks")
    return places


def _key(rank: int) -> str:
    return f"zenoh/place/{rank}"


def _read(rank: int, data: bytes) -> Place:
    try:
        if len(data) > LONGEST:
            raise ValueError(f"{len(data)} B")
        told = json.loads(data)
        place = Place(**told)
        kinds = {"str": str, "int": int, "bool": bool, "float": (int, float)}
        for name, kind in Place.__annotations__.items():
            if not isinstance(getattr(place, name), kinds[kind]):
                raise ValueError(f"{name} is no {kind}")
        return place
    except (ValueError, TypeError) as error:
        raise CollectiveError(f"what rank {rank} wrote into the store does not read ({error}); install the same "
                              f"version of brain_collectives for all ranks") from None


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else "ranks " + ", ".join(map(str, ranks))
