# SPDX-License-Identifier: Apache-2.0
"""Training of the motor network and of its twin on what the teacher would have done."""
from __future__ import annotations

from typing import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from brain_regions.motor import network as net
from brain_regions.motor import senses
from brain_regions.motor.coding import MODE_AT, STILL, encode
from brain_regions.neurons import LIFState, li_weights, lif_run
from brain_training.motor_data import STEPS
from brain_training.motor_world import Record

CHUNK = 8               # steps of 50 ms that are learned at once
BURN_IN = 2             # of them, in which potentials find their level and nothing is asked
SHARP = 8.0             # of the evidence for states, as logits
STATE_WEIGHTS = torch.tensor([2.0, 1.0, 3.0, 2.0])
QUIET = 0.15            # spikes a neuron and micro-step that cost nothing
MOST_BIAS = 0.15        # of the layers that hear spikes: alone it makes nobody fire (the gain of a membrane is 4.5)

Progress = Callable[[str, int, int, str], None]


class Motor(nn.Module):
    """The network with gradients; ``spiking``: leaky integrate-and-fire neurons, else ReLU and no time."""

    def __init__(self, rng: np.random.Generator, spiking: bool) -> None:
        super().__init__()
        self.spiking = spiking
        for name, value in net.fresh(rng).items():
            self.register_parameter(name, nn.Parameter(torch.from_numpy(value)))
        self.register_buffer("mask", torch.from_numpy(net.populations().T.copy()))

    def forward(self, currents: Tensor, steps: int = STEPS) -> tuple[Tensor, Tensor]:
        """Readouts [K, batch, ANSWERS] of currents [K, batch, INPUTS] from rest, and the mean activity [layers]."""
        readout = self.readout * self.mask
        x = currents @ self.w0 + self.b0
        if not self.spiking:
            for k in range(3):
                x = F.relu(x if k == 0 else x @ getattr(self, f"w{k}") + getattr(self, f"b{k}"))
            return x @ readout, torch.zeros(3)
        x = x.repeat_interleave(steps, 0)
        rates = []
        for k in range(3):
            if k:
                x = x @ getattr(self, f"w{k}") + getattr(self, f"b{k}")
            x, _ = lif_run(x, LIFState(torch.zeros_like(x[0])), net.NEURON)
            rates.append(F.relu(x.mean((0, 1)) - QUIET).mean())
        kept, weights = li_weights(steps, net.READOUT)
        heard = torch.tensordot(weights, x.unflatten(0, (-1, steps)), ([0], [1])) @ readout
        u, found = torch.zeros_like(heard[0]), []
        for one in heard:
            u = kept * u + one
            found.append(u)
        return torch.stack(found), torch.stack(rates)

    @torch.no_grad()
    def bound(self) -> None:
        """Keeps what silence rests on: no neuron fires by its bias alone, and STOP and IDLE inhibit the first layer."""
        for bias in (self.b1, self.b2):
            bias.clamp_(max=MOST_BIAS if self.spiking else 0.0)
        for mode in STILL:
            self.w0[MODE_AT + mode].clamp_(max=-3.0)

    def tensors(self) -> dict[str, np.ndarray]:
        """Weights as they are shipped: rounded to half precision."""
        found = {name: value.detach().numpy() for name, value in self.named_parameters()}
        found["readout"] = found["readout"] * self.mask.numpy()
        return {name: value.astype(np.float16) for name, value in found.items()}

    def policy(self) -> net.SpikingPolicy | net.RatePolicy:
        """The network in NumPy, with the weights as they are shipped."""
        tensors = {name: value.astype(np.float32) for name, value in self.tensors().items()}
        return net.SpikingPolicy(tensors) if self.spiking else net.RatePolicy(tensors)


class Samples:
    """Chunks of records, to draw from."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._rows, self._labels, self._fresh, self._first = [], [], [], []
        base = 0
        for r in records:
            steps, robots = r.linear.shape
            self._rows.append(r.senses.reshape(-1, senses.SIZE))
            self._labels.append(np.stack([r.linear, r.angular, r.state.astype(np.float32)], -1).reshape(-1, 3))
            self._fresh.append(r.begins.reshape(-1))
            starts = np.arange(0, steps - CHUNK + 1, CHUNK // 2)[:, None] * robots + np.arange(robots)
            self._first.append(np.stack([base + starts.ravel(), np.full(starts.size, robots)], -1))
            base += steps * robots
        self._rows, self._labels, self._fresh, self._first = (
            np.concatenate(v) for v in (self._rows, self._labels, self._fresh, self._first))

    def __len__(self) -> int:
        return len(self._first)

    def batch(self, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Currents [CHUNK, size, INPUTS], labels [CHUNK, size, 3] and weights [CHUNK, size] of random chunks."""
        first = self._first[rng.integers(len(self._first), size=size)]
        at = first[:, 0] + np.arange(CHUNK)[:, None] * first[:, 1]
        rows = self._rows[at]
        weight = np.ones(at.shape, np.float32)
        weight[rows[..., senses.GAP].min(-1) < 0.15] = 2.0
        begun = self._fresh[at]
        begun[1:] |= begun[:-1]
        weight[begun] = 0.0
        weight[:BURN_IN] = 0.0
        return tuple(map(torch.from_numpy, (encode(rows), self._labels[at], weight)))


def loss(answer: Tensor, label: Tensor, weight: Tensor) -> Tensor:
    """Of readouts to the teacher's answers."""
    drive = F.smooth_l1_loss(answer[..., :2], label[..., :2], reduction="none", beta=0.1)
    floor = torch.full_like(answer[..., :1], net.FLOOR)
    logits = SHARP * torch.cat([floor, answer[..., 2:]], -1)
    state = F.cross_entropy(logits.flatten(0, 1), label[..., 2].long().flatten(), STATE_WEIGHTS, reduction="none")
    return ((3.0 * drive.sum(-1) + 0.5 * state.view_as(weight)) * weight).sum() / weight.sum().clamp(min=1.0)


class Trainer:
    """Trains one network over several rounds with one learning rate schedule.

    Args:
        motor: to be trained.
        iterations: in all rounds together.
        batch: chunks at once.
        rate: highest learning rate.
        seed: of the order.
    """

    def __init__(self, motor: Motor, iterations: int, batch: int, rate: float, seed: int) -> None:
        self.motor, self.done, self._of, self._batch = motor, 0, iterations, batch
        self._rng = np.random.default_rng([seed, motor.spiking])
        self._optimizer = torch.optim.Adam(motor.parameters(), lr=rate)
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(self._optimizer, rate, total_steps=iterations + 1,
                                                             pct_start=0.05, final_div_factor=300)

    def run(self, samples: Samples, iterations: int, progress: Progress | None = None) -> float:
        """Trains on; returns the mean loss of the last 50 iterations."""
        values = []
        for _ in range(iterations):
            currents, label, weight = samples.batch(self._batch, self._rng)
            steps = STEPS if self._rng.random() < 0.8 else int(self._rng.integers(6, STEPS))
            answer, rates = self.motor(currents, steps)
            value = loss(answer, label, weight) + 0.5 * rates.sum()
            self._optimizer.zero_grad()
            value.backward()
            torch.nn.utils.clip_grad_norm_(self.motor.parameters(), 1.0)
            self._optimizer.step()
            self._schedule.step()
            self.motor.bound()
            values.append(value.item())
            self.done += 1
            if progress and (self.done % 20 == 0 or self.done == self._of):
                progress("spiking" if self.motor.spiking else "twin", self.done, self._of, f"loss {values[-1]:.3f}")
        return float(np.mean(values[-50:]))
