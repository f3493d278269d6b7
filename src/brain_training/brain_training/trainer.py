# SPDX-License-Identifier: Apache-2.0
"""The one loop in which every network is trained.

A step: the task names its samples, they are made and collated, the loss is taken and passed back, gradients are cut,
weights change. Each of these is a method of :class:`Trainer`. For more than one process these have to know of the
others: :meth:`~Trainer.part` (which of a step's samples are made here), :meth:`~Trainer.wrapped` (the network that
passes gradients on), :meth:`~Trainer.passed` (the way through it and back), :meth:`~Trainer.cut` (a norm over all parts
of the gradients), :meth:`~Trainer.gathered` (what a step made everywhere), :meth:`~Trainer.looking` (weights that are
shared out, as a whole) and what reads and writes checkpoints.
"""
from __future__ import annotations

import json
import math
import shutil
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Iterator, Mapping, NoReturn, Sequence

import torch
from torch import Tensor, nn

from brain_training import checkpoint as files
from brain_training import freed_memory, generators
from brain_training.checkpoint import CheckpointError
from brain_training.task import BASE, Lost, Progress, Task, TrainingError, stream
from brain_wire import private

PERIOD = 60.0       # s between two checkpoints
LOGGED = 20         # steps of a line in the log
LATELY = 50         # steps of the loss that is told


class Trainer:
    """Trains one network.

    The same seed, recipe, device and number of threads give the same weights to the bit, whether it was resumed or not.
    Its process keeps the memory that it frees, see :mod:`brain_training.freed_memory`.

    Args:
        task: what is learned.
        seed: of weights, samples and order.
        device: torch's, such as ``cpu`` or ``cuda:0``.
        checkpoint: file to resume from; None: none is written.
        period: s between two checkpoints; 0: one after each step.
        log: file that a line of JSON is added to after every :data:`LOGGED` steps.
        progress: told what is done.

    Raises:
        TrainingError: the task has no steps.

    Attributes:
        step: how many are done.
        losses: of each of them.
        rate: learning rate of the last one.
        board: torch's SummaryWriter, that is told what the log is; None: there is none.
        number: of this process among those that train.
    """

    number = 0

    def __init__(self, task: Task, seed: int, *, device: str | torch.device = "cpu", checkpoint: Path | None = None,
                 period: float = PERIOD, log: Path | None = None, progress: Progress | None = None) -> None:
        freed_memory.keep()
        self.task, self.seed, self.device = task, seed, torch.device(device)
        self._path, self._period, self._log = checkpoint, period, log
        self._place: Path | None = None      # of the checkpoint that was resumed from
        self.board: Any = None
        if self.device.type == "cuda":
            torch.backends.cudnn.conv.fp32_precision = "ieee"   # by default a convolution rounds to 10 bits there
        self._tell = progress or (lambda what, done, of, note: None)
        task.prepare(seed, self._tell)
        if task.steps < 1:      # a schedule of torch's would say so in words of its own
            raise TrainingError(f"{task.name} ({task.which}) has {task.steps} steps; its recipe must have at least one")
        self.network = task.built(seed).to(self.device)
        self._model = self.wrapped(self.network)
        self.optimizer = self.optimized()
        self.schedule = task.schedule(self.optimizer)
        self.step, self.steps, self.losses, self.rate = 0, task.steps, [], 0.0

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
            if (self._log or self.board) and (self.step % LOGGED == 0 or self.step == self.steps):
                self._note(norm, now - since)
                since = now
            if self._path and self.agreed(now - saved >= self._period or self.step == self.steps):
                self.save()
                saved = time.monotonic()
            lately = self.losses[-LATELY:]
            self._tell(self.task.which, self.step, self.steps, f"loss {sum(lately) / len(lately):.3f}")
        return self.trained()

    def advance(self) -> float:
        """One step; returns the norm of the gradients before they were cut."""
        task, seed, step = self.task, self.seed, self.step
        with self.looking() as network:
            task.begin(seed, step, network, self._tell)
        indices = task.indices(seed, step)
        if not len(indices):
            raise TrainingError(f"step {step} of {task.name} ({task.which}) has no samples: its data are empty")
        self.optimizer.zero_grad()
        lost = self.passed(indices)
        norm = self.cut()
        if not math.isfinite(norm):     # the same at all ranks; weights, and the last checkpoint, stay as they were
            self._refuse(self.gathered(lost).value.item(), norm)
        self.optimizer.step()
        self.rate = self.schedule.get_last_lr()[0]
        self.schedule.step()
        lost = self.gathered(lost)
        value = lost.value.item()
        if not math.isfinite(value):
            self._refuse(value, norm)
        with self.looking() as network:
            task.settle(network)
            task.end(network, indices, lost)
        self.losses.append(value)
        self.step += 1
        return norm

    def _refuse(self, value: float, norm: float) -> NoReturn:
        """Ends a training whose loss, or gradient, is not a number."""
        what = f"loss of {self.task.name} ({self.task.which}) is {value}" if not math.isfinite(value) else (
            f"norm of the gradient of {self.task.name} ({self.task.which}) is {norm}")
        raise TrainingError(f"the {what} after {self.step} steps{self.whose()}; lower the learning rate of its recipe")

    # -- what more than one process do otherwise -------------------------------------------------------------------

    def part(self, indices: Sequence[int]) -> Sequence[int]:
        """Those samples of a step that are made here."""
        return indices

    def wrapped(self, network: nn.Module) -> nn.Module:
        """The network as the loss calls it."""
        return network

    def optimized(self) -> torch.optim.Optimizer:
        """The optimizer; called once, after :meth:`wrapped`."""
        return self.task.optimizer(self.network)

    def batch(self, indices: Sequence[int]) -> tuple[Tensor, ...]:
        """The batch of some samples, on the device."""
        samples = [self.task.sample(self.seed, index) for index in indices]
        return tuple(part.to(self.device) for part in self.task.collate(samples))

    def passed(self, indices: Sequence[int]) -> Lost:
        """Takes the loss of a step's samples, and passes it back."""
        lost = self.task.lost(self._model, self.batch(self.part(indices)), stream("step", self.seed, self.step))
        lost.value.backward()
        return lost

    def whose(self) -> str:
        """Names where a loss or gradient that is no number came from, for the message."""
        return ""

    @contextmanager
    def looking(self) -> Iterator[nn.Module]:
        """The network whose weights the task looks at, and may change."""
        yield self.network

    def agreed(self, due: bool) -> bool:
        """Decides whether a checkpoint is written now, where it is ``due`` here."""
        return due

    def trained(self) -> nn.Module:
        """The network at the end, on the CPU."""
        return self.network.cpu()

    def cut(self) -> float:
        """Cuts the gradients at the task's norm; returns what it was."""
        return float(nn.utils.clip_grad_norm_(self.network.parameters(), self.task.clip))

    def gathered(self, lost: Lost) -> Lost:
        """Loss and hardness of all samples of the step, in the order of their indices."""
        return Lost(lost.value.detach(), lost.hard)

    # -- checkpoints and log ---------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Returns the identity of the training, which a checkpoint to resume from must match.

        Anything else would train another network.
        """
        size = {} if self.task.size == BASE else {"size": self.task.size}
        return {**size, "task": self.task.name, "network": self.task.which, "seed": self.seed,
                "recipe": asdict(self.task.recipe), "threads": torch.get_num_threads(), "device": self.device.type}

    def save(self) -> None:
        """Writes a checkpoint."""
        self.write(*self.state())

    def state(self, course: tuple[Mapping[str, Tensor], Mapping[str, Any]] | None = None
              ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the content of a checkpoint: tensors, which are not copied, and values for JSON.

        Args:
            course: what the task's :meth:`~Task.state` gave; None: it is asked.
        """
        curriculum, values = course or self.task.state()
        weights, optimizer = self.parts()
        tensors = {f"network.{name}": value for name, value in weights.items()}
        tensors |= {f"optimizer.{number}.{name}": value for number, state in optimizer["state"].items()
                    for name, value in state.items()}
        tensors |= {f"task.{name}": value for name, value in curriculum.items()}
        tensors["losses"] = torch.tensor(self.losses, dtype=torch.float64)
        return tensors, {"about": self.about(), "step": self.step, "groups": optimizer["param_groups"],
                         "schedule": self.schedule.state_dict(), "task": values}

    def states(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        """Whole tensors of the network, and the state of the optimizer."""
        return self.network.state_dict(), self.optimizer.state_dict()

    def parts(self) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """The same, of which this process may have parts, as :meth:`write` takes them."""
        return self.states()

    def write(self, tensors: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Writes what a checkpoint has."""
        assert self._path is not None
        files.save(self._path, tensors, values)
        shutil.rmtree(files.folder_of(self._path), ignore_errors=True)      # of several, from which this one went on

    def read(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Reads what :meth:`write` wrote, here or in any other form; None: there is nothing."""
        self._place = files.newest(self._path) if self._path is not None else None
        if self._place is None or self._place.is_file():
            return files.load(self._place) if self._place is not None else None
        from brain_training.checkpoint_folder import load

        return load(self._place, self.room)

    def room(self, name: str, size: torch.Size, dtype: torch.dtype) -> Tensor:
        """Room for what this process holds of a tensor in a checkpoint; it may be the whole."""
        return torch.empty(size, dtype=dtype)

    def take(self, weights: Mapping[str, Tensor]) -> None:
        """Takes back whole tensors of the network."""
        self.network.load_state_dict(weights)

    def like(self, parameter: Tensor, value: Tensor) -> Tensor:
        """A whole tensor as a parameter is: in its own layout, in which it is rounded as it would have been."""
        return torch.empty_like(parameter, requires_grad=False).copy_(value)

    def resume(self) -> int:
        """Goes back to the checkpoint, if there is one.

        Returns:
            How many steps are done.

        Raises:
            CheckpointError: it is torn, of another training, or something in it does not fit.
        """
        found = self.read()
        if found is None:
            return 0
        self.take_up(*found)
        return self.step

    def take_up(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Goes back to what :meth:`state` gave, here or in another process; see :meth:`resume` for what it raises."""
        try:
            self._check(values["about"])
            self._restore(tensors, values)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, CheckpointError):
                raise
            what = " ".join(str(error).split())
            raise CheckpointError(f"checkpoint {self._place} does not fit this training ({type(error).__name__}: "
                                  f"{what[:200]}); remove it, or train without --resume") from error

    def _check(self, about: Mapping[str, Any]) -> None:
        """Raises CheckpointError where a checkpoint is of another training."""
        # as JSON has it: a recipe's tuples are lists there
        for what, here in json.loads(json.dumps(self.about())).items():
            if about.get(what) != here:
                raise CheckpointError(f"checkpoint {self._place} is of another training: its {what} is "
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
        self.take(part["network"])
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in part["optimizer"].items():
            number, _, name = name.partition(".")
            parameter = parameters[int(number)]
            if value.shape == parameter.shape and value.dim():
                value = self.like(parameter, value)
            state.setdefault(int(number), {})[name] = value
        groups = [{**group, **({"betas": tuple(group["betas"])} if "betas" in group else {})}
                  for group in values["groups"]]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.schedule.load_state_dict(values["schedule"])
        self.task.restore(part["task"], values["task"])
        own = f"generators.{self.number}."
        generators.restore({name[len(own):]: value for name, value in tensors.items() if name.startswith(own)})
        self.step, self.losses = step, losses

    def _note(self, norm: float, took: float) -> None:
        lately = self.losses[-LOGGED:]
        line = {"task": self.task.name, "network": self.task.which, "seed": self.seed, "step": self.step,
                "of": self.steps, "loss": sum(lately) / len(lately), "norm": norm,
                "rate": self.rate, "took_s": round(took, 3)}
        for what in ("loss", "norm", "rate") if self.board else ():
            self.board.add_scalar(f"{self.task.name} ({self.task.which})/{what}", line[what], self.step)
        if not self._log:
            return
        try:
            private.folder(self._log.parent)
            with open(self._log, "a", encoding="utf-8", opener=private.opener) as file:     # others may write to it,
                file.write(json.dumps(line) + "\n")     # so it is one write
        except OSError as error:
            raise TrainingError(f"cannot write the log {self._log} ({error.strerror or error}); make room, or name "
                                f"another file with --log") from error
