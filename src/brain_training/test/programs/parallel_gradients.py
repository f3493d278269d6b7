# SPDX-License-Identifier: Apache-2.0
"""One rank: gradients of the first step by all ranks against those of one process, in float64, with batch statistics.

Prints the greatest difference of each network, relative to the greatest gradient of its tensor, and that of its
statistics.
"""
from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import torch.distributed as dist

from brain_training.definitions import motor as motor_definition
from brain_training.definitions import vision as vision_network
from brain_training import language, motor, vision
from brain_training.language_loss import Recipe as LanguageRecipe
from brain_training.parallel.group import Ranks, leave
from brain_training.parallel.how import How
from brain_training.parallel.plan import maker, parse
from brain_training.trainer import Trainer

tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("parallel_tasks.py")), run_name="parallel_tasks"))
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.Tensor.float = torch.Tensor.double    # what casts to single precision, in losses and encodings, stays double
for module in (vision_network, motor_definition):
    def weights(*args, single=module.li_weights, **more):
        kept, found = single(*args, **more)
        return kept, found.double()

    module.li_weights = weights


def double(cls):
    """A task in float64."""
    class Double(cls):
        def build(self, seed):
            return super().build(seed).double()

        def collate(self, samples):
            return tuple(part.double() if part.is_floating_point() else part for part in super().collate(samples))

    return Double


def tasks():
    """Fresh ones; every process makes its own."""
    for which in ("spiking", "ann"):
        yield double(language.LanguageTask)(which, recipe=LanguageRecipe(sentences=66, batch=11, chapters=2))
        yield double(vision.VisionTask)(which, recipe=vision.Recipe(rooms=3, clips_per_room=2, batch=5))
        yield double(motor.MotorTask)(which, recipe=motor.Recipe(rooms=2, robots=5, rounds=1, steps=16, iterations=2,
                                                                 batch=5))
    yield tiny.Normed()


def gradients(trainer):
    """Of the second step, after one step and with what it changed."""
    with torch.no_grad():
        for parameter in trainer.network.parameters():
            parameter.mul_(1.01)
    trainer.advance()
    indices = trainer.task.indices(3, 1)
    trainer.optimizer.zero_grad()
    trainer.passed(indices)
    return [None if p.grad is None else p.grad.clone() for p in trainer.network.parameters()], [
        b.clone() for b in trainer.network.buffers()]


dist.init_process_group("gloo")
how = How(parse(f"dp={os.environ['WORLD_SIZE']}"), "gloo")
for together, alone in zip(tasks(), tasks()):
    ours, statistics = gradients(maker(how.plan)(together, 3, ranks=Ranks(), how=how))
    if dist.get_rank() == 0:
        theirs, those = gradients(Trainer(alone, 3))
        # a bias before a normalization has no gradient but what is rounded
        most = max(float(b.abs().max()) for b in theirs)
        worst = max(float((a - b).abs().max() / b.abs().max()) if b.abs().max() > 1e-9 * most
                    else float(a.abs().max() > 1e-9 * most) for a, b in zip(ours, theirs))
        off = max([float((a - b).abs().max() / b.abs().max().clamp(min=1e-300)) for a, b in zip(statistics, those)],
                  default=0.0)
        assert np.isfinite(worst) and most > 0, alone.name
        print("gradients", alone.name, alone.which, worst, off, file=sys.stdout, flush=True)
leave()
