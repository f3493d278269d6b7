# SPDX-License-Identifier: Apache-2.0
"""``brain bench federated``: what a fleet learns together, beside one training on all pictures and each robot alone."""
from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Mapping

import typer

from brain_eval.bench.experiment import Experiment, Jobs, Quick

if TYPE_CHECKING:
    from experiments.federated_course import Course

EVERY = 10              # rounds from one examination of the honest fleet to the next
ADAM: dict[str, Any] = {"strategy": "FedAdam", "settings": {"eta": 0.0015, "tau": 1e-7}}    # chosen with seed 1
KRUM: dict[str, Any] = {"guard": "Krum", "guard_settings": {"liars": 1, "keep": 4}}
FLEET = {**ADAM, **KRUM}        # chosen with seeds 1 to 4: robots may lie, and it costs nothing where they do not
PLAIN: dict[str, Any] = {"strategy": "FedAvg", "settings": {}}
GUARDS: tuple[dict[str, Any], ...] = ({}, {"guard": "FedMedian"}, KRUM)
QUICK = {"rooms": 1, "clips": 2, "rounds": 2, "steps": 1, "batch": 1, "held": 1, "way": 3}
CLOSE = 0.02            # of F1
COLORS = {"nobody": "tab:green", "away": "tab:blue", "flipped": "tab:orange", "scaled": "tab:red"}    # by liar


def measure(course: Course, jobs: int, experiment: Experiment) -> dict[str, Any]:
    """All trainings of the experiment.

    Raises:
        RuntimeError: one did not come about.
    """
    from experiments.federated_course import AWAY, LIARS, Ground, begin, training

    ground = Ground.of(course, experiment.status)
    work: list[tuple[str, dict[str, Any]]] = [("fleet", {**FLEET, "every": EVERY}), ("central", {}), ("start", {})]
    work += [("alone", {"robot": robot}) for robot in range(course.robots)]
    ways = [PLAIN, *({**ADAM, **guard} for guard in GUARDS if guard is not KRUM)]
    ways += [{**way, "liar": liar, "robot": robot} for liar in LIARS
             for way in (PLAIN, *({**ADAM, **guard} for guard in GUARDS)) for robot in course.singled()]
    # without a guard: with three others missing too, Krum would have too few
    ways += [{**ADAM, "liar": AWAY, "robot": robot} for robot in course.singled()]
    work += [("fleet", way) for way in ways]
    every = experiment.side_by_side(training, work, jobs, "trainings", begin, course, ground)
    single, fleets = every[3:3 + course.robots], [every[0], *every[3 + course.robots:]]
    return {"course": asdict(course), "start": every[2], "fleet": every[0], "central": every[1], "alone": single,
            "best_alone": max(single, key=lambda one: one["f1"]),
            "strategies": rows(fleets)}


def rows(fleets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fleets of one seed, those together that differ in the robot that lies alone; the first is what others lose to.

    Args:
        fleets: each as :func:`federated_course.fleet` returns it.

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


def together(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means of runs with several seeds, those runs, and whether the fleet is as good as it should be.

    Args:
        runs: each as :func:`measure` returns it.
    """
    from experiments.federated_course import LIARS

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


def draw(path: Path, found: Mapping[str, Any]) -> None:
    """Draws the fleet's F1 by round, in all rooms and in those of each robot, beside central training and robots alone.

    Args:
        path: of the PNG.
        found: figures of the experiment. The curves are those of its first seed, the bars means of all.
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
        """Plays all of it with each seed; see :func:`measure`."""
        from experiments.federated_course import Course

        self.status("taking pictures")
        course = replace(Course(seed=seed), **(QUICK if quick else {}))
        return {"quick": quick, **together([measure(replace(course, seed=seed + number), jobs, self)
                                            for number in range(seeds)])}

    def draw(self, path: Path, found: dict[str, Any]) -> None:
        draw(path, found)
