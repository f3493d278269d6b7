# SPDX-License-Identifier: Apache-2.0
"""``brain bench joint``: a small vision that asks a large one about pictures that it is unsure of.

The ground is that of ``brain bench federated``: eight robots whose rooms look unlike, and the vision that ships, which
has seen no such room. The large network has twice its hidden neurons and begins with what it computes; then it is
trained on pictures of all robots. The small one with the same training is beside it, to tell size from training.

Objects are told over the share of pictures asked about: by the rule of the region, and by others to compare with. Both
networks have looked at all pictures before; the region's own bookkeeping (:mod:`brain_regions.vision.asking` and
:mod:`brain_regions.vision.opinions`) runs over what they saw, with answers that take no time. :mod:`.joint_links` runs
the regions themselves.
"""
from __future__ import annotations

import functools
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np
import torch
import typer

from brain_eval.bench.experiment import Experiment, Quick
from brain_regions.vision import opinions
from brain_regions.vision.asking import Asking, Picture, Rules, doubt
from brain_regions.vision.decode import Found, decode
from brain_regions.vision.joint import JointParameters
from brain_training.definitions import vision as definition
from brain_training.definitions.vision import SpikingVision
from brain_regions.vision.second import SecondParameters
from brain_regions.weight_files import WeightsError
from brain_sim.camera import MOUNT
from brain_sim.robot import CAMERA_HFOV, CAMERA_RATE
from brain_training import looks
from brain_training.federated import Kept, VisionLearner, network_of, weights_of
from brain_training.lifelong.memory import joined
from brain_training.looks import Look
from brain_training.vision import STEPS
from brain_training.vision_data import Clips, Studio, Way, make_ways
from brain_training.vision_score import Tally
from brain_training.widening import widen
from brain_wire.temporary_folder import TemporaryFolder
from experiments.joint_links import driven

# first seeds of val, where no others of this project begin: rooms to choose by, rooms to report on, and rooms in looks
# of robots that nobody was trained with
CHOICE, REPORT, STRANGE = 500_000, 800_000, 900_000
SIZES = {"small": 1, "large": 2}        # times the hidden neurons
Seen = Sequence[Sequence[list[Found]]]      # of ways and their pictures
DOUBTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2)
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
ALWAYS = 1e-9       # rad of a turn that is always reached
MOST = 0.19         # of the pictures that may be asked about where the rule is chosen; elsewhere it is another share
QUICK = {"robots": 2, "rooms": 1, "clips": 2, "steps": 4, "batch": 1, "held": 1, "way": 8}
LOST = (0.0, 0.5, 1.0)
GAIN, SENT = 0.95, 0.20     # what is aimed at
KINDS = {"rule": ("pictures in doubt; an answer holds for a while", "tab:green", "o"),
         "carried chance": ("pictures at random; an answer holds for a while", "tab:blue", "s"),
         "single": ("pictures in doubt, each answer for its own picture", "tab:olive", "."),
         "chance": ("pictures at random, each answer for its own picture", "tab:gray", ".")}


@dataclass(frozen=True)
class Course:
    """Size of the experiment.

    Attributes:
        robots: whose rooms look unlike.
        rooms, clips: of each robot, and in each room, to train on; a clip is one picture.
        steps, batch, rate: of both trainings; Adam, a rate that rises to ``rate`` and falls.
        held: rooms of each robot to choose by, as many to report on, and as many that look otherwise.
        way: pictures in each of them, 50 ms apart.
        seed: of looks, rooms and order.
    """

    robots: int = 8
    rooms: int = 60
    clips: int = 4
    steps: int = 1200
    batch: int = 8
    rate: float = 1e-3
    held: int = 6
    way: int = 40
    seed: int = 0


def ways(course: Course, first: int, fleet: Sequence[Look]) -> list[Way]:
    """Ways in rooms of ``val`` in each of some looks, with all kinds of objects."""
    return [way for number, look in enumerate(fleet) for way in make_ways(
        course.held, course.way, split="val", first_seed=first + 100 * number, look=replace(look, kinds=()),
        purpose="joint ways")]


def clips(course: Course) -> Clips:
    """Pictures of all robots' own rooms, to train on."""
    return joined([Studio(course.rooms, course.clips, 1, first_seed=10_000 * (100 * (course.seed + 1) + robot),
                          look=look).take_all()
                   for robot, look in enumerate(looks.fleet(course.robots, course.seed))])


def trained(course: Course, size: str, pictures: Callable[[], Clips], folder: Path | None) -> SpikingVision:
    """The network of a size after its training.

    Args:
        course: of the experiment.
        size: of :data:`SIZES`.
        pictures: to train on.
        folder: where a network of this course is kept, and found again; None: nowhere.

    Raises:
        WeightsError: what is kept there cannot be used.
    """
    times, made = SIZES[size], repr(course)
    path = None if folder is None else folder / f"vision-{size}.safetensors"
    if path is not None and path.is_file():
        network, loaded = definition.load(path, times=times)
        if loaded.report.get("course") == made:
            return network
    learner = VisionLearner(Kept(pictures(), course.seed), course.seed)
    start = weights_of(widen(definition.load()[0], times, course.seed))
    found, _, _ = learner.fit(start, {"steps": course.steps, "batch": course.batch, "rate": course.rate,
                                      "adaptive": 1.0, "cycle": 1.0}, lambda: float("inf"))
    network = network_of(found).eval()
    if path is not None:
        keep(path, course, network, 0.5)
    return network


def keep(path: Path, course: Course, network: SpikingVision, threshold: float) -> None:
    """Writes a network that :class:`brain_regions.vision.second.SecondVision` takes."""
    definition.save(path, network, {"split": "train", "looks": course.robots, "seed": course.seed},
                    {"threshold": threshold, "course": repr(course)})


def answers(network: SpikingVision, held: Sequence[Way], rest: bool) -> list[list[list[Found]]]:
    """Runs a folded network on each picture of each way; returns the objects that it sees.

    Args:
        network: folded.
        held: the ways.
        rest: each picture is looked at alone, by a network at rest; otherwise membranes carry along the way.
    """
    looking, found = network.live(), []
    for way in held:
        state, seen = looking.rest(), []
        for picture in way.images:
            state = looking.look(picture, looking.rest() if rest else state, STEPS).state
            seen.append(decode(state["u"].T, way.height))
        found.append(seen)
    return found


def tallied(found: Sequence[Sequence[list[Found]]], held: Sequence[Way]) -> Tally:
    """Tallies what was found against what there is."""
    tally = Tally()
    for seen, way in zip(found, held):
        for one, objects in zip(seen, way.objects):
            tally.add(one, objects)
    return tally


def cut(found: Sequence[Sequence[list[Found]]], threshold: float) -> list[list[list[Found]]]:
    """Only what is as sure."""
    return [[[one for one in seen if one.confidence >= threshold] for seen in way] for way in found]


def of_robots(course: Course, found: Sequence[Sequence[list[Found]]], held: Sequence[Way]) -> dict[str, Any]:
    """F1 over all ways, and over those of each robot's look, of what is told."""
    per = [tallied(found[k * course.held:(k + 1) * course.held], held[k * course.held:(k + 1) * course.held])
           for k in range(course.robots)]
    return {"f1": tallied(found, held).at(0.0).f1, "robots": [one.at(0.0).f1 for one in per]}


class Eyes(NamedTuple):
    """Objects that both networks saw on the same ways.

    Attributes:
        held: the ways.
        all: all that the small one decodes.
        own: what it tells.
        large: what the large one answers.
    """

    held: Sequence[Way]
    all: Seen
    own: Seen
    large: Seen


def answered(seen: Seen, threshold: float) -> list[list[list[Found]]]:
    """Returns the answers of the large network's region where the network decodes this."""
    least = SecondParameters().nearly
    return [[[one for one in opinions.scaled(picture, threshold) if one.confidence >= least] for picture in way]
            for way in seen]


def told(eyes: Eyes, rules: Rules, hard: Callable[[list[Found]], bool]) -> tuple[list[list[list[Found]]], float]:
    """Returns the objects told of each picture, and the share of pictures that was asked about."""
    found, asked, pictures = [], 0, 0
    for number, way in enumerate(eyes.held):
        asking, said = Asking(rules, half=CAMERA_HFOV / 2), []
        for frame, pose in enumerate(way.poses):
            asking.now = frame / CAMERA_RATE
            camera = opinions.camera(pose, MOUNT)
            picture = Picture((frame, 0), list(eyes.own[number][frame]), camera, frame)
            if asking.take(picture, hard(eyes.all[number][frame])):
                asking.hear(picture.stamp, eyes.large[number][frame])
            said += [_objects(one, way) for one in asking.leave()]
        found.append(said)
        asked, pictures = asked + asking.counts["asked"], pictures + asking.counts["pictures"]
    return found, asked / pictures


def _objects(picture: Picture, way: Way) -> list[Found]:
    if picture.answer is not None:
        return _sure(picture.answer.found)
    if picture.before is None or picture.pose is None:
        return picture.own
    then = opinions.camera(way.poses[picture.before.stamp[0]], MOUNT)
    return opinions.carried(_sure(picture.before.found), picture.own, then, picture.pose, CAMERA_HFOV / 2)


def _sure(found: Sequence[Found]) -> list[Found]:
    return [one for one in found if one.confidence >= JointParameters().sure]


def curve(course: Course, eyes: Eyes, kind: str, rules: Rules) -> list[dict[str, Any]]:
    """F1 by share of pictures asked about.

    Args:
        course, eyes: of the experiment.
        kind: ``rule``: as the region does, for several bounds of doubt; ``single``: so, but an answer is good for its
            own picture alone; ``chance``: pictures are drawn at random, and an answer is good for its own picture;
            ``carried chance``: drawn at random, and an answer holds as long as it does for the rule.
        rules: of the region.
    """
    rng = np.random.default_rng(np.random.SeedSequence([course.seed, 0xC0DE]))
    found = []
    if kind in ("rule", "single"):
        used = rules if kind == "rule" else replace(rules, rate=1e3, carry=0.0)
        for bound in DOUBTS:
            seen, share = told(eyes, used, lambda all_: doubt(all_) >= bound)
            found.append({"doubt": bound, "share": share, **of_robots(course, seen, eyes.held)})
    else:
        used = replace(rules, rate=1e3, turn=ALWAYS, carry=rules.carry if kind == "carried chance" else 0.0)
        for wanted in SHARES:
            seen, share = told(eyes, used, lambda all_: bool(rng.random() < wanted))
            found.append({"share": share, **of_robots(course, seen, eyes.held)})
    return found


def chosen(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of a curve of the rule the bound of doubt with the highest F1 that asks about few enough pictures, or fewest."""
    few = [one for one in found if one["share"] <= MOST] or [min(found, key=lambda one: one["share"])]
    return max(few, key=lambda one: one["f1"])


def gain(f1: float, small: float, large: float) -> float:
    """The part of the large network's gain over the small one that is had; NaN where there is none."""
    return (f1 - small) / (large - small) if large > small else math.nan


class Joint(Experiment):
    """Measures what a large vision is worth to robots that ask it about hard pictures only.

    The small one is the vision that ships, in rooms whose looks it has not seen; the large one has twice the hidden
    neurons and was trained there. Beside it: the small one with the same training, pictures drawn at random, and
    answers that are lost. Exit status 0 where 95 % of the gain is had with at most 20 % of the pictures sent.
    """

    cpu = True
    picture = "fleet-joint.png"
    problems = (WeightsError, ValueError)

    def measure(self, quick: Quick = False,
                seed: Annotated[int, typer.Option(min=0, help="Of looks, rooms and order.")] = 0,
                keep: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Keep both trained networks here, and "
                                                          "take them from here.")] = None) -> dict[str, Any]:
        """Trains, looks and asks; see :meth:`of_course`."""
        course = replace(Course(seed=seed), **(QUICK if quick else {}))
        with TemporaryFolder("joint") as folder:
            return {"quick": quick, **self.of_course(course, keep or Path(folder))}

    def of_course(self, course: Course, folder: Path) -> dict[str, Any]:
        """The whole experiment of a course; the trained networks are kept in ``folder``."""
        torch.set_num_threads(1)
        pictures = functools.cache(lambda: clips(course))
        networks = {}
        for size in SIZES:
            self.status(f"training the {size} network")
            networks[size] = trained(course, size, pictures, folder)
        ships = definition.load()[0]
        kinds = {"small": (ships, False), "small, trained": (networks["small"], False),
                 "small, trained, from rest": (networks["small"], True),
                 "large, along the way": (networks["large"], False), "large": (networks["large"], True)}
        fleet = looks.fleet(course.robots, course.seed)
        self.status("looking in the rooms to choose by")
        choice = ways(course, CHOICE, fleet)
        saw = {name: answers(network, choice, rest) for name, (network, rest) in kinds.items()}
        thresholds = {name: tallied(seen, choice).best_threshold() for name, seen in saw.items()}

        def eyes(held: Any, saw: Any) -> Eyes:
            return Eyes(held, saw["small"], cut(saw["small"], thresholds["small"]),
                        answered(saw["large"], thresholds["large"]))

        rules = Rules(share=1.0)
        tried = curve(course, eyes(choice, saw), "rule", rules)
        bound = chosen(tried)
        grounds = {}
        for ground, first, theirs in (("strange", STRANGE, looks.fleet(course.robots, course.seed + 1)),
                                      ("report", REPORT, fleet)):
            self.status(f"looking in the rooms to report on ({ground})")
            held = ways(course, first, theirs)
            saw = {name: answers(network, held, rest) for name, (network, rest) in kinds.items()}
            alone = {name: {"name": name, **of_robots(course, cut(seen, thresholds[name]), held)}
                     for name, seen in saw.items()}
            both = eyes(held, saw)
            seen, share = told(both, rules, lambda all_: doubt(all_) >= bound["doubt"])
            low, high = alone["small"]["f1"], alone["large"]["f1"]
            asked = {"share": share, **of_robots(course, seen, held)}
            grounds[ground] = {"alone": list(alone.values()), "joint": {**asked, "gain": gain(asked["f1"], low, high)}}
        # what follows is of the rooms to report on, which come last
        curves = {kind: [{**one, "gain": gain(one["f1"], low, high)} for one in curve(course, both, kind, rules)]
                  for kind in KINDS}
        large = folder / "vision-large.safetensors"
        keep(large, course, networks["large"], thresholds["large"])
        links = []
        for lost in LOST:
            self.status(f"driving with {lost:.0%} of the answers lost")
            seen, costs = driven(held, large, lost, {"doubt": bound["doubt"], "share": 1.0,
                                                     "confidence": thresholds["small"]}, 1000 * course.seed)
            found = of_robots(course, seen, held)
            links.append({"lost": lost, **costs, **found, "gain": gain(found["f1"], low, high)})
        report = grounds["report"]
        return {"course": asdict(course), "thresholds": thresholds, "tried": tried, "doubt": bound["doubt"],
                "carry": rules.carry, "turn": rules.turn, **report, "curves": curves, "strange": grounds["strange"],
                "links": links, "within": report["joint"]["gain"] >= GAIN and report["joint"]["share"] <= SENT}

    def draw(self, path: Path, found: Mapping[str, Any]) -> None:
        """Draws the curves, and what is told when answers are lost."""
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
