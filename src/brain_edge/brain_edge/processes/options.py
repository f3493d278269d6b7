# SPDX-License-Identifier: Apache-2.0
"""Options that the verbs of a fleet share, and the process that a verb becomes."""
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from brain_runtime.metrics.address import HELP

FOLDER = Path("~/.brain")
FleetSecure = Annotated[Path | None, typer.Option(
    "--secure", metavar="FOLDER", envvar="BRAIN_FLEET_SECURITY", help="The fleet's credentials, that `brain keys "
    "FOLDER --node ROBOT` made: the folder, or one file of it. Default: nothing is secured.")]
CloudAt = Annotated[str | None, typer.Option(
    "--cloud", metavar="ENDPOINT", envvar="BRAIN_CLOUD", help="Where the cloud is, as tcp/192.168.1.5:7460. Default: "
    "port 7460 of this machine.")]
BrainSecure = Annotated[Path | None, typer.Option(
    "--brain-secure", metavar="FOLDER", envvar="BRAIN_SECURITY", help="Credentials for this robot's own brain, with "
    "those of its edge: brain keys FOLDER --edge.")]
Watch = Annotated[bool, typer.Option("--watch", help="Go on until Ctrl-C.")]
Metrics = Annotated[str | None, typer.Option("--metrics", metavar="[HOST:]PORT", help=HELP)]


def become(module: str, **options: Any) -> NoReturn:
    """Runs a module in place of this process: what runs for months need not hold what the command was read with.

    Args:
        module: as ``python -m`` takes it.
        options: of its command line, by name. None and False are left out, True is a word alone, and of a list each
            element is given. Paths are made absolute, from the user's folder where they begin with ``~``.
    """
    words = [sys.executable, "-m", module]
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None and one is not False:
                words.append(f"--{name.replace('_', '-')}")
                if one is not True:
                    words.append(str(one.expanduser().absolute() if isinstance(one, Path) else one))
    os.execv(sys.executable, words)
