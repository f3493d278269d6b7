# SPDX-License-Identifier: Apache-2.0
"""``brain bench lifelong``: how much of earlier sites is forgotten when vision learns four, one after another."""
from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Mapping, Sequence

import typer

from brain_eval.bench.experiment import Experiment, Jobs, Quick

if TYPE_CHECKING:
    from experiments.lifelong_course import Course

MOST, NAIVE = 0.03, 0.40    # forgetting of the library, at most, and of the naive learner, at least
QUICK = {"rooms": 4, "threshold": 1, "report": 2, "sites": 2}
NAMES = {"naive": "naive: trained on and on", "ewc": "EWC", "replay": "replay",
         "library": "library, not told the site", "told": "library, told the site"}
COLORS = ("tab:blue", "tab:orange", "tab:purple", "tab:green")      # of sites


def summary(course: Course, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds, with each seed's own figures."""
    learners = []
    for kind in runs[0]["learners"]:
        each = [one["learners"][kind] for one in runs]
        matrix = [[fmean(one["matrix"][i][j] for one in each) for j in range(i + 1)]
                  for i in range(len(each[0]["matrix"]))]
        learners.append({"learner": kind, "name": NAMES[kind], "matrix": matrix,
                         "first": [row[number] for number, row in enumerate(matrix)],
                         "end": matrix[-1], **{key: fmean(one[key] for one in each)
                                               for key in ("last", "backward", "forgetting")},
                         "seeds": [one["forgetting"] for one in each]})
    others = [{"learner": key, "name": name, "end": [fmean(values) for values in zip(*(one[key] for one in runs))],
               "last": fmean(value for one in runs for value in one[key])}
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


def draw(path: Path, found: Mapping[str, Any]) -> None:
    """Draws a panel for each learner: a line for each site from when it was learned, in the mean over seeds.

    Args:
        path: of the PNG.
        found: figures of the experiment.
    """
    from matplotlib.figure import Figure

    learners, sites = found["learners"], found["sites"]
    figure = Figure(figsize=(2.5 * len(learners), 3.4), layout="constrained")
    panels = figure.subplots(1, len(learners), sharey=True, squeeze=False)[0]
    steps = range(1, len(sites) + 1)
    joint = next(one for one in found["others"] if one["learner"] == "joint")
    for panel, one in zip(panels, learners):
        for number, site in enumerate(sites):
            values = [row[number] for row in one["matrix"][number:]]
            panel.plot(steps[number:], values, marker="o", color=COLORS[number % len(COLORS)], label=site)
        panel.axhline(joint["last"], color="grey", linestyle=":", linewidth=1.2, label="one network on all, mean")
        panel.set_title(f"{one['name']}\nforgets {100 * one['forgetting']:.0f} points", fontsize=9)
        panel.set(xlabel="sites learned", ylim=(0.0, 1.0))
        panel.set_xticks(steps)
    panels[0].set_ylabel("F1 in held-back rooms")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(sites) + 1, fontsize=8)
    figure.savefig(path, dpi=110)


class Lifelong(Experiment):
    """Lets vision learn four sites one after another: trained on, by EWC, with replay, and into a library of tasks.

    Beside it: the library told the site, each site alone, and one network on the pictures of all. Exit status 0 where
    the library forgets at most 3 points of F1 and the naive learner 40 and more.
    """

    cpu = True
    picture = "lifelong.png"

    def measure(self, quick: Quick = False,
                seeds: Annotated[int, typer.Option(min=1, max=20, help="How many seeds, from 0 on, of rooms and of all "
                                                   "that is drawn.")] = 2, jobs: Jobs = 2) -> dict[str, Any]:
        """Runs all of it for each seed, and takes means."""
        from experiments.lifelong_course import Course, Steps, run

        self.status("four sites, one after another")
        course = Course(how=Steps(steps=2, batch=1, samples=1), **QUICK) if quick else Course()
        courses = [(replace(course, seed=seed),) for seed in range(seeds)]
        return {"quick": quick, **summary(course, self.side_by_side(run, courses, min(jobs, seeds), "seeds"))}

    def draw(self, path: Path, found: dict[str, Any]) -> None:
        draw(path, found)
