# SPDX-License-Identifier: Apache-2.0
"""Rows of what computes: all_reduce, reduce, reduce_scatter."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from brain_collectives.checks.row import (BYTES, ONE, OTHERS, SHARES, TWICE, WHOLE, Collective, Found, Mpi, Place, Run,
                                          Values, root)

Has = list[list[Any]]       # what each rank has
SOME_ULPS = 4 * 2.0**-23    # of float32: to divide, or to multiply by 1/n, before or after the sum


def own(values: Values, rank: int, ranks: int, count: int) -> list[Any]:
    """A tensor of its own for each rank."""
    return [values.numbers(rank, count)]


def own_powers(values: Values, rank: int, ranks: int, count: int) -> list[Any]:
    """The same, of what can be multiplied."""
    return [values.powers(rank, count)]


def a_part_each(values: Values, rank: int, ranks: int, count: int) -> list[Any]:
    """On each rank as many tensors as there are ranks."""
    return np.split(values.numbers(rank, count * ranks), ranks)


def one_of_parts(values: Values, rank: int, ranks: int, count: int) -> list[Any]:
    """On each rank one tensor as long as those of :func:`a_part_each` together."""
    return [values.numbers(rank, count * ranks)]


def summed(tensors: list[Any]) -> np.ndarray:
    """Sum of float32 arrays in float64."""
    return np.sum([one.astype(np.float64) for one in tensors], axis=0)


def _over(fold: Callable[[list[Any]], np.ndarray]) -> Callable[[Has, int], list[Any]]:
    """Every rank gets the same, made of the first tensor of each."""
    return lambda has, rank: [fold([one[0] for one in has])]


def _all_reduce(op: str, wait: bool = False) -> Callable[[Place, list[Any]], tuple[Run, Found]]:
    def bind(place: Place, given: list[Any]) -> tuple[Run, Found]:
        kind = getattr(place.dist.ReduceOp, op)
        if wait:
            return lambda: place.dist.all_reduce(given[0], kind, async_op=True).wait(), lambda: given
        return lambda: place.dist.all_reduce(given[0], kind), lambda: given
    return bind


def _allreduce(op: str, wait: bool = False) -> Mpi:
    def bind(mpi: Any, comm: Any, given: list[Any]) -> tuple[Run, Found]:
        left, kind = np.full_like(given[0], np.nan), getattr(mpi, op)
        if wait:
            return lambda: comm.Iallreduce(given[0], left, kind).Wait(), lambda: [left]
        return lambda: comm.Allreduce(given[0], left, kind), lambda: [left]
    return Mpi("Iallreduce" if wait else "Allreduce", bind)


def _reduce(place: Place, given: list[Any]) -> tuple[Run, Found]:
    to = root(place.ranks)
    return (lambda: place.dist.reduce(given[0], to, place.dist.ReduceOp.SUM),
            lambda: given if place.rank == to else [])


def _mpi_reduce(mpi: Any, comm: Any, given: list[Any]) -> tuple[Run, Found]:
    to, left = root(comm.size), np.full_like(given[0], np.nan)
    return lambda: comm.Reduce(given[0], left, mpi.SUM, to), lambda: [left] if comm.rank == to else []


def _reduce_scatter(place: Place, given: list[Any]) -> tuple[Run, Found]:
    left = place.empty(given[0])
    return lambda: place.dist.reduce_scatter(left[0], given, place.dist.ReduceOp.SUM), lambda: left


def _reduce_scatter_tensor(place: Place, given: list[Any]) -> tuple[Run, Found]:
    left = place.empty(given[0][:len(given[0]) // place.ranks])
    return lambda: place.dist.reduce_scatter_tensor(left[0], given[0], place.dist.ReduceOp.SUM), lambda: left


def _mpi_reduce_scatter(mpi: Any, comm: Any, given: list[Any]) -> tuple[Run, Found]:
    left = np.full(len(given[0]) // comm.size, np.nan, np.float32)
    return lambda: comm.Reduce_scatter_block(given[0], left, mpi.SUM), lambda: [left]


_EVERYONE = ("Each element has to cross a link n-1 times to be added up and n-1 times to be handed out, over n links: "
             "hence the factor of the bus bandwidth.")


def _row(name: str, op: str, does: str, fold: Callable[[list[Any]], np.ndarray], mpi: Mpi | None, *,
         wait: bool = False, **more: Any) -> Collective:
    return Collective(name, "all_reduce", does, WHOLE, own_powers if op == "PRODUCT" else own, _over(fold),
                      _all_reduce(op, wait), TWICE, mpi=mpi, **{"more": _EVERYONE, **more})


ROWS = (
    _row("all_reduce_sum", "SUM", "Adds up the tensors of all ranks; every rank gets the sum.", summed,
         _allreduce("SUM")),
    _row("all_reduce_avg", "AVG", "Averages the tensors of all ranks; every rank gets the mean.",
         lambda tensors: summed(tensors) / len(tensors), None, tolerance=SOME_ULPS,
         more="The last bits depend on whether a backend divides before or after it adds up; MPI has no such "
              f"operation. {_EVERYONE}"),
    _row("all_reduce_product", "PRODUCT", "Multiplies the tensors of all ranks; every rank gets the product.",
         lambda tensors: np.prod([one.astype(np.float64) for one in tensors], axis=0), _allreduce("PROD")),
    _row("all_reduce_min", "MIN", "Takes, for each element, the least over all ranks; every rank gets it.",
         lambda tensors: np.min(tensors, axis=0).astype(np.float64), _allreduce("MIN")),
    _row("all_reduce_max", "MAX", "Takes, for each element, the greatest over all ranks; every rank gets it.",
         lambda tensors: np.max(tensors, axis=0).astype(np.float64), _allreduce("MAX")),
    _row("all_reduce_async", "SUM", "all_reduce with async_op: the call returns at once, and wait() ends with the sum.",
         summed, _allreduce("SUM", wait=True), wait=True,
         more=f"Between call and wait() a rank may compute; the tensor must be left alone. {_EVERYONE}"),
    Collective("reduce", "reduce", "Adds up the tensors of all ranks; one rank gets the sum.", WHOLE, own,
               lambda has, rank: [summed([one[0] for one in has])] if rank == root(len(has)) else [], _reduce, ONE,
               more="What the other ranks' tensors hold afterwards is not said: a backend may use them to add up in.",
               mpi=Mpi("Reduce", _mpi_reduce)),
    Collective("reduce_scatter", "reduce_scatter",
               "Adds up lists of tensors over all ranks; each rank gets the sum of its own place in the list.", SHARES,
               a_part_each, lambda has, rank: [summed([one[rank] for one in has])], _reduce_scatter, OTHERS),
    Collective("reduce_scatter_tensor", "reduce_scatter_tensor",
               "Adds up one tensor over all ranks; each rank gets its share of the sum.", SHARES, one_of_parts,
               lambda has, rank: [np.split(summed([one[0] for one in has]), len(has))[rank]], _reduce_scatter_tensor,
               OTHERS, mpi=Mpi("Reduce_scatter_block", _mpi_reduce_scatter),
               more=f"Each rank gives n x {BYTES} bytes for {BYTES} that it gets. An all_gather of the shares after it "
                    "makes an all_reduce of both."),
)
