# SPDX-License-Identifier: Apache-2.0
"""Pipeline parallel: the layers of a network are cut into stages, through which micro-batches pass one after another.

torch's schedules say who computes what when (``torch.distributed.pipelining``); :mod:`.chain` cuts the networks, and
:mod:`.pipeline_stage` is what goes over the wire. The gradient of a step is that of the mean over its micro-batches,
each weighed by its samples, which is what one process comes to that works through them one by one
(:func:`one_by_one`).
"""
from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from brain_training.definitions.language import SpikingReader
from brain_training.definitions.motor import MotorNetwork
from brain_training.definitions.vision import SpikingVision
from brain_training.parallel.chain import Chain, Micro, Stage, cuts, needed
from brain_training.parallel.chain_reader import ReaderChain
from brain_training.parallel.chains import MotorChain, VisionChain
from brain_training.parallel.divided import declared
from brain_training.parallel.group import Ranks
from brain_training.task import Lost, Task, TrainingError

GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE = "gpipe", "1f1b", "interleaved", "zero-bubble"
SCHEDULES = (GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE)
CHAINS: dict[type[nn.Module], type[Chain]] = {
    SpikingVision: VisionChain, SpikingReader: ReaderChain, MotorNetwork: MotorChain}
TORCH = "2.13"      # whose stages and schedules are built on


class Sent(NamedTuple):
    """Traffic of the stages of this rank: bytes that they have sent.

    Attributes:
        forward, backward: bytes.
        floats: what those forward would have been as floats.
        most: micro-batches whose backward pass was to come, at most, by stage.
    """

    forward: int
    backward: int
    floats: int
    most: dict[int, int]


def chain(task: Task, network: nn.Module) -> Chain:
    """The sections of a network. Raises TrainingError where there is no chain of it."""
    cls = CHAINS.get(getattr(type(network), "whole_class", type(network))) or declared(network, "chain", task.name)
    if cls is None or not getattr(network, "spiking", True):
        raise TrainingError(f"the network of {task.name} ({task.which}) has no chain of sections to cut: its class "
                            f"{type(network).__name__} names none as `chain`; train it with dp, zero or ps, or in one "
                            f"process")
    return cls(task, network)


def one_by_one(of: Chain, micros: list[Micro]) -> Lost:
    """Computes in one process what a pipeline does: each micro-batch forward and back; gradients are added to."""
    of.begin(len(micros))
    values, hard = [], []
    for micro in micros:
        lost = of.whole(micro)
        value = lost.value * micro.share
        value.backward()
        values.append(value.detach())
        hard.append(lost.hard)
    return _together(values, hard)


def _together(values: list[Tensor], hard: list[Tensor | None]) -> Lost:
    of_all = None if any(one is None for one in hard) else torch.cat(hard)     # type: ignore[arg-type]
    return Lost(torch.stack(values).sum(), of_all)


class Pipeline:
    """The stages of this rank.

    Args:
        task, network: the whole network of a task, the same on all ranks; only the weights of the own stages are used.
        micros: micro-batches of a step.
        schedule: one of :data:`SCHEDULES`.
        group: of the ranks; None: all.
        each: stages of a rank, for interleaved and zero-bubble.

    Attributes:
        owner: rank in the group of each parameter and buffer that belongs to a stage.
        spans: what the own stages did when, see :class:`.pipeline_stage.Span`; None, as at first: nobody asks.

    Raises:
        ValueError: there is no such schedule.
        TrainingError: what is asked for does not fit, with the reason.
    """

    def __init__(self, task: Task, network: nn.Module, micros: int, schedule: str = ONE_F_ONE_B,
                 group: dist.ProcessGroup | None = None, each: int | None = None) -> None:
        if schedule not in SCHEDULES:
            raise ValueError(f"no schedule {schedule!r}; there are {', '.join(SCHEDULES)}")
        if not torch.__version__.startswith(f"{TORCH}."):
            raise TrainingError(f"pipelines are built on torch {TORCH}, and this is {torch.__version__}; install that")
        self.task, self.network, self.group, self.schedule = task, network, group, schedule
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._posts = Ranks(group).posts()
        self.each = each or (2 if schedule == INTERLEAVED else 1)
        self.count, self.stages = micros, self.size * self.each
        if self.each > 1 and schedule in (GPIPE, ONE_F_ONE_B):
            raise TrainingError(f"schedule {schedule} has one stage a rank, not {self.each}; take {INTERLEAVED}")
        if micros < self.size:
            raise TrainingError(f"{micros} micro-batches do not fill {self.size} ranks; take --microbatches "
                                f"{self.size} or more")
        if self.each > 1 and micros % self.size:
            raise TrainingError(f"schedule {schedule} takes a multiple of {self.size} micro-batches, not {micros}")
        self.chain = chain(task, network)
        self.modules: dict[int, Stage] = {}
        self.owner: dict[str, int] = {}
        self._built: dict[Any, tuple[Any, list[Any]]] = {}
        self._past: list[Any] = []
        self.spans: list[Any] | None = None

    def cut(self, micro: Micro) -> None:
        """Cuts the network, by the cost of a sample like this one; where it is cut never changes.

        Raises:
            TrainingError: there are more stages than sections.
        """
        sections = self.chain.sections(micro)
        try:
            first = [*cuts([section.cost for section in sections], self.stages), len(sections)]
        except ValueError as error:
            raise TrainingError(f"the network of {self.task.name} does not make {self.stages} stages: {error}"
                                ) from error
        self.ranges = [range(a, b) for a, b in zip(first, first[1:])]
        for number, numbers in enumerate(self.ranges):
            names = self.chain.owned(sections[k] for k in numbers)
            self.owner |= {name: number % self.size for name in names}
            if number % self.size == self.rank:
                self.modules[number] = Stage(self.chain, numbers, micro)

    def own(self) -> list[str]:
        """Names of the parameters and buffers of the own stages."""
        return [name for name, rank in self.owner.items() if rank == self.rank]

    def step(self, batch: tuple[Tensor, ...], rng: Callable[[], Any], replicas: Sequence[int] = ()) -> Lost:
        """Passes a batch through all stages and back; gradients of the own weights are added to.

        Args:
            batch: as the task collates it; all ranks have the same.
            rng: gives the generator that the loss draws from, anew each time.
            replicas: samples of the batch of each replica, where there are several; none: the batch is whole.

        Returns:
            The loss of the step and how hard each sample was, on all ranks.

        Raises:
            TrainingError: the batch has fewer samples than there are micro-batches.
        """
        samples = batch[0].shape[self.chain.dims[0]]
        if samples < self.count:
            raise TrainingError(f"a batch of {samples} samples does not make {self.count} micro-batches; lower "
                                f"--microbatches")
        micros = self.chain.micros(batch, self.count, rng, replicas)
        if not self.owner:
            self.cut(micros[0])
        self.chain.begin(self.count)
        run, stages = self._ready(micros)
        losses: list[Tensor] = []
        numbers = torch.arange(self.count)
        for stage in stages:
            stage.spans = self.spans
            stage.expect([self.chain.kinds(micro) for micro in micros])
            stage.submod.micros, stage.submod.hard = micros, {}
        run.step(number=numbers, target=numbers, losses=losses, return_outputs=False)
        for stage in stages:
            stage.settle()
        return self._told(losses, stages, samples, batch[0].device)

    def _ready(self, micros: list[Micro]) -> tuple[Any, list[Any]]:
        """The schedule and its stages. Once built they take any shapes: what crosses is said before each step."""
        from torch.distributed import pipelining as torchs

        from brain_training.parallel.pipeline_stage import PackedStage

        key = len(micros[0].batch[0].shape) and self.chain.sections(micros[0])[0].writes
        if key not in self._built:      # pictures in a clip, which are values of their own
            device = micros[0].batch[0].device
            modules = {number: Stage(self.chain, self.ranges[number], micros[0]) for number in self.modules}
            stages = [PackedStage(module, number, self.stages, self.group, device, self._posts)
                      for number, module in modules.items()]
            more: dict[str, Any] = {"loss_fn": lambda output, target: output, "scale_grads": False}
            run: Any
            if self.schedule == GPIPE:
                run = torchs.ScheduleGPipe(stages[0], self.count, **more)
            elif self.schedule == ONE_F_ONE_B:
                run = torchs.Schedule1F1B(stages[0], self.count, **more)
            elif self.schedule == INTERLEAVED:
                run = torchs.ScheduleInterleaved1F1B(stages, self.count, **more)
            else:
                run = torchs.ScheduleInterleavedZeroBubble(stages, self.count, **more)
            self._built[key] = run, stages
        return self._built[key]

    def _told(self, losses: list[Tensor], stages: list[Any], samples: int, device: torch.device) -> Lost:
        """The last stage's rank tells the others."""
        last = (self.stages - 1) % self.size
        told = torch.full((2 + samples,), float("nan"), device=device)
        if self.rank == last:
            hard = next(stage for stage in stages if stage.is_last).submod.hard
            lost = _together([loss.detach() for loss in losses], [hard[number] for number in range(self.count)])
            told[0], told[1] = lost.value, float(lost.hard is not None)
            if lost.hard is not None:
                told[2:] = lost.hard
        dist.broadcast(told, self._global(last), group=self.group)
        return Lost(told[0], told[2:] if told[1] else None)

    def _global(self, rank: int) -> int:
        return dist.get_global_rank(self.group or dist.group.WORLD, rank)

    @torch.no_grad()
    def joined(self) -> dict[str, Tensor]:
        """The state of the whole network; all ranks call it, and all have it. The network takes it over."""
        return self.shared(self.network.state_dict())

    @torch.no_grad()
    def shared(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Gives each rank what the owner of a name has there, in place. All ranks have values of the same shapes."""
        for name, value in values.items():
            if name in self.owner:
                there = value.contiguous()
                dist.broadcast(there, self._global(self.owner[name]), group=self.group)
                value.copy_(there)
        return values

    def sent(self) -> Sent:
        """Sums up what the own stages have sent so far."""
        stages = [stage for _, built in self._built.values() for stage in built]
        total = {what: sum(stage.bytes[what] for stage in stages) for what in ("forward", "backward", "forward_floats")}
        return Sent(*total.values(), {stage.stage_index: stage.most for stage in stages})

    def boundaries(self, micro: Micro) -> list[list[str]]:
        """Names of the values that cross each cut."""
        sections = self.chain.sections(micro)
        return [needed(sections, numbers.start) for numbers in self.ranges[1:]]
