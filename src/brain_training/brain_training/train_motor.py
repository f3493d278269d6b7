# SPDX-License-Identifier: Apache-2.0
"""`brain train motor`: clones the teacher, then DAgger, and writes the spiking motor's weights and its twin's.

DAgger: S. Ross, G. Gordon, D. Bagnell: A Reduction of Imitation Learning and Structured Prediction to No-Regret Online
Learning, AISTATS 2011 (algorithm 3.1). The spiking network, the twin and the teacher drive some of the robots each, so
that both networks learn from the same data, the mistakes of both in it.
"""
from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from brain_regions.motor import weights
from brain_training.motor import Motor, Progress, Samples, Trainer
from brain_training.motor_data import Dealer, Seats, held_out, rng_of, roll
from brain_training.motor_world import HONEST, Fleet, Trouble

REPORT_ROOMS = (100, 300_000)       # rooms and first seed of val that are reported on


@dataclass(frozen=True)
class Recipe:
    """How much of what."""

    rooms: int = 160
    robots: int = 96
    rounds: int = 8             # the first of which the teacher drives alone
    steps: int = 250            # of 50 ms, in each round
    iterations: int = 2600      # of each network, in all rounds
    last: float = 0.35          # share of them that is left for after the last round
    batch: int = 64
    rate: float = 2.5e-3


QUICK = Recipe(rooms=6, robots=16, rounds=2, steps=40, iterations=12, batch=8)
BUSY = replace(Trouble(), profiles=False, actions=0.0, pushes=0.0, wrong=0.0, turns=0.0, halts=0.0, movers=1.0)
"""Held-out drives in which something moves in every room."""


def train_motor(out: Path = weights.SHIPPED, twin_out: Path = weights.TWIN, seed: int = 0, *, quick: bool = False,
                threads: int = 1, progress: Progress | None = None) -> dict[str, Any]:
    """Trains both networks and writes both files.

    Args:
        out, twin_out: weight files of the spiking network and of the twin.
        seed: of rooms, weights, order and everything that happens.
        quick: a tiny run that shows that everything works; its weights are worth nothing.
        threads: torch's; with another number the last bits of the weights differ.
        progress: called with (what, done, of, note).

    Returns:
        Held-out figures of ``teacher``, ``spiking`` and ``twin``, and the time that each part took (s).
    """
    torch.set_num_threads(threads)
    recipe, tell = QUICK if quick else Recipe(), progress or (lambda what, done, of, note: None)
    found: dict[str, Any] = {"teacher": {}, "spiking": {"training_s": 0.0}, "twin": {"training_s": 0.0}}
    begin = time.monotonic()
    rng = rng_of(seed, "drives")
    dealer = Dealer(recipe.rooms, rng, first_seed=seed * 10_000,
                    progress=lambda done, of: tell("rooms", done, of, ""))
    fleet = Fleet(recipe.robots, dealer, rng)
    motors = {name: Motor(rng_of(seed, "weights"), spiking) for name, spiking in (("spiking", True), ("twin", False))}
    trainers = {name: Trainer(motor, recipe.iterations, recipe.batch, recipe.rate, seed)
                for name, motor in motors.items()}
    records, drives = [], 0.0
    for number in range(recipe.rounds):
        drivers = [("teacher", None), ("spiking", motors["spiking"].policy()), ("rate", motors["twin"].policy())]
        seats = Seats(drivers, (1, 0, 0) if number == 0 else (0.2, 0.45, 0.35), recipe.robots, rng)
        at = time.monotonic()
        records.append(roll(fleet, seats, recipe.steps, lambda done, of, number=number: tell(
            "drives", number * of + done, recipe.rounds * of, f"{fleet.contacts} contacts")))
        drives += time.monotonic() - at
        samples = Samples(records)
        for name, trainer in trainers.items():
            left = recipe.iterations - trainer.done
            share = int(recipe.iterations * (1 - recipe.last) / recipe.rounds)
            at = time.monotonic()
            found[name]["loss"] = trainer.run(samples, left if number == recipe.rounds - 1 else share, progress)
            found[name]["training_s"] += time.monotonic() - at
    found["teacher"]["drives_s"] = drives
    _report(found, motors, *((6, 4.0) if quick else (REPORT_ROOMS[0], 60.0)), tell)
    training = {"split": "train", "seed": seed, "recipe": asdict(recipe)}
    report = {name: {k: v for k, v in values.items() if not k.endswith("_s")} for name, values in found.items()}
    weights.save(out, motors["spiking"].tensors(), training, {
        **report["spiking"], "teacher": report["teacher"], "twin": report["twin"]}, twin=False)
    weights.save(twin_out, motors["twin"].tensors(), training, report["twin"], twin=True)
    found["teacher"]["all_s"] = time.monotonic() - begin
    return found


def _report(found: dict[str, Any], motors: dict[str, Motor], rooms: int, seconds: float, tell: Progress) -> None:
    drivers = {"teacher": ("teacher", None), "spiking": ("spiking", motors["spiking"].policy()),
               "twin": ("rate", motors["twin"].policy())}
    for number, (suffix, trouble) in enumerate((("", HONEST), ("_moving", BUSY))):
        reached = held_out(drivers, rooms, first_seed=REPORT_ROOMS[1], trouble=trouble, seconds=seconds)
        for name, figures in reached.items():
            found[name] |= {key + suffix: value for key, value in figures.items()}
        tell("held-out drives", number + 1, 2, "")
