# SPDX-License-Identifier: Apache-2.0
"""Ranks to which something happens. Argument: which fault; each rank prints what it saw."""
from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import brain_collectives
from brain_collectives import CallsDiffer, RankDied, Refused, TooLate
from brain_collectives.work import Done, Together

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LAST = WORLD - 1
COLLECTIVES = {
    "all_reduce": lambda t: dist.all_reduce(t),
    "large": lambda t: dist.all_reduce(torch.ones(1 << 18)),
    "asynchronous": lambda t: dist.all_reduce(t, async_op=True).wait(),
    "broadcast": lambda t: dist.broadcast(t, LAST),
    "reduce": lambda t: dist.reduce(t, 0),
    "all_gather": lambda t: dist.all_gather([torch.empty_like(t) for _ in range(WORLD)], t),
    "gather": lambda t: dist.gather(t, [torch.empty_like(t) for _ in range(WORLD)] if RANK == 0 else None, 0),
    "scatter": lambda t: dist.scatter(t, [t.clone() for _ in range(WORLD)] if RANK == LAST else None, LAST),
    "reduce_scatter": lambda t: dist.reduce_scatter(t, [t.clone() for _ in range(WORLD)]),
    "all_to_all": lambda t: dist.all_to_all([torch.empty_like(t) for _ in range(WORLD)],
                                            [t.clone() for _ in range(WORLD)]),
    "barrier": lambda t: dist.barrier(),
    "large_broadcast": lambda t: dist.broadcast(torch.ones(1 << 21), 0),
    "large_scatter": lambda t: dist.scatter(
        torch.ones(1 << 21), [torch.ones(1 << 21) for _ in range(WORLD)] if RANK == 0 else None, 0),
    "recv": lambda t: dist.recv(t, LAST) if RANK != LAST else [dist.send(t, other) for other in range(LAST)],
}


def say(*words: object) -> None:
    print(*words, flush=True)


def call_for_ever(name: str) -> None:
    while True:
        COLLECTIVES[name](torch.ones(10))


def died(name: str) -> None:
    """The last rank is killed from outside, in the midst of one collective after the other; prints when it was seen."""
    COLLECTIVES[name](torch.ones(10))
    dist.barrier()
    say("calling")
    try:
        call_for_ever(name)
    except RankDied as error:
        say("saw", time.time(), error.ranks, error)
    for _ in range(2):
        try:
            dist.barrier()
        except RankDied:
            say("still")
    group = brain_collectives.shrink()
    mine = torch.tensor([float(RANK)])
    dist.all_reduce(mine)
    say("shrunk", time.time(), group.size(), dist.get_rank(), mine.item())


def two_die() -> None:
    """The last rank is killed from outside; the one before dies when the others have begun to shrink."""
    dist.barrier()
    say("calling")
    try:
        call_for_ever("barrier")
    except RankDied:
        if RANK == LAST - 1:
            os._exit(7)
    while True:
        brain_collectives.shrink()
        try:
            mine = torch.ones(1)
            dist.all_reduce(mine)
            break
        except RankDied:
            say("again")
    assert mine.item() == dist.get_world_size() == WORLD - 2
    # The ranks of a group that is made now are those of the shrunk one.
    say("shrunk", dist.get_rank(), brain_collectives.counters().calls["all_reduce"])


def shrink_a_part() -> None:
    """A group that is not the default one loses a rank; the default one keeps its ranks for torch."""
    part = dist.new_group(list(range(1, WORLD)))
    dist.barrier()
    say("calling")
    if RANK == 0:
        return
    try:
        while True:
            dist.barrier(group=part)
    except RankDied as error:
        say("saw", error)
    rest = brain_collectives.shrink(part)
    mine = torch.tensor([float(RANK)])
    dist.all_reduce(mine, group=rest)
    dist.broadcast(mine, 1, group=rest)
    say("sum", mine.item(), rest.size(), dist.get_rank(), dist.get_rank(rest))


def frozen() -> None:
    """The last rank is stopped from outside for longer than the lease, in the midst of a collective."""
    COLLECTIVES[sys.argv[2]](torch.ones(10))
    dist.barrier()
    say("calling")
    try:
        call_for_ever(sys.argv[2])
    except RankDied as error:
        say("saw", error)
    except Refused as error:
        say("refused", error)
        return
    brain_collectives.shrink()
    dist.barrier()
    say("shrunk", dist.get_world_size())
    sys.stdin.readline()


def gone() -> None:
    """The last rank is stopped from outside, and wakes when the others have gone on without it, and are gone."""
    dist.barrier()
    say("calling")
    try:
        call_for_ever("all_reduce")
    except RuntimeError as error:
        say("saw", error)
    try:
        say("shrunk", brain_collectives.shrink().size())
    except Refused as error:
        say("refused", error)


def computes() -> None:
    """The last rank computes for longer than the lease, in a call that lets no other thread of Python run."""
    mine = torch.ones(1 << 20)
    dist.all_reduce(mine)
    if RANK == LAST:
        ctypes.PyDLL(None).sleep(7)
    for _ in range(3):
        dist.all_reduce(mine)
    say("done")


def short_freeze() -> None:
    """The last rank is stopped for less than the lease: nothing happens."""
    dist.barrier()
    say("calling")
    began, calls = time.monotonic(), 0
    while True:     # until the first rank says so: each has its own clock
        mine = torch.ones(3)
        dist.all_reduce(mine)
        assert mine.tolist() == [WORLD] * 3
        calls += 1
        stop = torch.tensor([float(time.monotonic() - began >= 4)])
        dist.broadcast(stop, 0)
        if stop.item():
            break
    dist.barrier()
    say("done", calls)


def order() -> None:
    """The last rank makes another call. A rank that is still in the barrier before it may be told there."""
    for name in ("call", "again"):
        try:
            if name == "call":
                dist.barrier()
            if RANK == LAST:
                dist.all_reduce(torch.ones(10))
            else:
                dist.broadcast(torch.ones(3, 4), 0)
            dist.barrier()
        except CallsDiffer as error:
            say(name, error)


def silent_order() -> None:
    """Calls that differ where nobody has sent anything: each waits for the other."""
    try:
        if RANK == 0:
            dist.reduce(torch.ones(10), 0)
        else:
            dist.broadcast(torch.ones(10), 0)
    except CallsDiffer as error:
        say("call", error)


def shape() -> None:
    try:
        dist.all_reduce(torch.ones(10 if RANK else 20))
    except CallsDiffer as error:
        say("call", error)


def dtype() -> None:
    try:
        dist.all_gather([torch.ones(2) for _ in range(WORLD)], torch.ones(2)) if RANK else \
            dist.all_gather([torch.ones(2).half() for _ in range(WORLD)], torch.ones(2).half())
    except CallsDiffer as error:
        say("call", error)


def splits() -> None:
    sizes = [1] * WORLD
    wanted = [2] * WORLD if RANK == 0 else sizes
    try:
        dist.all_to_all_single(torch.empty(sum(wanted)), torch.ones(WORLD), wanted, sizes)
        dist.barrier()
    except CallsDiffer as error:
        say("call", error)


def late() -> None:
    """The last rank comes late to a barrier; the group is of use afterwards."""
    dist.barrier()
    if RANK == LAST:
        sys.stdin.readline()
    for every in (False, True):
        try:
            brain_collectives.monitored_barrier(timeout=1.0, wait_all_ranks=every)
        except TooLate as error:
            say("late", error.ranks, error)
    say("waiting")
    if RANK != LAST:
        sys.stdin.readline()
    mine = torch.ones(2)
    dist.all_reduce(mine)
    say("sum", mine.tolist())


def leaves() -> None:
    """The last rank ends well while the others still call."""
    dist.barrier()
    if RANK == LAST:
        return
    try:
        dist.all_reduce(torch.ones(3))
    except TooLate as error:
        say("left", error)


def unclean() -> None:
    """Nobody destroys the group, and something is still under way: the interpreter ends none the less."""
    dist.barrier()
    if RANK == 0:
        dist.all_reduce(torch.ones(3), async_op=True)
    say("ends")


def interrupted() -> None:
    try:
        say("calling")
        if RANK == 0:
            sys.stdin.readline()
        else:
            try:
                dist.barrier()
            except TooLate:     # the other one was interrupted first, and is gone
                time.sleep(60.0)
    except KeyboardInterrupt:
        say("interrupted")


def through_a_router() -> None:
    """The router dies and comes back meanwhile, twice; rank 0 ends it a while after that."""
    calls, back = 0, threading.Semaphore(0)

    def hear() -> None:
        for _ in range(2):
            sys.stdin.readline()
            back.release()
    threading.Thread(target=hear, daemon=True).start()
    dist.barrier()
    say("calling")
    times, rounds = 0, 0    # the router came back; calls since
    while times < 2 or rounds < 5:
        mine = torch.full((50,), float(RANK + 1))
        dist.all_reduce(mine)
        assert mine.tolist() == [sum(range(1, WORLD + 1))] * 50
        large = torch.full((1 << 17,), float(RANK))
        dist.all_reduce(large)
        assert (large == sum(range(WORLD))).all()
        for number in range(6):     # more than the root keeps, if it did not wait now and then
            part = torch.zeros(1 << 20)
            dist.scatter(part, [part + number + rank for rank in range(WORLD)] if RANK == 0 else None, 0)
            assert part[0] == part[-1] == number + RANK
        dist.send(torch.tensor([calls]), (RANK + 1) % WORLD)
        number = torch.empty(1, dtype=torch.int64)
        dist.recv(number, (RANK - 1) % WORLD)
        assert number.item() == calls
        calls += 1
        is_back = torch.tensor([float(back.acquire(blocking=False) if RANK == 0 else 0)])
        dist.broadcast(is_back, 0)
        rounds += 1
        if is_back.item():
            times, rounds = times + 1, 0
            if times < 2:
                say("calling")
    say("done", calls)


def waits() -> None:
    """Rank 0 waits too short for a receive, and then again; and what of several works one could not do."""
    if RANK == 0:
        found = torch.zeros(2)
        work = dist.irecv(found, 1)
        try:
            work.wait(timedelta(seconds=0.2))
        except TooLate as error:
            say("late", error)
        dist.barrier()
        assert work.wait() and found.tolist() == [1.0, 2.0]
    else:
        dist.barrier()
        dist.send(torch.tensor([1.0, 2.0]), 0)
    done = Done([])
    done.end(TooLate("it is late"))
    both = Together([done])
    assert both.is_completed() and not both.is_success() and "it is late" in str(both.exception())
    say("waited")


def nothing_else() -> None:
    """What the backend refuses, before anything is sent."""
    for call in (lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND),
                 lambda: dist.all_reduce(torch.ones(2, dtype=torch.complex64), dist.ReduceOp.MAX),
                 lambda: dist.reduce(torch.ones(2, dtype=torch.uint16), 0),
                 lambda: dist.all_reduce(torch.eye(2).to_sparse()),
                 lambda: dist.all_reduce(torch.ones(2, device="meta")),
                 lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3), [1] * WORLD, [2] * WORLD),
                 lambda: dist.all_gather_into_tensor(torch.ones(3), torch.ones(4))):
        try:
            call()
        except (RuntimeError, ValueError) as error:
            say("refused", error)
    dist.barrier()
    say("nan", dist.all_reduce(torch.tensor([float("nan")])))


def main() -> None:
    dist.init_process_group("zenoh", os.environ.get("MEET", "env://"), rank=RANK, world_size=WORLD,
                            timeout=timedelta(seconds=float(os.environ.get("PATIENCE", "60"))))
    name = sys.argv[1]
    if name in COLLECTIVES:
        died(name)
    else:
        globals()[name]()
    if name != "unclean":
        dist.destroy_process_group()


main()
