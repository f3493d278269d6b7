# SPDX-License-Identifier: Apache-2.0
"""The experiment of ``brain bench incremental``: what is gained from hard clips, random ones, and all pictures.

Robots in odd light, with odd colors and some kinds of objects only, drive to what they are told to find, with the brain
and the vision that ship. From the same pictures of their cameras three trainings go on, with as many steps: on the
clips that the rules chose as robots do, on as many at random, and on all. Labels are the simulator's.
"""
from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from brain_eval.episodes import Referee, play, resolved_for
from brain_regions.vision import weights
from brain_regions.vision.fitting import fitted
from brain_runtime.contract import images
from brain_runtime.contract.ablation import Ablation
from brain_runtime.hosts.local import LocalHost
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
from brain_training.vision_data import Clips, Labels, Way, label_columns, make_ways

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
    threshold = float(weights.load()[1]["threshold"])
    rng = np.random.default_rng(np.random.SeedSequence([plan.seed, robot, 0x1C5]))
    chooser, hearing = Chooser(most=plan.most, rng=rng), Hearing(threshold)
    found = Driven([], [], [], 0)
    reached, begin = 0, 0.0
    for number in range(plan.episodes):
        color, shape = look.kinds[int(rng.integers(len(look.kinds)))]
        room = DRIVEN_ROOMS + 10_000 * plan.seed + 100 * robot + number
        episode = Episode(f"incremental/{robot}/{number}", "train", room, "go", f"go to the {color} {shape}", "en",
                          (color, shape), None, ("front", "behind", "hidden")[number % 3], time_limit=plan.limit)
        world = {"look": json.dumps(asdict(look)), "split": "train", "seed": room}
        resolved = resolved_for(episode, ablation=Ablation({"world": WORLD}, {"world": world}))
        host = LocalHost(resolved.make(), seed=room, critical=resolved.critical, parameters=resolved.parameters())
        referee, eye = Referee(episode.id), _Eye(host, number, begin, found)

        def hear(topic: str, message: Any, host: Any = host, begin: float = begin) -> None:
            heard = hearing.heard(topic, begin + host.now, message)
            if heard is not None:
                found.chosen.extend(chooser.hear(heard))

        host.listen("sim/verdict", lambda message, referee=referee: referee.hear(message.data))
        for topic in TOPICS:
            host.listen(topic, lambda message, topic=topic, hear=hear: hear(topic, message), latched=True)
        eye.listen()
        play(host, episode, episode.script, referee)
        reached += bool(referee.result(episode)["success"])
        found.chosen.extend(chooser.end())
        begin += host.now + BETWEEN
    return found._replace(reached=reached)


class _Eye:
    """Keeps the camera's pictures with the poses that they were taken at."""

    def __init__(self, host: Any, episode: int, begin: float, into: Driven) -> None:
        self._host, self._episode, self._begin, self._into = host, episode, begin, into
        self._pose: Any = None

    def listen(self) -> None:
        """From now on."""
        self._host.listen("sim/world", lambda message: self._into.worlds.append(message.data))
        self._host.listen("sim/ground_truth", self._stand)
        self._host.listen("camera/image_raw", self._see)

    def _stand(self, message: Any) -> None:
        self._pose = message

    def _see(self, message: Any) -> None:
        if self._pose is not None and self._pose.header.stamp == message.header.stamp:
            self._into.pictures.append(Picture(self._begin + self._host.now, self._episode, planar_pose(self._pose),
                                               np.array(fitted(images.rgb(message)))))


class Painter:
    """Says what is in pictures: the simulator, in the room in which they were taken."""

    def __init__(self, driven: Driven) -> None:
        self._cameras = [camera_of(text) for text in driven.worlds]
        self._radii = [{one["name"]: one["radius"] for one in json.loads(text)["room"]["objects"]}
                       for text in driven.worlds]

    def sample(self, picture: Picture) -> Sample:
        """A picture with its labels."""
        camera = self._cameras[picture.episode]
        camera.render(*picture.pose)
        return Sample(picture.image, label_columns(camera, self._radii[picture.episode]),
                      camera.ground_truth_objects())


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


def ground(plan: Plan, tell: Callable[[str], None]) -> Ground:
    """Has the robots drive, and takes the held-out pictures."""
    rng = np.random.default_rng(np.random.SeedSequence([plan.seed, 0xA11]))
    pools: dict[str, list[Sample]] = {name: [] for name in POOLS}
    rules: dict[str, int] = {}
    seconds, reached, seen = 0.0, 0, 0
    threshold: list[Way] = []
    report: list[list[Way]] = []
    for robot, look in enumerate(looks.fleet(plan.robots, plan.seed)):
        tell(f"seed {plan.seed}: robot {robot + 1} of {plan.robots} drives")
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


def one_seed(plan: Plan, tell: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """All trainings of one seed: counts [rooms, 3] in odd and plain rooms by arm, and what the rules found."""
    given = ground(plan, tell)
    start, arms = shipped(), {}
    network, threshold = network_of(start).eval(), float(weights.load()[1]["threshold"])
    about = dict(given.about)
    about["f1_of_clips"] = {name: together([test_on(network, [Way(one.image[None], [one.objects]) for one in pool])]
                                           ).at(threshold).f1 for name, pool in given.pools.items()}
    arms["start"] = examined(start, given)
    old = old_clips(plan.steps * 4, 1, plan.seed)
    for arm in ARMS:
        tell(f"seed {plan.seed}: trains on {arm}")
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
        row: dict[str, Any] = {"steps": 0 if arm == "start" else None}
        for where in ("odd", "plain"):
            row[where] = float(f1(whole(arm, where).sum(0)))
            beside = compare(whole(arm, where), whole("random" + (ONE if arm.endswith(ONE) else ""), where))
            row[f"{where}_gain"] = {"gain": beside.gain, "low": beside.low, "high": beside.high}
            row[f"{where}_seeds"] = [float(f1(np.array(one["arms"][arm][where]).sum(0))) for one in seeds]
        rows[arm] = row
    return rows
