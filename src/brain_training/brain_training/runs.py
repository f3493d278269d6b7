# SPDX-License-Identifier: Apache-2.0
"""Whole trainings: from a task's name to weight files and held-out figures; one, or all at once.

One after the other all would leave cores idle: those of motor and language run on one thread each.
"""
from __future__ import annotations

import errno
import os
import shutil
import time
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Sequence

import numpy as np
import torch

from brain_runtime.graph.graphs import DEFAULT
from brain_training import tasks
from brain_training.process_pool import Failed, Job, at_once
from brain_training.blamed import blamed, when
from brain_training.checkpoint import TEMPORARY, CheckpointError, folder_of, held, newest
from brain_training.parallel import plan as plans
from brain_training.parallel.how import How
from brain_training.settings import Settings
from brain_training.task import BASE, Progress, Task, TrainingError
from brain_training.trainer import Trainer

if TYPE_CHECKING:
    from brain_training.parallel.group import Ranks
    from brain_training.parallel.surviving import Survivors

PARTS = 10      # of the way, of which the mean loss is told
NICE = 5        # of the trainings that are not the longest: at the end of all it would leave the others' cores idle


def files(name: str, out: Path | None, graph: str = DEFAULT, size: str = BASE) -> dict[str, Path]:
    """The weight file of each network of a region's task: ``out``, and the ANN baseline's beside it; None: the shipped.

    Those of another size than base have it in their name where ``out`` is None.

    Their folder is made where it is not there.

    Raises:
        OSError: nothing can be written there.
    """
    found = places(name, out, graph, size)
    for file in found.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
        if not os.access(file.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file.parent))
    return found


def places(name: str, out: Path | None, graph: str = DEFAULT, size: str = BASE) -> dict[str, Path]:
    """The same, without a look at the disk."""
    cls = tasks.load(name, graph)
    if out is None:
        return {which: file if size == BASE else file.with_name(f"{file.stem}_{size}{file.suffix}")
                for which, file in cls.files().items()}
    return {
        which: out if which == "spiking" else out.with_name(f"{out.stem}_{which}{out.suffix}")
        for which in tasks.networks(cls)}


def _trainer(task: Task, settings: Settings, checkpoint: Path, progress: Progress, ranks: Ranks | None) -> Any:
    """The trainer of the form that is asked for."""
    more: dict[str, Any] = {"device": settings.device, "period": settings.period, "log": settings.log,
                            "checkpoint": checkpoint, "progress": progress}
    how = settings.how
    if ranks is not None:
        assert how.plan is not None
        trainer: Trainer = plans.maker(how.plan, how.survive)(task, settings.seed, ranks=ranks, how=how, **more)
    elif how.plan is not None:
        return plans.maker(how.plan)(task, settings.seed, how=how, **more)
    elif how.shards:
        from brain_training.parallel.shards import ShardsTrainer

        trainer = ShardsTrainer(task, settings.seed, shards=how.shards, micros=how.microbatches or 0, **more)
    else:
        trainer = Trainer(task, settings.seed, **more)
    if how.tensorboard is not None and (ranks is None or ranks.rank == 0):
        from torch.utils.tensorboard import SummaryWriter

        trainer.board = SummaryWriter(str(how.tensorboard))
    return trainer


def _survivors(ranks: Ranks | None, settings: Settings) -> Survivors | None:
    """The ranks, where they may die and the others go on."""
    if ranks is None or not settings.how.survive:
        return None
    from brain_training.parallel.surviving import Survivors

    return Survivors(ranks, settings.how)


def _trained(task: Task, settings: Settings, checkpoint: Path, progress: Progress, ranks: Ranks | None,
             survivors: Survivors | None) -> tuple[Any, list[float], dict[str, Any]]:
    """Trains one network; it, losses of all steps, and what the form costs, as :func:`train_networks` tells it."""
    trainer: Any = None

    def made(ranks: Ranks | None, how: How) -> Any:
        nonlocal trainer
        trainer = _trainer(task, replace(settings, how=how), checkpoint, progress, ranks)
        return trainer

    with blamed(task, lambda: when(trainer, ranks)):
        if survivors is not None:
            network, losses, cost = survivors.trained(made)
            return network, losses, {} if cost is None else {"parallel": cost}
        made(ranks, settings.how)
        if settings.resume:
            _same_kind(checkpoint, settings.how)
            trainer.resume()
        network = trainer.run()
    return network, trainer.losses, {"parallel": trainer.cost().report()} if hasattr(trainer, "cost") else (
        {"served": trainer.report()} if hasattr(trainer, "report") else {})


def _same_kind(checkpoint: Path, how: How) -> None:
    """Raises CheckpointError where servers left what there is to resume from, and none train now, or reversed."""
    servers, ps = checkpoint.with_suffix(plans.SERVERS), how.plan is not None and how.plan.ps
    kept, written = any(servers.glob("shard-*.checkpoint")), newest(checkpoint)
    if kept and not ps and written is None:
        raise CheckpointError(f"{servers} is of a training with parameter servers; go on with --parallel ps=N,dp=M, or "
                              f"train without --resume")
    if ps and not kept and written is not None:
        raise CheckpointError(f"{written} is of a training without parameter servers; go on without ps, or train "
                              f"without --resume")


def train_networks(name: str, networks: Sequence[str], out: Path | None, settings: Settings, progress: Progress,
                   ranks: Ranks | None = None) -> dict[str, dict[str, Any]]:
    """Trains networks of one task in this process, one after the other, and writes their weight files.

    Args:
        name: of the task.
        networks: of it.
        out: see :func:`files`.
        settings: how.
        progress: told what is done.
        ranks: this process trains with others; all but rank 0 are done after the last step, and return nothing. Where
            ranks may die, whichever is the first at the end tells it to who started them, and all return nothing.

    Returns:
        Of each network: held-out figures, mean ``losses`` of the parts of the way, ``training_s``; of several ranks
        what the form costs, ``parallel``, of parameter servers ``served``.

    Raises:
        OSError: a file cannot be written; of the weight files it is known before anything is trained.
        ValueError: something is missing that the task needs; known before anything is trained.
        CheckpointError: a checkpoint cannot be resumed from, or written.
        TrainingError: a loss is not a number.
    """
    survivors = _survivors(ranks, settings)
    # A helper writes nothing, and its disk may be another one.
    helper = ranks is not None and ranks.rank > 0 and survivors is None
    paths = (places if helper else files)(name, out, settings.graph, settings.size)
    cls = tasks.load(name, settings.graph)
    todo = {which: settings.task(cls, which) for which in networks}
    for task in todo.values():
        task.check()
    before = torch.get_num_threads()
    torch.set_num_threads(settings.threads or (cls.threads if ranks is None else 1))
    try:
        trained, found = {}, {}
        for which, task in todo.items():
            begin = time.monotonic()
            task.share(todo[networks[0]])
            trained[which], losses, cost = _trained(task, settings, settings.checkpoint(paths[which]), progress, ranks,
                                                    survivors)
            parts = np.array_split(np.array(losses), min(PARTS, len(losses)))
            found[which] = {"losses": [float(part.mean()) for part in parts]}, cost, time.monotonic() - begin

        def examined() -> dict[str, dict[str, Any]]:
            made = {}
            for which, task in todo.items():
                losses, cost, took = found[which]
                with blamed(task, lambda: "after the last step"):
                    figures = {**losses, **task.score(trained[which], progress)}
                training = {"split": "train", "seed": settings.seed, "recipe": asdict(task.recipe)}
                task.export(paths[which], trained[which], training, figures)    # without times: the same file each time
                made[which] = {**figures, **cost, "training_s": took}
            return made

        if survivors is not None:
            survivors.finished(examined)
            return {}
        return {} if helper else examined()
    finally:
        torch.set_num_threads(before)


def _jobs(cls: type[Task]) -> list[tuple[str, ...]]:
    """The networks of a task by the process that they are trained in."""
    networks = tasks.networks(cls)
    return [(which,) for which in networks] if cls.apart else [networks]


def _report(name: str, out: Path | None, found: dict[str, dict[str, Any]], graph: str, size: str
            ) -> dict[str, Any]:
    """Figures of a task, with ``network`` and ``files``, those of others beside those of the networks."""
    cls = tasks.load(name, graph)
    beside = {other: found["spiking"].pop(other) for other in cls.beside}
    other = {} if size == BASE else {"size": size}
    return {"network": name, **other, "files": [str(file) for file in files(name, out, graph, size).values()], **beside,
            **{which: found[which] for which in tasks.networks(cls)}}


@contextmanager
def _alone(names: Sequence[str], outs: Sequence[Path | None], settings: Settings) -> Iterator[None]:
    """Keeps other commands from what these trainings write; CheckpointError where one is writing it."""
    paths: list[Path] = []
    for name, out in zip(names, outs):
        with suppress(OSError):     # what cannot be written ends its own training, which tells, and no other
            paths += [settings.checkpoint(file) for file in files(name, out, settings.graph, settings.size).values()]
    with ExitStack() as stack:
        for path in sorted(paths):      # in one order, so that of two that begin at once one goes on
            stack.enter_context(held(path))
        yield


def _forget(names: Sequence[str], outs: Sequence[Path | None], settings: Settings) -> None:
    """Removes the checkpoints of trainings that are done."""
    for name, out in zip(names, outs):
        for file in files(name, out, settings.graph, settings.size).values():
            checkpoint = settings.checkpoint(file)
            checkpoint.unlink(missing_ok=True)
            checkpoint.with_name(f"{checkpoint.name}{TEMPORARY}").unlink(missing_ok=True)    # of one that was killed
            for folder in (checkpoint.with_suffix(plans.SERVERS), folder_of(checkpoint)):
                shutil.rmtree(folder, ignore_errors=True)


def begun(name: str, out: Path | None, settings: Settings) -> bool:
    """Tells whether an earlier training left something that ``--resume`` goes on from, of any of its networks."""
    checkpoints = [settings.checkpoint(file) for file in places(name, out, settings.graph, settings.size).values()]
    return any(newest(one) is not None or one.with_suffix(plans.SERVERS).is_dir() for one in checkpoints)


def afresh(name: str, out: Path | None, settings: Settings) -> None:
    """Removes what an earlier training left to be resumed from, as the first checkpoint of a new one would.

    Raises:
        CheckpointError: another command is writing it.
    """
    with _alone([name], [out], settings):
        _forget([name], [out], settings)


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
    cls = tasks.load(name, settings.graph)
    if settings.how.plan is not None and not settings.how.plan.ps:
        return _together(name, out, settings, progress)
    files(name, out, settings.graph, settings.size)
    settings.task(cls).check()
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
    return _report(name, out, found, settings.graph, settings.size)


def _together(name: str, out: Path | None, settings: Settings, progress: Progress) -> dict[str, Any]:
    """:func:`train` by several processes: this one is one of them, or starts them. Of another than rank 0: nothing."""
    from brain_training.parallel import ranks

    if ranks.first():
        files(name, out, settings.graph, settings.size)
        settings.task(tasks.load(name, settings.graph)).check()
    if not ranks.started():
        from brain_training.parallel import watch

        how = settings.how
        return (_elastic if how.elastic else _survived if how.survive else watch.training)(name, out, settings)
    if settings.how.survive:
        with ranks.joined(settings) as (all_ranks, here):
            return train_networks(name, tasks.networks(tasks.load(name, settings.graph)), out, here, progress,
                                  all_ranks)
    with _alone([name], [out], settings) if ranks.first() else nullcontext():
        with ranks.joined(settings) as (all_ranks, here):
            found = train_networks(name, tasks.networks(tasks.load(name, settings.graph)), out, here, progress,
                                   all_ranks)
        if not ranks.first():
            return {}
        _forget([name], [out], settings)
    report = _report(name, out, found, settings.graph, settings.size)
    ranks.tell(report)
    return report


def _elastic(name: str, out: Path | None, settings: Settings) -> dict[str, Any]:
    """Starts ranks that may die and come, see :mod:`.parallel.elastic`. Empty where rank 0 is another agent's."""
    from brain_training.parallel import elastic, ranks

    how = settings.how
    assert how.elastic is not None and how.plan is not None
    os.environ.setdefault("OMP_NUM_THREADS", str(settings.threads or 1))
    written = files(name, out, settings.graph, settings.size).values()
    return elastic.launch(*how.elastic, how.plan.world, how.store, f"{name} (seed {settings.seed})",
                          ranks.command(name, out, replace(settings, resume=True)),
                          [folder_of(settings.checkpoint(file)) for file in written],
                          lambda: None if settings.resume else afresh(name, out, settings)) or {}


def _survived(name: str, out: Path | None, settings: Settings) -> dict[str, Any]:
    """Starts ranks of which some may die, see :mod:`.parallel.surviving`, and keeps other commands from their files."""
    from brain_training.parallel import watch

    with _alone([name], [out], settings):
        if not settings.resume:     # ranks go on from the newest that there is
            _forget([name], [out], settings)
        found = watch.training(name, out, settings)
        _forget([name], [out], settings)
    return _report(name, out, found, settings.graph, settings.size)


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
    if settings.how.parallel:
        raise ValueError("--parallel is of one region at a time; name one")
    names = tasks.names(settings.graph) if names is None else names
    classes = {name: tasks.load(name, settings.graph) for name in names}
    for cls in classes.values():
        settings.task(cls).check()
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
                yield _report(name, out, found[name], settings.graph, settings.size)
        if failed:
            raise TrainingError("; ".join(failed))
        _forget(names, outs, settings)


def _named(name: str, networks: Sequence[str], out: Path | None, settings: Settings, progress: Progress
           ) -> dict[str, dict[str, Any]]:
    """:func:`train_networks`, of which the bars say whose they are."""
    return train_networks(name, networks, out, settings,
                          lambda what, done, of, note: progress(f"{name}: {what}", done, of, note))
