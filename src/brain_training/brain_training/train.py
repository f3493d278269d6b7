# SPDX-License-Identifier: Apache-2.0
"""``brain train``: rebuilds trained weights from nothing."""
from __future__ import annotations

from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Callable, Iterator, Sequence

import typer

from brain_runtime.command.options import Json, check_writable, fail, tell, tell_json

if TYPE_CHECKING:
    from brain_training.parallel.how import How
    from brain_training.settings import Settings

BOTH = MappingProxyType({"spiking": "spiking", "ann": "ANN baseline"})
ALL = "all"
MOST_SEEDS = (1 << 63) - 1      # that torch takes


def train(
        name: Annotated[str, typer.Argument(metavar="REGION", help="A region that is trained, as vision, language or "
                                            "motor; or all: every one at once. The prefrontal cortex is wired. Or a "
                                            "task of your own, as module:Class.")],
        out: Annotated[Path | None, typer.Option(
            help="Weight file; the baseline's is beside it, with _ann in its name. Of all: a folder. Default: the "
            "shipped ones are replaced.")] = None,
        seed: Annotated[int, typer.Option(min=0, max=MOST_SEEDS, help="Seed of weights, data and order.")] = 0,
        quick: Annotated[bool, typer.Option("--quick", help="A tiny run that only shows that it works; needs --out.")
                         ] = False,
        threads: Annotated[int | None, typer.Option(
            min=1, max=1024, help="Torch threads of each network; another number changes the last bits. Default: 2 for "
            "vision, else 1.")] = None,
        device: Annotated[str, typer.Option(help="Torch device that is trained on, as cuda:0.")] = "cpu",
        resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoints that a training left that "
                                             "was ended; what it makes is the same to the bit.")] = False,
        checkpoint: Annotated[Path | None, typer.Option(
            metavar="FOLDER", file_okay=False, help="Folder for the checkpoints, which are removed at the end. "
            "Default: that of the weight files.")] = None,
        log: Annotated[Path | None, typer.Option(metavar="FILE", help="Add a line of JSON to a file every 20 steps.")
                       ] = None,
        graph: Annotated[str, typer.Option(help="Graph of the brain whose regions are trained, a name or a file.")
                         ] = "brain",
        parallel: Annotated[str | None, typer.Option(
            metavar="FORMS", help="Train by several processes: dp=2 (parts of each batch), zero=1 to 3 (of dp: share "
            "out optimizer, gradients, parameters; shard=2: so many of dp do), tp=2 (parts of each layer), pp=2 "
            "(layers one after another), in any product, as dp=2,pp=2,tp=2; or ps=2 (parameter servers, with dp "
            "workers). They are started here, or by torchrun with the same command.")
        ] = None,
        backend: Annotated[str | None, typer.Option(help="How they talk: gloo, zenoh or nccl. Default: gloo, on CUDA "
                                                    "nccl.")] = None,
        exact: Annotated[bool, typer.Option("--exact", help="Take sums in the order of ranks: all forms of dp and "
                                            "zero, ps with --mode sync, and --shards, then have the same bits.")
                         ] = False,
        shards: Annotated[int, typer.Option(min=0, help="One process works through so many parts of each batch, one "
                                            "after another, as that many ranks do at once.")] = 0,
        accumulate: Annotated[int, typer.Option(help="Parts that a rank makes of its batch one after another, for less "
                                                "memory.")] = 1,
        compress: Annotated[str | None, typer.Option(help="What gradients are sent as: bf16.")] = None,
        offload: Annotated[str | None, typer.Option(help="all: with zero=2 or 3 on CUDA everything stays in the CPU's "
                                                    "memory. optimizer: on the CPU its state stays on a disk.")] = None,
        offload_folder: Annotated[Path | None, typer.Option(
            metavar="FOLDER", help="Of --offload optimizer: where its state lies while it is trained.")] = None,
        deepspeed_config: Annotated[Path | None, typer.Option(
            metavar="FILE", help="Take ZeRO stage, batch, accumulation, clipping, bf16 and offload from DeepSpeed's "
            "JSON; what has no counterpart is named.")] = None,
        microbatches: Annotated[int | None, typer.Option(
            min=1, help="Of pp: parts of a batch that pass through the stages, 8 by default. With --shards: parts of "
            "each shard, as the stages of that many ranks of dp would pass them.")] = None,
        schedule: Annotated[str, typer.Option(help="Of pp: gpipe, 1f1b, interleaved or zero-bubble.")] = "1f1b",
        tensor: Annotated[str, typer.Option(help="Of tp: exact, whose spikes are those of one process, or classic, as "
                                            "Megatron splits.")] = "exact",
        mode: Annotated[str, typer.Option(help="Of ps: sync, async, or stale:S for gradients of at most S versions "
                                          "ago.")] = "sync",
        elastic: Annotated[str | None, typer.Option(
            metavar="MIN:MAX", help="Agents that there have to be and may be, each with the ranks of --parallel: what "
            "is killed starts again from the newest checkpoint, and others may join with --store.")] = None,
        store: Annotated[str | None, typer.Option(
            metavar="HOST:PORT", help="Of elastic: join a training at its store. Default: a store is started here.")
        ] = None,
        survive: Annotated[bool, typer.Option("--survive", help="Of dp, with zero=1 or without, on --backend zenoh: a "
                                              "rank that dies costs itself alone; the others do the step again and go "
                                              "on from what they have in memory.")] = False,
        survivors: Annotated[int, typer.Option(min=1, help="Of survive: the training ends where fewer ranks are left.")
                             ] = 1,
        every: Annotated[float, typer.Option("--checkpoint-every", min=0.0, metavar="SECONDS",
                                             help="Time between two checkpoints.")] = 60.0,
        keep: Annotated[float, typer.Option(help="Of ps: share of each gradient's elements that is sent, the largest; "
                                            "the others are added to the next gradient.")] = 1.0,
        size: Annotated[str, typer.Option(help="Of the networks: base, which a region runs; wide or large: 2 or 4 "
                                          "times the hidden neurons, which no region loads.")] = "base",
        tensorboard: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write losses for TensorBoard.")
                               ] = None,
        bags: Annotated[list[Path] | None, typer.Option(
            metavar="FOLDER", help="Train on a robot's recordings in a folder (MCAP or sqlite3 bags), split by "
            "recording; may be given again. Vision only.")] = None,
        labels: Annotated[str, typer.Option(
            metavar="self|TOPIC", help="Of --bags: a recorded topic that tells what each picture shows; or self, the "
            "robot's own later, nearer and surer looks.")] = "self",
        bag_share: Annotated[float, typer.Option(
            min=0.0, max=1.0, help="Of --bags: share of the clips that is recorded; the others are the simulator's."
        )] = 1.0,
        as_json: Json = False) -> None:
    """Trains weights of a region from scratch, with those of its baseline without spikes.

    Vision and motor are trained on rooms of the split train, language on sentences; held-out results are printed.
    """
    from brain_runtime.graph import GraphError
    from brain_training.parallel.how import How, agents
    from brain_training.parallel.plan import PlanError, parse
    from brain_training.recordings import Bags
    from brain_training.settings import Settings
    from brain_training.task import SIZES
    from brain_training.tasks import load, names

    try:
        if ":" in name:
            load(name, graph)
        else:
            known = names(graph)
            if name not in (*known, ALL):
                fail(f"there is no training {name!r}; there are {', '.join(known)} and {ALL}, or module:Class of a "
                     f"task of your own", 2)
    except (GraphError, ValueError) as error:
        fail(str(error), 2)
    if quick and out is None:
        fail("--quick makes weights that are worth nothing; name another place with --out", 2)
    if size not in SIZES:
        fail(f"there is no size {size!r}; there is {', '.join(SIZES)}", 2)
    check_writable(log)
    try:
        how = How(None if parallel is None else parse(parallel), backend, shards, exact, accumulate, compress, offload,
                  tensorboard, microbatches=microbatches, schedule=schedule, tensor=tensor, mode=mode,
                  elastic=None if elastic is None else agents(elastic), store=store, keep=keep,
                  offload_folder=offload_folder, survive=survive, survivors=survivors)
        if deepspeed_config is not None:
            how = _deepspeed(how, deepspeed_config, parallel or "")
        how.check(device)
    except PlanError as error:
        fail(str(error), 2)
    if bags and name == ALL:
        fail("--bags is of one region at a time; name one", 2)
    settings = Settings(seed, quick, threads, device, checkpoint, resume, every, log=log, graph=graph, how=how,
                        size=size, bags=Bags(tuple(bags), labels, bag_share) if bags else None)
    if resume:
        _tell_what_begins(names(graph) if name == ALL else (name,), out, settings, apart=name == ALL)
    if name == ALL:
        _train_all(out, settings, as_json)
    elif how.parallel:
        _train_together(name, out, settings, as_json)
    else:
        _tell(_trained(name, out, settings), as_json)


def _tell_what_begins(trained: Sequence[str], out: Path | None, settings: Settings, apart: bool) -> None:
    """Says of which trainings there is nothing to go on from: a folder may be another than was meant."""
    from brain_training.parallel import ranks
    from brain_training.runs import begun, places

    for name in trained if not ranks.silent() else ():
        file = out / f"{name}.safetensors" if out is not None and apart else out
        if not begun(name, file, settings):
            where = settings.checkpoint(next(iter(places(name, file, settings.graph, settings.size).values()))).parent
            tell(f"there is no checkpoint of {name} in {where}; it is trained from the beginning", "yellow", err=True)


def _deepspeed(how: How, config: Path, parallel: str) -> How:
    """Options with what DeepSpeed's configuration says; tells what has no counterpart."""
    import os

    from brain_training.parallel import deepspeed, ranks

    world = int(os.environ["WORLD_SIZE"]) if ranks.started() else None
    how, lines = deepspeed.taken(how, config, zero_given="zero" in parallel, world=world)
    for line in lines if not ranks.silent() else ():
        tell(line, "yellow", err=True)
    return how


def _train_together(name: str, out: Path | None, settings: Settings, as_json: bool) -> None:
    """One training by several processes, of which this is one, or which it starts."""
    from brain_training.checkpoint import CheckpointError
    from brain_training.parallel import ranks, served
    from brain_training.parallel.cost import line
    from brain_training.runs import train
    from brain_training.task import TrainingError

    try:
        how = settings.how      # with --survive whichever rank is the first tells how far it is
        own = ranks.started() and (ranks.first() or how.survive) or how.plan is not None and how.plan.ps
        with _progress() if own else nullcontext(_nothing) as progress:
            found = train(name, out, settings, progress)
    except (CheckpointError, OSError, TrainingError, ValueError) as error:
        why = _unwritable(error) if isinstance(error, OSError) else str(error)
        status = ranks.failed(why, error)
        if not ranks.silent():
            fail(why, status)
        raise typer.Exit(status) from None
    if not found and not ranks.silent():
        tell("trained with other agents; the one that has rank 0 tells what it came to")
    elif not ranks.silent():
        _tell(found, as_json)
        for which in BOTH if not as_json else ():
            if which in found:
                told = found[which]
                if "parallel" in told or "served" in told:
                    tell(line(BOTH[which], told["parallel"]) if "parallel" in told else
                         served.line(BOTH[which], told["served"]))


def _unwritable(error: OSError) -> str:
    return f"cannot write the weights, or their checkpoints: {error}; name another place with --out, or --checkpoint"


def _nothing(what: str, done: int, of: int, note: str) -> None:
    """No bar: rank 0 has them."""


def _train_all(out: Path | None, settings: Settings, as_json: bool) -> None:
    import time

    from brain_training.checkpoint import CheckpointError
    from brain_training.runs import files, train_all
    from brain_training.task import TrainingError
    from brain_training.tasks import names

    for name in names(settings.graph):
        try:
            files(name, None if out is None else out / f"{name}.safetensors", settings.graph)
        except OSError as error:
            fail(_unwritable(error))
    begin, report, wrong = time.monotonic(), {}, ""
    with _progress() as progress:
        try:
            for found in train_all(out, settings, progress):
                report[found["network"]] = found
        except (CheckpointError, TrainingError, ValueError) as error:
            wrong = str(error)
    took = time.monotonic() - begin
    if as_json:
        tell_json({**report, "took_s": took})
    else:
        for found in report.values():
            _tell(found, False)
        tell(f"{'all' if not wrong else 'what stands above'} in {took / 60:.1f} minutes")
    if wrong:
        fail(wrong)


def _trained(name: str, out: Path | None, settings: Settings) -> dict[str, Any]:
    """Runs one training under a progress bar; its figures, with ``network`` and ``files``."""
    from brain_training.checkpoint import CheckpointError
    from brain_training.runs import train
    from brain_training.task import TrainingError

    with _progress() as progress:
        try:
            return train(name, out, settings, progress)
        except OSError as error:
            fail(_unwritable(error))
        except (CheckpointError, TrainingError, ValueError) as error:   # of these, a list to examine by, or the device
            fail(str(error))


def _tell(found: dict[str, Any], as_json: bool) -> None:
    from brain_runtime.command.terminal import Terminal

    if as_json:
        tell_json(found)
        return
    Terminal().print(_shares(found) if "held_out" in found["spiking"] else _table(found))
    tell(f"weights written to {' and '.join(found['files'])}")
    if "size" in found:
        tell(f"they are of the size {found['size']}, and do not fit the region {found['network']}, which is of the "
             "size base")


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int, str], None]]:
    """Bars on standard error; gives what a training tells (what, done, of, note)."""
    from brain_runtime.command.terminal import Terminal
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    what, note = (TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[note]"))
    progress = Progress(what, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), note,
                        console=Terminal(stderr=True))
    tasks: dict[str, Any] = {}

    def tell(what: str, done: int, of: int, note: str) -> None:
        if not tasks:       # who has nothing to tell draws nothing
            progress.start()
        if what not in tasks:
            tasks[what] = progress.add_task(what, total=of, note="")
        progress.update(tasks[what], completed=done, total=of, note=note)

    try:
        yield tell
    finally:
        if tasks:
            progress.stop()


def _shares(found: dict[str, Any]) -> Any:
    """A Rich table of the share of sentences with all slots right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=f"{found['network']}, held-out sentences, share with all slots right", box=SIMPLE_HEAD)
    for heading in ("", "sentences", *BOTH.values()):
        table.add_column(heading, justify="right" if heading else "left")
    for what, share in found["spiking"]["held_out"].items():
        table.add_row(what, str(share["of"]), *(f"{found[name]['held_out'][what]['right']:.4f}" for name in BOTH))
    table.add_row("training (s)", "", *(f"{found[name]['training_s']:.0f}" for name in BOTH))
    return table


def _table(found: dict[str, Any]) -> Any:
    """A Rich table of the figures of each network in ``found``, and of others beside them."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    columns = {name: BOTH.get(name, name) for name, figures in found.items() if isinstance(figures, dict)}
    table = Table(title=f"{found['network']}, held-out results", box=SIMPLE_HEAD)
    for heading in ("", *columns.values()):
        table.add_column(heading, justify="right" if heading else "left")
    for key in dict.fromkeys(key for name in columns for key in found[name]):
        values = [found[name].get(key) for name in columns]
        if all(isinstance(v, (int, float)) or v is None for v in values):
            table.add_row(key, *("" if v is None else f"{v:.4g}" for v in values))
    return table
