# SPDX-License-Identifier: Apache-2.0
"""``brain bench collectives``: the zenoh backend of ``torch.distributed`` beside gloo, in turns; and ranks that die.

Each turn runs the same collectives on gloo and on zenoh, one right after the other, in the other order each time. The
figure is the ratio of the two medians of a turn. What takes so long is checked, too: a wrong value ends the command.
"""
from __future__ import annotations

import os
import statistics
from typing import Annotated, Any, Iterator, Sequence

import typer

from brain_collectives.checks import results
from brain_collectives.checks.rank import Order
from brain_collectives.checks.table import chosen
from brain_eval.bench.experiment import Experiment, Problem
from brain_training.collective_ranks import Ranks, RanksProblem
from experiments.rank_deaths import RANKS, deaths, told
from experiments.shards import interval

BACKENDS = ("gloo", "zenoh")
NAMES = ("all_reduce_sum", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "barrier")
SIZES = (200, 12 * 2**10, 256 * 2**10, 4 * 2**20)
GOALS = {200: 1.2, 4 * 2**20: 2.0}      # all_reduce: at most so many times gloo's time
PATIENCE = 120.0    # s without progress


class Wrong(Problem):
    """A collective left a wrong value behind, or a backend lacks it; names it."""


def turns(rounds: int, ranks: int) -> Iterator[dict[str, dict[tuple[str, int], float]]]:
    """Medians (s) of each collective and size, by backend, turn by turn.

    Raises:
        Wrong: see there.
        RanksProblem: a rank died or stood still.
    """
    rows = chosen(NAMES)
    for number in range(rounds):
        found = {}
        for backend in sorted(BACKENDS, reverse=bool(number % 2)):
            group = Ranks(Order(backend, tuple(row.name for row in rows), SIZES, patience=PATIENCE), ranks)
            figures = results.together(rows, group.run(), backend, group.torch, SIZES)
            for one in figures["collectives"]:
                if one["lacks"] or not one["right"]:
                    raise Wrong(f"{one['name']} on {backend}: {one['lacks'] or one['wrong'][0]}")
            found[backend] = {(one["name"], size["bytes"]): size["median"]
                              for one in figures["collectives"] for size in one["measured"]}
        yield found


def beside(found: Sequence[dict[str, dict[tuple[str, int], float]]]) -> list[dict[str, Any]]:
    """Summarizes turns by collective and size: medians over the turns (s), and ``ratio`` with its interval."""
    rows = []
    for name, size in found[0][BACKENDS[0]]:
        times = {backend: [turn[backend][name, size] for turn in found] for backend in BACKENDS}
        goal = GOALS.get(size) if name == "all_reduce_sum" else None
        ratio = interval([zenoh / gloo for gloo, zenoh in zip(times["gloo"], times["zenoh"], strict=True)])
        medians = {backend: statistics.median(times[backend]) for backend in BACKENDS}
        rows.append({"name": name, "bytes": size, **medians, "ratio": ratio, "goal": goal,
                     "met": None if goal is None else ratio[0] <= goal})
    return rows


class Collectives(Experiment):
    """Times collectives on zenoh beside gloo, in turns, and how soon survivors know that a rank was killed.

    It wants as many idle cores as ranks. A wrong value, or a survivor that does not end, makes the exit status 1.
    """

    cpu = True
    quick = {"rounds": 1, "kills": 0}
    problems = (RanksProblem,)

    def measure(self, rounds: Annotated[int, typer.Option(min=1, help="Turns of both backends.")] = 9,
                ranks: Annotated[int, typer.Option(min=2, max=16, help="Processes.")] = 2,
                kills: Annotated[int, typer.Option(min=0, help="Groups of three ranks, on each backend, one of which "
                                                   "is killed.")] = 10,
                seed: Annotated[int, typer.Option(help="Of the kills: which rank, in what, when.")] = 0
                ) -> dict[str, Any]:
        """Takes turns, then kills."""
        load, found = os.getloadavg()[0], []
        for number, turn in enumerate(turns(rounds, ranks)):
            found.append(turn)
            self.log(f"turn {number + 1} of {rounds}: all_reduce of 200 B took "
                     f"{1e6 * turn['gloo']['all_reduce_sum', 200]:.0f} us on gloo, "
                     f"{1e6 * turn['zenoh']['all_reduce_sum', 200]:.0f} us on zenoh")
        died = {backend: told(list(deaths(backend, kills, seed))) if kills else None for backend in BACKENDS}
        return {"cores": len(os.sched_getaffinity(0)), "load": load, "ranks": ranks, "rounds": rounds, "seed": seed,
                "beside": beside(found), "deaths": [{"backend": backend, "ranks": RANKS, **figures}
                                                    for backend, figures in died.items() if figures]}
