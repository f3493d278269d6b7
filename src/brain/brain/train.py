# SPDX-License-Identifier: Apache-2.0
"""``brain train``: rebuilds trained weights from nothing."""
from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Callable, Iterator, Mapping

import typer

from brain.options import Json, fail

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None,
                  help="Rebuilds trained weights from nothing.")


BOTH = MappingProxyType({"spiking": "spiking", "twin": "ReLU twin"})


@app.callback()
def _train() -> None:
    """Rebuilds trained weights from nothing."""


@app.command()
def vision(out: Annotated[Path | None, typer.Option(help="Weight file. Default: the shipped one is replaced.")] = None,
           seed: Annotated[int, typer.Option(min=0, help="Seed of weights, rooms and order.")] = 0,
           quick: Annotated[bool, typer.Option("--quick", help="A tiny run that only shows that it works; needs "
                                                               "--out.")] = False,
           threads: Annotated[int, typer.Option(min=1, help="Torch threads; another number changes the last bits.")
                              ] = 2,
           as_json: Json = False) -> None:
    """Trains the spiking vision and its ReLU twin on rooms of the split train, and prints held-out results."""
    if quick and out is None:
        fail("--quick makes weights that are worth nothing; name another file with --out", 2)
    from rich.console import Console

    from brain_regions.vision import weights
    from brain_training.train_vision import train_vision

    target = out or weights.SHIPPED
    with _progress() as tell:
        try:
            found = train_vision(target, seed, quick=quick, threads=threads, progress=tell)
        except OSError as error:
            fail(f"cannot write {target}: {error.strerror}; name another file with --out")
    if as_json:
        typer.echo(json.dumps(found, indent=1, default=str))
        return
    Console().print(_table(found))
    typer.echo(f"weights written to {target}")


@app.command()
def motor(out: Annotated[Path | None, typer.Option(help="Weight file; the twin's is written beside it, with _twin in "
                                                        "its name. Default: the shipped ones are replaced.")] = None,
          seed: Annotated[int, typer.Option(min=0, help="Seed of weights, rooms and drives.")] = 0,
          quick: Annotated[bool, typer.Option("--quick", help="A tiny run that only shows that it works; needs "
                                                              "--out.")] = False,
          threads: Annotated[int, typer.Option(min=1, help="Torch threads; another number changes the last bits.")] = 1,
          as_json: Json = False) -> None:
    """Trains the spiking motor and its ReLU twin on rooms of the split train, and prints held-out results."""
    if quick and out is None:
        fail("--quick makes weights that are worth nothing; name another file with --out", 2)
    from rich.console import Console

    from brain_regions.motor import weights
    from brain_training.train_motor import train_motor

    target = out or weights.SHIPPED
    twin = weights.TWIN if out is None else out.with_stem(f"{out.stem}_twin")
    with _progress() as tell:
        try:
            found = train_motor(target, twin, seed, quick=quick, threads=threads, progress=tell)
        except OSError as error:
            fail(f"cannot write {target} and {twin}: {error.strerror}; name another file with --out")
    if as_json:
        typer.echo(json.dumps(found, indent=1, default=str))
        return
    Console().print(_table(found, {"teacher": "teacher", "spiking": "spiking", "twin": "ReLU twin"}))
    typer.echo(f"weights written to {target} and {twin}")


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int, str], None]]:
    """Bars on standard error; gives what a training tells (what, done, of, note)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                  TextColumn("{task.fields[note]}"), console=Console(stderr=True)) as progress:
        tasks: dict[str, Any] = {}

        def tell(what: str, done: int, of: int, note: str) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=of, note="")
            progress.update(tasks[what], completed=done, total=of, note=note)

        yield tell


def _table(found: dict[str, Any], columns: Mapping[str, str] = BOTH) -> Any:
    """A Rich table of the figures of each network in ``found``; ``columns``: their headings."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title="held-out results", box=SIMPLE_HEAD)
    for heading in ("", *columns.values()):
        table.add_column(heading, justify="right" if heading else "left")
    for key in dict.fromkeys(key for name in columns for key in found[name]):
        values = [found[name].get(key) for name in columns]
        if all(isinstance(v, (int, float)) or v is None for v in values):
            table.add_row(key, *("" if v is None else f"{v:.4g}" for v in values))
    return table
