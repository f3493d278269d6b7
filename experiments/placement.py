# SPDX-License-Identifier: Apache-2.0
"""``brain bench placement``: whether plans take as long as was predicted, with real processes and delayed links."""
from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import Annotated, Any, Callable, Mapping

import typer

from brain_cloud.placement.demand import demand, regions_of, types_of
from brain_cloud.placement.files import ChainNeed, Needs, PlacementProblem
from brain_cloud.placement.measuring import measure
from brain_cloud.placement.rehearsal import rehearse
from brain_cloud.placement.tiers import Tiers, tier_from
from brain_eval.bench.experiment import Experiment
from brain_runtime.command.options import use_domain
from brain_runtime.graph.inspect_graph import inspect_graph
from brain_runtime.supervision.supervised_brain import StartError
from brain_runtime.yaml_text import read
from brain_sim.room import generate_room
from brain_wire.router import free_port
from brain_wire.temporary_folder import TemporaryFolder
from experiments.placed_brain import Decisions, PlacedBrain

GRAPH = "brain"
ROOM = {"split": "val", "seed": 5}
GOAL = 0.15             # share of the measured time that a prediction may be off
ENOUGH = 20             # pictures without which a time is none
CAPACITY = {"cores": 100, "memory_mb": 100_000, "critical": True}   # of each tier: all run on this machine


def read_plans() -> list[dict[str, Any]]:
    """The plans beside this file."""
    return read(str(Path(__file__).with_name("placement_plans.yaml")))["plans"]


def tiers_of(plan: Mapping[str, Any]) -> Any:
    """The tiers of a plan."""
    return Tiers([tier_from("robot", CAPACITY),
                  *(tier_from(name, {**CAPACITY, "link": link}) for name, link in plan["links"].items())])


def compare(folder: Path, seconds: float, plans: list[dict[str, Any]], domain: int, log: Callable[[str], None]
            ) -> dict[str, Any]:
    """Measures costs on one tier, predicts a plan and runs it, for one plan after the other.

    Returns:
        ``plans``: of each ``alone`` and ``alone_rehearsed``, the time on one tier; ``predicted`` and ``measured`` (s,
        medians) with their 95th percentiles; ``off``; ``first``: what `brain status` tells; ``load`` of the machine.
        ``within`` the goal, ``worst``, and the last ``costs``.

    Raises:
        PlacementProblem, StartError, GraphError, NoRouter, OSError: it cannot be run.
    """
    resolved = inspect_graph(GRAPH, "sim", room=ROOM)
    sentences = [f"find the {one.color} {one.shape}" for one in generate_room(ROOM["split"], ROOM["seed"]).objects]
    name, regions = regions_of(GRAPH)
    needs = Needs((ChainNeed("camera/image_raw", "cmd_vel", 600.0),))
    alone: dict[str, Any] = {"links": {}, "place": {}}

    def run(plan: Mapping[str, Any], label: str, look: Any = None) -> tuple[dict[str, Any], Any]:
        brain = PlacedBrain(resolved, tiers_of(plan), plan["place"], folder / label, domain, sentences)
        try:
            decisions = Decisions(brain.supervised.node)
            brain.settle(0.5)
            decisions.times.clear()

            def round_() -> None:
                brain.round()
                decisions.take()

            costs = None if look is None else look(brain.supervised.node, round_)
            if look is None:
                brain.settle(seconds, decisions.take)
            restarts = sum(brain.supervised.supervisor.restarts(child) for child in brain.supervised.supervisor.names)
            return {**_told(decisions.times, plan), "first": brain.supervised.ear.latency.report()["p50"],
                    "restarts": restarts}, costs
        finally:
            brain.close()

    rows: list[dict[str, Any]] = []
    costs: Any = None
    for number, plan in enumerate(plans, 1):
        base, costs = run(alone, f"alone{number}", lambda node, round_: measure(
            node, name, regions, types_of(GRAPH), seconds, round_))

        def predict(plan: Mapping[str, Any], costs: Any = costs) -> dict[str, Any]:
            tiers = tiers_of(plan)
            wanted = demand(name, regions, costs, needs, tiers, plan["place"])
            place = {region: plan["place"].get(region, "robot") for region in regions}
            return rehearse(wanted, tiers, place, wanted.chains[0])

        rehearsed = predict(alone)
        waiting = base["p50"] - rehearsed["p50"]
        predicted = predict(plan)
        measured, _ = run(plan, f"plan{number}")
        rows.append({
            "what": plan["what"], "place": ", ".join(f"{region} on {tier}" for region, tier in plan["place"].items()),
            "links": plan["links"], "alone": base["p50"], "alone_rehearsed": rehearsed["p50"],
            "predicted": predicted["p50"] + waiting, "predicted_p95": predicted["p95"] + waiting,
            "measured": measured["p50"], "measured_p95": measured["p95"], "n": measured["n"],
            "off": (predicted["p50"] + waiting) / measured["p50"] - 1, "first": measured["first"],
            "restarts": measured["restarts"], "load": os.getloadavg()[0]})
        log(_line(rows[-1]))
    return {"seconds": seconds, "cores": os.cpu_count(), "plans": rows, "n": len(rows),
            "within": sum(abs(row["off"]) <= GOAL for row in rows), "worst": max(abs(row["off"]) for row in rows),
            "loads": [min(row["load"] for row in rows), max(row["load"] for row in rows)], "costs": costs.to_dict()}


def _line(row: Mapping[str, Any]) -> str:
    ms = {key: f"{1e3 * row[key]:.1f} ms" for key in ("alone", "alone_rehearsed", "predicted", "measured")}
    return (f"{row['what']}: predicted {ms['predicted']}, measured {ms['measured']} ({row['n']} pictures): "
            f"{row['off']:+.1%}; on one tier {ms['alone']}, rehearsed {ms['alone_rehearsed']}; load {row['load']:.1f}")


def _told(times: list[float], plan: Mapping[str, Any]) -> dict[str, Any]:
    if len(times) < ENOUGH:
        raise StartError(f"{plan.get('what', 'the brain on one tier')}: only {len(times)} pictures came to a command; "
                         f"give it longer with --seconds, or a quieter machine")
    ordered = sorted(times)
    return {"n": len(ordered), "p50": statistics.median(ordered), "p95": ordered[int(0.95 * len(ordered))]}


class Placement(Experiment):
    """Runs plans with delayed links, and compares predicted with measured times from the camera to cmd_vel.

    Before each plan the whole brain runs on one tier, which tells what its steps take, and how much longer the way
    from camera to cmd_vel is than those say (regions wait for cores). With that the plan is predicted, and then it
    runs. Exit status: 1 where a prediction is off by more than 15 %.
    """

    quick = {"seconds": 3.0, "plans": 1}
    problems = (PlacementProblem,)

    def measure(self, seconds: Annotated[float, typer.Option(min=2.0, help="How long each plan is at work.")] = 20.0,
                plans: Annotated[int, typer.Option(min=1, help="How many of the plans, from the first on.")] = 100
                ) -> dict[str, Any]:
        """Runs one plan after the other; see :func:`compare`."""
        with TemporaryFolder("bench") as folder:
            return compare(Path(folder), seconds, read_plans()[:plans], use_domain(free_port() % 200), self.log)

    def good(self, found: dict[str, Any]) -> bool:
        return found["within"] == found["n"]
