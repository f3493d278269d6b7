# SPDX-License-Identifier: Apache-2.0
"""``brain bench lifelong``: how much of earlier sites is forgotten when vision learns four, one after another."""
from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Sequence

import typer

from brain_runtime.command.options import Json, tell, tell_json

if TYPE_CHECKING:
    from brain_bench.lifelong_course import Course

PICTURE = "lifelong.png"
MOST, NAIVE = 0.03, 0.40    # forgetting of the library, at most, and of the naive learner, at least
QUICK = {"rooms": 4, "threshold": 1, "report": 2, "sites": 2}
NAMES = {"naive": "naive: trained on and on", "ewc": "EWC", "replay": "replay",
         "library": "library, not told the site", "told": "library, told the site"}


def lifelong(quick: Annotated[bool, typer.Option("--quick", help="Tiny: shows that it runs, and nothing else.")
                              ] = False,
             seeds: Annotated[int, typer.Option(min=1, max=20, help="How many seeds, from 0 on, of rooms and of all "
                                                "that is drawn.")] = 2,
             jobs: Annotated[int, typer.Option(min=1, help="Seeds at once.")] = 2,
             picture: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Draw F1 of each site over time into "
                                                          "this folder.")] = None,
             as_json: Json = False) -> None:
    """Lets vision learn four sites one after another: trained on, by EWC, with replay, and into a library of tasks.

    Beside it: the library told the site, each site alone, and one network on the pictures of all. Exit status 0 where
    the library forgets at most 3 points of F1 and the naive learner 40 and more.
    """
    from brain_bench.lifelong_course import Course, Steps
    from brain_bench.plotting import check
    from brain_runtime.command.terminal import Terminal

    check(picture)
    course = Course(how=Steps(steps=2, batch=1, samples=1), **QUICK) if quick else Course()
    with Terminal(stderr=True).status("four sites, one after another"):
        found = measure(course, seeds, jobs)
    if picture is not None:
        from brain_bench.lifelong_picture import draw

        draw(picture / PICTURE, found)
    if as_json:
        from brain_runtime.command.saved import cpu

        tell_json({"cpu": cpu(), "quick": quick, **found})
    else:
        for line in lines(found):
            tell(line)
    raise typer.Exit(0 if all(found["within"].values()) else 1)


def measure(course: Course, seeds: int, jobs: int) -> dict[str, Any]:
    """The experiment for each seed, and what all come to."""
    courses = [replace(course, seed=seed) for seed in range(seeds)]
    with ProcessPoolExecutor(min(jobs, seeds), mp_context=get_context("spawn"), initializer=_begin) as pool:
        return summary(course, list(pool.map(_do, courses)))


def summary(course: Course, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds, with each seed's own figures."""
    learners = []
    for kind in runs[0]["learners"]:
        each = [one["learners"][kind] for one in runs]
        matrix = [[_mean(one["matrix"][i][j] for one in each) for j in range(i + 1)]
                  for i in range(len(each[0]["matrix"]))]
        learners.append({"learner": kind, "name": NAMES[kind], "matrix": matrix,
                         "first": [row[number] for number, row in enumerate(matrix)],
                         "end": matrix[-1], **{key: _mean(one[key] for one in each)
                                               for key in ("last", "backward", "forgetting")},
                         "seeds": [one["forgetting"] for one in each]})
    others = [{"learner": key, "name": name, "end": [_mean(values) for values in zip(*(one[key] for one in runs))],
               "last": _mean(value for one in runs for value in one[key])}
              for key, name in (("start", "nothing; the weights that ship"), ("single", "each site alone, from them"),
                                ("joint", "one network on the pictures of all"))]
    sites = []
    for number, first in enumerate(runs[0]["allocation"]):
        rows = [one["allocation"][number] for one in runs]
        counts = {key: sum(row[key] for row in rows) for key in ("windows", "right", "other", "unknown", "before")}
        sites.append({"site": first["site"], **counts, "learned": number < course.sites,
                      **{f"{key}_share": counts[key] / counts["windows"]
                         for key in ("right", "other", "unknown", "before")}})
    by = {one["learner"]: one for one in learners}
    return {"course": asdict(course), "sites": list(runs[0]["tasks"]), "learners": learners, "others": others,
            "allocation": sites, "runs": list(runs),
            "within": {"library": by["library"]["forgetting"] <= MOST, "naive": by["naive"]["forgetting"] >= NAIVE}}


def lines(found: dict[str, Any]) -> list[str]:
    """Formats the results for a person."""
    def shown(values: Sequence[float]) -> str:
        return ", ".join(f"{site} {value:.2f}" for site, value in zip(found["sites"], values))

    told = [f"{one['name']}: F1 {one['last']:.3f} at the end ({shown(one['end'])}), forgetting "
            f"{one['forgetting']:.3f}, backward transfer {one['backward']:+.3f}" for one in found["learners"]]
    told += [f"{one['name']}: F1 {one['last']:.3f} ({shown(one['end'])})" for one in found["others"]]
    return told + [f"windows of {one['site']}: {one['right_share']:.0%} right, {one['other_share']:.0%} another site, "
                   f"{one['unknown_share']:.0%} unknown; before it was learned {one['before_share']:.0%} unknown"
                   for one in found["allocation"]]


def _mean(values: Any) -> float:
    found = list(values)
    return sum(found) / len(found)


def _begin() -> None:
    import torch

    torch.set_num_threads(1)


def _do(course: Course) -> dict[str, Any]:
    """One seed, in one of the processes."""
    from brain_bench.lifelong_course import run

    return run(course)
