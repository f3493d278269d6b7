# SPDX-License-Identifier: Apache-2.0
"""Rows of what moves tensors: broadcast, gather, scatter, all_gather, all_to_all."""
from __future__ import annotations

from typing import Any

import numpy as np

from brain_collectives.checks.reductions import Has, a_part_each, one_of_parts, own
from brain_collectives.checks.row import ONE, OTHERS, SHARES, WHOLE, Collective, Found, Mpi, Place, Run, Values, root


def splits(rank: int, ranks: int, count: int) -> list[int]:
    """Elements that a rank has for each: unequal, all ``count`` of them; some none where there are few."""
    weights = [1 + (rank + to) % ranks for to in range(ranks)]
    parts = [count * weight // sum(weights) for weight in weights]
    return [*parts[:-1], count - sum(parts[:-1])]


def for_each(has: Any, rank: int, ranks: int) -> list[Any]:
    """A rank's one tensor, cut for the others as :func:`splits` says."""
    return np.split(has, np.cumsum(splits(rank, ranks, len(has)))[:-1])


def at_root(values: Values, rank: int, ranks: int, count: int) -> list[Any]:
    """Only the root has something, a tensor for each rank."""
    return a_part_each(values, rank, ranks, count) if rank == root(ranks) else []


def _to_root(has: Has, rank: int) -> list[Any]:
    return [one[0] for one in has] if rank == root(len(has)) else []


def _broadcast(place: Place, given: list[Any]) -> tuple[Run, Found]:
    return lambda: place.dist.broadcast(given[0], root(place.ranks)), lambda: given


def _all_gather(place: Place, given: list[Any]) -> tuple[Run, Found]:
    left = place.several(given[0])
    return lambda: place.dist.all_gather(left, given[0]), lambda: left


def _all_gather_into_tensor(place: Place, given: list[Any]) -> tuple[Run, Found]:
    left = place.torch.cat(place.several(given[0]))
    return lambda: place.dist.all_gather_into_tensor(left, given[0]), lambda: [left]


def _gather(place: Place, given: list[Any]) -> tuple[Run, Found]:
    to = root(place.ranks)
    left = place.several(given[0]) if place.rank == to else None
    return lambda: place.dist.gather(given[0], left, to), lambda: left or []


def _scatter(place: Place, given: list[Any]) -> tuple[Run, Found]:
    left = place.empty(given[-1])       # on the root the parts, elsewhere the place for one
    parts = given if place.rank == root(place.ranks) else None
    return lambda: place.dist.scatter(left[0], parts, root(place.ranks)), lambda: left


def _all_to_all(place: Place, given: list[Any]) -> tuple[Run, Found]:
    left = place.empty(*given)
    return lambda: place.dist.all_to_all(left, given), lambda: left


def _all_to_all_single(place: Place, given: list[Any]) -> tuple[Run, Found]:
    left = place.empty(given[0])
    return lambda: place.dist.all_to_all_single(left[0], given[0]), lambda: left


def _unequal(place: Place, given: list[Any]) -> tuple[Run, Found]:
    of, to = _counts(place.rank, place.ranks, len(given[0]))
    left = place.torch.full((sum(of),), float("nan"), device=place.device)
    return lambda: place.dist.all_to_all_single(left, given[0], of, to), lambda: [left]


def _counts(rank: int, ranks: int, count: int) -> tuple[list[int], list[int]]:
    """Elements that a rank gets of each, and has for each."""
    return [splits(other, ranks, count)[rank] for other in range(ranks)], splits(rank, ranks, count)


# -- MPI -----------------------------------------------------------------------------------------------------------


def _bcast(mpi: Any, comm: Any, given: list[Any]) -> tuple[Run, Found]:
    return lambda: comm.Bcast(given[0], root(comm.size)), lambda: given


def _allgather(mpi: Any, comm: Any, given: list[Any]) -> tuple[Run, Found]:
    left = np.full((comm.size, len(given[0])), np.nan, np.float32)
    return lambda: comm.Allgather(given[0], left), lambda: [left.reshape(-1)]


def _mpi_gather(mpi: Any, comm: Any, given: list[Any]) -> tuple[Run, Found]:
    at = comm.rank == root(comm.size)
    left = np.full((comm.size, len(given[0])), np.nan, np.float32) if at else None
    return lambda: comm.Gather(given[0], left, root(comm.size)), lambda: [] if left is None else list(left)


def _mpi_scatter(mpi: Any, comm: Any, given: list[Any]) -> tuple[Run, Found]:
    at, left = comm.rank == root(comm.size), np.full_like(given[-1], np.nan)
    parts = np.stack(given) if at else None
    return lambda: comm.Scatter(parts, left, root(comm.size)), lambda: [left]


def _alltoall(mpi: Any, comm: Any, given: list[Any]) -> tuple[Run, Found]:
    left = np.full_like(given[0], np.nan)
    return lambda: comm.Alltoall(given[0], left), lambda: [left]


def _alltoallv(mpi: Any, comm: Any, given: list[Any]) -> tuple[Run, Found]:
    of, to = _counts(comm.rank, comm.size, len(given[0]))
    left = np.full(sum(of), np.nan, np.float32)
    return lambda: comm.Alltoallv([given[0], to], [left, of]), lambda: [left]


def scattered(values: Values, rank: int, ranks: int, count: int) -> list[Any]:
    """The root has the parts; another rank has a place for one, of which nothing is read."""
    return at_root(values, rank, ranks, count) or [np.zeros(count, np.float32)]


ROWS = (
    Collective("broadcast", "broadcast", "Copies one rank's tensor to all the others.", WHOLE, own,
               lambda has, rank: [has[root(len(has))][0]], _broadcast, ONE, mpi=Mpi("Bcast", _bcast),
               more="All of it has to leave the one rank that has it, hence the factor of the bus bandwidth."),
    Collective("all_gather", "all_gather", "Collects the tensors of all ranks in a list; every rank gets the list.",
               SHARES, own, lambda has, rank: [one[0] for one in has], _all_gather, OTHERS,
               more="The tensors are of one size. The size in the table is that of the whole list."),
    Collective("all_gather_into_tensor", "all_gather_into_tensor",
               "Collects the tensors of all ranks one behind the other in one tensor; every rank gets it.", SHARES, own,
               lambda has, rank: [np.concatenate([one[0] for one in has])], _all_gather_into_tensor, OTHERS,
               mpi=Mpi("Allgather", _allgather)),
    Collective("gather", "gather", "Collects the tensors of all ranks in a list on one rank.", SHARES, own, _to_root,
               _gather, OTHERS, mpi=Mpi("Gather", _mpi_gather), more="The other ranks get nothing."),
    Collective("scatter", "scatter", "Hands out a list of tensors of one rank: each rank gets one of them.", SHARES,
               scattered, lambda has, rank: [has[root(len(has))][rank]], _scatter, OTHERS,
               mpi=Mpi("Scatter", _mpi_scatter),
               more="The other ranks have no list; the zeros shown are where theirs arrives."),
    Collective("all_to_all", "all_to_all",
               "Each rank has a list with a tensor for every rank; each gets, in a list, those that are for it.",
               SHARES, a_part_each, lambda has, rank: [one[rank] for one in has], _all_to_all, OTHERS),
    Collective("all_to_all_single", "all_to_all_single",
               "all_to_all of one tensor that is cut into equal parts: ranks and parts change places.", SHARES,
               one_of_parts, lambda has, rank: [np.concatenate([np.split(one[0], len(has))[rank] for one in has])],
               _all_to_all_single, OTHERS, mpi=Mpi("Alltoall", _alltoall)),
    Collective("all_to_all_single_unequal", "all_to_all_single",
               "all_to_all of one tensor that is cut into unequal parts, some of them empty where it is small.", WHOLE,
               own, lambda has, rank: [np.concatenate([for_each(one[0], other, len(has))[rank]
                                                       for other, one in enumerate(has)])],
               _unequal, None, "nccl-tests defines it for equal parts only: what crosses the wire depends on the cut",
               mpi=Mpi("Alltoallv", _alltoallv), shown=lambda ranks: ranks * (ranks + 1) // 2,
               more="Each rank says how many elements it has for each, and how many it gets of each."),
)
