# SPDX-License-Identifier: Apache-2.0
"""Starts the trainings that ``brain bench training`` measures, and puts together what came of them."""
from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from brain_eval.bench.experiment import Problem
from brain_training.parallel.cost import KINDS
from brain_training.parallel.pipeline_stage import Span
from brain_training.parallel.plan import Plan, parse
from brain_wire.temporary_folder import TemporaryFolder
from experiments import training_theory as theory
from experiments.processes import finished
from brain_regions.vision.network import widened
from experiments.training_rank import Order

PATIENCE = 900.0        # s for one training
FEW = 6                 # steps, where only times and bytes are asked for
FORMS = ("dp=2", "dp=2,zero=1", "dp=2,zero=2", "dp=2,zero=3", "tp=2", "pp=2")
WRONG = re.compile(r"(\[rank\d+\]: )?[\w.]*(Error|Exception|Lost): ")    # the last line of a traceback
EXACT = ("dp=2", "dp=2,zero=1", "dp=2,zero=2", "dp=2,zero=3")   # whose weights are compared with --shards 2
OTHER_LAYOUT = ("vision",)      # whose weights ZeRO 2 and 3 lay out otherwise: sums have other last bits
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")


class Failed(Problem):
    """A training that was to be measured failed; says which, and its last line."""


def name_of(order: Order) -> str:
    """For people."""
    schedule = order.options.get("schedule")
    return f"{label(order.network, order.width, order.batch)}, {form(order.plan, order.shards)}" + (
        f", {schedule}" if schedule else "")


def form(plan: str, shards: int) -> str:
    """Names the form of a training."""
    return plan or (f"one process, {shards} shards" if shards else "one process")


def measure(order: Order) -> dict[str, Any]:
    """Runs :func:`experiments.training_rank.measured` in processes of its own, and returns what it found.

    Raises:
        Failed: it did not end well, or not within :data:`PATIENCE`.
    """
    plan = order.how.plan
    return found_by(name_of(order), ["-m", "experiments.training_rank"], asdict(order), plan.world if plan else 0)


def found_by(name: str, program: Sequence[str], order: Mapping[str, Any], ranks: int, python: str = sys.executable,
             environment: Mapping[str, str | None] | None = None) -> dict[str, Any]:
    """Runs a program that writes what it found into the file that its second argument names; the first is the order.

    Args:
        name: for people.
        program: arguments of Python before those two.
        order: as JSON.
        ranks: of torchrun; 0: a process by itself.
        python: of the environment in which it runs.
        environment: beside ours; by default modules are found where this process finds them.

    Raises:
        Failed: it did not end well, or not within :data:`PATIENCE`.
    """
    starts = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks else []
    given = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} if environment is None else environment
    with TemporaryFolder("bench") as folder:
        out = Path(folder) / "found.json"
        try:
            done = finished(python, *starts, *program, json.dumps(order), str(out), patience=PATIENCE,
                            environment={**given, "OMP_NUM_THREADS": "1"})
        except subprocess.TimeoutExpired:
            raise Failed(f"{name} did not end within {PATIENCE:g} s") from None
        if not out.exists():
            lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
            told = [line for line in lines if WRONG.match(line)] or lines[-1:] or [f"status {done.returncode}"]
            raise Failed(f"{name} failed: {told[0].strip()}")
        return dict(json.loads(out.read_text(encoding="utf-8")))


def forms(first: Order, plans: Sequence[str] = FORMS) -> Iterator[dict[str, Any]]:
    """One process, then each form beside another run of one process; a row of each when it is there.

    Args:
        first: the network, steps and batch.
        plans: as ``--parallel`` has them.
    """
    alone = measure(first)
    yield row(alone)
    shards = None
    for plan in plans:
        exact = {"exact": True} if plan in EXACT else {"microbatches": 4} if "pp" in plan else {}
        if plan in EXACT and shards is None:
            shards = measure(replace(first, shards=parse(plan).dp))
            yield row(shards)
        found = measure(replace(first, plan=plan, options=exact))
        few = min(first.steps, FEW)
        if exact and parse(plan).zero > 1:      # whose norm of whole gradients costs what a training does not need
            plain = measure(replace(first, plan=plan, steps=few))
            for whole, part in zip(found["parts"], plain["parts"], strict=True):
                whole |= {kind: part[kind] for kind in ("sent", "step_s")}
        again = measure(replace(first, steps=few))      # beside it: the machine is not ours alone
        yield row(found, again, shards if plan in EXACT else None)


def row(found: dict[str, Any], alone: dict[str, Any] | None = None, shards: dict[str, Any] | None = None
        ) -> dict[str, Any]:
    """Figures of one training, each beside what it should be.

    Args:
        found: of :func:`measure`.
        alone: one process, measured beside it.
        shards: one process with as many shards, whose bits it should have.
    """
    order, parts, cost, weights = found["order"], found["parts"], found["cost"], found["weights"]
    plan = parse(order["plan"]) if order["plan"] else Plan()
    told = {"network": order["network"], "width": order["width"], "plan": order["plan"], "shards": order["shards"],
            "label": label(order["network"], order["width"], order["batch"]),
            "form": form(order["plan"], order["shards"]),
            "steps": order["steps"], "batch": parts[0]["batch"], "activations": [part["activations"] for part in parts],
            "activations_most": None if order["shards"] else max(part["activations"] for part in parts),
            "activations_formula": None, "state": [part["state"] for part in parts],
            "state_most": max(part["state"] for part in parts), "held": None,
            "held_most": dict.fromkeys(KINDS), "sent_most": None,
            "sent_formula": None, "speed": None, "same_bits": None, "weights_sha": found["weights_sha"],
            "losses_sha": found["losses_sha"], "step_s": max(part["step_s"] for part in parts)}
    if cost is not None:
        whole = cost["whole"]["parameters"]
        told |= {"held": {kind: [part[kind] for part in cost["held"]] for kind in KINDS},
                 "held_most": {kind: max(part[kind] for part in cost["held"]) for kind in KINDS},
                 "held_formula": theory.held(whole, plan), "sent": [part["sent"] for part in parts],
                 "sent_most": max(part["sent"] for part in parts),
                 "counted": cost["counted"], "sent_formula": theory.sent(whole, plan)}
    else:
        told |= {"held_formula": theory.held(weights, plan)}
    if order["network"] == "vision" and plan.tp == plan.pp == 1 and not order["shards"]:
        told["activations_formula"] = theory.vision_activations(
            widened(order["width"]), -(-parts[0]["batch"] // plan.dp), len(parts[0]["micro_steps"]))
    if alone is not None:
        told["speed"] = max(part["step_s"] for part in alone["parts"]) / told["step_s"]
    if shards is not None:
        told |= {"same_bits": all(found[which] == shards[which] for which in ("weights_sha", "losses_sha")),
                 "same_bits_due": plan.zero < 2 or order["network"] not in OTHER_LAYOUT}
    return told


def label(network: str, width: int, batch: int = 0) -> str:
    """Name of a network, with how much wider it is; of equal layers with the samples of a step."""
    if network == "layers":
        from experiments.equal_layers import BATCH, LAYERS

        return f"{LAYERS} equal layers, batch {batch or BATCH}"
    return f"{network} x{width}" if width > 1 else network


def pipelines(first: Order, micros: int, schedules: Sequence[str] = SCHEDULES) -> Iterator[dict[str, Any]]:
    """Each schedule of a pipeline of two stages or twice as many; with the spans of its last step.

    Args:
        first: the network, steps and batch.
        micros: micro-batches of a step.
    """
    for schedule in schedules:
        found = measure(replace(first, plan="pp=2", options={"schedule": schedule, "microbatches": micros}))
        spans = [[Span(*span) for span in part["spans"]] for part in found["parts"]]
        each = 2 if schedule == "interleaved" else 1
        steps = _steps(spans)
        medians = theory.times([span for of_rank in spans for span in of_rank])
        last = steps[-1]
        crossed = [sum(part["crossed"][kind] for part in found["parts"]) for kind in range(3)]
        yield {"network": first.network, "width": first.width, "schedule": schedule,
               "label": label(first.network, first.width, first.batch), "micros": micros, "ranks": 2,
               "stages_each": each, "bubble_formula": theory.formula(Plan(pp=2), micros, each),
               "bubble_units": theory.replay(last, theory.units).bubble,
               "bubble_replay": theory.replay(last, theory.as_measured(medians)).bubble,
               "bubble_clock": statistics.median([theory.by_clock(step) for step in steps]),
               "most": {stage: most for part in found["parts"] for stage, most in part["most"].items()},
               "activations": [part["activations"] for part in found["parts"]],
               "activations_most": max(part["activations"] for part in found["parts"]),
               "crossed": crossed, "packed": crossed[2] / crossed[0],
               "spans": [[[*span[:3], span.begin - _begin(last), span.end - _begin(last)] for span in of_rank]
                         for of_rank in last]}


def _begin(step: list[list[Span]]) -> float:
    return min(span.begin for of_rank in step for span in of_rank)


def _steps(spans: list[list[Span]]) -> list[list[list[Span]]]:
    """Groups spans by step. A step ends where micro-batch 0 goes forward through a rank's first stage again."""
    by_rank = []
    for of_rank in spans:
        first = min(span.stage for span in of_rank)
        begins = [n for n, span in enumerate(of_rank) if (span.stage, span.what, span.micro) == (first, "forward", 0)]
        by_rank.append([of_rank[a:b] for a, b in zip(begins, [*begins[1:], len(of_rank)])])
    return [list(step) for step in zip(*by_rank, strict=True)]
