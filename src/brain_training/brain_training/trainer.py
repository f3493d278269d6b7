# SPDX-License-Identifier: Apache-2.0
"""The one loop in which every network is trained.

A step: the task names its samples, they are made and collated, the loss is taken and passed back, gradients are cut,
weights change. Each of these is a method of :class:`Trainer`. For more than one process only four have to know of the
others: :meth:`~Trainer.part` (which of a step's samples are made here), :meth:`~Trainer.wrapped` (the network that
passes gradients on), :meth:`~Trainer.cut` (a norm over all parts of the gradients) and :meth:`~Trainer.gathered` (what
a step made everywhere).
"""
from __future__ import annotations

import json
import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Mapping, Sequence

import torch
from torch import Tensor, nn

from brain_training import checkpoint as files
from brain_training.checkpoint import CheckpointError
from brain_training.task import Lost, Progress, Task, TrainingError, stream

PERIOD = 60.0       # s between two checkpoints
LOGGED = 20         # steps of a line in the log
LATELY = 50         # steps of the loss that is told


class Trainer:
    """Trains one network.

    The same seed, recipe, device and number of threads give the same weights to the bit, whether it was resumed or not.

    Args:
        task: what is learned.
        seed: of weights, samples and order.
        device: torch's, such as ``cpu`` or ``cuda:0``.
        checkpoint: file to resume from; None: none is written.
        period: s between two checkpoints; 0: one after each step.
        log: file that a line of JSON is added to after every :data:`LOGGED` steps.
        progress: told what is done.

    Attributes:
        step: how many are done.
        losses: of each of them.
        rate: learning rate of the last one.
    """

    def __init__(self, task: Task, seed: int, *, device: str | torch.device = "cpu", checkpoint: Path | None = None,
                 period: float = PERIOD, log: Path | None = None, progress: Progress | None = None) -> None:
        self.task, self.seed, self.device = task, seed, torch.device(device)
        self._path, self._period, self._log = checkpoint, period, log
        self._tell = progress or (lambda what, done, of, note: None)
        task.prepare(seed, self._tell)
        self.network = task.build(seed).to(self.device)
        self.optimizer = task.optimizer(self.network)
        self.schedule = task.schedule(self.optimizer)
        self.step, self.steps, self.losses, self.rate = 0, task.steps, [], 0.0
        self._model = self.wrapped(self.network)

    def run(self) -> nn.Module:
        """Trains to the end, from wherever it stands.

        Returns:
            The network, on the CPU.

        Raises:
            TrainingError: the loss is not a number.
            CheckpointError: a checkpoint cannot be written.
            OSError: the log cannot be written.
        """
        saved = since = time.monotonic()
        while self.step < self.steps:
            norm = self.advance()
            now = time.monotonic()
            if self._log and (self.step % LOGGED == 0 or self.step == self.steps):
                self._note(norm, now - since)
                since = now
            if self._path and (now - saved >= self._period or self.step == self.steps):
                self.save()
                saved = time.monotonic()
            lately = self.losses[-LATELY:]
            self._tell(self.task.which, self.step, self.steps, f"loss {sum(lately) / len(lately):.3f}")
        return self.network.cpu()

    def advance(self) -> float:
        """One step; returns the norm of the gradients before they were cut."""
        task, seed, step = self.task, self.seed, self.step
        task.begin(seed, step, self.network, self._tell)
        indices = task.indices(seed, step)
        batch = tuple(part.to(self.device) for part in task.collate(
            [task.sample(seed, index) for index in self.part(indices)]))
        self.optimizer.zero_grad()
        lost = task.loss(self._model, batch, stream("step", seed, step))
        lost.value.backward()
        norm = self.cut()
        self.optimizer.step()
        self.rate = self.schedule.get_last_lr()[0]
        self.schedule.step()
        lost = self.gathered(lost)
        value = lost.value.item()
        if not math.isfinite(value):
            raise TrainingError(f"the loss of {task.name} ({task.which}) is {value} after {step} steps; "
                                f"lower the learning rate of its recipe")
        task.end(self.network, indices, lost)
        self.losses.append(value)
        self.step += 1
        return norm

    # -- what more than one process do otherwise -------------------------------------------------------------------

    def part(self, indices: Sequence[int]) -> Sequence[int]:
        """Those samples of a step that are made here."""
        return indices

    def wrapped(self, network: nn.Module) -> nn.Module:
        """The network as the loss calls it."""
        return network

    def cut(self) -> float:
        """Cuts the gradients at the task's norm; returns what it was."""
        return float(nn.utils.clip_grad_norm_(self.network.parameters(), self.task.clip))

    def gathered(self, lost: Lost) -> Lost:
        """Loss and hardness of all samples of the step, in the order of their indices."""
        return Lost(lost.value.detach(), lost.hard)

    # -- checkpoints and log ---------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """What a checkpoint has to be of to be resumed from: anything else would train another network."""
        return {"task": self.task.name, "network": self.task.which, "seed": self.seed,
                "recipe": asdict(self.task.recipe), "threads": torch.get_num_threads(), "device": self.device.type}

    def save(self) -> None:
        """Writes a checkpoint."""
        curriculum, values = self.task.state()
        optimizer = self.optimizer.state_dict()
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"optimizer.{number}.{name}": value for number, state in optimizer["state"].items()
                    for name, value in state.items()}
        tensors |= {f"task.{name}": value for name, value in curriculum.items()}
        tensors["losses"] = torch.tensor(self.losses, dtype=torch.float64)
        files.save(self._path, tensors, {
            "about": self.about(), "step": self.step, "groups": optimizer["param_groups"],
            "schedule": self.schedule.state_dict(), "task": values})

    def resume(self) -> int:
        """Goes back to the checkpoint, if there is one.

        Returns:
            How many steps are done.

        Raises:
            CheckpointError: it is torn, of another training, or something in it does not fit.
        """
        if self._path is None or not self._path.exists():
            return 0
        tensors, values = files.load(self._path)
        try:
            self._check(values["about"])
            self._restore(tensors, values)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, CheckpointError):
                raise
            what = " ".join(str(error).split())
            raise CheckpointError(f"checkpoint {self._path} does not fit this training ({type(error).__name__}: "
                                  f"{what[:200]}); remove it, or train without --resume") from error
        return self.step

    def _check(self, about: Mapping[str, Any]) -> None:
        """Raises CheckpointError where a checkpoint is of another training."""
        # as JSON has it: a recipe's tuples are lists there
        for what, here in json.loads(json.dumps(self.about())).items():
            if about.get(what) != here:
                raise CheckpointError(f"checkpoint {self._path} is of another training: its {what} is "
                                      f"{about.get(what)!r}, not {here!r}; train without --resume, or name "
                                      f"another folder with --checkpoint")

    def _restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Takes back what :meth:`save` wrote."""
        step, losses = values["step"], tensors["losses"].tolist()
        if type(step) is not int or not 0 <= step <= self.steps or len(losses) != step:
            raise ValueError(f"{len(losses)} losses after {step!r} of {self.steps} steps")
        if set(values["schedule"]) != set(self.schedule.state_dict()):
            raise ValueError("its schedule is another one")
        part = {kind: {name.partition(".")[2]: value for name, value in tensors.items()
                       if name.startswith(f"{kind}.")} for kind in ("network", "optimizer", "task")}
        self.network.load_state_dict(part["network"])
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in part["optimizer"].items():
            number, _, name = name.partition(".")
            parameter = parameters[int(number)]
            if value.shape == parameter.shape and value.dim():
                # in the weights' own layout, in which it is rounded as it would have been
                value = torch.empty_like(parameter, requires_grad=False).copy_(value)
            state.setdefault(int(number), {})[name] = value
        groups = [{**group, **({"betas": tuple(group["betas"])} if "betas" in group else {})}
                  for group in values["groups"]]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.schedule.load_state_dict(values["schedule"])
        self.task.restore(part["task"], values["task"])
        self.step, self.losses = step, losses

    def _note(self, norm: float, took: float) -> None:
        lately = self.losses[-LOGGED:]
        line = {"task": self.task.name, "network": self.task.which, "seed": self.seed, "step": self.step,
                "of": self.steps, "loss": sum(lately) / len(lately), "norm": norm,
                "rate": self.rate, "took_s": round(took, 3)}
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a", encoding="utf-8") as file:     # one write: others may add to it, too
            file.write(json.dumps(line) + "\n")
