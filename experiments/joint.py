# SPDX-License-Identifier: Apache-2.0
"""``brain bench joint``: a small vision that asks a large one about pictures that it is unsure of."""
from __future__ import annotations

import functools
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Mapping

import typer

from brain_eval.bench.experiment import Experiment, Quick

if TYPE_CHECKING:
    from experiments.joint_course import Course

QUICK = {"robots": 2, "rooms": 1, "clips": 2, "steps": 4, "batch": 1, "held": 1, "way": 8}
LOST = (0.0, 0.5, 1.0)
GAIN, SENT = 0.95, 0.20     # what is aimed at
KINDS = {"rule": ("pictures in doubt; an answer holds for a while", "tab:green", "o"),
         "carried chance": ("pictures at random; an answer holds for a while", "tab:blue", "s"),
         "single": ("pictures in doubt, each answer for its own picture", "tab:olive", "."),
         "chance": ("pictures at random, each answer for its own picture", "tab:gray", ".")}


def measure(course: Course, folder: Path, say: Any) -> dict[str, Any]:
    """The whole experiment.

    Args:
        course: how much of what.
        folder: for the trained networks.
        say: told what is done.

    Raises:
        WeightsError, ValueError, OSError: it cannot be made.
    """
    import torch

    from experiments import joint_course as of
    from experiments.joint_curves import Eyes, answered, chosen, curve, gain, told
    from experiments.joint_links import driven
    from brain_regions.vision import weights
    from brain_regions.vision.asking import Rules, doubt
    from brain_training import looks

    torch.set_num_threads(1)
    pictures = functools.cache(lambda: of.clips(course))
    networks = {}
    for size in of.SIZES:
        say(f"training the {size} network")
        networks[size] = of.trained(course, size, pictures, folder)
    ships = weights.load()[0]
    kinds = {"small": (ships, False), "small, trained": (networks["small"], False),
             "small, trained, from rest": (networks["small"], True), "large, along the way": (networks["large"], False),
             "large": (networks["large"], True)}
    fleet = looks.fleet(course.robots, course.seed)
    say("looking in the rooms to choose by")
    choice = of.ways(course, of.CHOICE, fleet)
    saw = {name: of.answers(network, choice, rest) for name, (network, rest) in kinds.items()}
    thresholds = {name: of.tallied(seen, choice).best_threshold() for name, seen in saw.items()}

    def eyes(held: Any, saw: Any) -> Eyes:
        return Eyes(held, saw["small"], of.cut(saw["small"], thresholds["small"]),
                    answered(saw["large"], thresholds["large"]))

    rules = Rules(share=1.0)
    tried = curve(course, eyes(choice, saw), "rule", rules)
    bound = chosen(tried)
    grounds = {}
    for ground, first, theirs in (("report", of.REPORT, fleet),
                                  ("strange", of.STRANGE, looks.fleet(course.robots, course.seed + 1))):
        say(f"looking in the rooms to report on ({ground})")
        held = of.ways(course, first, theirs)
        saw = {name: of.answers(network, held, rest) for name, (network, rest) in kinds.items()}
        alone = [{"name": name, **of.of_robots(course, of.cut(seen, thresholds[name]), held)}
                 for name, seen in saw.items()]
        both = eyes(held, saw)
        seen, share = told(both, rules, lambda all_: doubt(all_) >= bound["doubt"])
        low, high = (next(one["f1"] for one in alone if one["name"] == name) for name in ("small", "large"))
        asked = {"share": share, **of.of_robots(course, seen, held)}
        grounds[ground] = {"alone": alone, "joint": {**asked, "gain": gain(asked["f1"], low, high)}}
        if ground == "report":
            curves = {kind: [{**one, "gain": gain(one["f1"], low, high)} for one in curve(course, both, kind, rules)]
                      for kind in ("rule", "carried chance", "single", "chance")}
            shown = held
    of.keep(folder / "vision-large.safetensors", course, networks["large"], thresholds["large"])
    links = []
    for lost in LOST:
        say(f"driving with {lost:.0%} of the answers lost")
        links.append(driven(course, shown, folder / "vision-large.safetensors", lost, {
            "doubt": bound["doubt"], "share": 1.0, "confidence": thresholds["small"]}))
    report = grounds["report"]
    for one in links:
        one["gain"] = gain(one["f1"], report["alone"][0]["f1"], report["alone"][-1]["f1"])
    return {"course": asdict(course), "thresholds": thresholds, "tried": tried, "doubt": bound["doubt"],
            "carry": rules.carry, "turn": rules.turn, **report, "curves": curves, "strange": grounds["strange"],
            "links": links, "within": report["joint"]["gain"] >= GAIN and report["joint"]["share"] <= SENT}


def draw(path: Path, found: Mapping[str, Any]) -> None:
    """Draws the curves, and what is told when answers are lost.

    Args:
        path: of the PNG.
        found: figures of the experiment.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2.4, 1))
    alone = {one["name"]: one["f1"] for one in found["alone"]}
    for kind, (label, color, marker) in KINDS.items():
        points = sorted((one["share"], one["f1"]) for one in found["curves"][kind])
        left.plot(*zip((0.0, alone["small"]), *points), color=color, marker=marker, label=label, linewidth=1.5)
    left.axhline(alone["large"], color="black", linestyle="--", linewidth=1, label="the large network alone")
    left.axhline(alone["small"], color="black", linestyle=":", linewidth=1, label="the small network alone")
    left.axvline(0.2, color="tab:red", linewidth=0.8)
    left.scatter([found["joint"]["share"]], [found["joint"]["f1"]], s=120, facecolors="none", edgecolors="tab:red",
                 zorder=5, label="the bound that was chosen")
    left.set(xlabel="share of the pictures that are sent", ylabel="held-out F1 of vision", xlim=(0.0, 0.75),
             title="A small network that asks a large one")
    left.legend(fontsize=7, loc="lower right")
    links = found["links"]
    right.bar(range(len(links)), [one["f1"] for one in links], color="tab:green")
    for place, one in enumerate(links):
        right.text(place, one["f1"] + 0.005, f"{one['share']:.0%} sent", ha="center", fontsize=7)
    right.set_xticks(range(len(links)), [f"{one['lost']:.0%}" for one in links])
    right.axhline(alone["small"], color="black", linestyle=":", linewidth=1)
    right.set(xlabel="answers that are lost", ylim=(min(0.5, alone["small"] - 0.05), 1.0))
    figure.savefig(path, dpi=110)


class Joint(Experiment):
    """Measures what a large vision is worth to robots that ask it about hard pictures only.

    The small one is the vision that ships, in rooms whose looks it has not seen; the large one has twice the hidden
    neurons and was trained there. Beside it: the small one with the same training, pictures drawn at random, and
    answers that are lost. Exit status 0 where 95 % of the gain is had with at most 20 % of the pictures sent.
    """

    cpu = True
    picture = "fleet-joint.png"

    def measure(self, quick: Quick = False,
                seed: Annotated[int, typer.Option(min=0, help="Of looks, rooms and order.")] = 0,
                keep: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Keep both trained networks here, and "
                                                          "take them from here.")] = None) -> dict[str, Any]:
        """Trains, looks and asks; see :func:`measure`."""
        from experiments.joint_course import Course

        course = replace(Course(seed=seed), **(QUICK if quick else {}))
        with tempfile.TemporaryDirectory(prefix="brain-joint-") as folder:
            return {"quick": quick, **measure(course, keep or Path(folder), self.status)}

    def problems(self) -> tuple[type[Exception], ...]:
        from brain_regions.weight_files import WeightsError

        return WeightsError, ValueError

    def draw(self, path: Path, found: dict[str, Any]) -> None:
        draw(path, found)
