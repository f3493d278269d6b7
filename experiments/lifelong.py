# SPDX-License-Identifier: Apache-2.0
"""``brain bench lifelong``: how much of earlier sites is forgotten when vision learns four, one after another.

The sites are one world seen by four cameras whose color filters turn all hues of things, by none, a quarter, a half and
three quarters of a turn: as far apart as four can be, so that what one site has learned of colors is wrong in the next.
Each has a lamp of its own color: without it nobody could know the site but by the things in it. Three other sites are
never learned, and are to be told apart: the first one by night, one of another filter and lamp, and one that has the
filter of the third and no lamp. All of them were chosen before anything was measured.

All begin with the weights that ship, and have the same number of steps for each site. Labels are the simulator's.
"""
from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Mapping, NamedTuple, Sequence

import numpy as np
import typer

from brain_eval.bench.experiment import Experiment, Jobs, Quick
from brain_training.federated import network_of
from brain_training.lifelong.allocation import of_window, of_windows
from brain_training.lifelong.examining import examined, together
from brain_training.lifelong.learners import Sequential, Steps, Weights, fit, matrix_figures, task_seed
from brain_training.lifelong.learning import learn, shipped
from brain_training.lifelong.library import Library, descriptors
from brain_training.lifelong.memory import joined, some
from brain_training.lifelong.pictures import WINDOW, looked, windows
from brain_training.lifelong.task_file import Task
from brain_training.looks import Look
from brain_training.vision_data import Clips, Studio
from brain_training.vision_score import Tally
from brain_wire.temporary_folder import TemporaryFolder

SITES = {"office": Look(),
         "hall": Look(hue=0.25, tint=(1.0, 0.85, 0.65), light=1.1),
         "cold-store": Look(hue=0.5, tint=(0.7, 0.85, 1.0), light=0.9),
         "greenhouse": Look(hue=-0.25, tint=(0.8, 1.0, 0.75))}
OTHERS = {"the office by night": Look(light=0.4),
          "another filter and lamp": Look(hue=0.125, tint=(1.0, 0.75, 1.0), light=0.8),
          "the cold store's filter without its lamp": Look(hue=0.5)}
LEARNERS = ("naive", "ewc", "replay", "library", "told")
FIRST = 500_000         # first seed of rooms; no others of this project begin there
APART = 20_000          # seeds of rooms from one seed of the experiment to the next
MOST, NAIVE = 0.03, 0.40    # forgetting of the library, at most, and of the naive learner, at least
QUICK = {"rooms": 4, "threshold": 1, "report": 2, "sites": 2}
NAMES = {"naive": "naive: trained on and on", "ewc": "EWC", "replay": "replay",
         "library": "library, not told the site", "told": "library, told the site"}
COLORS = ("tab:blue", "tab:orange", "tab:purple", "tab:green")      # of sites
SINGLE, JOINT = 50, 60  # numbers of trainings that are no part of a sequence


@dataclass(frozen=True)
class Course:
    """Size of the experiment.

    Attributes:
        how: recipe of each site.
        rooms: of each site, that are learned in; a window of pictures each.
        threshold, report: rooms to choose the threshold in, and to examine in.
        sites: how many of them.
        seed: of rooms and of all that is drawn.
    """

    how: Steps = field(default_factory=Steps)
    rooms: int = 40
    threshold: int = 8
    report: int = 16
    sites: int = len(SITES)
    seed: int = 0

    @property
    def names(self) -> list[str]:
        """Of the sites, in the order in which they are learned."""
        return list(SITES)[:self.sites]


class Place(NamedTuple):
    """Pictures of one site.

    Attributes:
        train: clips of one picture.
        threshold, report: held-back clips of two, room by room.
    """

    train: Clips
    threshold: Clips
    report: Clips


class _Site:
    """A site as a source of the library."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def windows(self) -> np.ndarray:
        """One of each room."""
        return seen_windows(self._place.train)

    def clips(self) -> Clips:
        """Those that all learners have."""
        return self._place.train


def seen_windows(clips: Clips) -> np.ndarray:
    """A window of each room's places."""
    return windows(looked(clips.images[:, -1]))


def ground(course: Course) -> tuple[dict[str, Place], dict[str, np.ndarray]]:
    """Pictures of all sites, and windows of those that are never learned."""
    base, found, strange = FIRST + APART * course.seed, {}, {}
    for number, name in enumerate(course.names):

        def taken(rooms: int, frames: int, split: str, off: int) -> Clips:
            return Studio(rooms, WINDOW, frames, split=split, first_seed=base + 1000 * number + off,
                          look=SITES[name]).take_all()

        found[name] = Place(taken(course.rooms, 1, "train", 0), taken(course.threshold, 2, "val", 0),
                            taken(course.report, 2, "val", 500))
    for number, (name, look) in enumerate(OTHERS.items()):
        strange[name] = seen_windows(Studio(course.report, WINDOW, 1, split="val", look=look,
                                            first_seed=base + 10_000 + 1000 * number).take_all())
    return found, strange


def one_network(weights: Weights, places: Mapping[str, Place], known: Sequence[str]) -> list[float]:
    """F1 at each of the known sites; one threshold for all, chosen at these sites in other rooms."""
    network = network_of(weights).eval()
    threshold = together([examined(network, places[name].threshold) for name in known]).best_threshold()
    return [examined(network, places[name].report).at(threshold).f1 for name in known]


def sequence(course: Course, places: Mapping[str, Place], kind: str, first: Weights) -> list[list[float]]:
    """R[i][j] for j up to i of one network that learns site after site.

    Args:
        course, places: of the experiment.
        kind: of :data:`brain_training.lifelong.learners.LEARNERS`.
        first: weights after the first site, which is the same for all.
    """
    learner, found = Sequential(kind, shipped(), course.how, course.seed), []
    for number, name in enumerate(course.names):
        learner.learn(places[name].train, None if number else first)
        found.append(one_network(learner.weights, places, course.names[:number + 1]))
    return found


def library(course: Course, places: Mapping[str, Place], strange: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """A library that is told nothing: R[i][j] by its own allocation, and where it is told the site; and allocation."""
    chosen: list[list[float]] = []
    told: list[list[float]] = []
    taken: dict[str, str] = {}
    cache: dict[tuple[bytes, str, int], Tally] = {}
    with TemporaryFolder("lifelong") as folder:
        there = Library(Path(folder))
        for number, name in enumerate(course.names):
            # Of its own site it knows no name: what it makes of it is noted here.
            taken[name] = learn(there, _Site(places[name]), course.how, course.seed).task
            tasks = there.tasks()
            known = course.names[:number + 1]
            chosen.append([_found(tasks, places[site].report, None, cache, site) for site in known])
            told.append([_found(tasks, places[site].report, taken[site], cache, site) for site in known])
    return {"library": chosen, "told": told, "tasks": taken,
            "allocation": allocation(course, places, strange, tasks, taken)}


def _found(tasks: Mapping[str, Task], clips: Clips, task: str | None, cache: dict[tuple[bytes, str, int], Tally],
           site: str) -> float:
    """F1 in rooms of a site, each with the weights and threshold of a task: told, or what its window is taken for.

    Where it is taken for none, the nearest task's are used: a robot that does not know has none that were better.
    """
    known, tallies = descriptors(tasks), []
    for room, window in enumerate(seen_windows(clips)):
        name = task
        if name is None:
            found = of_windows([window], known)
            name = found.task or found.nearest
        assert name is not None     # there is a task
        one = tasks[name]
        key = hashlib.sha256(b"".join(value.tobytes() for value in one.weights.values())).digest(), site, room
        if key not in cache:
            cache[key] = examined(network_of(one.weights).eval(),
                                  some(clips, range(room * WINDOW, (room + 1) * WINDOW)))
        tallies.append(Tally(asked=cache[key].asked, detections=[
            detection for detection in cache[key].detections if detection[0] >= one.threshold]))
    return together(tallies).at(0.0).f1


def allocation(course: Course, places: Mapping[str, Place], strange: Mapping[str, np.ndarray],
               tasks: Mapping[str, Task], taken: Mapping[str, str]) -> list[dict[str, Any]]:
    """Counts what windows of held-back rooms are taken for, at sites learned, not yet learned, and never learned."""
    known, found = descriptors(tasks), []
    for name in course.names:
        seen = seen_windows(places[name].report)
        each = [of_window(window, known)[0] for window in seen]
        without = {task: one for task, one in known.items() if task != taken[name]}
        found.append({"site": name, "windows": len(each), "right": each.count(taken[name]),
                      "other": sum(one not in (None, taken[name]) for one in each), "unknown": each.count(None),
                      "before": sum(of_window(window, without)[0] is None for window in seen) if without else 0})
    for name, seen in strange.items():
        each = [of_window(window, known)[0] for window in seen]
        found.append({"site": name, "windows": len(each), "right": 0, "other": len(each) - each.count(None),
                      "unknown": each.count(None), "before": each.count(None)})
    return found


def run(course: Course) -> dict[str, Any]:
    """The whole experiment of one seed."""
    places, strange = ground(course)
    start = shipped()
    first = fit(start, places[course.names[0]].train, course.how, task_seed(course.seed, 0))
    matrices: dict[str, list[list[float]]] = {}
    for kind in ("naive", "ewc", "replay"):
        matrices[kind] = sequence(course, places, kind, first)
    of_library = library(course, places, strange)
    matrices |= {kind: of_library[kind] for kind in ("library", "told")}
    single = []
    for number, name in enumerate(course.names):
        weights = first if not number else fit(start, places[name].train, course.how,
                                               task_seed(course.seed, SINGLE + number))
        single += one_network(weights, {name: places[name]}, [name])
    longer = Steps(**{**vars(course.how), "steps": course.how.steps * len(course.names)})
    joint = fit(start, joined([place.train for place in places.values()]), longer, task_seed(course.seed, JOINT))
    return {"seed": course.seed, "start": one_network(start, places, course.names), "single": single,
            "joint": one_network(joint, places, course.names), "tasks": of_library["tasks"],
            "allocation": of_library["allocation"],
            "learners": {kind: {"matrix": matrix, **matrix_figures(matrix)} for kind, matrix in matrices.items()}}


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
        self.status("four sites, one after another")
        course = Course(how=Steps(steps=2, batch=1, samples=1), **QUICK) if quick else Course()
        courses = [(replace(course, seed=seed),) for seed in range(seeds)]
        return {"quick": quick, **summary(course, self.side_by_side(run, courses, min(jobs, seeds), "seeds"))}

    def draw(self, path: Path, found: Mapping[str, Any]) -> None:
        """Draws a panel for each learner: a line for each site from when it was learned, in the mean over seeds."""
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
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(sites) + 1,
                      fontsize=8)
        figure.savefig(path, dpi=110)
