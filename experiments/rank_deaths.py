# SPDX-License-Identifier: Apache-2.0
"""Ranks of a group that are killed: after how long each survivor knows, whom it names, and when they go on.

As a script it is one rank, which calls the collective that it is ordered to again and again.
"""
from __future__ import annotations

import os
import random
import sys
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Iterator, Sequence

from brain_eval.bench.experiment import Problem
from brain_wire.temporary_folder import TemporaryFolder
from experiments.orders import Orders
from experiments.processes import Peer

RANKS = 3
COLLECTIVES = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "barrier")
BETWEEN = 0.02, 0.4     # s from the first call of all ranks to the kill, drawn
PATIENCE = 60.0         # s for a group to come about, and for survivors to end
TIMEOUT = 30.0          # s of the group: after so long a wait for a rank ends by itself
SEEN, ON = 0.5, 2.0     # s that a survivor may take to know of it, and to go on


class DeathsProblem(Problem):
    """A group whose rank was to be killed did not come about, or a survivor did not end well; says what it wrote."""


def deaths(backend: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Kills one rank of each of ``count`` groups; which one, in which collective and when is drawn from the seed.

    Yields:
        ``collective``, ``killed`` (rank), and by survivor ``seen`` (s from the kill to the error), ``named`` (ranks
        that the error names), ``words`` (of the error) and ``on`` (s from the kill to the next collective among the
        survivors; None where the backend cannot go on).

    Raises:
        DeathsProblem: see there.
    """
    draw = random.Random(seed)
    for _ in range(count):
        collective, victim, wait = draw.choice(COLLECTIVES), draw.randrange(RANKS), draw.uniform(*BETWEEN)
        with TemporaryFolder("bench") as folder:
            yield {"collective": collective, "killed": victim,
                   "survivors": _one(backend, collective, victim, wait, Path(folder))}


def _one(backend: str, collective: str, victim: int, wait: float, folder: Path) -> list[dict[str, Any]]:
    from brain_collectives import torch_store

    # as under torchrun the store is in a process of its own, which outlives any rank
    store = torch_store.serve()
    with ExitStack() as stack:
        group = [stack.enter_context(Peer(
            f"rank {rank} of {backend}", [sys.executable, "-m", __name__], folder / f"{rank}.log",
            {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}, PATIENCE, DeathsProblem))
            for rank in range(RANKS)]
        for rank, process in enumerate(group):
            process.say({"backend": backend, "collective": collective, "rank": rank, "ranks": RANKS,
                         "port": store.port})
        try:
            for process in group:
                process.answer()
        except DeathsProblem as why:
            raise DeathsProblem(f"before all were there: {why}") from why
        time.sleep(wait)
        group[victim].kill()
        killed = time.monotonic()
        rest = [rank for rank in range(RANKS) if rank != victim]
        try:
            saw = [group[rank].answer() for rank in rest]
        except DeathsProblem as why:
            raise DeathsProblem(f"after rank {victim} was killed in {collective}: {why}") from why
    return [{"rank": rank, "named": one["named"], "words": one["words"], "seen": one["saw"] - killed,
             "on": None if one["on"] is None else one["on"] - killed} for rank, one in zip(rest, saw)]


def told(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of some deaths.

    Returns:
        ``kills``, ``survivors``; ``named``: how many survivors' errors name the killed rank and no other; ``seen`` and
        ``on``: median and longest (s), ``on`` None where nobody goes on; ``in_time``: kills of which each survivor
        knew within :data:`SEEN`, naming the rank, and was on its way within :data:`ON`.
    """
    each = [(row["killed"], one) for row in rows for one in row["survivors"]]
    good = [all(one["named"] == [row["killed"]] and one["seen"] <= SEEN and one["on"] is not None and one["on"] <= ON
                for one in row["survivors"]) for row in rows]
    on = sorted(one["on"] for _, one in each if one["on"] is not None)
    return {"kills": len(rows), "survivors": len(each),
            "named": sum(one["named"] == [killed] for killed, one in each),
            "seen": _middle_and_most(sorted(one["seen"] for _, one in each)),
            "on": _middle_and_most(on) if on else None, "in_time": sum(good)}


def _middle_and_most(ordered: Sequence[float]) -> dict[str, float]:
    return {"median": ordered[len(ordered) // 2], "longest": ordered[-1]}


def main() -> None:
    """One rank: calls its collective until that fails, and tells when that was and what came after."""
    given = Orders()
    order = next(iter(given))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if order["backend"] == "zenoh":
        import brain_collectives
    rank, ranks = order["rank"], order["ranks"]
    store = dist.TCPStore("127.0.0.1", order["port"], is_master=False)
    dist.init_process_group(order["backend"], store=store, rank=rank, world_size=ranks,
                            timeout=timedelta(seconds=TIMEOUT))
    one = torch.ones(12)
    calls = {"all_reduce": lambda: dist.all_reduce(one),
             "broadcast": lambda: dist.broadcast(one, 0),
             "all_gather": lambda: dist.all_gather([torch.empty_like(one) for _ in range(ranks)], one),
             "reduce_scatter": lambda: dist.reduce_scatter(torch.empty(12), [one] * ranks),
             "all_to_all": lambda: dist.all_to_all([torch.empty_like(one) for _ in range(ranks)], [one] * ranks),
             "barrier": lambda: dist.barrier()}
    call = calls[order["collective"]]
    call()
    dist.barrier()
    given.tell(calling=rank)
    named: list[int] = []
    on = None
    try:
        while True:
            call()
            dist.barrier()      # so that who only sends does not run ahead
    except RuntimeError as error:
        saw, words = time.monotonic(), str(error)
        named = list(getattr(error, "ranks", ()))
    if named:
        brain_collectives.shrink()
        mine = torch.ones(1)
        dist.all_reduce(mine)
        on = time.monotonic()
        if mine.item() != ranks - len(named):
            raise RuntimeError(f"a sum over {ranks - len(named)} survivors came to {mine.item():g}")
        dist.destroy_process_group()    # who leaves without that may take its last messages along
    given.tell(saw=saw, named=named, words=words, on=on)
    sys.stdout.flush()
    os._exit(0)     # what a broken group of gloo leaves may not let a process end


if __name__ == "__main__":
    main()
