# SPDX-License-Identifier: Apache-2.0
"""``brain fleet second``: a robot's vision asks the cloud's large network about hard pictures."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from brain_edge.processes.options import FOLDER, BrainSecure, CloudAt, FleetSecure
from brain_runtime.command.options import Domain, Namespace, Router, become, use_domain, use_security


def second(name: Annotated[str, typer.Option("--name", metavar="NAME", help="The robot's name in its fleet.")],
           folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Of this robot's edge, where its "
                                                "owner's consent is.")] = FOLDER / "edge",
           deadline: Annotated[float, typer.Option(min=0.01, max=5.0, metavar="SECONDS", help="That an answer may "
                               "take; a later one is let go of.")] = 0.5,
           cloud: CloudAt = None, secure: FleetSecure = None, router: Router = None,
           brain_secure: BrainSecure = None,
           domain: Domain = None, namespace: Namespace = "") -> None:
    """Carries hard pictures of this robot's brain to the cloud and answers back, until Ctrl-C.

    Its vision must be a JointVision, the cloud run with --second, and the owner have said `brain fleet consent
    --pictures` on the robot.
    """
    use_domain(domain)
    use_security(brain_secure)
    become("brain_edge.processes.run_second", name=name, folder=folder, deadline=deadline, cloud=cloud, router=router,
           namespace=namespace or None, secure=secure)
