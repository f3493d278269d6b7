# SPDX-License-Identifier: Apache-2.0
"""``brain bench federated``: what a fleet learns together, beside one training on all pictures and each robot alone.

All begin with the weights that ship, take the same batches a step, and are examined in the same held-out rooms: for
each robot's light and colors rooms of ``val`` with all kinds of objects, though its own rooms have some kinds only.
Robots of a fleet take turns in one process, each over a link of its own to a router and an aggregator: so two cores
suffice, and a round's deadline is the test's to pass. Labels are the simulator's.
"""
from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Callable, Mapping

import numpy as np
import typer

from brain_cloud.federated.aggregator import Aggregator
from brain_cloud.federated.participant import Participant, Turned
from brain_cloud.federated.plan import plan
from brain_cloud.federated.rounds import Rounds
from brain_edge.processes.settings import ZENOH
from brain_eval.bench.experiment import Experiment, Jobs, Problem, Quick
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
from brain_wire.temporary_folder import TemporaryFolder

DEADLINE = 60.0         # s of a round, by the clock that is passed on when all that are there have answered
THRESHOLD_ROOMS, REPORT_ROOMS = 300_000, 400_000    # first seeds of val; no others of this project begin there
SCALE = -10.0           # of its change that a liar sends which scales
CENTRAL = 900           # added to the seed, for the order of all clips together
EVERY = 10              # rounds from one examination of the honest fleet to the next
ADAM: dict[str, Any] = {"strategy": "FedAdam", "settings": {"eta": 0.0015, "tau": 1e-7}}    # chosen with seed 1
KRUM: dict[str, Any] = {"guard": "Krum", "guard_settings": {"liars": 1, "keep": 4}}
FLEET = {**ADAM, **KRUM}        # chosen with seeds 1 to 4: robots may lie, and it costs nothing where they do not
PLAIN: dict[str, Any] = {"strategy": "FedAvg", "settings": {}}
GUARDS: tuple[dict[str, Any], ...] = ({}, {"guard": "FedMedian"}, KRUM)
QUICK = {"rooms": 1, "clips": 2, "rounds": 2, "steps": 1, "batch": 1, "held": 1, "way": 3}
CLOSE = 0.02            # of F1
COLORS = {"nobody": "tab:green", "away": "tab:blue", "flipped": "tab:orange", "scaled": "tab:red"}    # by liar


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
          guard_settings: Mapping[str, float] | None = None, liar: str | None = None, robot: int = 0, every: int = 0
          ) -> dict[str, Any]:
    """The fleet, round by round, over Zenoh.

    Args:
        course, ground: of the experiment.
        strategy, settings, guard, guard_settings: of the aggregator.
        liar: of :data:`LIARS`, in place of one robot, which then misses no round; :data:`AWAY`: that robot is not there
            at all, which shows what it costs that its pictures are missing; None: all are honest.
        robot: which one that is.
        every: rounds from one examination to the next; 0: only at the end.

    Returns:
        Figures at the end, and ``rounds``: those that were examined, each with who was missing.
    """
    passed, found = [0.0], []
    with TemporaryFolder("federated") as name, ExitStack() as ends:
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


def rows(fleets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fleets of one seed, those together that differ in the robot that lies alone; the first is what others lose to.

    Args:
        fleets: each as :func:`fleet` returns it.

    Returns:
        Of each kind who lies, what is done about it, mean F1, and ``lost``: of each fleet the robot that lies (0:
        nobody) and, as ``f1``, how much of F1 is lost.
    """
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in fleets:
        kind = {key: one[key] for key in ("liar", "strategy", "guard")}
        row = found.setdefault(tuple(kind.values()), {**kind, "lost": []})
        row["lost"].append({"robot": one["robot"] or 0, "f1": fleets[0]["f1"] - one["f1"]})
    for row in found.values():
        row["f1"] = fleets[0]["f1"] - fmean([one["f1"] for one in row["lost"]])
    return list(found.values())


def means(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means of runs with several seeds, those runs, and whether the fleet is as good as it should be.

    Args:
        runs: each as :meth:`Federated.of_seed` returns it.
    """
    def mean(parts: list[Any]) -> Any:
        if isinstance(parts[0], list):
            return [mean(list(one)) for one in zip(*parts)]
        return fmean(parts)

    found: dict[str, Any] = {"course": runs[0]["course"], "seeds": [run["course"]["seed"] for run in runs]}
    for what in ("start", "fleet", "central", "best_alone"):
        found[what] = {"steps": runs[0][what]["steps"],     # by the course, whatever the seed
                       **{key: mean([run[what][key] for run in runs]) for key in ("f1", "robots")}}
    found["strategies"] = []
    for same in zip(*(run["strategies"] for run in runs)):
        lost = [one for row in same for one in row["lost"]]
        each = [one["f1"] for one in lost]
        found["strategies"].append({
            **same[0], "f1": mean([row["f1"] for row in same]), "lost": fmean(each), "lost_least": min(each),
            "lost_most": max(each), "lost_by_robot": {
                str(robot): fmean([one["f1"] for one in lost if one["robot"] == robot])
                for robot in sorted({one["robot"] for one in lost})}})
    f1 = found["fleet"]["f1"]
    within = {"central": f1 >= found["central"]["f1"] - CLOSE, "best alone": f1 > found["best_alone"]["f1"]}
    for liar in LIARS:
        same, = (one for one in found["strategies"] if one["liar"] == liar and one["guard"] == FLEET["guard"])
        within[liar] = same["lost"] <= CLOSE
    return {**found, "within": within, "runs": runs}


class Federated(Experiment):
    """Trains vision on eight robots whose worlds are not alike, 30 % of them missing in each round.

    Beside it: one training on the pictures of all with the same labels and as many steps, each robot alone, and a fleet
    with one liar, whose labels are wrong or whose changes are turned round and scaled, with and without a guard. With
    each seed two robots lie in turn; in four seeds each of the eight has lied. Exit status 0 where the fleet, behind
    Krum, is within 2 points of the central training, better than the best robot alone, and with a liar within 2 points
    of itself without.
    """

    cpu = True
    picture = "federated.png"

    def measure(self, quick: Quick = False,
                seed: Annotated[int, typer.Option(min=0, help="Of worlds, order and who is missing.")] = 0,
                seeds: Annotated[int, typer.Option(min=1, max=100, help="Play all of it with as many seeds, from "
                                                   "--seed on; means are told.")] = 1,
                jobs: Jobs = 2) -> dict[str, Any]:
        """Plays all of it with each seed; see :meth:`of_seed`."""
        course = replace(Course(seed=seed), **(QUICK if quick else {}))
        return {"quick": quick, **means([self.of_seed(replace(course, seed=seed + number), jobs)
                                            for number in range(seeds)])}

    def of_seed(self, course: Course, jobs: int) -> dict[str, Any]:
        """Trains in all ways."""
        self.status("taking pictures")
        ground = Ground.of(course, self.status)
        work: list[tuple[str, dict[str, Any]]] = [("fleet", {**FLEET, "every": EVERY}), ("central", {}), ("start", {})]
        work += [("alone", {"robot": robot}) for robot in range(course.robots)]
        ways = [PLAIN, *({**ADAM, **guard} for guard in GUARDS if guard is not KRUM)]
        ways += [{**way, "liar": liar, "robot": robot} for liar in LIARS
                 for way in (PLAIN, *({**ADAM, **guard} for guard in GUARDS)) for robot in course.singled()]
        # without a guard: with three others missing too, Krum would have too few
        ways += [{**ADAM, "liar": AWAY, "robot": robot} for robot in course.singled()]
        work += [("fleet", way) for way in ways]
        every = self.side_by_side(training, work, jobs, "trainings", begin, course, ground)
        single, fleets = every[3:3 + course.robots], [every[0], *every[3 + course.robots:]]
        return {"course": asdict(course), "start": every[2], "fleet": every[0], "central": every[1], "alone": single,
                "best_alone": max(single, key=lambda one: one["f1"]), "strategies": rows(fleets)}

    def draw(self, path: Path, found: Mapping[str, Any]) -> None:
        """Draws F1 by round, of all rooms and of each robot's, beside central training and robots alone.

        The curves are those of the first seed, the bars means of all.
        """
        from matplotlib.figure import Figure

        first = found["runs"][0]
        figure = Figure(figsize=(9.0, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        examined = first["fleet"]["rounds"]
        rounds = [0, *(one["round"] for one in examined)]
        for robot in range(first["course"]["robots"]):
            values = [first["start"]["robots"][robot], *(one["robots"][robot] for one in examined)]
            left.plot(rounds, values, linewidth=1, marker=".", label=f"as robot {robot + 1}")
        left.plot(rounds, [first["start"]["f1"], *(one["f1"] for one in examined)], color="black", linewidth=2.5,
                  marker="o", label="all rooms")
        left.axhline(first["central"]["f1"], color="black", linestyle="--", linewidth=1, label="central training")
        left.axhline(first["best_alone"]["f1"], color="grey", linestyle=":", linewidth=1.5, label="best robot alone")
        left.set(xlabel="round, 30 % of the robots missing in each", ylabel="held-out F1 of vision", ylim=(0.0, 1.0),
                 title=f"A fleet whose rooms are not alike (seed {first['course']['seed']})")
        left.set_xticks(rounds)
        left.legend(fontsize=7, ncols=2, loc="lower right")
        names, values, colors = [], [], []
        for one in found["strategies"]:
            names.append(f"{one['strategy']}, {one['guard']}: {one['liar']}")
            values.append(one["f1"])
            colors.append(COLORS[one["liar"]])
        right.bar_label(right.barh(range(len(names)), values, color=colors), fmt="%.2f", fontsize=7, padding=2)
        right.set_yticks(range(len(names)), names, fontsize=7)
        right.invert_yaxis()
        right.set(xlabel="held-out F1 of vision", xlim=(0.0, 1.0), title=f"Strategy, guard: what one of "
                  f"{found['course']['robots']} does\n(means of {len(found['runs'])} seeds, two robots in each)")
        right.title.set_fontsize(10)
        figure.savefig(path, dpi=110)
