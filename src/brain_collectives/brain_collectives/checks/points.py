# SPDX-License-Identifier: Apache-2.0
"""Rows of what goes from one rank to another: each sends to the next, the last to the first."""
from __future__ import annotations

from typing import Any

import numpy as np

from brain_collectives.checks.reductions import Has, own
from brain_collectives.checks.row import ONE, WHOLE, Collective, Found, Mpi, Place, Run


def _from_before(has: Has, rank: int) -> list[Any]:
    return [has[rank - 1][0]]


def _neighbours(place: Place) -> tuple[int, int]:
    """The next rank and the one before."""
    return (place.rank + 1) % place.ranks, (place.rank - 1) % place.ranks


def _send(place: Place, given: list[Any]) -> tuple[Run, Found]:
    after, before = _neighbours(place)
    left = place.empty(given[0])

    def run() -> None:
        if place.rank == 0:     # who would all send first might all wait for who receives
            place.dist.send(given[0], after)
            place.dist.recv(left[0], before)
        else:
            place.dist.recv(left[0], before)
            place.dist.send(given[0], after)
    return run, lambda: left


def _isend(place: Place, given: list[Any]) -> tuple[Run, Found]:
    after, before = _neighbours(place)
    left = place.empty(given[0])

    def run() -> None:
        # nccl runs what two ranks do with each other in the order of the calls: their orders have to fit.
        calls = [lambda: place.dist.isend(given[0], after), lambda: place.dist.irecv(left[0], before)]
        for work in [call() for call in (calls if place.rank % 2 == 0 else reversed(calls))]:
            work.wait()
    return run, lambda: left


def _batch(place: Place, given: list[Any]) -> tuple[Run, Found]:
    after, before = _neighbours(place)
    left, dist = place.empty(given[0]), place.dist

    def run() -> None:
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, given[0], after),
                                            dist.P2POp(dist.irecv, left[0], before)]):
            work.wait()
    return run, lambda: left


def _mpi_send(mpi: Any, comm: Any, given: list[Any]) -> tuple[Run, Found]:
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    left = np.full_like(given[0], np.nan)

    def run() -> None:
        if comm.rank == 0:
            comm.Send(given[0], after)
            comm.Recv(left, before)
        else:
            comm.Recv(left, before)
            comm.Send(given[0], after)
    return run, lambda: [left]


def _mpi_isend(mpi: Any, comm: Any, given: list[Any]) -> tuple[Run, Found]:
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    left = np.full_like(given[0], np.nan)

    def run() -> None:
        mpi.Request.Waitall([comm.Isend(given[0], after), comm.Irecv(left, before)])
    return run, lambda: [left]


ROWS = (
    Collective("send_recv", "send_recv",
               "Each rank sends a tensor to the next, which waits for it, one after the other.",
               WHOLE, own, _from_before, _send, ONE, least=2, hops=True, mpi=Mpi("Send, Recv", _mpi_send),
               more="send returns when the tensor may be changed again, recv when it has come. Rank 0 sends first, "
                    "every other when it has received; a time is that of one of the n hops."),
    Collective("isend_irecv", "isend_irecv", "Each rank sends a tensor to the next, all at once, and waits at the end.",
               WHOLE, own, _from_before, _isend, ONE, least=2, mpi=Mpi("Isend, Irecv", _mpi_isend),
               more="Both calls return at once; wait() of each ends when the tensor has gone, or come."),
    Collective("batch_isend_irecv", "batch_isend_irecv",
               "Gives a backend a list of sends and receives at once, to do in whatever order is best.", WHOLE, own,
               _from_before, _batch, ONE, least=2, more="So no order of the calls can block, on any backend."),
)
