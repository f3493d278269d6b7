# SPDX-License-Identifier: Apache-2.0
"""The task of the motor network, and of its ANN baseline: what the teacher would do, by cloning and then by DAgger.

DAgger: S. Ross, G. Gordon, D. Bagnell: A Reduction of Imitation Learning and Structured Prediction to No-Regret Online
Learning, AISTATS 2011 (algorithm 3.1). First the teacher drives alone; then, round by round, the network drives most of
the robots with the weights that it has come to, the teacher says what would have been right, and all rounds so far are
learned from.
"""
from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from brain_regions.motor import network as net
from brain_regions.motor import senses, weights
from brain_regions.motor.coding import encode
from brain_training.definitions.motor import MotorNetwork
from brain_training.motor_data import STEPS, Dealer, drive, held_out
from brain_training.motor_world import HONEST, Record, Trouble
from brain_training.task import BASE, SIZES, Lost, Progress, Task, one_cycle, stream
from brain_training.whole import ALONE, Whole

CHUNK = 8               # steps of 50 ms that are learned at once
BURN_IN = 2             # of them, in which potentials find their level and nothing is asked
SHARP = 8.0             # of the evidence for states, as logits
STATE_WEIGHTS = (2.0, 1.0, 3.0, 2.0)
QUIET = 0.15            # spikes a neuron and micro-step that cost nothing
BUSY = 0.5              # weight of what is fired beyond
NEAR, DANGER = 0.15, 2.0    # m, and how much more what is so near counts
FEWEST = 6              # micro-steps, where a step came sooner
USUAL = 0.8             # of the batches have STEPS
REPORT_ROOMS = 100, 300_000         # number and first seed of the rooms of val that are reported on
QUICK_ROOMS, QUICK_SECONDS = 6, 4.0
WALKERS = replace(Trouble(), profiles=False, actions=0.0, pushes=0.0, wrong=0.0, turns=0.0, halts=0.0, movers=1.0)
"""Held-out drives in which something moves in every room."""


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of the training of motor: rooms, robots, rounds of DAgger, and steps of the optimizer."""

    rooms: int = 160
    robots: int = 128
    rounds: int = 8             # the first of which the teacher drives alone
    driven: float = 0.8         # share of the robots that the network drives in the others
    steps: int = 250            # of 50 ms, in each round
    iterations: int = 3000      # in all rounds
    last: float = 0.35          # share of them that is left for after the last round
    batch: int = 64
    rate: float = 2.5e-3


def loss(answer: Tensor, label: Tensor, weight: Tensor, whole: Whole = ALONE) -> Tensor:
    """Of readouts [..., ANSWERS] to the teacher's answers [..., 3]."""
    drive = F.smooth_l1_loss(answer[..., :2], label[..., :2], reduction="none", beta=0.1)
    floor = torch.full_like(answer[..., :1], net.FLOOR)
    logits = SHARP * torch.cat([floor, answer[..., 2:]], -1)
    of_states = torch.tensor(STATE_WEIGHTS, device=answer.device)
    state = F.cross_entropy(logits.flatten(0, 1), label[..., 2].long().flatten(), of_states, reduction="none")
    value, count = whole.sums(((3.0 * drive.sum(-1) + 0.5 * state.view_as(weight)) * weight).sum(), weight.sum())
    return value / count.clamp(min=1.0)


class MotorTask(Task):
    """Driving as the teacher would. Sample n is some steps of one robot in a round that is over by the step of n."""

    name = "motor"
    apart = True
    beside = ("teacher",)
    counts = True
    sizes = tuple(SIZES)
    full = Recipe()
    tiny = Recipe(rooms=6, robots=16, rounds=2, steps=40, iterations=12, batch=8)

    def __init__(self, which: str = "spiking", *, quick: bool = False, recipe: Recipe | None = None, size: str = BASE
                 ) -> None:
        super().__init__(which, quick=quick, recipe=recipe, size=size)
        self._dealer: Dealer | None = None
        self._records: list[Record] = []
        self._drivers: list[str] = []

    @classmethod
    def files(cls) -> dict[str, Path]:
        """The weight files that ship."""
        return {"spiking": weights.SHIPPED, "ann": weights.ANN}

    def prepare(self, seed: int, tell: Progress) -> None:
        """Makes the rooms."""
        if self._dealer is None or self._dealer.first_seed != seed * 10_000:
            self._dealer = Dealer(self.recipe.rooms, first_seed=seed * 10_000,
                                  progress=lambda done, of: tell(f"rooms ({self.which})", done, of, ""))

    # -- the network -----------------------------------------------------------------------------------------------

    def build(self, seed: int) -> nn.Module:
        """A network before training."""
        return MotorNetwork(stream("motor weights", seed), self.spiking, net.widened(SIZES[self.size]))

    def optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(network.parameters(), lr=self.recipe.rate)

    def schedule(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        """One cycle over all rounds."""
        return one_cycle(optimizer, self.recipe.rate, self.steps, 0.05, final_div_factor=300)

    # -- the data --------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Of all rounds together."""
        return self.recipe.iterations

    @property
    def _each(self) -> int:
        """Steps after each round but the last."""
        return max(1, int(self.recipe.iterations * (1 - self.recipe.last) / self.recipe.rounds))

    def round(self, step: int) -> int:
        """The last round that is over at a step."""
        return min(step // self._each, self.recipe.rounds - 1)

    def indices(self, seed: int, step: int) -> Sequence[int]:
        """The next ones."""
        return range(step * self.recipe.batch, (step + 1) * self.recipe.batch)

    def sample(self, seed: int, index: int) -> tuple[np.ndarray, ...]:
        """Cuts a sample: senses [CHUNK, SIZE], right answers [CHUNK, 3] and their weights in the loss [CHUNK]."""
        rng, r = stream("motor sample", seed, index), self.recipe
        record = self._records[rng.integers(self.round(index // r.batch) + 1)]
        robot, start = rng.integers(r.robots), CHUNK // 2 * rng.integers((r.steps - CHUNK) // (CHUNK // 2) + 1)
        rows, linear, angular, state, begins = (part[start:start + CHUNK, robot] for part in record)
        weight = np.where(rows[:, senses.GAP].min(-1) < NEAR, np.float32(DANGER), np.float32(1.0))
        weight[begins] = 0.0
        weight[1:][begins[:-1]] = 0.0
        weight[:BURN_IN] = 0.0
        return rows, np.stack([linear, angular, state.astype(np.float32)], -1), weight

    def collate(self, samples: Sequence[Any]) -> tuple[Tensor, ...]:
        """Currents [CHUNK, batch, INPUTS], labels [CHUNK, batch, 3] and weights [CHUNK, batch]."""
        rows, labels, weight = (np.stack(parts, 1) for parts in zip(*samples))
        return torch.from_numpy(encode(rows)), torch.from_numpy(labels), torch.from_numpy(weight)

    # -- a step ----------------------------------------------------------------------------------------------------

    def begin(self, seed: int, step: int, network: nn.Module, tell: Progress) -> None:
        """Drives, where a round begins."""
        super().begin(seed, step, network, tell)
        while len(self._records) <= self.round(step):
            number, r = len(self._records), self.recipe
            self._drivers.append(_digest(network))
            part = drive(
                seed, number, network.live(), r.driven if number else 0.0, self.whole.part(range(r.robots)),
                self._dealer, r.steps,
                lambda done, of: tell(f"drives ({self.which})", number * of + done, r.rounds * of, ""))
            self._records.append(Record(*(self.whole.joined(field, 1, r.robots) for field in part)))

    def loss(self, network: nn.Module, batch: tuple[Tensor, ...], rng: np.random.Generator) -> Lost:
        """Of the answers, and of spikes beyond what is needed."""
        currents, label, weight = batch
        steps = STEPS if rng.random() < USUAL else int(rng.integers(FEWEST, STEPS))
        answer = network(currents, network.rest(currents.shape[1]), steps)
        value = loss(answer.readouts, label, weight, self.whole)
        for rate in self.whole.means(weight.shape[1], *(train.mean((0, 1)) for train in answer.trains)):
            value = value + BUSY * F.relu(rate - QUIET).mean()
        return Lost(value)

    def settle(self, network: nn.Module) -> None:
        """Keeps what silence rests on."""
        network.bound()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All rounds so far, and the hashes of the weights that drove them."""
        fields = Record._fields if self._records else ()
        return {name: torch.from_numpy(np.stack([getattr(r, name) for r in self._records])) for name in fields}, {
            "drivers": self._drivers}

    def mark(self) -> int:
        """Counts the rounds so far: what is in them stays."""
        return len(self._drivers)

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Takes them back."""
        self._drivers = list(values["drivers"])
        self._records = [Record(*(tensors[name][number].numpy() for name in Record._fields))
                         for number in range(len(self._drivers))]

    # -- what it comes to ------------------------------------------------------------------------------------------

    def score(self, network: nn.Module, tell: Progress) -> dict[str, Any]:
        """Drives in held-out rooms, with and without what moves; beside the spiking network's those of the teacher."""
        rooms, seconds = (QUICK_ROOMS, QUICK_SECONDS) if self.quick else (REPORT_ROOMS[0], 60.0)
        drivers = {"": network.live(), **({"teacher": None} if self.spiking else {})}
        found: dict[str, Any] = {name: {} for name in drivers}
        troubles = (("", HONEST), ("_moving", WALKERS))
        places = [(name, suffix, trouble) for suffix, trouble in troubles for name in drivers]
        for number, (name, suffix, trouble) in enumerate(places):
            reached = held_out(drivers[name], rooms, first_seed=REPORT_ROOMS[1], trouble=trouble, seconds=seconds)
            found[name] |= {key + suffix: value for key, value in reached.items()}
            tell(f"held-out drives ({self.which})", number + 1, len(places), "")
        return {**found.pop(""), **found}

    def export(self, path: Path, network: nn.Module, training: dict[str, Any], figures: dict[str, Any]) -> None:
        """Writes the weight file."""
        weights.save(path, network.folded(), training, figures, ann=not self.spiking,
                     layers=net.widened(SIZES[self.size]))


def _digest(network: nn.Module) -> str:
    """Hash of a network's weights (hex)."""
    found = hashlib.sha256()
    for name, value in sorted(network.folded().items()):
        found.update(name.encode() + value.tobytes())
    return found.hexdigest()[:16]
