# SPDX-License-Identifier: Apache-2.0
"""``brain bench incremental``: what hard clips bring, beside as many at random and beside all pictures.

Robots in odd light, with odd colors and some kinds of objects only, drive to what they are told to find, with the brain
and the vision that ship. From the same pictures of their cameras three trainings go on, with as many steps: on the
clips that the rules chose as robots do, on as many at random, and on all. Labels are the simulator's.
"""
from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, NamedTuple, Sequence

import numpy as np
import typer

from brain_eval.bench.experiment import Experiment, Jobs, Quick
from brain_eval.episodes import run_local
from brain_regions.vision import weights
from brain_regions.vision.network import directions
from brain_runtime.contract import images
from brain_runtime.contract.ablation import Ablation
from brain_sim.camera import SeenObject
from brain_sim.camera_region import camera_of, planar_pose
from brain_sim.suite import Episode
from brain_training import looks
from brain_training.federated import network_of
from brain_training.incremental.chooser import Chooser, Chosen
from brain_training.incremental.comparing import compare, counts, f1, together
from brain_training.incremental.hearing import TOPICS, Hearing
from brain_training.incremental.learning import Course, go_on, old_clips
from brain_training.lifelong.learning import shipped
from brain_training.lifelong.memory import stacked
from brain_training.looks import Look
from brain_training.vision import test_on
from brain_training.vision_data import Clips, Labels, Way, make_ways, usual, what_is_seen

QUICK = {"robots": 1, "episodes": 1, "limit": 12.0, "steps": 1, "held": 1, "plain": 2, "way": 2, "most": 20_000}
FIRST = 10          # seeds of looks; those of other figures are smaller
WORLD = "brain_training.fleet_demo.dressed_world:DressedWorld"
DRIVEN_ROOMS = 3_000_000                            # first seed of train; no others of this project begin there
THRESHOLD_ROOMS, REPORT_ROOMS = 720_000, 730_000    # first seeds of val
PLAIN_THRESHOLD, PLAIN_REPORT = 740_000, 745_000
BETWEEN = 20.0      # s between two episodes of a robot, so that no clip reaches from one into the other
ONE = ", one of each"
POOLS = ("rules", "random", "all", f"rules{ONE}", f"random{ONE}")
NOTHING_OLD = "rules, nothing old"
ARMS = (*POOLS, NOTHING_OLD)


@dataclass(frozen=True)
class Plan:
    """Size of the experiment.

    Attributes:
        robots: of a fleet.
        episodes: that each drives.
        limit: of an episode (s).
        most: clips an hour that rules and chance may choose.
        pictures: of a clip that are learned from.
        every: one picture in so many is learned from where all are.
        steps: of each training.
        held: rooms that are examined in each look, and half as many that thresholds are chosen on.
        plain: rooms in the plain look that are examined.
        way: pictures in each.
        seed: of the looks, rooms, goals and order.
    """

    robots: int = 6
    episodes: int = 3
    limit: float = 20.0
    most: int = 240
    pictures: int = 6
    every: int = 5
    steps: int = 100
    held: int = 4
    plain: int = 16
    way: int = 16
    seed: int = 0


class Picture(NamedTuple):
    """A picture that a robot took: when (s of its own driving), in which episode, where from, and the pixels."""

    at: float
    episode: int
    pose: tuple[float, float, float]
    image: np.ndarray


class Driven(NamedTuple):
    """Pictures that a robot has seen, what the rules chose of them, and the world's own words by episode."""

    pictures: list[Picture]
    chosen: list[Chosen]
    worlds: list[str]
    reached: int


class Sample(NamedTuple):
    """A picture with its labels and what can be seen in it."""

    image: np.ndarray
    labels: Labels
    objects: list[SeenObject]


def drive(plan: Plan, robot: int, look: Look) -> Driven:
    """A robot drives its episodes, and chooses as it goes."""
    rng = np.random.default_rng(np.random.SeedSequence([plan.seed, robot, 0x1C5]))
    eye, reached = _Eye(Chooser(most=plan.most, rng=rng)), 0
    for number in range(plan.episodes):
        color, shape = look.kinds[int(rng.integers(len(look.kinds)))]
        room = DRIVEN_ROOMS + 10_000 * plan.seed + 100 * robot + number
        episode = Episode(f"incremental/{robot}/{number}", "train", room, "go", f"go to the {color} {shape}", "en",
                          (color, shape), None, ("front", "behind", "hidden")[number % 3], time_limit=plan.limit)
        world = {"look": json.dumps(asdict(look)), "split": "train", "seed": room}
        result = run_local(episode, ablation=Ablation({"world": WORLD}, {"world": world}), onlooker=eye)
        reached += bool(result["success"])
        eye.end()
    return Driven(eye.pictures, eye.chosen, eye.worlds, reached)


class _Eye:
    """An onlooker that keeps the camera's pictures with the poses that they were taken at, and what rules choose."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser, self._hearing = chooser, Hearing(weights.threshold(weights.SHIPPED, weights.load()))
        self._began, self._episode = 0.0, -1
        self.pictures: list[Picture] = []
        self.chosen: list[Chosen] = []
        self.worlds: list[str] = []

    @property
    def _now(self) -> float:
        return self._began + self._host.now

    def begin(self, host: Any, episode: Any) -> None:
        """Listens."""
        self._host, self._pose, self._episode = host, None, self._episode + 1
        for topic in TOPICS:
            host.listen(topic, lambda message, topic=topic: self._hear(topic, message), latched=True)
        host.listen("sim/world", lambda message: self.worlds.append(message.data))
        host.listen("sim/ground_truth", self._stand)
        host.listen("camera/image_raw", self._see)

    def look(self, host: Any, since: float) -> None:
        """All that is to be seen was heard."""

    def end(self) -> None:
        """An episode is over."""
        self.chosen += self._chooser.end()
        self._began = self._now + BETWEEN

    def _hear(self, topic: str, message: Any) -> None:
        heard = self._hearing.heard(topic, self._now, message)
        if heard is not None:
            self.chosen += self._chooser.hear(heard)

    def _stand(self, message: Any) -> None:
        self._pose = message

    def _see(self, message: Any) -> None:
        if self._pose is not None and self._pose.header.stamp == message.header.stamp:
            self.pictures.append(Picture(self._now, self._episode, planar_pose(self._pose),
                                         usual()[1](images.rgb(message))))


class Painter:
    """Says what is in pictures: the simulator, in the room in which they were taken."""

    def __init__(self, driven: Driven) -> None:
        self._cameras = [camera_of(text, directions=directions()) for text in driven.worlds]
        self._radii = [{one["name"]: one["radius"] for one in json.loads(text)["room"]["objects"]}
                       for text in driven.worlds]

    def sample(self, picture: Picture) -> Sample:
        """A picture with its labels."""
        return Sample(picture.image, *what_is_seen(self._cameras[picture.episode], self._radii[picture.episode],
                                                   picture.pose))


def of_windows(driven: Driven, windows: Sequence[tuple[float, float]], count: int) -> list[Picture]:
    """Up to ``count`` pictures of each window of time (s), evenly; the one picture of a window is in its middle."""
    times = np.array([picture.at for picture in driven.pictures])
    found = []
    for begin, end in windows:
        (inside,) = np.nonzero((times >= begin) & (times <= end))
        if len(inside):
            chosen = np.unique(((np.arange(count) + 0.5) / count * len(inside)).astype(int))
            found += [driven.pictures[int(inside[k])] for k in chosen]
    return found


def at_random(driven: Driven, chosen: Sequence[Chosen], rng: np.random.Generator) -> list[tuple[float, float]]:
    """As many windows, as long, anywhere in what a robot has seen."""
    found = []
    for one in chosen:
        middle = driven.pictures[int(rng.integers(len(driven.pictures)))].at
        half = (one.end - one.begin) / 2
        found.append((middle - half, middle + half))
    return found


class Ground(NamedTuple):
    """Pools to learn from by name, held-out ways by room, and what the rules found."""

    pools: dict[str, list[Sample]]
    threshold: list[Way]
    report: list[list[Way]]
    plain: list[list[Way]]
    about: dict[str, Any]


def ground(plan: Plan) -> Ground:
    """Has the robots drive, and takes the held-out pictures."""
    rng = np.random.default_rng(np.random.SeedSequence([plan.seed, 0xA11]))
    pools: dict[str, list[Sample]] = {name: [] for name in POOLS}
    rules: dict[str, int] = {}
    seconds, reached, seen = 0.0, 0, 0
    threshold: list[Way] = []
    report: list[list[Way]] = []
    for robot, look in enumerate(looks.fleet(plan.robots, plan.seed)):
        driven = drive(plan, robot, look)
        painter = Painter(driven)
        windows = {"rules": [(one.begin, one.end) for one in driven.chosen],
                   "random": at_random(driven, driven.chosen, rng)}
        for name, some in windows.items():
            pools[name] += map(painter.sample, of_windows(driven, some, plan.pictures))
            pools[name + ONE] += map(painter.sample, of_windows(driven, some, 1))
        pools["all"] += map(painter.sample, driven.pictures[::plan.every])
        for one in driven.chosen:
            rules[one.rule] = rules.get(one.rule, 0) + 1
            seconds += one.end - one.begin
        reached, seen = reached + driven.reached, seen + len(driven.pictures)
        every = replace(look, kinds=())
        first = 1000 * plan.seed + 50 * robot
        threshold += make_ways(max(1, plan.held // 2), plan.way, split="val", first_seed=THRESHOLD_ROOMS + first,
                               look=every)
        report += ([way] for way in make_ways(plan.held, plan.way, split="val", first_seed=REPORT_ROOMS + first,
                                              look=every))
    threshold += make_ways(plan.plain // 2, plan.way, split="val", first_seed=PLAIN_THRESHOLD + 100 * plan.seed)
    plain = [[way] for way in make_ways(plan.plain, plan.way, split="val", first_seed=PLAIN_REPORT + 100 * plan.seed)]
    about = {"clips": sum(rules.values()), "by_rule": rules, "seconds": seconds, "driven": seen / 20.0,
             "reached": reached, "goals": plan.robots * plan.episodes,
             "pictures": {name: len(pool) for name, pool in pools.items()}}
    return Ground(pools, threshold, report, plain, about)


def clips_of(pool: Sequence[Sample]) -> Clips:
    """Clips of one picture each."""
    return stacked([Clips(one.image[None], Labels(*(part[None] for part in one.labels))) for one in pool])


def examined(found: Any, given: Ground) -> dict[str, Any]:
    """Counts of some weights in the held-out rooms, odd and plain, at a threshold that was chosen in others."""
    network = network_of(found).eval()
    threshold = test_on(network, given.threshold).best_threshold()
    return {"odd": counts(network, threshold, given.report).tolist(),
            "plain": counts(network, threshold, given.plain).tolist()}


def one_seed(plan: Plan) -> dict[str, Any]:
    """All trainings of one seed: counts [rooms, 3] in odd and plain rooms by arm, and what the rules found."""
    given = ground(plan)
    start, arms = shipped(), {}
    network, threshold = network_of(start).eval(), weights.threshold(weights.SHIPPED, weights.load())
    about = dict(given.about)
    about["f1_of_clips"] = {name: together([test_on(network, [Way(one.image[None], [one.objects]) for one in pool])]
                                           ).at(threshold).f1 for name, pool in given.pools.items()}
    arms["start"] = examined(start, given)
    old = old_clips(plan.steps * 4, 1, plan.seed)
    for arm in ARMS:
        alone = arm == NOTHING_OLD
        course = Course(steps=plan.steps, replay=0.0 if alone else Course().replay)
        found, _ = go_on(start, clips_of(given.pools["rules" if alone else arm]), None if alone else old, course,
                         plan.seed)
        arms[arm] = examined(found, given)
    return {"about": about, "arms": arms}


def summary(seeds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """F1 by arm over all seeds, each beside as many pictures at random with a paired interval over rooms."""
    def whole(arm: str, where: str) -> np.ndarray:
        return np.concatenate([np.array(one["arms"][arm][where]) for one in seeds])

    rows = {}
    for arm in ("start", *ARMS):
        row: dict[str, Any] = {}
        for where in ("odd", "plain"):
            row[where] = float(f1(whole(arm, where).sum(0)))
            beside = compare(whole(arm, where), whole("random" + (ONE if arm.endswith(ONE) else ""), where))
            row[f"{where}_gain"] = {"gain": beside.gain, "low": beside.low, "high": beside.high}
            row[f"{where}_seeds"] = [float(f1(np.array(one["arms"][arm][where]).sum(0))) for one in seeds]
        rows[arm] = row
    return rows


class Incremental(Experiment):
    """Robots in odd rooms collect hard clips by the rules while they drive, and vision goes on learning from them.

    Beside it: as many clips at random, all pictures, one picture of each clip, and the hard clips without old ones
    among them; equal steps for each. Exit status 0 where the rules are better than random for sure.
    """

    cpu = True
    problems = (RuntimeError, ValueError)

    def measure(self, quick: Quick = False,
                seeds: Annotated[int, typer.Option(min=1, max=20, help="Fleets, each with looks, rooms and order of "
                                                   "its own.")] = 3, jobs: Jobs = 2) -> dict[str, Any]:
        """Plays all fleets."""
        self.status("robots drive")
        seeds = 1 if quick else seeds
        plan = replace(Plan(seed=FIRST), **(QUICK if quick else {}))
        every = self.side_by_side(one_seed, [(replace(plan, seed=FIRST + number),) for number in range(seeds)], jobs,
                                  "fleets")
        arms = [{**row, "steps": 0 if arm == "start" else plan.steps, "what": arm}
                for arm, row in summary(every).items()]
        about = [one["about"] for one in every]

        def whole(key: str) -> Any:
            return sum(one[key] for one in about)

        def mean(key: str) -> dict[str, float]:
            return {name: sum(one[key][name] for one in about) / seeds for name in about[0][key]}

        found = {"clips": whole("clips"), "minutes": whole("driven") / 60.0,
                 "share": whole("seconds") / whole("driven"), "reached": whole("reached"), "goals": whole("goals"),
                 "by_rule": [{"rule": rule, "clips": sum(one["by_rule"].get(rule, 0) for one in about)}
                             for rule in sorted({rule for one in about for rule in one["by_rule"]})],
                 "f1_of_clips": mean("f1_of_clips"), "pictures": mean("pictures")}
        better = next(row["odd_gain"]["low"] > 0.0 for row in arms if row["what"] == "rules")
        return {"quick": quick, "plan": asdict(plan), "fleets": seeds, "found": found, "arms": arms,
                "by_fleet": about, "better_than_random": better}

    def good(self, found: dict[str, Any]) -> bool:
        return found["better_than_random"]
