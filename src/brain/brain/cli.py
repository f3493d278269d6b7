# SPDX-License-Identifier: Apache-2.0
"""The ``brain`` command: one module for each verb; here they are only put together."""
from __future__ import annotations

import typer

from brain.evaluate import evaluate

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
                  help="Runs a brain: regions in processes of their own that talk as ROS 2 nodes over Zenoh.")
app.command("eval")(evaluate)


@app.callback()
def _brain() -> None:
    """Verbs follow."""


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
