# SPDX-License-Identifier: Apache-2.0
"""Whole trainings: from a task's name to weight files and held-out figures; one, or all at once.

One after the other all would leave cores idle: those of motor and language run on one thread each.
"""
from __future__ import annotations

import errno
import os
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Iterator, Sequence

import numpy as np
import torch

from brain_runtime.graphs import DEFAULT
from brain_training import tasks
from brain_training.at_once import Failed, Job, at_once
from brain_training.checkpoint import held
from brain_training.task import Progress, Task, TrainingError
from brain_training.trainer import PERIOD, Trainer

PARTS = 10      # of the way, of which the mean loss is told
NICE = 5        # of the trainings that are not the longest: at the end of all it would leave the others' cores idle


@dataclass(frozen=True)
class Settings:
    """How it is trained.

    Attributes:
        seed: of weights, data and order.
        quick: a tiny run, whose weights are worth nothing.
        threads: torch's; None: the task's own number, or one where several are trained at once.
        device: torch's.
        checkpoints: folder for the checkpoints; None: that of the weight files.
        resume: go on from the checkpoints that there are.
        period: s between two checkpoints.
        log: file that lines of JSON are added to.
        graph: name or path of the graph whose regions are trained.
    """

    seed: int = 0
    quick: bool = False
    threads: int | None = None
    device: str = "cpu"
    checkpoints: Path | None = None
    resume: bool = False
    period: float = PERIOD
    log: Path | None = None
    graph: str = DEFAULT

    def check(self) -> None:
        """Raises ValueError where the device is not there."""
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            why = str(error).splitlines()[0]
            raise ValueError(f"there is no device {self.device!r} here ({why}); use --device cpu") from None

    def checkpoint(self, file: Path) -> Path:
        """The checkpoint of a weight file's training."""
        return (self.checkpoints or file.parent) / f"{file.stem}.checkpoint"


def files(name: str, out: Path | None, graph: str = DEFAULT) -> dict[str, Path]:
    """The weight file of each network of a region's task: ``out``, and the ANN baseline's beside it; None: the shipped.

    Their folder is made where it is not there.

    Raises:
        OSError: nothing can be written there.
    """
    cls = tasks.load(name, graph)
    found = cls.files() if out is None else {
        which: out if which == "spiking" else out.with_name(f"{out.stem}_{which}{out.suffix}")
        for which in tasks.networks(cls)}
    for file in found.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
        if not os.access(file.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file.parent))
    return found


def train_networks(name: str, networks: Sequence[str], out: Path | None, settings: Settings, progress: Progress
                   ) -> dict[str, dict[str, Any]]:
    """Trains networks of one task in this process, one after the other, and writes their weight files.

    Returns:
        Of each network: held-out figures, mean ``losses`` of the parts of the way, ``training_s``.

    Raises:
        OSError: a file cannot be written; of the weight files it is known before anything is trained.
        ValueError: something is missing that the task needs; known before anything is trained.
        CheckpointError: a checkpoint cannot be resumed from, or written.
        TrainingError: a loss is not a number.
    """
    paths, cls = files(name, out, settings.graph), tasks.load(name, settings.graph)
    todo = {which: cls(which, quick=settings.quick) for which in networks}
    for task in todo.values():
        task.check()
    before = torch.get_num_threads()
    torch.set_num_threads(settings.threads or cls.threads)
    try:
        trained, found = {}, {}
        for which, task in todo.items():
            begin = time.monotonic()
            task.share(todo[networks[0]])
            trainer = Trainer(task, settings.seed, device=settings.device, period=settings.period, log=settings.log,
                              checkpoint=settings.checkpoint(paths[which]), progress=progress)
            if settings.resume:
                trainer.resume()
            trained[which] = trainer.run()
            parts = np.array_split(np.array(trainer.losses), min(PARTS, len(trainer.losses)))
            found[which] = {"losses": [float(part.mean()) for part in parts]}, time.monotonic() - begin
        for which, task in todo.items():
            losses, took = found[which]
            figures = {**losses, **task.score(trained[which], progress)}
            training = {"split": "train", "seed": settings.seed, "recipe": asdict(task.recipe)}
            task.export(paths[which], trained[which], training, figures)    # without times: the same file each time
            found[which] = {**figures, "training_s": took}
        return found
    finally:
        torch.set_num_threads(before)


def _jobs(cls: type[Task]) -> list[tuple[str, ...]]:
    """The networks of a task by the process that they are trained in."""
    networks = tasks.networks(cls)
    return [(which,) for which in networks] if cls.apart else [networks]


def _report(name: str, out: Path | None, found: dict[str, dict[str, Any]], graph: str) -> dict[str, Any]:
    """Figures of a task, with ``network`` and ``files``, those of others beside those of the networks."""
    cls = tasks.load(name, graph)
    beside = {other: found["spiking"].pop(other) for other in cls.beside}
    return {"network": name, "files": [str(file) for file in files(name, out, graph).values()], **beside,
            **{which: found[which] for which in tasks.networks(cls)}}


@contextmanager
def _alone(names: Sequence[str], outs: Sequence[Path | None], settings: Settings) -> Iterator[None]:
    """Keeps other commands from what these trainings write; CheckpointError where one is writing it."""
    paths: list[Path] = []
    for name, out in zip(names, outs):
        with suppress(OSError):     # what cannot be written ends its own training, which tells, and no other
            paths += [settings.checkpoint(file) for file in files(name, out, settings.graph).values()]
    with ExitStack() as stack:
        for path in sorted(paths):      # in one order, so that of two that begin at once one goes on
            stack.enter_context(held(path))
        yield


def _forget(names: Sequence[str], outs: Sequence[Path | None], settings: Settings) -> None:
    """Removes the checkpoints of trainings that are done."""
    for name, out in zip(names, outs):
        for file in files(name, out, settings.graph).values():
            settings.checkpoint(file).unlink(missing_ok=True)


def train(name: str, out: Path | None, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Runs one training, and writes its weight files; see :func:`train_networks`.

    Args:
        name: of a task.
        out: weight file, with the ANN baseline's beside it; None: the shipped ones.
        settings: how.
        progress: told what is done.

    Returns:
        Its figures by network, with ``network`` and ``files``.
    """
    settings.check()
    files(name, out, settings.graph)
    cls = tasks.load(name, settings.graph)
    cls(quick=settings.quick).check()
    parts = _jobs(cls)
    with _alone([name], [out], settings):
        if len(parts) == 1:
            found = train_networks(name, parts[0], out, settings, progress)
        else:
            found = {}
            jobs = {part[0]: Job(train_networks, (name, part, out, settings)) for part in parts}
            for which, made in at_once(jobs, progress):
                if isinstance(made, Failed):
                    raise TrainingError(f"the training of {name} ({which}) failed: {made.why}")
                found |= made
        _forget([name], [out], settings)
    return _report(name, out, found, settings.graph)


def train_all(folder: Path | None, settings: Settings, progress: Progress, names: Sequence[str] | None = None
              ) -> Iterator[dict[str, Any]]:
    """Runs trainings at once, each on one thread, and yields what each came to when it is done; see :func:`train`.

    Args:
        folder: for the weight files; None: the shipped ones are replaced.
        settings: how.
        progress: told what is done.
        names: of the tasks; None: all.

    Raises:
        CheckpointError: another command is writing what this one would.
        TrainingError: some failed; the others went on, and were yielded before.
        ValueError: the device is not there, or what a task needs; known before anything is trained.
    """
    settings.check()
    names = tasks.names(settings.graph) if names is None else names
    classes = {name: tasks.load(name, settings.graph) for name in names}
    for cls in classes.values():
        cls(quick=settings.quick).check()
    settings = replace(settings, threads=settings.threads or 1)
    outs = [None if folder is None else folder / f"{name}.safetensors" for name in names]
    jobs, whose = {}, {}
    for name, out in zip(names, outs):
        for part in _jobs(classes[name]):
            key = f"{name} ({', '.join(part)})"
            whose[key] = name, out
            jobs[key] = Job(_named, (name, part, out, settings), 0 if classes[name].longest else NICE)
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    failed = []
    with _alone(names, outs, settings):
        for key, made in at_once(jobs, progress):
            name, out = whose[key]
            if isinstance(made, Failed):
                failed.append(f"the training of {key} failed: {made.why}")
                continue
            found[name] |= made
            if set(found[name]) == set(tasks.networks(classes[name])):
                yield _report(name, out, found[name], settings.graph)
        if failed:
            raise TrainingError("; ".join(failed))
        _forget(names, outs, settings)


def _named(name: str, networks: Sequence[str], out: Path | None, settings: Settings, progress: Progress
           ) -> dict[str, dict[str, Any]]:
    """:func:`train_networks`, of which the bars say whose they are."""
    return train_networks(name, networks, out, settings,
                          lambda what, done, of, note: progress(f"{name}: {what}", done, of, note))
