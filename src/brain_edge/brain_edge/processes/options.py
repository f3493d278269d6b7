# SPDX-License-Identifier: Apache-2.0
"""Options that the verbs of a fleet share."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
