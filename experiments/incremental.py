# SPDX-License-Identifier: Apache-2.0
"""``brain bench incremental``: what hard clips bring, beside as many at random and beside all pictures."""
from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brain_eval.bench.experiment import Experiment, Jobs, Quick

if TYPE_CHECKING:
    from experiments.incremental_course import Plan

QUICK = {"robots": 1, "episodes": 1, "limit": 12.0, "steps": 1, "held": 1, "plain": 2, "way": 2, "most": 20_000}
FIRST = 10          # seeds of looks; those of other figures are smaller


def measure(plan: Plan, seeds: int, jobs: int, experiment: Experiment) -> dict[str, Any]:
    """All fleets.

    Raises:
        RuntimeError, ValueError: one came to nothing.
    """
    from experiments.incremental_course import one_seed, summary

    plans = [replace(plan, seed=plan.seed + number) for number in range(seeds)]
    every = experiment.side_by_side(one_seed, [(one,) for one in plans], jobs, "fleets")
    rows = summary(every)
    for arm, row in rows.items():
        row["steps"] = 0 if arm == "start" else plan.steps
        row["what"] = arm
    about = [one["about"] for one in every]
    names = sorted({rule for one in about for rule in one["by_rule"]})
    total = {"clips": sum(one["clips"] for one in about), "minutes": sum(one["driven"] for one in about) / 60.0,
             "share": sum(one["seconds"] for one in about) / sum(one["driven"] for one in about),
             "reached": sum(one["reached"] for one in about), "goals": sum(one["goals"] for one in about),
             "by_rule": [{"rule": rule, "clips": sum(one["by_rule"].get(rule, 0) for one in about)} for rule in names],
             "f1_of_clips": {name: sum(one["f1_of_clips"][name] for one in about) / seeds
                             for name in about[0]["f1_of_clips"]},
             "pictures": {name: sum(one["pictures"][name] for one in about) / seeds for name in about[0]["pictures"]}}
    return {"plan": asdict(plan), "fleets": seeds, "found": total, "arms": list(rows.values()), "by_fleet": about,
            "better_than_random": rows["rules"]["odd_gain"]["low"] > 0.0}


class Incremental(Experiment):
    """Robots in odd rooms collect hard clips by the rules while they drive, and vision goes on learning from them.

    Beside it: as many clips at random, all pictures, one picture of each clip, and the hard clips without old ones
    among them; equal steps for each. Exit status 0 where the rules are better than random for sure.
    """

    cpu = True

    def measure(self, quick: Quick = False,
                seeds: Annotated[int, typer.Option(min=1, max=20, help="Fleets, each with looks, rooms and order of "
                                                   "its own.")] = 3, jobs: Jobs = 2) -> dict[str, Any]:
        """Plays all fleets; see :func:`measure`."""
        from experiments.incremental_course import Plan

        self.status("robots drive")
        plan = replace(Plan(seed=FIRST), **(QUICK if quick else {}))
        return {"quick": quick, **measure(plan, 1 if quick else seeds, jobs, self)}

    def problems(self) -> tuple[type[Exception], ...]:
        return RuntimeError, ValueError

    def good(self, found: dict[str, Any]) -> bool:
        return found["better_than_random"]
