# SPDX-License-Identifier: Apache-2.0
"""MPI's counterparts beside, where mpi4py and an mpiexec are installed: the same inputs, checked in the same way.

``mpiexec -n RANKS python -m brain_collectives.checks.mpi_beside``, with an order on standard input of rank 0.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Sequence

from brain_collectives.checks.compare import first_wrong
from brain_collectives.checks.rank import BUDGET, FEWEST, MOST_BYTES, WARM_UP, Order
from brain_collectives.checks.results import timed
from brain_collectives.checks.row import BYTES, CHECKED, NOTHING, Collective
from brain_collectives.checks.sizes import written
from brain_collectives.checks.table import chosen

LONGEST = 1800.0    # s for all of it
LEAVING = 20.0      # s in which mpiexec ends its ranks


def measure(rows: Sequence[Collective], order: Order, ranks: int) -> dict[str, Any] | None:
    """``library``, and by the rows' names what was measured and what was wrong; None where there is no MPI.

    What keeps it from running is told as ``problem``: it is no fault of the backend that is checked.
    """
    # An MPI that came as a wheel lies beside this Python, which need not be on the path.
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    mpiexec = shutil.which("mpiexec", path=places) or shutil.which("mpirun", path=places)
    rows = [row for row in rows if row.mpi is not None and row.least <= ranks]
    if find_spec("mpi4py") is None or mpiexec is None or not rows:
        return None
    process = subprocess.Popen([mpiexec, "-n", str(ranks), sys.executable, "-m", __name__], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, errors = process.communicate(order.to_json() + "\n", timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return {"right": True, "problem": f"{mpiexec} did not end within {LONGEST:g} s"}
    finally:
        _end(process)
    if process.returncode != 0 or not out.strip():
        return {"right": True, "problem": f"{mpiexec} ended with status {process.returncode}: "
                                          f"{' '.join(errors.split())[-600:]}"}
    told = json.loads(out.splitlines()[-1])
    found = told["found"]
    collectives = {}
    for row in rows:
        factor = None if row.factor is None else row.factor.of(ranks)
        collectives[row.name] = {
            "method": row.mpi.name if row.mpi else "", "measured": timed(row, found, factor),
            "wrong": [one for mine in found for one in mine if one["kind"] == "wrong" and one["name"] == row.name]}
    return {"library": told["library"], "collectives": collectives,
            "right": not any(one["wrong"] for one in collectives.values())}


def _end(process: subprocess.Popen) -> None:
    """Asks mpiexec to end, and its ranks with it, which outlive one that is killed."""
    process.terminate()
    try:
        process.wait(LEAVING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> None:
    """Runs one rank of MPI; rank 0 prints what all found."""
    mpi = import_module("mpi4py.MPI")
    comm = mpi.COMM_WORLD
    order = Order.from_json(comm.bcast(sys.stdin.readline() if comm.rank == 0 else None))
    mine: list[dict[str, Any]] = []
    for row in chosen(order.names):
        if row.mpi is not None and row.least <= comm.size:
            for size in [0] if row.unit == NOTHING else order.sizes:
                mine += _at(mpi, comm, row, size, order.repeats)
    found = comm.gather(mine)
    if comm.rank == 0:
        print(json.dumps({"library": mpi.Get_library_version().splitlines()[0].strip("\0 "), "found": found}))


def _at(mpi: Any, comm: Any, row: Collective, size: int, repeats: int) -> list[dict[str, Any]]:
    """Checks and measures a row of the table at one size."""
    assert row.mpi is not None
    told, counts = [], row.counts(size, comm.size)
    for count in counts:
        has = [row.given(CHECKED, rank, comm.size, count) for rank in range(comm.size)]
        run, found = row.mpi.bind(mpi, comm, [one.copy() for one in has[comm.rank]])
        run()
        wrong = first_wrong(row, has, comm.rank, found())
        if wrong is not None:
            told.append({"kind": "wrong", "name": row.name, "rank": comm.rank, "bytes": row.bytes(count, comm.size),
                         "elements": f"{written(row.bytes(count, comm.size))} ({count} elements)", **wrong})
    run, _ = row.mpi.bind(mpi, comm, row.given(CHECKED, comm.rank, comm.size, counts[0]))
    began = time.perf_counter()
    run()
    slowest = comm.allreduce(time.perf_counter() - began, mpi.MAX)
    whole = row.bytes(counts[0], comm.size)
    fit = min(BUDGET / max(slowest, 1e-6), MOST_BYTES / max(whole, BYTES))
    times = []
    for _ in range(WARM_UP + max(min(FEWEST, repeats), min(repeats, int(fit)))):
        comm.Barrier()
        began = time.perf_counter()
        run()
        times.append(round(time.perf_counter() - began, 9))
    return [*told, {"kind": "measured", "name": row.name, "bytes": whole, "elements": counts[0],
                    "times": times[WARM_UP:]}]


if __name__ == "__main__":
    main()
