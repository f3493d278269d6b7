# SPDX-License-Identifier: Apache-2.0
"""``brain train``: rebuilds trained weights from nothing."""
from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Callable, Iterator, Mapping

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None,
                  help="Rebuilds trained weights from nothing.")


BOTH = MappingProxyType({"spiking": "spiking", "twin": "ReLU twin"})


@app.callback()
def _train() -> None:
    """Rebuilds trained weights from nothing."""


Out = Annotated[Path | None, typer.Option(help="Weight file; the twin's is written beside it, with _twin in its name. "
                                               "Default: the shipped ones are replaced.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of weights, data and order.")]
Quick = Annotated[bool, typer.Option("--quick", help="A tiny run that only shows that it works; needs --out.")]
Threads = Annotated[int, typer.Option(min=1, help="Torch threads; another number changes the last bits.")]


@app.command()
def vision(out: Out = None, seed: Seed = 0, quick: Quick = False, threads: Threads = 2, as_json: Json = False) -> None:
    """Trains the spiking vision and its ReLU twin on rooms of the split train, and prints held-out results."""
    _needs_out(quick, out)
    _tell(_trained("vision", out, seed, quick, threads), as_json)


@app.command()
def motor(out: Out = None, seed: Seed = 0, quick: Quick = False, threads: Threads = 1, as_json: Json = False) -> None:
    """Trains the spiking motor and its ReLU twin on rooms of the split train, and prints held-out results."""
    _needs_out(quick, out)
    _tell(_trained("motor", out, seed, quick, threads), as_json)


@app.command()
def language(out: Out = None, seed: Seed = 0, quick: Quick = False, as_json: Json = False) -> None:
    """Trains the spiking language and its rate twin, each on a core of its own, and prints held-out results."""
    _needs_out(quick, out)
    _tell(_trained("language", out, seed, quick, 1), as_json)


@app.command("all")
def everything(out: Annotated[Path | None, typer.Option(help="Folder for the weight files. Default: the shipped ones "
                                                             "are replaced.")] = None,
               seed: Seed = 0, quick: Quick = False, as_json: Json = False) -> None:
    """Trains every network and its twin, all at once, and prints held-out results.

    The prefrontal cortex is wired, not trained, and has no weights.
    """
    import time

    from brain.train_all import NAMES, train_all, writable

    _needs_out(quick, out)
    for name in NAMES:
        try:
            writable(name, None if out is None else out / f"{name}.safetensors")
        except OSError as error:
            fail(f"cannot write the weights: {error}; name another place with --out")
    begin, report, wrong = time.monotonic(), {}, ""
    with _progress() as progress:
        try:
            for found in train_all(out, seed, quick, progress):
                report[found["network"]] = found
        except RuntimeError as error:
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


COLUMNS = MappingProxyType({"vision": BOTH, "motor": {"teacher": "teacher", **BOTH}})
"""Headings of the networks in each training's figures; those of language stand in _shares."""


def _needs_out(quick: bool, out: Path | None) -> None:
    if quick and out is None:
        fail("--quick makes weights that are worth nothing; name another place with --out", 2)


def _trained(name: str, out: Path | None, seed: int, quick: bool, threads: int) -> dict[str, Any]:
    """Runs one training under a progress bar; its figures, with ``network`` and ``files``."""
    from brain.train_all import train

    with _progress() as progress:
        try:
            return train(name, out, seed, quick, threads, progress)
        except OSError as error:
            fail(f"cannot write the weights: {error}; name another place with --out")
        except ValueError as error:     # a list to examine by
            fail(str(error))


def _tell(found: dict[str, Any], as_json: bool) -> None:
    from brain_runtime.command.terminal import Terminal

    if as_json:
        tell_json(found)
        return
    Terminal().print(_shares(found) if found["network"] == "language" else _table(found, COLUMNS[found["network"]]))
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

    table = Table(title="language, held-out sentences, share with all slots right", box=SIMPLE_HEAD)
    for heading in ("", "sentences", *BOTH.values()):
        table.add_column(heading, justify="right" if heading else "left")
    for what, share in found["spiking"]["held_out"].items():
        table.add_row(what, str(share["of"]), *(f"{found[name]['held_out'][what]['right']:.4f}" for name in BOTH))
    table.add_row("training (s)", "", *(f"{found[name]['training_s']:.0f}" for name in BOTH))
    return table


def _table(found: dict[str, Any], columns: Mapping[str, str]) -> Any:
    """A Rich table of the figures of each network in ``found``; ``columns``: their headings."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=f"{found['network']}, held-out results", box=SIMPLE_HEAD)
    for heading in ("", *columns.values()):
        table.add_column(heading, justify="right" if heading else "left")
    for key in dict.fromkeys(key for name in columns for key in found[name]):
        values = [found[name].get(key) for name in columns]
        if all(isinstance(v, (int, float)) or v is None for v in values):
            table.add_row(key, *("" if v is None else f"{v:.4g}" for v in values))
    return table
