# SPDX-License-Identifier: Apache-2.0
"""What the ranks of test_checkpoints do."""
from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import resource
import threading
from pathlib import Path
from typing import Any

import numpy as np
import parallel_tasks as tiny
import torch
import torch.distributed as dist
from torch import Tensor

from brain_training import checkpoint_folder
from brain_training.checkpoint import CheckpointError, all_of, folder_of
from brain_training.language import LanguageTask
from brain_training.language_loss import Recipe as LanguageRecipe
from brain_training.motor import MotorTask
from brain_training.parallel.group import Ranks
from brain_training.parallel.how import How
from brain_training.parallel.plan import maker, parse
from brain_training.task import Task, TrainingError
from brain_training.trainer import Trainer


def task(name: str) -> Task:
    """A small one."""
    if name == "motor":
        return MotorTask(quick=True, recipe=dataclasses.replace(MotorTask.tiny, rooms=3, robots=4, steps=20,
                                                                iterations=6))
    if name == "language":
        return LanguageTask(recipe=LanguageRecipe(sentences=66, batch=11, chapters=2))
    return tiny.Spikes()


def alone(name: str, path: Path) -> Trainer:
    """One process."""
    return Trainer(task(name), 3, checkpoint=path)


def together(name: str, form: str, path: Path | None, **more: Any) -> Any:
    """The trainer of a form, as ``tp=2/classic``."""
    plan, _, tensor = form.partition("/")
    how = How(parse(plan), "gloo", exact=True, microbatches=2, tensor=tensor or "exact")
    return maker(how.plan)(task(name), 3, ranks=Ranks(exact=True), how=how, checkpoint=path, **more)


def digest(states: tuple[Any, dict[str, Any]], losses: list[float]) -> str:
    """Of weights, optimizer's state and losses, to the bit."""
    weights, optimizer = states
    found = hashlib.sha256(json.dumps(losses).encode())
    its: dict[str, Tensor] = {**weights, **{f"{number:04}.{name}": value for number, state in optimizer["state"].items()
                                            for name, value in state.items()}}
    for name, value in sorted(its.items()):
        found.update(name.encode() + str(tuple(value.shape)).encode() + value.detach().contiguous().numpy().tobytes())
    return found.hexdigest()


def written(rank: int, name: str, form: str, path: Path, steps: int = 3) -> tuple[str, list[int]]:
    """Trains a little and writes a checkpoint; what it is of, and the bytes of its files."""
    trainer = together(name, form, path)
    for _ in range(steps):
        trainer.advance()
    trainer.save()
    before = digest(trainer.states(), trainer.losses)
    trainer.advance()       # while it is written
    trainer.written()
    return before, sorted(file.stat().st_size for file in all_of(folder_of(path))[0].glob("*.safetensors"))


def taken(rank: int, name: str, form: str, path: Path) -> tuple[int, str]:
    """Takes a checkpoint up, looks at it, and goes on for a step."""
    trainer = together(name, form, path)
    step = trainer.resume()
    found = digest(trainer.states(), trainer.losses)
    trainer.advance()
    return step, found


def rotated(rank: int, path: Path) -> list[str]:
    """Names after five checkpoints, of which the last is being written."""
    trainer = together("spikes", "dp=2,zero=3", path)
    for _ in range(5):
        trainer.advance()
        trainer.save()
    trainer.written()
    return sorted(entry.name for entry in folder_of(path).iterdir())


def grown(rank: int, path: Path) -> list[int]:
    """What a checkpoint says of a list that has grown since it was begun, and before it was written."""
    trainer, course = together("spikes", "dp=2", path), [1, 2]
    slow = checkpoint_folder._Writer.write_data     # so that the list has grown when the rest is written

    def write_data(self: Any, plan: Any, planner: Any) -> Any:
        more.wait(120)
        return slow(self, plan, planner)

    more = threading.Event()
    checkpoint_folder._Writer.write_data = write_data       # type: ignore[method-assign]
    trainer.task.state = lambda: ({}, {"course": course})
    trainer.advance()
    trainer.save()
    course.append(3)
    more.set()
    trainer.written()
    found: list[int] = checkpoint_folder.load(newest(path), lambda name, size, dtype: torch.empty(size, dtype=dtype)
                                              )[1]["task"]["course"]
    return found


def refused(rank: int, path: Path) -> list[str]:
    """Why a checkpoint is not taken up: as it is, and by another seed."""
    said = []
    for other in (False, True):
        trainer = together("spikes", "dp=2,zero=2", path)
        trainer.seed += other
        try:
            said.append(str(trainer.resume()))
        except CheckpointError as error:
            said.append(str(error))
    return said


def full(rank: int, path: Path) -> tuple[str, list[str], int]:
    """A disk that takes no more of rank 1 after the first checkpoint: what is said, what is left, what is resumed."""
    trainer = together("spikes", "dp=2,zero=3", path, period=0.0)
    for _ in range(4):
        trainer.advance()
    trainer.save()
    trainer.written()
    said, soft = "", resource.getrlimit(resource.RLIMIT_FSIZE)
    if rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, soft[1]))
    try:
        trainer.run()
    except CheckpointError as error:
        said = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, soft)
    dist.barrier()      # rank 0 takes away what is half written
    left = sorted(entry.name for entry in folder_of(path).iterdir())
    return said, left, together("spikes", "dp=2", path).resume()


def not_a_number(rank: int, path: Path) -> tuple[str, int]:
    """A loss that is none right after a checkpoint was begun: the checkpoint is there."""
    tiny.Spikes.wrong_at = 127
    trainer, said = together("spikes", "dp=2,zero=1", path, period=0.0), ""
    try:
        trainer.run()
    except TrainingError as error:
        said = str(error)
    tiny.Spikes.wrong_at = None
    return said, together("spikes", "dp=2", path).resume()


def apart(rank: int, path: Path) -> tuple[int, str]:
    """Each rank has a disk of its own: rank 0 writes all of it, and tells it to the others."""
    own = path.with_name(f"of rank {rank}") / path.name
    trainer = together("spikes", "dp=2,zero=3", own)
    for _ in range(3):
        trainer.advance()
    trainer.save()
    trainer.written()
    before, left = digest(trainer.states(), trainer.losses), own.is_file()
    again = together("spikes", "dp=2,zero=1", own)
    assert again.resume() == 3 and left == (rank == 0)
    weights = again.network.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in trainer.states()[0].items())
    return int(left), before


def drawn(rank: int, path: Path, resume: bool) -> list[float]:
    """What the generators of a process draw after a checkpoint."""
    torch.manual_seed(rank)
    np.random.seed(rank)
    random.seed(rank)
    trainer = together("spikes", "dp=2", path)
    torch.rand(3), np.random.normal(), random.gauss(0, 1)
    if resume:
        torch.rand(5), np.random.normal(size=4), random.random()
        trainer.resume()
    else:
        trainer.advance()
        trainer.save()
        trainer.written()
    return [float(torch.rand(1)), np.random.normal(), random.gauss(0, 1)]


def newest(path: Path) -> Path:
    """The newest checkpoint of several."""
    return all_of(folder_of(path))[0]


PART, KEPT = checkpoint_folder.PART, checkpoint_folder.KEPT
