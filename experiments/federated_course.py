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
from typing import Any, Callable, Mapping

import numpy as np

from brain_cloud.federated.aggregator import Aggregator
from brain_cloud.federated.plan import plan
from brain_cloud.federated.rounds import Rounds
from brain_cloud.federated.participant import Participant, Turned
from brain_edge.processes.settings import ZENOH
from brain_eval.bench.experiment import Problem
from brain_regions.vision import weights
from brain_training import looks
from brain_training.federated import Kept, VisionLearner, network_of
from brain_training.lifelong.examining import together
from brain_training.lifelong.learning import shipped
from brain_training.lifelong.memory import joined
from brain_training.vision import test_on
from brain_training.vision_data import Clips, Studio, Way, make_ways
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
            found.clips.append(studio.take_all())
            every = replace(look, kinds=())
            for ways, first, rooms in ((found.threshold, THRESHOLD_ROOMS, max(1, course.held // 2)),
                                       (found.report, REPORT_ROOMS, course.held)):
                ways.append(list(make_ways(rooms, course.way, split="val", first_seed=first + 100 * robot,
                                           look=every)))
        return found

    def examined(self, network: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """F1 in all held-out rooms, and in those that look as each robot's do; one threshold for all."""
        folded = network_of(network).eval()
        threshold = together([test_on(folded, ways) for ways in self.threshold]).best_threshold()
        by_robot = [test_on(folded, ways) for ways in self.report]
        return {"f1": together(by_robot).at(threshold).f1, "robots": [one.at(threshold).f1 for one in by_robot]}


def _endless() -> float:
    return float("inf")


def honest(clips: Clips, seed: int) -> VisionLearner:
    """Makes a learner of clips, in an order that follows from the seed."""
    return VisionLearner(Kept(clips, seed), seed)


def alone(course: Course, ground: Ground, robot: int) -> dict[str, Any]:
    """A robot that trains on its own clips only, in as many steps as one of the fleet that never misses a round."""
    steps = course.rounds * course.steps
    found, _, _ = honest(ground.clips[robot], course.numbers(robot)).fit(shipped(), course.adam(steps), _endless)
    return {"robot": robot + 1, "steps": steps, **ground.examined(found)}


def central(course: Course, ground: Ground) -> dict[str, Any]:
    """One training on the clips of all robots, in as many steps as all robots of the fleet took together."""
    steps = course.steps * sum(course.robots - len(course.missing(number)) for number in range(course.rounds))
    found, _, _ = honest(joined(ground.clips), course.seed + CENTRAL).fit(shipped(), course.adam(steps), _endless)
    return {"steps": steps, **ground.examined(found)}


def flipped(clips: Clips, seed: int) -> VisionLearner:
    """A liar that learns that red is green, green blue, and so on."""
    color = clips.labels.color
    lie = np.where(color >= 0, (color + 1) % 4, color).astype(color.dtype)
    return honest(clips._replace(labels=clips.labels._replace(color=lie)), seed)


class Scaled(VisionLearner):
    """A liar that sends its change the wrong way, and ten times as large."""

    def fit(self, weights: Mapping[str, np.ndarray], config: Mapping[str, float], left: Callable[[], float]
            ) -> tuple[dict[str, np.ndarray], int, Mapping[str, float]]:
        """See :meth:`brain_training.federated.VisionLearner.fit`."""
        found, examples, told = super().fit(weights, config, left)
        return {name: (weights[name] + np.float32(SCALE) * (value - weights[name])).astype(np.float32)
                for name, value in found.items()}, examples, told


LIARS: dict[str, Callable[[Clips, int], VisionLearner]] = {
    "flipped": flipped, "scaled": lambda clips, seed: Scaled(Kept(clips, seed), seed)}
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
            learner = (LIARS[str(liar)] if lies else honest)(clips, seed)
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


_given: list[Any] = []      # course and pictures, in each process


def begin(course: Course, ground: Ground) -> None:
    """Takes what is the same for all trainings of a process."""
    _given[:] = course, ground


def training(kind: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """One training, in one of the processes; ``start``: none."""
    course, ground = _given
    if kind == "start":
        return {"steps": 0, **ground.examined(shipped())}
    return {"fleet": fleet, "central": central, "alone": alone}[kind](course, ground, **more)
