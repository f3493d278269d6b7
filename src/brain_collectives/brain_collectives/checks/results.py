# SPDX-License-Identifier: Apache-2.0
"""Results of the ranks, put together: times of the slowest rank, bandwidths, wrong values, what a backend lacks."""
from __future__ import annotations

from typing import Any, Iterable, Sequence

import numpy as np

from brain_collectives.checks.row import NOTHING, OBJECTS, Collective

Found = Sequence[Sequence[dict[str, Any]]]      # by rank


def of_kind(found: Iterable[dict[str, Any]], kind: str, row: Collective) -> list[dict[str, Any]]:
    """Selects what was told of a row, of one kind."""
    return [one for one in found if one["kind"] == kind and one["name"] == row.name]


def together(rows: Sequence[Collective], found: Found, backend: str, torch: str, sizes: Sequence[int]
             ) -> dict[str, Any]:
    """All that was measured, as ``--json`` tells it: times in s, bandwidths in bytes per s.

    ``right`` says that no value was wrong, and that the backend has all that it should.
    """
    collectives = [_row(row, found, backend) for row in rows]
    return {"backend": backend, "ranks": len(found), "torch": torch, "sizes": list(sizes),
            "right": all(one["right"] for one in collectives), "collectives": collectives}


def _row(row: Collective, found: Found, backend: str) -> dict[str, Any]:
    lacks = of_kind(found[0], "lacks", row)
    words = lacks[0]["words"] if lacks else None
    expected_to_lack = bool(lacks) and (backend in row.lacks or "needs_ranks" in lacks[0])
    wrong = [{k: v for k, v in one.items() if k not in ("kind", "name")}
             for mine in found for one in of_kind(mine, "wrong", row)]
    factor = None if row.factor is None else row.factor.of(len(found))
    return {"name": row.name, "does": row.does, "right": not wrong and (not lacks or expected_to_lack),
            "lacks": words, "needs_ranks": lacks[0].get("needs_ranks") if lacks else None,
            "bus_factor": None if row.factor is None else {"formula": row.factor.formula, "value": factor},
            "no_bus_factor": row.no_factor or None, "measured": timed(row, found, factor), "wrong": wrong}


def timed(row: Collective, found: Found, factor: float | None) -> list[dict[str, Any]]:
    """Measurements of a row, by size: each repetition took as long as its slowest rank."""
    told = []
    for alike in zip(*(of_kind(mine, "measured", row) for mine in found)):
        times = np.max([one["times"] for one in alike], axis=0) / (len(found) if row.hops else 1)
        median, size = float(np.median(times)), alike[0]["bytes"]
        algorithm = size / median if row.unit != NOTHING else None
        told.append({"bytes": size, "elements": alike[0]["elements"] if row.unit not in (NOTHING, OBJECTS) else None,
                     "repetitions": len(times), "median": median, "p99": float(np.percentile(times, 99)),
                     "algorithm_bandwidth": algorithm,
                     "bus_bandwidth": algorithm * factor if algorithm is not None and factor is not None else None})
    return told


def explained(row: Collective, found: Found, backend: str) -> dict[str, Any]:
    """Explains a collective: what it does, with the values of each rank before and after."""
    lacks = of_kind(found[0], "lacks", row)
    ranks = [of_kind(mine, "explained", row) for mine in found]
    wrong = [one for mine in found for one in of_kind(mine, "wrong", row)]
    return {"name": row.name, "backend": backend, "does": row.does, "more": row.more or None,
            "bus_factor": row.factor.formula if row.factor else None, "no_bus_factor": row.no_factor or None,
            "lacks": lacks[0]["words"] if lacks else None,
            "ranks": [{k: one[0][k] for k in ("rank", "before", "after")} for one in ranks if one],
            # The last rank says first what it does to the others.
            "shown": [line for mine in (found[-1], *found[:-1]) for one in of_kind(mine, "shown", row)
                      for line in one["lines"]],
            "wrong": [{k: v for k, v in one.items() if k != "kind"} for one in wrong],
            "right": not wrong and (not lacks or backend in row.lacks or "needs_ranks" in lacks[0])}
