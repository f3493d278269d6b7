# SPDX-License-Identifier: Apache-2.0
"""``brain train``: rebuilds trained weights from nothing."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Callable

import typer

from brain.options import Json, fail

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None,
                  help="Rebuilds trained weights from nothing.")


@app.callback()
def _train() -> None:
    """Rebuilds trained weights from nothing."""


Seed = Annotated[int, typer.Option(min=0, help="Seed of weights, data and order.")]
Quick = Annotated[bool, typer.Option("--quick", help="A tiny run that only shows that it works; needs --out.")]


@app.command()
def vision(out: Annotated[Path | None, typer.Option(help="Weight file. Default: the shipped one is replaced.")] = None,
           seed: Seed = 0, quick: Quick = False,
           threads: Annotated[int, typer.Option(min=1, help="Torch threads; another number changes the last bits.")
                              ] = 2,
           as_json: Json = False) -> None:
    """Trains the spiking vision and its ReLU twin on rooms of the split train, and prints held-out results."""
    _needs_out(quick, out)
    from brain_regions.vision import weights
    from brain_training.train_vision import train_vision

    target = out or weights.SHIPPED
    found = _watched(target, lambda tell: train_vision(target, seed, quick=quick, threads=threads, progress=tell))
    _say(found, as_json, target, _table(found))


@app.command()
def language(out: Annotated[Path | None, typer.Option(
                 help="Weight file; the twin's stands beside it. Default: the shipped ones are replaced.")] = None,
             seed: Seed = 0, quick: Quick = False, as_json: Json = False) -> None:
    """Trains the spiking language and its rate twin, each on a core of its own, and prints held-out results."""
    _needs_out(quick, out)
    import brain_regions
    from brain_regions.language import weights
    from brain_training.train_language import train_language

    target = out or weights.SHIPPED
    lists = Path(brain_regions.__file__).parents[1] / "test" / "test_language_sentences"    # where this is a checkout
    found = _watched(target, lambda tell: train_language(target, seed=seed, quick=quick, lists=lists, progress=tell))
    _say(found, as_json, target, _shares(found))


def _needs_out(quick: bool, out: Path | None) -> None:
    if quick and out is None:
        fail("--quick makes weights that are worth nothing; name another file with --out", 2)


def _watched(target: Path, train: Callable[[Callable[[str, int, int, str], None]], dict[str, Any]]) -> dict[str, Any]:
    """What a training returns, with a progress bar for each of its parts."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                  TextColumn("{task.fields[note]}"), console=Console(stderr=True)) as progress:
        tasks: dict[str, Any] = {}

        def tell(what: str, done: int, of: int, note: str) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=of, note="")
            progress.update(tasks[what], completed=done, total=of, note=note)

        try:
            return train(tell)
        except OSError as error:
            fail(f"cannot write {target}: {error.strerror}; name another file with --out")


def _say(found: dict[str, Any], as_json: bool, target: Path, table: Any) -> None:
    from rich.console import Console

    if as_json:
        typer.echo(json.dumps(found, indent=1, default=str))
        return
    Console().print(table)
    typer.echo(f"weights written to {target}")


def _shares(found: dict[str, Any]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title="held-out sentences, share with all slots right", box=SIMPLE_HEAD)
    for heading in ("", "sentences", *found):
        table.add_column(heading, justify="right" if heading else "left")
    first = next(iter(found.values()))
    for what, share in first["held_out"].items():
        table.add_row(what, str(share["of"]), *(f"{one['held_out'][what]['right']:.4f}" for one in found.values()))
    table.add_row("training (s)", "", *(f"{one['training_s']:.0f}" for one in found.values()))
    return table


def _table(found: dict[str, Any]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    spiking, twin = found["spiking"], found["twin"]
    table = Table(title="held-out results", box=SIMPLE_HEAD)
    for heading in ("", "spiking", "ReLU twin"):
        table.add_column(heading, justify="right" if heading else "left")
    for key in spiking:
        values = [d.get(key) for d in (spiking, twin)]
        if all(isinstance(v, (int, float)) or v is None for v in values):
            table.add_row(key, *("" if v is None else f"{v:.4g}" for v in values))
    return table
