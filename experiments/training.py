# SPDX-License-Identifier: Apache-2.0
"""``brain bench training``: what each form of training holds, sends and takes, beside what it should."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Iterator

import typer

from brain_eval.bench.experiment import Experiment
from experiments import training_beside, training_killed
from experiments.training_pictures import memory, timelines
from experiments.training_rank import Order
from experiments.training_runs import forms, pipelines

STEPS = 50              # of the small networks, after which weights are compared to the bit
PICTURES = 5            # steps of vision, whose batch statistics have other last bits in parts
PICTURES_BATCH = 8
EQUAL = 22              # steps of equal layers, which are short
LONG, LONG_BATCH = 8, 512       # and so much of them that the time of messages is little beside it
MICROS = 4              # micro-batches of a pipeline
KILLS = 6               # of ranks, with --elastic
TIMELINES, MEMORY = "training-timelines.png", "training-memory.png"
CLOSE = 0.05            # of what a formula says


def _rows(quick: bool, width: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    wide = Order("vision", width, steps=3 if quick else PICTURES, batch=4 if quick else PICTURES_BATCH, seed=seed)
    orders = [Order("motor", steps=6 if quick else STEPS, seed=seed), wide]
    if not quick:
        orders += [Order("language", steps=STEPS, seed=seed), Order("vision", steps=PICTURES, batch=PICTURES_BATCH,
                                                                    seed=seed)]
    for order in orders:
        for row in forms(order):
            yield "forms", row
    equal = [Order("layers", steps=EQUAL, seed=seed), Order("layers", steps=LONG, batch=LONG_BATCH, seed=seed)]
    for order in [wide] if quick else [wide, orders[-1], *equal]:
        for row in pipelines(order, MICROS):
            yield "pipelines", row


def _within(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Computes how far counted bytes are from the formula, at most, as a part of it; by kind, over all forms of dp."""
    found: dict[str, float] = {}
    for row in rows:
        if row["held"] is None or not row["plan"].startswith("dp"):
            continue
        for kind, sizes in row["held"].items():
            off = abs(max(sizes) / row["held_formula"][kind] - 1)
            found[kind] = max(found.get(kind, 0.0), off)
        if row["activations_formula"]:
            off = abs(max(row["activations"]) / row["activations_formula"] - 1)
            found["activations"] = max(found.get("activations", 0.0), off)
    return found


class Training(Experiment):
    """Trains the networks that ship, and a wider one, in each form with two ranks, and tells what that takes.

    Bytes are counted, not read from the operating system. Speeds are ratios to one process that is measured beside
    each; they want as many idle cores as ranks. If a form that should have the bits of one process with as many shards
    has others, the exit status is 1.
    """

    cpu = True
    picture = TIMELINES

    def measure(self, quick: Annotated[bool, typer.Option("--quick", help="Only motor and a wider vision, few steps.")
                                       ] = False,
                width: Annotated[int, typer.Option(min=1, max=8, help="Of the wider vision.")] = 2,
                seed: Annotated[int, typer.Option(help="Of the trainings.")] = 0,
                beside: Annotated[bool, typer.Option("--beside/--no-beside", help="Measure SpikingJelly's training by "
                                                     "two ranks beside ours, in an environment of its own.")] = True
                ) -> dict[str, Any]:
        """Trains in each form, then kills ranks, then trains beside SpikingJelly."""
        load, found = os.getloadavg()[0], {"forms": [], "pipelines": []}
        for kind, row in _rows(quick, width, seed):
            found[kind].append(row)
            self.log(f"{row['label']}, {row.get('form') or row['schedule']}")
        for row in _wrong(found):
            self.log(f"{row['label']} by {row['form']} does not have the bits of --shards")
        return {"cores": len(os.sched_getaffinity(0)), "load": load, "quick": quick, "within": _within(found["forms"]),
                "killed": training_killed.measure(1 if quick else KILLS),
                "beside": training_beside.measure(rounds=1 if quick else 3) if beside else None, **found}

    def good(self, found: dict[str, Any]) -> bool:
        return not _wrong(found)

    def draw(self, path: Path, found: dict[str, Any]) -> None:
        width = max(row["width"] for row in found["pipelines"])
        timelines(path, [row for row in found["pipelines"] if row["width"] == width])
        memory(path.with_name(MEMORY), [row for row in found["forms"] if row["width"] == width and not row["shards"]])


def _wrong(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in found["forms"] if row["same_bits"] is False and row["same_bits_due"]]
