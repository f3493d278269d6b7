# SPDX-License-Identifier: Apache-2.0
"""The experiment of ``brain bench federated``: robots whose worlds are not alike train vision together, and apart.

All begin with the weights that ship, take the same batches a step, and are examined in the same held-out rooms: for
each robot's light and colors rooms of ``val`` with all kinds of objects, though its own rooms have some kinds only.
Robots of a fleet take turns in one process, each over a link of its own to a router and an aggregator: so two cores
suffice, and a round's deadline is the test's to pass. Labels are the simulator's.
"""
from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from brain_cloud.federated.aggregator import Aggregator
from brain_cloud.federated.plan import plan
from brain_cloud.federated.rounds import Rounds
from brain_edge.federated.participant import Participant, Turned
from brain_edge.processes.settings import ZENOH
from brain_eval.bench.experiment import Problem
from brain_regions.vision import weights
from brain_training import looks
from brain_training.federated import Kept, VisionLearner, network_of, weights_of
from brain_training.vision import test_on
from brain_training.vision_data import Clips, Labels, Studio, Way, make_ways
from brain_training.vision_score import Tally
from brain_wire import Session, open_session
from brain_wire.router import Router, free_port

DEADLINE = 60.0         # s of a round, by the clock that is passed on when all that are there have answered
THRESHOLD_ROOMS, REPORT_ROOMS = 300_000, 400_000    # first seeds of val; no others of this project begin there
SCALE = -10.0           # of its change that a liar sends which scales
CENTRAL = 900           # added to the seed, for the order of all clips together


@dataclass(frozen=True)
class Course:
    """Size of the experiment.

    Attributes:
        robots: of the fleet.
        rooms, clips: of each robot, and in each room; a clip is one picture.
        rounds: of the fleet.
        average: so many of the last rounds, whose mean weights are what the fleet comes to.
        steps, batch, rate: of a robot's training in a round.
        adam_rate: of the trainings that are not divided.
        held: rooms that are examined for each robot, and half as many that thresholds are chosen on.
        way: pictures in each of them.
        seed: of looks, rooms, order, and who is missing.
    """

    robots: int = 8
    rooms: int = 20
    clips: int = 4
    rounds: int = 60
    average: int = 20
    steps: int = 1
    batch: int = 8
    rate: float = 0.1
    adam_rate: float = 5e-4
    held: int = 4
    way: int = 16
    seed: int = 0

    def missing(self, number: int) -> list[int]:
        """Robots that are away in a round: 30 % of them, in the mean over rounds."""
        share = 0.3 * self.robots
        count = int(share * (number + 1)) - int(share * number)
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, number]))
        return sorted(int(k) for k in rng.choice(self.robots, count, replace=False))

    def singled(self) -> list[int]:
        """Robots that lie in turn, or are away: one of the darker half, one of the brighter; all, in four seeds."""
        half = max(1, self.robots // 2)
        return sorted({self.seed % half, (self.seed % half + half) % self.robots})

    def adam(self, steps: int) -> dict[str, float]:
        """Returns the settings of a training that is not divided: Adam, as vision is trained with."""
        return {"steps": steps, "batch": self.batch, "rate": self.adam_rate, "adaptive": 1.0}

    def numbers(self, robot: int) -> int:
        """The seed of a robot's own rooms and order."""
        return 100 * (self.seed + 1) + robot


@dataclass
class Ground:
    """Pictures of all robots, and held-out ways, by robot."""

    clips: list[Clips]
    threshold: list[list[Way]]
    report: list[list[Way]]

    @staticmethod
    def of(course: Course, tell: Callable[[str], None]) -> Ground:
        """Takes them."""
        found = Ground([], [], [])
        for robot, look in enumerate(looks.fleet(course.robots, course.seed)):
            tell(f"pictures of robot {robot + 1} of {course.robots}")
            studio = Studio(course.rooms, course.clips, 1, first_seed=10_000 * course.numbers(robot), look=look)
            studio.take_all()
            clips = [studio.take(number) for number in range(len(studio))]
            found.clips.append(Clips(np.stack([clip.images for clip in clips]), Labels(*(
                np.stack(parts) for parts in zip(*(clip.labels for clip in clips))))))
            every = replace(look, kinds=())
            for ways, first, rooms in ((found.threshold, THRESHOLD_ROOMS, max(1, course.held // 2)),
                                       (found.report, REPORT_ROOMS, course.held)):
                ways.append(list(make_ways(rooms, course.way, split="val", first_seed=first + 100 * robot,
                                           look=every)))
        return found

    def examined(self, network: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """F1 in all held-out rooms, and in those that look as each robot's do; one threshold for all."""
        folded = network_of(network).eval()
        threshold = _together([test_on(folded, ways) for ways in self.threshold]).best_threshold()
        by_robot = [test_on(folded, ways) for ways in self.report]
        return {"f1": _together(by_robot).at(threshold).f1, "robots": [one.at(threshold).f1 for one in by_robot]}


def _together(tallies: Sequence[Tally]) -> Tally:
    found = Tally()
    for one in tallies:
        found.asked += one.asked
        found.detections += one.detections
    return found


def shipped() -> dict[str, np.ndarray]:
    """The weights that all begin with."""
    return weights_of(weights.load()[0])


def _endless() -> float:
    return float("inf")


def alone(course: Course, ground: Ground, robot: int) -> dict[str, Any]:
    """A robot that trains on its own clips only, in as many steps as one of the fleet that never misses a round."""
    learner = VisionLearner(Kept(ground.clips[robot], course.numbers(robot)), course.numbers(robot))
    steps = course.rounds * course.steps
    found, _, _ = learner.fit(shipped(), course.adam(steps), _endless)
    return {"robot": robot + 1, "steps": steps, **ground.examined(found)}


def central(course: Course, ground: Ground) -> dict[str, Any]:
    """One training on the clips of all robots, in as many steps as all robots of the fleet took together."""
    steps = course.steps * sum(course.robots - len(course.missing(number)) for number in range(course.rounds))
    pooled = Clips(np.concatenate([clips.images for clips in ground.clips]), Labels(*(
        np.concatenate(parts) for parts in zip(*(clips.labels for clips in ground.clips)))))
    learner = VisionLearner(Kept(pooled, course.seed + CENTRAL), course.seed + CENTRAL)
    found, _, _ = learner.fit(shipped(), course.adam(steps), _endless)
    return {"steps": steps, **ground.examined(found)}


class Flipped(VisionLearner):
    """A liar that learns that red is green, green blue, and so on."""

    def __init__(self, clips: Clips, seed: int) -> None:
        color = clips.labels.color
        lie = np.where(color >= 0, (color + 1) % 4, color).astype(color.dtype)
        super().__init__(Kept(Clips(clips.images, clips.labels._replace(color=lie)), seed), seed)


class Scaled(VisionLearner):
    """A liar that sends its change the wrong way, and ten times as large."""

    def __init__(self, clips: Clips, seed: int) -> None:
        super().__init__(Kept(clips, seed), seed)

    def fit(self, weights: Mapping[str, np.ndarray], config: Mapping[str, float], left: Callable[[], float]
            ) -> tuple[dict[str, np.ndarray], int, Mapping[str, float]]:
        """See :meth:`brain_training.federated.VisionLearner.fit`."""
        found, examples, told = super().fit(weights, config, left)
        return {name: (weights[name] + np.float32(SCALE) * (value - weights[name])).astype(np.float32)
                for name, value in found.items()}, examples, told


LIARS: dict[str, Callable[[Clips, int], VisionLearner]] = {"flipped": Flipped, "scaled": Scaled}
AWAY = "away"


def fleet(course: Course, ground: Ground, strategy: str, settings: Mapping[str, float], *, guard: str | None = None,
          guard_settings: Mapping[str, float] | None = None, liar: str | None = None, robot: int = 0, every: int = 0,
          tell: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """The fleet, round by round, over Zenoh.

    Args:
        course, ground: of the experiment.
        strategy, settings, guard, guard_settings: of the aggregator.
        liar: of :data:`LIARS`, in place of one robot, which then misses no round; :data:`AWAY`: that robot is not there
            at all, which shows what it costs that its pictures are missing; None: all are honest.
        robot: which one that is.
        every: rounds from one examination to the next; 0: only at the end.
        tell: told what is done.

    Returns:
        Figures at the end, and ``rounds``: those that were examined, each with who was missing.
    """
    passed, found = [0.0], []
    with tempfile.TemporaryDirectory(prefix="brain-federated-") as name, ExitStack() as ends:
        folder = Path(name)
        made = plan({"name": "vision", "learner": "vision", "start": str(weights.SHIPPED), "strategy": strategy,
                     "settings": dict(settings), "rounds": course.rounds, "average": course.average,
                     "deadline_s": DEADLINE, "gather_s": DEADLINE,
                     **({"guard": guard, "guard_settings": dict(guard_settings or {})} if guard else {}),
                     "least": 5 if guard == "Krum" else 3,
                     "config": {"steps": course.steps, "batch": course.batch, "rate": course.rate}})
        rounds = Rounds(folder / "vision", made, seconds=lambda: passed[0])
        port = free_port()
        router = ends.enter_context(Router([f"tcp/127.0.0.1:{port}"], more=ZENOH))
        Aggregator(ends.enter_context(Session(router.session, "here")), rounds)
        members = []
        for number in range(course.robots):
            seed, clips = course.numbers(number), ground.clips[number]
            lies = liar not in (None, AWAY) and number == robot
            learner = LIARS[str(liar)](clips, seed) if lies else VisionLearner(Kept(clips, seed), seed)
            session = ends.enter_context(open_session(f"tcp/127.0.0.1:{port}", identity=f"robot{number + 1}",
                                                      more=ZENOH))
            members.append(Participant(session, f"robot{number + 1}", "vision", learner, patience=60.0))
        steps = 0
        for number in range(course.rounds):
            missing = set(course.missing(number))
            if liar is not None:
                missing = missing | {robot} if liar == AWAY else missing - {robot}
            for other, member in enumerate(members):
                if other not in missing:
                    turned = member.turn()
                    if turned is not Turned.TAKEN:
                        raise Problem(f"robot {other + 1} could not take part in round {number + 1}: "
                                           f"{turned.value}, {member.why}")
                    steps += course.steps
            passed[0] += DEADLINE       # who has not answered by now is not waited for
            rounds.turn()
            tell(f"round {number + 1} of {course.rounds}")
            if every and ((number + 1) % every == 0 or number + 1 == course.rounds):
                found.append({"round": number + 1, "missing": [other + 1 for other in sorted(missing)],
                              **ground.examined(rounds.model)})
        told = rounds.status()
        if told["version"] != course.rounds:
            raise Problem(f"{told['version']} of {course.rounds} rounds came about")
        last = found[-1] if every else ground.examined(rounds.model)
    return {"strategy": strategy, "settings": dict(settings), "guard": guard or "none",
            "liar": liar or "nobody", "robot": None if liar is None else robot + 1, "steps": steps,
            "f1": last["f1"], "robots": last["robots"], "rounds": found}
