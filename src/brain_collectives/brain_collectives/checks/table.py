# SPDX-License-Identifier: Apache-2.0
"""The one table of collectives, which checks, measurements and explanations are made of."""
from __future__ import annotations

from importlib import import_module
from typing import Iterable, Sequence

from brain_collectives.checks import barriers, moves, objects, points, reductions
from brain_collectives.checks.row import Collective

_ORDER = ("broadcast", "broadcast_object_list", "all_reduce", "reduce", "all_gather", "all_gather_into_tensor",
          "gather", "all_gather_object", "gather_object", "scatter", "scatter_object_list", "reduce_scatter",
          "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "send_recv", "isend_irecv", "batch_isend_irecv",
          "barrier", "monitored_barrier")
ROWS: tuple[Collective, ...] = tuple(sorted(
    (*moves.ROWS, *objects.ROWS, *reductions.ROWS, *points.ROWS, *barriers.ROWS), key=lambda row: _ORDER.index(row.of)))


def chosen(names: Sequence[str], rows: Iterable[Collective] = ROWS) -> list[Collective]:
    """Rows of these names, or of functions of these names, in the table's order; all of them where there are no names.

    Raises:
        ValueError: there is none of a name; lists the names.
    """
    rows = list(rows)
    wanted = [name.strip().lower().replace("/", "_") for name in names]
    known = {name for row in rows for name in (row.name, row.of)}
    for name, asked in zip(wanted, names):
        if name not in known:
            raise ValueError(f"there is no collective {asked!r}; there are {', '.join(row.name for row in rows)}; and "
                             f"{', '.join(sorted(known - {row.name for row in rows}))} for all of its kind")
    return [row for row in rows if not wanted or row.name in wanted or row.of in wanted]


def with_more(places: Sequence[str]) -> list[Collective]:
    """The table with rows of others behind it, each of them ``module:NAME`` of a sequence of rows."""
    rows = list(ROWS)
    for place in places:
        module, _, name = place.partition(":")
        rows += getattr(import_module(module), name)
    return rows
