# SPDX-License-Identifier: Apache-2.0
"""The one runner of all experiments: makes a command of one, and tells, saves and draws what it measures."""
from __future__ import annotations

import inspect
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Callable

import typer

from brain_eval.bench.experiment import Experiment, Problem, Quick, brain_problems
from brain_eval.bench.rows import Table
from brain_eval import saved
from brain_runtime.command.lacking import lacks
from brain_runtime.command.options import Json, fail, tell, tell_json

WIDE = 120      # characters of a table, where there is no terminal
Picture = Annotated[Path | None, typer.Option("--picture", "--pictures", metavar="FOLDER",
                                              help="Draw what is measured into this folder.")]


def check_drawing(folder: Path | None) -> None:
    """Ends the command, before long work begins, where no picture could be drawn into a folder, which is made.

    Args:
        folder: None: no picture is asked for.
    """
    if folder is None:
        return
    if find_spec("matplotlib") is None:
        fail(lacks("matplotlib"), 2)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot write to {folder}: {error.strerror}; name another folder", 2)


def command(name: str, kind: type[Experiment]) -> Callable[..., None]:
    """Makes a function for typer of an experiment.

    Args:
        name: of the experiment, and of its result.
        kind: class of the experiment.
    """
    signature = inspect.signature(kind.measure, eval_str=True)
    own = list(signature.parameters.values())[1:]
    more = [_option("as_json", Json), _option("save", saved.Save)]
    if kind.quick and "quick" not in signature.parameters:
        more.append(_option("quick", Quick))
    if kind.picture:
        more.append(_option("picture", Picture, None))
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    def run(context: typer.Context, **options: Any) -> None:
        as_json, save, picture = options.pop("as_json"), options.pop("save"), options.pop("picture", None)
        if "quick" not in signature.parameters and options.pop("quick", False):
            options |= {key: value for key, value in kind.quick.items()
                        if context.get_parameter_source(key).name == "DEFAULT"}     # type: ignore[union-attr]
        if save:
            saved.check_folder()
        check_drawing(picture)
        experiment = kind()
        found = _measured(experiment, options)
        _tell(name, experiment, found, options, as_json, save)
        if picture is not None:
            experiment.draw(picture / kind.picture, found)
        raise typer.Exit(0 if experiment.good(found) else 1)

    run.__doc__ = inspect.getdoc(kind)
    parameters = [context, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own), *more]
    run.__signature__ = signature.replace(parameters=parameters)    # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _option(name: str, annotation: Any, default: Any = False) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _measured(experiment: Experiment, options: dict[str, Any]) -> Any:
    """Runs an experiment, with a line of what it does on standard error; its problems end the command."""
    from brain_runtime.command.terminal import Terminal

    os.environ.pop("BRAIN_SECURITY", None)      # it has routers of its own, which nobody else reaches
    console = Terminal(stderr=True)
    experiment.log = console.tell
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))    # so that all ends that was started
    with console.status("starting") as shown:
        experiment.status = shown.update
        try:
            return experiment.measure(**options)
        except typer.Exit:      # which has told why
            raise
        except Exception as error:
            if not isinstance(error, (Problem, *brain_problems(), *experiment.problems)):
                raise
            why, status = str(error), experiment.refused
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    fail(why, status)


def _tell(name: str, experiment: Experiment, found: Any, options: dict[str, Any], as_json: bool, save: bool) -> None:
    if as_json or save:
        figures = experiment.figures(found)
        if experiment.cpu:
            figures = {"cpu": saved.cpu(), **figures}
        if as_json:
            tell_json(figures)
        if save:
            seeds = {key: options[key] for key in saved.SEEDS if key in options}
            tell(f"wrote {saved.write(name, figures, seeds)}", err=as_json)
        return
    for row in experiment.rows(found):
        _print(row) if isinstance(row, Table) else tell(row)


def _print(table: Table) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Rich

    from brain_runtime.command.terminal import Terminal

    made = Rich(title=table.title, box=SIMPLE_HEAD, title_justify="left", caption=table.caption or None,
                caption_justify="left")
    for number, heading in enumerate(table.headings):
        made.add_column(heading, justify="left" if number < table.left else "right")
    for row in table.rows:
        made.add_row(*row)
    console = Terminal()
    (console if console.is_terminal else Terminal(width=WIDE)).print(made)
