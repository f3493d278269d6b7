# SPDX-License-Identifier: Apache-2.0
"""``brain bench joint``: a small vision that asks a large one about pictures that it is unsure of."""
from __future__ import annotations

import functools
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json

if TYPE_CHECKING:
    from brain_bench.joint_course import Course

PICTURE = "fleet-joint.png"
QUICK = {"robots": 2, "rooms": 1, "clips": 2, "steps": 4, "batch": 1, "held": 1, "way": 8}
LOST = (0.0, 0.5, 1.0)
GAIN, SENT = 0.95, 0.20     # what is aimed at


def joint(quick: Annotated[bool, typer.Option("--quick", help="Tiny: shows that it runs, and nothing else.")] = False,
          seed: Annotated[int, typer.Option(min=0, help="Of looks, rooms and order.")] = 0,
          keep: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Keep both trained networks here, and take "
                                                    "them from here.")] = None,
          picture: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Draw F1 by the share of pictures sent "
                                                       "into this folder.")] = None,
          as_json: Json = False) -> None:
    """Measures what a large vision is worth to robots that ask it about hard pictures only.

    The small one is the vision that ships, in rooms whose looks it has not seen; the large one has twice the hidden
    neurons and was trained there. Beside it: the small one with the same training, pictures drawn at random, and
    answers that are lost. Exit status 0 where 95 % of the gain is had with at most 20 % of the pictures sent.
    """
    from brain_bench.joint_course import Course
    from brain_bench.plotting import check
    from brain_regions.weight_files import WeightsError
    from brain_runtime.command.terminal import Terminal

    check(picture)
    course = replace(Course(seed=seed), **(QUICK if quick else {}))
    with Terminal(stderr=True).status("training") as shown, ExitStack() as ends:
        folder = keep or Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="brain-joint-")))
        try:
            found = measure(course, folder, shown.update)
        except (WeightsError, ValueError, OSError) as problem:
            fail(str(problem))
    if picture is not None:
        from brain_bench.joint_picture import draw

        draw(picture / PICTURE, found)
    if as_json:
        from brain_runtime.command.saved import cpu

        tell_json({"cpu": cpu(), "quick": quick, **found})
    else:
        for line in lines(found):
            tell(line)
    raise typer.Exit(0 if found["within"] else 1)


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

    from brain_bench import joint_course as of
    from brain_bench.joint_curves import Eyes, answered, chosen, curve, gain, told
    from brain_bench.joint_links import driven
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


def lines(found: dict[str, Any]) -> list[str]:
    """Formats the results for a person."""
    asked = found["joint"]
    told = [f"{one['name']}: F1 {one['f1']:.3f}" for one in found["alone"]]
    told.append(f"the small one that asks the large one: F1 {asked['f1']:.3f} with {asked['share']:.1%} of the "
                f"pictures sent, {asked['gain']:.0%} of the gain (doubt from {found['doubt']} on)")
    return told + [f"{one['lost']:.0%} of the answers lost: F1 {one['f1']:.3f}, {one['share']:.1%} sent, objects "
                   f"after {one['wait_p50']:.3f} s (p95 {one['wait_p95']:.3f} s)" for one in found["links"]]
