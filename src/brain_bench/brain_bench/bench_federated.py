# SPDX-License-Identifier: Apache-2.0
"""``brain bench federated``: what a fleet learns together, beside one training on all pictures and each robot alone."""
from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json

if TYPE_CHECKING:
    from brain_bench.federated_course import Course, Ground

PICTURE = "federated.png"
EVERY = 10              # rounds from one examination of the honest fleet to the next
ADAM: dict[str, Any] = {"strategy": "FedAdam", "settings": {"eta": 0.0015, "tau": 1e-7}}    # chosen with seed 1
KRUM: dict[str, Any] = {"guard": "Krum", "guard_settings": {"liars": 1, "keep": 4}}
FLEET = {**ADAM, **KRUM}        # chosen with seeds 1 to 4: robots may lie, and it costs nothing where they do not
PLAIN: dict[str, Any] = {"strategy": "FedAvg", "settings": {}}
GUARDS: tuple[dict[str, Any], ...] = ({}, {"guard": "FedMedian"}, KRUM)
QUICK = {"rooms": 1, "clips": 2, "rounds": 2, "steps": 1, "batch": 1, "held": 1, "way": 3}
CLOSE = 0.02            # of F1
CLAIMS = {"central": "within 2 points of central training", "best alone": "better than the best robot alone"}


def federated(quick: Annotated[bool, typer.Option("--quick", help="Tiny: shows that it runs, and nothing else.")
                               ] = False,
              seed: Annotated[int, typer.Option(min=0, help="Of worlds, order and who is missing.")] = 0,
              seeds: Annotated[int, typer.Option(min=1, max=100, help="Play all of it with as many seeds, from --seed "
                                                 "on; means are told.")] = 1,
              jobs: Annotated[int, typer.Option(min=1, help="Trainings at once.")] = 2,
              picture: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Draw F1 by round and robot into "
                                                           "this folder.")] = None,
              as_json: Json = False) -> None:
    """Trains vision on eight robots whose worlds are not alike, 30 % of them missing in each round.

    Beside it: one training on the pictures of all with the same labels and as many steps, each robot alone, and a fleet
    with one liar, whose labels are wrong or whose changes are turned round and scaled, with and without a guard. With
    each seed two robots lie in turn; in four seeds each of the eight has lied. Exit status 0 where the fleet, behind
    Krum, is within 2 points of the central training, better than the best robot alone, and with a liar within 2 points
    of itself without.
    """
    from brain_bench.federated_course import Course
    from brain_bench.plotting import check
    from brain_runtime.command.terminal import Terminal

    check(picture)
    course = replace(Course(seed=seed), **(QUICK if quick else {}))
    with Terminal(stderr=True).status("taking pictures") as shown:
        try:
            found = together([measure(replace(course, seed=seed + number), jobs, shown.update)
                              for number in range(seeds)])
        except RuntimeError as problem:
            fail(str(problem))
    if picture is not None:
        from brain_bench.federated_picture import draw

        draw(picture / PICTURE, found)
    if as_json:
        from brain_runtime.command.saved import cpu

        tell_json({"cpu": cpu(), "quick": quick, **found})
    else:
        for line in lines(found):
            tell(line)
    raise typer.Exit(0 if all(found["within"].values()) else 1)


def measure(course: Course, jobs: int, say: Any) -> dict[str, Any]:
    """All trainings of the experiment.

    Raises:
        RuntimeError: one did not come about.
    """
    from brain_bench.federated_course import AWAY, LIARS, Ground

    ground = Ground.of(course, say)
    work: list[tuple[str, dict[str, Any]]] = [("fleet", {**FLEET, "every": EVERY}), ("central", {}), ("start", {})]
    work += [("alone", {"robot": robot}) for robot in range(course.robots)]
    ways = [PLAIN, *({**ADAM, **guard} for guard in GUARDS if guard is not KRUM)]
    ways += [{**way, "liar": liar, "robot": robot} for liar in LIARS
             for way in (PLAIN, *({**ADAM, **guard} for guard in GUARDS)) for robot in course.singled()]
    # without a guard: with three others missing too, Krum would have too few
    ways += [{**ADAM, "liar": AWAY, "robot": robot} for robot in course.singled()]
    work += [("fleet", way) for way in ways]
    results: dict[int, dict[str, Any]] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin,
                             initargs=(course, ground)) as pool:
        waiting = {pool.submit(_do, kind, more): number for number, (kind, more) in enumerate(work)}
        for done in as_completed(waiting):
            results[waiting[done]] = done.result()
            say(f"{len(results)} of {len(work)} trainings")
    every = [results[number] for number in range(len(work))]
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
        row["f1"] = fleets[0]["f1"] - _mean([one["f1"] for one in row["lost"]])
    return list(found.values())


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def together(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means of runs with several seeds, those runs, and whether the fleet is as good as it should be.

    Args:
        runs: each as :func:`measure` returns it.
    """
    from brain_bench.federated_course import LIARS

    def mean(parts: list[Any]) -> Any:
        if isinstance(parts[0], list):
            return [mean(list(one)) for one in zip(*parts)]
        return _mean(parts)

    found: dict[str, Any] = {"course": runs[0]["course"], "seeds": [run["course"]["seed"] for run in runs]}
    for what in ("start", "fleet", "central", "best_alone"):
        found[what] = {"steps": runs[0][what]["steps"],     # by the course, whatever the seed
                       **{key: mean([run[what][key] for run in runs]) for key in ("f1", "robots")}}
    found["strategies"] = []
    for same in zip(*(run["strategies"] for run in runs)):
        lost = [one for row in same for one in row["lost"]]
        each = [one["f1"] for one in lost]
        found["strategies"].append({
            **same[0], "f1": mean([row["f1"] for row in same]), "lost": _mean(each), "lost_least": min(each),
            "lost_most": max(each), "lost_by_robot": {
                str(robot): _mean([one["f1"] for one in lost if one["robot"] == robot])
                for robot in sorted({one["robot"] for one in lost})}})
    f1 = found["fleet"]["f1"]
    within = {"central": f1 >= found["central"]["f1"] - CLOSE, "best alone": f1 > found["best_alone"]["f1"]}
    for liar in LIARS:
        same, = (one for one in found["strategies"] if one["liar"] == liar and one["guard"] == FLEET["guard"])
        within[liar] = same["lost"] <= CLOSE
    return {**found, "within": within, "runs": runs}


_given: list[Any] = []      # course and pictures, in each process


def _begin(course: Course, ground: Ground) -> None:
    import torch

    torch.set_num_threads(1)
    _given[:] = course, ground


def _do(kind: str, more: dict[str, Any]) -> dict[str, Any]:
    """One training, in one of the processes."""
    from brain_bench import federated_course

    course, ground = _given
    if kind == "start":
        return {"steps": 0, **ground.examined(federated_course.shipped())}
    return {"fleet": federated_course.fleet, "central": federated_course.central, "alone": federated_course.alone
            }[kind](course, ground, **more)


def lines(found: dict[str, Any]) -> list[str]:
    """Formats the results for a person."""
    def shown(one: dict[str, Any]) -> str:
        return f"{one['f1']:.3f} (by robot {', '.join(f'{value:.2f}' for value in one['robots'])})"

    told = [f"held-out F1 at the start: {shown(found['start'])}", f"the fleet: {shown(found['fleet'])}",
            f"central training, as many steps: {shown(found['central'])}",
            f"the best robot alone: {shown(found['best_alone'])}"]
    told += [f"liar of {found['course']['robots']}: {one['liar']}, {one['strategy']}, guard {one['guard']}: "
             f"{one['f1']:.3f}, {1e2 * one['lost']:+.1f} points lost ({1e2 * one['lost_least']:+.1f} to "
             f"{1e2 * one['lost_most']:+.1f})" for one in found["strategies"]]
    return told + [f"{CLAIMS.get(what, f'a guard holds off the liar ({what}), within 2 points')}: "
                   f"{'yes' if good else 'no'}" for what, good in found["within"].items()]
