# SPDX-License-Identifier: Apache-2.0
"""Rows that lie, lack or wait, for the tests of what is told then."""
from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from brain_collectives.checks.objects import ROWS as OF_OBJECTS
from brain_collectives.checks.row import Collective, Found, Place, Run
from brain_collectives.checks.table import chosen

(SUM,) = chosen(["all_reduce_sum"])


def _one_value(has: list[list[Any]], rank: int) -> list[Any]:
    (right,) = SUM.expected(has, rank)
    if rank == 1 and len(right) == 10:
        right[7] += 0.125
    return [right]


def _raises(place: Place, given: list[Any]) -> tuple[Run, Found]:
    def run() -> None:
        raise NotImplementedError("not in this world")
    return run, list


def _raises_on_one(place: Place, given: list[Any]) -> tuple[Run, Found]:
    def run() -> None:
        if place.rank == 1:
            raise ValueError("no")
    return run, lambda: given


def _waits(place: Place, given: list[Any]) -> tuple[Run, Found]:
    return lambda: threading.Event().wait() and None, lambda: given


def _row(name: str, **more: Any) -> Collective:
    return replace(SUM, name=name, of=name, **more)


LIES = (
    _row("lies_of_one_value", expected=_one_value),
    _row("lies_of_length", expected=lambda has, rank: [SUM.expected(has, rank)[0][:9]]),
    replace(OF_OBJECTS[0], name="lies_of_an_object", of="lies", expected=lambda has, rank: ["something else"]),
    _row("lacked", bind=_raises),
    _row("lacked_as_known", bind=_raises, lacks={"gloo": "known"}),
    _row("fails_on_one", bind=_raises_on_one),
)
LATE = (_row("waits_long", bind=_waits),)
