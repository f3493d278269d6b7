# SPDX-License-Identifier: Apache-2.0
"""``brain train``: rebuilds trained weights from nothing."""
from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Callable, Iterator

import typer

from brain_runtime.command.options import Json, check_writable, fail, tell, tell_json

if TYPE_CHECKING:
    from brain_training.runs import Settings

BOTH = MappingProxyType({"spiking": "spiking", "ann": "ANN baseline"})
ALL = "all"


def train(
        name: Annotated[str, typer.Argument(metavar="REGION", help="A region that is trained, as vision, language or "
                                            "motor; or all: every one at once. The prefrontal cortex is wired.")],
        out: Annotated[Path | None, typer.Option(
            help="Weight file; the baseline's is beside it, with _ann in its name. Of all: a folder. Default: the "
            "shipped ones are replaced.")] = None,
        seed: Annotated[int, typer.Option(min=0, help="Seed of weights, data and order.")] = 0,
        quick: Annotated[bool, typer.Option("--quick", help="A tiny run that only shows that it works; needs --out.")
                         ] = False,
        threads: Annotated[int | None, typer.Option(
            min=1, help="Torch threads of each network; another number changes the last bits. Default: 2 for vision, "
            "else 1.")] = None,
        device: Annotated[str, typer.Option(help="Torch device that is trained on, as cuda:0.")] = "cpu",
        resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoints that a training left that "
                                             "was ended; what it makes is the same to the bit.")] = False,
        checkpoint: Annotated[Path | None, typer.Option(
            metavar="FOLDER", help="Folder for the checkpoints, which are removed at the end. Default: that of the "
            "weight files.")] = None,
        log: Annotated[Path | None, typer.Option(metavar="FILE", help="Add a line of JSON to a file every 20 steps.")
                       ] = None,
        graph: Annotated[str, typer.Option(help="Graph of the brain whose regions are trained, a name or a file.")
                         ] = "brain",
        as_json: Json = False) -> None:
    """Trains weights of a region from scratch, with those of its baseline without spikes.

    Vision and motor are trained on rooms of the split train, language on sentences; held-out results are printed.
    """
    from brain_runtime.graph import GraphError
    from brain_training.runs import Settings
    from brain_training.tasks import names

    try:
        known = names(graph)
    except GraphError as error:
        fail(str(error), 2)
    if name not in (*known, ALL):
        fail(f"there is no training {name!r}; there are {', '.join(known)} and {ALL}", 2)
    if quick and out is None:
        fail("--quick makes weights that are worth nothing; name another place with --out", 2)
    check_writable(log)
    settings = Settings(seed, quick, threads, device, checkpoint, resume, log=log, graph=graph)
    if name == ALL:
        _train_all(out, settings, as_json)
    else:
        _tell(_trained(name, out, settings), as_json)


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
            fail(f"cannot write the weights: {error}; name another place with --out")
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
            fail(f"cannot write the weights: {error}; name another place with --out")
        except (CheckpointError, TrainingError, ValueError) as error:   # of these, a list to examine by, or the device
            fail(str(error))


def _tell(found: dict[str, Any], as_json: bool) -> None:
    from brain_runtime.command.terminal import Terminal

    if as_json:
        tell_json(found)
        return
    Terminal().print(_shares(found) if "held_out" in found["spiking"] else _table(found))
    tell(f"weights written to {' and '.join(found['files'])}")


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int, str], None]]:
    """Bars on standard error; gives what a training tells (what, done, of, note)."""
    from brain_runtime.command.terminal import Terminal
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    what, note = (TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[note]"))
    with Progress(what, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), note, console=Terminal(stderr=True)
                  ) as progress:
        tasks: dict[str, Any] = {}

        def tell(what: str, done: int, of: int, note: str) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=of, note="")
            progress.update(tasks[what], completed=done, total=of, note=note)

        yield tell


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
