# SPDX-License-Identifier: Apache-2.0
"""``brain edge``: runs a robot's side of a fleet."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from brain_edge.processes.options import FOLDER, BrainSecure, CloudAt, FleetSecure, Metrics
from brain_edge.processes.settings import TOKEN_VARIABLE
from brain_runtime.command.options import Domain, Namespace, Router, become, use_domain, use_security


def edge(cloud: CloudAt = None,
         name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The robot's name in its fleet. "
                                                  "Default: that of its credentials, or that it had before, else this "
                                                  "machine's.")] = None,
         folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="What it knows.")] = FOLDER / "edge",
         secure: FleetSecure = None,
         enroll: Annotated[str | None, typer.Option("--enroll", metavar="TOKEN", envvar=TOKEN_VARIABLE,
                           help="Join a secured fleet with the token that `brain fleet enroll ROBOT` gave. Needed "
                           "once: the credentials are kept in --folder.")] = None,
         door: Annotated[str | None, typer.Option("--door", metavar="HOST:PORT", help="Where the cloud gives "
                         "certificates. Default: one port beside --cloud.")] = None,
         rate: Annotated[float, typer.Option(min=0.0, metavar="KB", help="At most so many kilobytes a second are "
                                             "sent. 0: no limit.")] = 0.0,
         models_mb: Annotated[float, typer.Option("--models-mb", min=1.0, metavar="MB", help="Megabytes of this disk "
                                                  "that models may take.")] = 2000.0,
         programs: Annotated[Path | None, typer.Option("--programs", metavar="FILE", help="Programs that the cloud may "
                                                       "have run here, beside the brain: a name and the words of its "
                                                       "command each. Default: none.")] = None,
         device_files: Annotated[Path | None, typer.Option(
             "--device-files", metavar="FILE", help="Files that orders may name for this robot's devices, as "
             "passwords: a name with a path and hosts each. Default: none.")] = None,
         router: Router = None,
         brain_secure: BrainSecure = None,
         domain: Domain = None, namespace: Namespace = "", metrics: Metrics = None) -> None:
    """Runs a robot's side of a fleet until Ctrl-C, beside `brain up` or `ros2 launch`.

    It keeps the brain as the cloud last wanted it, whether the cloud can be reached or not.
    """
    use_domain(domain)
    use_security(brain_secure)
    os.environ.pop(TOKEN_VARIABLE, None)
    if enroll is not None:
        os.environ[TOKEN_VARIABLE] = enroll     # not as a word, which any user of this machine could read for months
    become("brain_edge.processes.run_edge", folder=folder, name=name, cloud=cloud, router=router, door=door,
           namespace=namespace or None, secure=secure, programs=programs, device_files=device_files,
           models_mb=models_mb, rate=1000.0 * rate or None, metrics=metrics)
