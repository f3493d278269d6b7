# SPDX-License-Identifier: Apache-2.0
"""The ``brain`` command: one module for each verb; here they are only put together."""
from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from brain import bench
from brain.bench_gaps import gaps
from brain.bench_integration import integration
from brain.bench_sentences import sentences
from brain.compare import compare
from brain.demo import demo
from brain.docs import docs
from brain.emergency import estop, release
from brain.evaluate import evaluate
from brain.export import export
from brain.film import film
from brain.join import run
from brain.keys import keys, policy
from brain.look import look
from brain.say import say
from brain.status import status
from brain.train import train
from brain.up import up

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


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


for verb in (up, say, status, look, estop, release, demo, docs, keys, policy, export, compare, film, train):
    app.command()(verb)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(run)
app.command("eval")(evaluate)
bench.app.command()(integration)
bench.app.command()(sentences)
bench.app.command()(gaps)
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Entry point of the console script."""
    # What goes wrong is said once, by the verb itself.
    logging.getLogger("brain_runtime").setLevel(logging.ERROR)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a terminal without Japanese is no reason to fail
    app()


if __name__ == "__main__":
    main()
