# SPDX-License-Identifier: Apache-2.0
"""Rows of what only waits."""
from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from brain_collectives.checks.reductions import Has
from brain_collectives.checks.row import NOTHING, Collective, Found, Mpi, Place, Run, Values

ARRIVES, WAITED = "arrives after (s)", "waited (s)"
NO_FACTOR = "no data moves"
NOT_ON_NCCL = "nccl has no monitored_barrier"
LATE = 0.5      # s that the others wait for who is late, where that is shown


def _arrives(values: Values, rank: int, ranks: int, count: int) -> list[Any]:
    return [{ARRIVES: rank * values.late}] if values.late else []


def _nothing(has: Has, rank: int) -> list[Any]:
    return []


def _barrier(place: Place, given: list[Any]) -> tuple[Run, Found]:
    return _timed(lambda: place.dist.barrier(), given)


def _monitored_barrier(place: Place, given: list[Any]) -> tuple[Run, Found]:
    return _timed(lambda: monitored(place, place.patience), given)


def _timed(wait: Run, given: list[Any]) -> tuple[Run, Found]:
    """With something given, a rank comes later than the one before it, and tells how long it waited."""
    if not given:
        return wait, list
    waited: list[Any] = []

    def run() -> None:
        time.sleep(given[0][ARRIVES])        # what is shown is what a late rank does to the others
        began = time.monotonic()
        wait()
        waited.append({WAITED: round(time.monotonic() - began, 3)})
    return run, lambda: waited


def monitored(place: Place, timeout: float) -> None:
    """The barrier that names who is late, of whichever backend the group has.

    Raises:
        RuntimeError: ranks were not there in time (s); names them. On nccl: there is none, in torch's words.
    """
    if place.backend == "zenoh":
        from brain_collectives import monitored_barrier     # type: ignore[attr-defined, unused-ignore]

        monitored_barrier(place.dist.group.WORLD, timeout=timedelta(seconds=timeout), wait_all_ranks=True)
    else:
        place.dist.monitored_barrier(timeout=timedelta(seconds=timeout), wait_all_ranks=True)


def _somebody_is_late(place: Place) -> list[str]:
    """Lets the last rank miss a monitored barrier, and returns what each rank that came is told."""
    if place.ranks < 2:
        return []
    if place.rank == place.ranks - 1:
        return [f"now rank {place.rank} does not come to another one, for which the others wait {LATE:g} s"]
    try:
        monitored(place, LATE)
    except Exception as error:      # whatever class a backend chooses: its words are what is shown
        return [f"rank {place.rank} is told: {' '.join(str(error).split())}"]
    return [f"rank {place.rank} is told nothing"]


def _mpi_barrier(mpi: Any, comm: Any, given: list[Any]) -> tuple[Run, Found]:
    return comm.Barrier, list


ROWS = (
    Collective("barrier", "barrier", "Waits until every rank has come this far.", NOTHING, _arrives, _nothing, _barrier,
               None, NO_FACTOR, mpi=Mpi("Barrier", _mpi_barrier), more="Who comes first waits longest."),
    Collective("monitored_barrier", "monitored_barrier",
               "A barrier that ends with an error after a while, and names the ranks that did not come.", NOTHING,
               _arrives, _nothing, _monitored_barrier, None, NO_FACTOR, lacks={"nccl": NOT_ON_NCCL},
               more="It is for finding who hangs; it is slower, since one rank hears of all the others.",
               shows=_somebody_is_late),
)
