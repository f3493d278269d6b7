# SPDX-License-Identifier: Apache-2.0
"""``brain cloud``: runs the cloud of a fleet."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from brain_edge.processes.options import FOLDER, FleetSecure, Metrics
from brain_runtime.command.options import become, fail
from brain_wire.endpoints import malformed


def cloud(listen: Annotated[list[str] | None, typer.Option(
              "--listen", metavar="ENDPOINT", help="Where robots reach it, as tcp/0.0.0.0:7460. Default: port 7460 of "
              "this machine only.")] = None,
          folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="What it knows.")] = FOLDER / "cloud",
          learn: Annotated[Path | None, typer.Option("--learn", metavar="PLAN", help="A plan of what the fleet learns "
                                                     "together: docs/fleet-learning.md.")] = None,
          second: Annotated[Path | None, typer.Option("--second", metavar="WEIGHTS", help="A large vision that answers "
                                                      "robots about hard pictures: docs/fleet-learning.md.")] = None,
          secure: FleetSecure = None, metrics: Metrics = None,
          door: Annotated[str | None, typer.Option("--door", metavar="HOST:PORT", help="Where robots enrol and renew "
                          "their certificates. Default: one port beside --listen.")] = None,
          robot_days: Annotated[float | None, typer.Option("--robot-days", min=0.0001, help="Days that a robot's "
                                "certificate lasts; it is renewed unasked. Default: 30.")] = None,
          pictures: Annotated[float, typer.Option(
              "--pictures", min=0.0, metavar="MB", help="Keep so much of each robot's pictures and recordings, of "
              "those whose owners let them leave. Default: none.")] = 0.0,
          jobs: Annotated[int | None, typer.Option(
              "--jobs", min=1, metavar="SLOTS", help="Run jobs on this machine, so many workers at once. Whoever may "
              "order can run any command then. Default: none.")] = None) -> None:
    """Runs the cloud of a fleet until Ctrl-C: it tells each robot what is wanted of it, and hears what each reports.

    Give orders with `brain fleet apply FILE`, and look with `brain fleet nodes`.
    """
    for endpoint in listen or ():
        if malformed(endpoint):
            fail(f"--listen {ascii(endpoint)} is no endpoint; write it as tcp/0.0.0.0:7460, or tls/... with --secure",
                 2)
    become("brain_cloud.processes.run_cloud", folder=folder, listen=listen, learn=learn, second=second, secure=secure,
           door=door, pictures=pictures or None, robot_days=robot_days, metrics=metrics, jobs=jobs)
