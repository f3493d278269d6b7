# SPDX-License-Identifier: Apache-2.0
"""``brain bench``: the measurements that are installed, and behind them those in ``experiments/`` of a checkout.

An experiment is imported when it is called, or its own help is shown.
"""
from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from brain_runtime.command.options import fail, takes_more

INSTALLED = {"wire": "brain_eval.bench.wire:Wire", "brain": "brain_eval.bench.whole_brain:WholeBrain",
             "gaps": "brain_eval.bench.gaps:Gaps", "steps": "brain_eval.bench.steps:Steps",
             "pictures": "brain_eval.bench.pictures:Pictures"}
ELSEWHERE = ("there is no measurement {name!r} installed; there are {names}. The others are in experiments/ of the "
             "sources: call `brain bench {name}` inside a checkout of them (git clone), where `make venv` was called")


def checkout() -> Path | None:
    """Finds the checkout that this code is of, or that this process is in; None: neither is."""
    for folder in (*Path(__file__).resolve().parents, Path.cwd(), *Path.cwd().parents):
        if (folder / "experiments" / "__main__.py").is_file() and (folder / "src" / "brain_eval").is_dir():
            return folder
    return None


def known() -> dict[str, str]:
    """Names of all experiments that there are here, each with its ``module:Class``."""
    folder = checkout()
    if folder is None:
        return INSTALLED
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return {**INSTALLED, **importlib.import_module("experiments").EXPERIMENTS}


def load(name: str) -> Any:
    """Imports the class of an experiment. Raises KeyError where there is none of that name."""
    module, _, kind = known()[name].partition(":")
    return getattr(importlib.import_module(module), kind)


def about(name: str) -> str:
    """The first sentence of what an experiment is, read from its source: what it imports takes seconds."""
    module, _, kind = known()[name].partition(":")
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None, f"{module} is there"
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind)
    return (ast.get_docstring(found) or "").partition("\n")[0]


class Experiments(TyperGroup):
    """The group of all experiments."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Lists all experiments with what each is."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about(name)) for name in self.list_commands(ctx)])

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all experiments, those that are installed first."""
        return list(known())

    def get_command(self, ctx: Any, name: str) -> Any:
        """The command of an experiment; of one that is not here, one that says where it is."""
        from brain_eval.bench.runner import command

        there = known()
        if name in there:
            return _command(name, command(name, load(name)))
        if there is not INSTALLED or name.startswith("-"):
            return None

        def elsewhere() -> None:
            fail(ELSEWHERE.format(name=name, names=", ".join(INSTALLED)), 2)

        return _command(name, takes_more(elsewhere))


def _command(name: str, run: Any) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name, context_settings=getattr(run, "context_settings", None))(run)
    return typer.main.get_command(alone)


app = typer.Typer(cls=Experiments, no_args_is_help=True, add_completion=False, rich_markup_mode=None,
                  help="Measures parts of the runtime on this machine.")


@app.callback()
def _bench() -> None:
    """Measures parts of the runtime on this machine."""
