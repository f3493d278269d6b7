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
EVERY = 4               # rounds from one examination of the honest fleet to the next
FLEET: tuple[str, dict[str, float]] = ("FedAdam", {"eta": 0.003, "tau": 1e-7})
PLAIN: tuple[str, dict[str, float]] = ("FedAvg", {})
GUARDS = (PLAIN, ("FedMedian", {}), ("Krum", {"liars": 1, "keep": 4}))
QUICK = {"rooms": 1, "clips": 2, "rounds": 2, "steps": 1, "batch": 1, "held": 1, "way": 3}
CLOSE = 0.02            # of F1


def federated(quick: Annotated[bool, typer.Option("--quick", help="Tiny: shows that it runs, and nothing else.")
                               ] = False,
              seed: Annotated[int, typer.Option(min=0, help="Of worlds, order and who is missing.")] = 0,
              jobs: Annotated[int, typer.Option(min=1, help="Trainings at once.")] = 2,
              picture: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Draw F1 by round and robot into "
                                                           "this folder.")] = None,
              as_json: Json = False) -> None:
    """Trains vision on eight robots whose worlds are not alike, 30 % of them missing in each round.

    Beside it: one training on the pictures of all with the same labels and as many steps, each robot alone, and a fleet
    with one liar, whose labels are wrong or whose changes are turned round and scaled, by three strategies. Exit status
    0 where the fleet is within 2 points of the central training and better than the best robot alone.
    """
    from brain_bench.federated_course import Course
    from brain_bench.plotting import check
    from brain_runtime.command.terminal import Terminal

    check(picture)
    course = replace(Course(seed=seed), **(QUICK if quick else {}))
    with Terminal(stderr=True).status("taking pictures") as shown:
        try:
            found = measure(course, jobs, shown.update)
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
    from brain_bench.federated_course import LIARS, Ground

    ground = Ground.of(course, say)
    work: list[tuple[str, dict[str, Any]]] = [
        ("fleet", {"strategy": FLEET[0], "settings": FLEET[1], "every": EVERY}), ("central", {}), ("start", {})]
    work += [("alone", {"robot": robot}) for robot in range(course.robots)]
    work += [("fleet", {"strategy": name, "settings": settings, "liar": liar})
             for liar, guards in ((None, (PLAIN,)), *((liar, GUARDS) for liar in LIARS)) for name, settings in guards]
    results: dict[int, dict[str, Any]] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin,
                             initargs=(course, ground)) as pool:
        waiting = {pool.submit(_do, kind, more): number for number, (kind, more) in enumerate(work)}
        for done in as_completed(waiting):
            results[waiting[done]] = done.result()
            say(f"{len(results)} of {len(work)} trainings")
    every = [results[number] for number in range(len(work))]
    together, whole, start = every[:3]
    single = every[3:3 + course.robots]
    fleets = every[3 + course.robots:]
    best = max(single, key=lambda one: one["f1"])
    return {"course": asdict(course), "start": start, "fleet": together, "central": whole, "alone": single,
            "best_alone": best, "strategies": sorted((
                {key: one[key] for key in ("liar", "strategy", "f1")} for one in (together, *fleets)),
                key=lambda one: one["liar"] != "nobody"),
            "within": {"central": together["f1"] >= whole["f1"] - CLOSE, "best alone": together["f1"] > best["f1"]}}


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
    """What came out, for a person."""
    def shown(one: dict[str, Any]) -> str:
        return f"{one['f1']:.3f} (by robot {', '.join(f'{value:.2f}' for value in one['robots'])})"

    told = [f"held-out F1 at the start: {shown(found['start'])}", f"the fleet: {shown(found['fleet'])}",
            f"central training, as many steps: {shown(found['central'])}",
            f"best robot alone, robot {found['best_alone']['robot']}: {shown(found['best_alone'])}"]
    return told + [f"liar of {found['course']['robots']}: {one['liar']}, {one['strategy']}: {one['f1']:.3f}"
                   for one in found["strategies"]]
