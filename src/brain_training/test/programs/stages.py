# SPDX-License-Identifier: Apache-2.0
"""What the ranks of test_pipeline do."""
from __future__ import annotations

import copy
import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from networks_here import network
from torch import Tensor

from brain_regions.vision.network import COLORS, COLUMNS, HEIGHT, INPUTS, KINDS, SLOTS, WIDTH
from brain_training.language import LanguageTask
from brain_training.language_data import MENTION
from brain_training.motor import MotorTask
from brain_training.parallel.pipeline import Pipeline, chain, one_by_one
from brain_training.parallel.pipeline_trainer import PipelineTrainer
from brain_training.task import TrainingError, stream
from brain_training.vision import VisionTask

TASKS = {"vision": VisionTask, "language": LanguageTask, "motor": MotorTask}
QUICK = dataclasses.replace(MotorTask.tiny, rooms=3, robots=4, steps=20, iterations=6)


def batch(name: str, size: int) -> tuple[Tensor, ...]:
    """A batch as a task collates it, of noise."""
    drawn = torch.Generator().manual_seed(7)
    if name == "vision":
        target = torch.randn(size, 2, SLOTS, 6, COLUMNS, generator=drawn)
        target[:, :, :, 0] = torch.randint(-1, COLORS, (size, 2, SLOTS, COLUMNS), generator=drawn).float()
        target[:, :, :, 1] = torch.randint(0, KINDS, (size, 2, SLOTS, COLUMNS), generator=drawn).float()
        target[:, :, :, 5] = 1.0
        return torch.randn(size, 2, INPUTS, HEIGHT, WIDTH, generator=drawn), target
    if name == "motor":
        return (torch.rand(8, size, network("motor").w0.shape[0], generator=drawn),
                torch.randint(0, 3, (8, size, 3), generator=drawn).float(), torch.ones(8, size))
    marks = torch.zeros(size, 23, dtype=torch.int64)
    marks[:, 3:7] = int(MENTION) | 1
    lengths = torch.randint(15, 24, (size,), generator=drawn)
    return (torch.randint(97, 120, (size, 23), generator=drawn), lengths,
            torch.randint(0, 4, (size,), generator=drawn), marks)


def piped(rank: int, name: str, schedule: str, micros: int, each: int | None, size: int, steps: int = 1) -> dict:
    """A network in stages beside the same one in one process, which works through the same micro-batches."""
    warnings.simplefilter("ignore", FutureWarning)
    task, net = TASKS[name](quick=True), network(name)
    net.train()
    alone, by_forward = copy.deepcopy(net), copy.deepcopy(net)
    pipeline = Pipeline(task, net, micros, schedule, None, each)
    off, same = {}, []
    for step in range(steps):
        whole = batch(name, size + step)        # another size: what crosses has other shapes
        if name == "vision":        # by rates at the beginning, as it runs at the end
            for one in (net, alone, by_forward):
                task.begin(0, step and task.steps - 1, one, lambda *news: None)

        def rng(step: int = step) -> np.random.Generator:
            return stream("step", 0, step)

        ours = pipeline.step(whole, rng)
        sections = chain(task, alone)
        parts = sections.micros(whole, micros, rng)
        right = one_by_one(sections, parts)
        for micro in parts:
            (task.loss(by_forward, micro.batch, rng()).value * micro.share).backward()
        same.append(torch.equal(ours.value, right.value)
                    and (right.hard is None or torch.equal(ours.hard, right.hard)))
    own, right_grads = set(pipeline.own()), dict(alone.named_parameters())
    for of, parameter in net.named_parameters():
        if of in own:
            right_grad = right_grads[of].grad
            off[of] = float("inf") if parameter.grad is None else float(
                (parameter.grad - right_grad).norm()) / max(float(right_grad.norm()), 1e-6)
        else:
            assert parameter.grad is None
    state = pipeline.joined()
    return {"off": off, "same": same, "sent": pipeline.sent(), "boundaries": pipeline.boundaries(parts[0]),
            "chain": all(torch.equal(a.grad, b.grad) for a, b in zip(alone.parameters(), by_forward.parameters())),
            "state": [of for of, value in alone.state_dict().items() if not torch.equal(value, state[of])]}


def trained(rank: int, path: Any, until: int, resume: bool) -> dict:
    """Some steps of motor's training, with pp=2."""
    warnings.simplefilter("ignore", FutureWarning)
    trainer = PipelineTrainer(MotorTask(quick=True, recipe=QUICK), 3, micros=4, checkpoint=path)
    if resume:
        assert trainer.resume() == 3
    while trainer.step < until:
        trainer.advance()
    if path and not resume:
        trainer.save()
        trainer.written()
    state = sum(len(one) for one in trainer.optimizer.state.values())
    return {"losses": trainer.losses, "state": trainer.trained().state_dict(), "optimizer": state}


def refused(rank: int) -> list[str]:
    """What is said where a pipeline cannot be."""
    said = []
    motor, net = MotorTask(quick=True), network("motor")

    def rng() -> np.random.Generator:
        return stream("step", 0, 0)

    for asked in ((4, "backwards"), (1, "1f1b"), (4, "1f1b", None, 2), (3, "interleaved")):
        with pytest.raises((TrainingError, ValueError)) as found:
            Pipeline(motor, net, *asked)
        said.append(str(found.value))
    with pytest.raises(TrainingError) as found:
        Pipeline(motor, net, 4, "1f1b").step(batch("motor", 3), rng)
    said.append(str(found.value))
    with pytest.raises(TrainingError) as found:
        Pipeline(motor, net, 4, "interleaved", None, 3).step(batch("motor", 4), rng)
    said.append(str(found.value))
    from brain_training.definitions.vision import AnnBaseline

    with pytest.raises(TrainingError) as found:
        Pipeline(VisionTask("ann", quick=True), AnnBaseline(), 2)
    return [*said, str(found.value)]
