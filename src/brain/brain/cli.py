# SPDX-License-Identifier: Apache-2.0
"""The ``brain`` command: it finds a verb where its package has said so, and loads that one alone."""
from __future__ import annotations

import contextlib
import difflib
import io
import logging
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import CompletionItem, TyperGroup

from brain import verbs


class Verbs(TyperGroup):
    """The group of all verbs; see :mod:`brain.verbs`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the verbs, those that are not installed among them."""
        return [*verbs.VERBS, *(name for name in verbs.installed() if name not in verbs.VERBS)]

    def get_command(self, ctx: Any, name: str) -> Any:
        """The command of a verb, which is imported now; None where there is none of that name."""
        point = verbs.installed().get(name)
        if point is not None:
            return _command(name, point.load())
        return _missing(name) if name in verbs.VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds the verb that a word names; of one that there is not, those that look like it are told."""
        near = difflib.get_close_matches(args[0], self.list_commands(ctx), 3, 0.6)
        if near and args[0] not in self.list_commands(ctx):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, near))}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the verbs under their headings, from the table."""
        found = verbs.installed()
        rows: dict[str, list[tuple[str, str]]] = {}
        for name, verb in verbs.VERBS.items():
            told = verb.help if name in found else f"(not installed: {verb.package}) {verb.help}"
            rows.setdefault(verb.heading, []).append((name, told))
        for name, point in found.items():
            if name not in verbs.VERBS:
                rows.setdefault(verbs.OTHER, []).append((name, f"Of {point.dist.name if point.dist else point.value}."))
        for heading, lines in rows.items():
            with formatter.section(heading):
                formatter.write_dl(lines)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        """Completes a verb from the table, without importing any."""
        return [CompletionItem(name, help=verbs.VERBS[name].help if name in verbs.VERBS else None)
                for name in verbs.installed() if name.startswith(incomplete)]


def _command(name: str, found: Any) -> Any:
    """Makes a command of what an entry point gives: a function, or a Typer app with verbs of its own.

    A function's attribute ``context_settings`` is passed on.
    """
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
        return typer.main.get_group(alone).commands[name]
    alone.command(name, context_settings=getattr(found, "context_settings", None))(found)
    return typer.main.get_command(alone)


def _missing(name: str) -> Any:
    """A command that says what to install."""
    from brain_runtime.command.options import fail, takes_more

    def say_so() -> None:
        fail(verbs.lacking(name))

    say_so.__doc__ = verbs.lacking(name)
    return _command(name, takes_more(say_so))


app = typer.Typer(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True,
                  rich_markup_mode=None, pretty_exceptions_enable=False)


def _tell_version(value: bool) -> None:
    if value:
        from importlib import metadata

        try:
            typer.echo(f"brain {metadata.version('brain')}")
        except metadata.PackageNotFoundError:
            typer.echo("brain, a source tree that is not installed")
        raise typer.Exit()


@app.callback()
def options(version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_tell_version,
                                                  help="Tell the version and end.")] = False) -> None:
    """Runs a brain: regions in processes of their own that talk as ROS 2 nodes over Zenoh."""


def main() -> None:
    """Entry point of the console script."""
    # Modules of a graph are looked for from this folder by every verb, as by the processes that it starts.
    with contextlib.suppress(FileNotFoundError):    # a folder that is gone holds no module
        if not getattr(sys.flags, "safe_path", False) and not {"", os.getcwd()} & set(sys.path):
            sys.path.insert(0, os.getcwd())
    # What goes wrong is said once, by the verb itself.
    logging.getLogger("brain_runtime").setLevel(logging.ERROR)
    logging.getLogger("brain_wire").setLevel(logging.ERROR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Japanese is no reason to fail
    app()


if __name__ == "__main__":
    main()
