# SPDX-License-Identifier: Apache-2.0
"""Rows of what moves Python objects, which travel pickled."""
from __future__ import annotations

from typing import Any

from brain_collectives.checks.reductions import Has
from brain_collectives.checks.row import OBJECTS, Collective, Found, Place, Run, Values, root

NO_FACTOR = "nccl-tests moves no objects: the time is that of pickling too"
WHY = ("The object is pickled, and who unpickles bytes runs what their writer chose: so objects are taken from the "
       "ranks of one's own group alone, which one's own command started, and never from anybody else who reaches the "
       "wire. Where a group spans machines, authenticate its link first; tensors need no such trust.")


def own(values: Values, rank: int, ranks: int, size: int) -> list[Any]:
    """An object of its own for each rank."""
    return [values.object(rank, size)]


def at_root(values: Values, rank: int, ranks: int, size: int) -> list[Any]:
    """On one rank an object for each; the others have none."""
    if rank != root(ranks):
        return [None] * ranks
    return [values.object(to, max(1, size // ranks)) for to in range(ranks)]


def _device(place: Place) -> dict[str, Any]:
    """Returns the argument for the device of objects: torch takes the processor's memory for granted but for nccl."""
    return {"device": place.device} if place.backend == "nccl" else {}


def _broadcast(place: Place, given: list[Any]) -> tuple[Run, Found]:
    left = list(given)

    def run() -> None:
        left[:] = given if place.rank == root(place.ranks) else [None] * len(given)
        place.dist.broadcast_object_list(left, root(place.ranks), **_device(place))
    return run, lambda: left


def _all_gather(place: Place, given: list[Any]) -> tuple[Run, Found]:
    left: list[Any] = [None] * place.ranks
    return lambda: place.dist.all_gather_object(left, given[0]), lambda: left


def _gather(place: Place, given: list[Any]) -> tuple[Run, Found]:
    to = root(place.ranks)
    left: list[Any] | None = [None] * place.ranks if place.rank == to else None
    return lambda: place.dist.gather_object(given[0], left, to), lambda: left or []


def _scatter(place: Place, given: list[Any]) -> tuple[Run, Found]:
    left: list[Any] = [None]
    return lambda: place.dist.scatter_object_list(left, given, root(place.ranks)), lambda: left


def _of_all(has: Has, rank: int) -> list[Any]:
    return [one[0] for one in has]


ROWS = tuple(Collective(name, name, does, OBJECTS, given, expected, bind, None, NO_FACTOR, more=WHY)
             for name, does, given, expected, bind in (
    ("broadcast_object_list", "Copies one rank's list of Python objects to all the others.", own,
     lambda has, rank: has[root(len(has))], _broadcast),
    ("all_gather_object", "Collects a Python object of each rank in a list; every rank gets the list.", own, _of_all,
     _all_gather),
    ("gather_object", "Collects a Python object of each rank in a list on one rank.", own,
     lambda has, rank: _of_all(has, rank) if rank == root(len(has)) else [], _gather),
    ("scatter_object_list", "Hands out a list of Python objects of one rank: each rank gets one of them.", at_root,
     lambda has, rank: [has[root(len(has))][rank]], _scatter)))
