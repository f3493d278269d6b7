# SPDX-License-Identifier: Apache-2.0
"""`brain bench integration`: how often the brain goes after the wrong thing, with looks added up and without.

Episodes of language-v1 are played in lockstep with a vision that takes some of what it sees for something else, at each
look anew (``--ablate vision=confused``), once as the brain is and once so that the newest look at a place decides
(``integration=off``). Counted are things that the prefrontal cortex approached though they were not asked for. Hardly
one is taken for the goal in the end, since it must be looked at for a while before that; but the robot was on its way.
"""
from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Annotated, Any

import typer

from brain_eval import ablations
from brain_eval.bench.experiment import Experiment, Jobs
from brain_eval.episodes import run_local
from brain_regions.pfc.control import APPROACH
from brain_runtime.contract.sights import kind
from brain_runtime.graph.rooms import Split
from brain_runtime.interfaces import DetectedObject
from brain_sim.intervals import bootstrap
from brain_sim.suite import episode
from experiments.memory import NEAR, apart

NOISY = "vision=confused"
SIDES = {"with": (NOISY,), "without": (NOISY, "integration=off")}


class Approaches:
    """An onlooker that notes which things are approached.

    Attributes:
        right, wrong: looks (ten a second) at which a thing, by its number in the room, was approached; those that were
            asked for, and the others.
    """

    def __init__(self) -> None:
        self.right: Counter[int] = Counter()
        self.wrong: Counter[int] = Counter()

    def begin(self, host: Any, episode: Any) -> None:
        """Nothing to listen to."""

    def look(self, host: Any, since: float) -> None:
        """Notes what is approached now."""
        control = host.latest("pfc/control")
        if control is None or control.mode != APPROACH or not math.isfinite(control.bearing):
            return
        sim = host.regions["world"].simulation
        away, number = min((apart(thing, control, sim), number) for number, thing in enumerate(sim.room.objects))
        if away < NEAR:
            thing = sim.room.objects[number]
            color, shape = kind(thing.color, thing.shape)
            asked = (control.target_color in (DetectedObject.COLOR_UNKNOWN, color)
                     and control.target_shape in (DetectedObject.SHAPE_UNKNOWN, shape))
            (self.right if asked else self.wrong)[number] += 1


def pair(episode: Any) -> dict[str, dict[str, Any]]:
    """One episode on both sides: ``wrong`` things approached, looks at which one was, ``looks`` of all approaches."""
    found = {}
    for side, options in SIDES.items():
        onlooker = Approaches()
        result = run_local(episode, ablation=ablations.parse(options), onlooker=onlooker)
        found[side] = {"id": episode.id, "wrong": len(onlooker.wrong), "wrong_looks": onlooker.wrong.total(),
                       "looks": onlooker.wrong.total() + onlooker.right.total(), "outcome": result["outcome"],
                       "time": result["time"]}
    return found


def chosen(split: str, seed: int, count: int) -> list[Any]:
    """The first ``count`` episodes of the suite in which something is to be gone to."""
    made = (episode(split, number, seed) for number in itertools.count())
    return list(itertools.islice((one for one in made if one.kind in ("go", "avoid")), count))


def summary(found: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Sums of both sides, and the mean of with minus without (wrong things an episode) with its 95 % interval.

    The interval is by bootstrap; None where all pairs differ by the same.
    """
    sides = {side: {"wrong": sum(p[side]["wrong"] for p in found),
                    "episodes_with_wrong": sum(p[side]["wrong"] > 0 for p in found),
                    "wrong_looks": sum(p[side]["wrong_looks"] for p in found),
                    "looks": sum(p[side]["looks"] for p in found),
                    "success": sum(p[side]["outcome"] == "success" for p in found)} for side in SIDES}
    steps = [p["with"]["wrong"] - p["without"]["wrong"] for p in found]
    interval = bootstrap(steps)
    return {"n": len(found), **sides, "difference": sum(steps) / len(steps),
            "interval95": None if interval is None else list(interval)}


class Integration(Experiment):
    """Measures how often the wrong thing is approached where vision errs, with looks added up and without.

    Vision takes three of ten things that it sees for others, at each look anew. Exit status 0 when with looks added up
    at most half as many wrong things are approached as without.
    """

    quick = {"episodes": 1}

    def measure(self, episodes: Annotated[int, typer.Option(min=1, help="How many episodes, each on both sides.")] = 40,
                split: Annotated[Split, typer.Option(help="Rooms and sentences: train, val or test.")] = Split.val,
                seed: Annotated[int, typer.Option(min=0, help="Seed of the suite.")] = 0, jobs: Jobs = 1
                ) -> dict[str, Any]:
        """Plays pairs of episodes."""
        work = [(one,) for one in chosen(split.value, seed, episodes)]
        found = self.side_by_side(pair, work, jobs, "episodes")
        return {"split": split.value, "seed": seed, **summary(found), "pairs": found}

    def good(self, found: dict[str, Any]) -> bool:
        return 2 * found["with"]["wrong"] <= found["without"]["wrong"] > 0
