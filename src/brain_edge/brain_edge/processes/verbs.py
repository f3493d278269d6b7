# SPDX-License-Identifier: Apache-2.0
"""``brain fleet``: what is asked on a robot and of its cloud. What is ordered of a cloud is added by its package."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from brain_edge.enrolment.owner_verbs import consent, upload
from brain_edge.processes.options import CloudAt, FleetSecure, Watch
from brain_edge.processes.others_verbs import FleetVerbs
from brain_edge.processes.second_verb import second
from brain_edge.processes.with_cloud import check_robot, look, with_cloud, with_folder
from brain_runtime.command.options import Json

app = typer.Typer(cls=FleetVerbs, help="Ask the cloud of a fleet, and order what is wanted of its robots.",
                  no_args_is_help=True)


@app.command()
def status(watch: Watch = False, as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None,
           folder: Annotated[Path | None, typer.Option(
               "--folder", metavar="DIR", help="On a robot: read what its edge knows, as ~/.brain/edge, without the "
               "cloud.")] = None) -> None:
    """Shows what is wanted of each robot, and how that is done."""
    from brain_edge.processes.tables import here_table, status_table

    if folder is not None:
        with_folder(folder, lambda reading: look(reading.status, here_table, watch, as_json))
        return
    with_cloud(cloud, secure, lambda ask: look(lambda: ask("status"), status_table, watch, as_json))


@app.command()
def nodes(watch: Watch = False, as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Shows each robot: whether it is connected, and what waits for it."""
    from brain_edge.processes.tables import robots_table

    with_cloud(cloud, secure, lambda ask: look(lambda: ask("robots"), robots_table, watch, as_json))


@app.command()
def devices(robot: Annotated[str | None, typer.Argument(help="Those of this robot only.")] = None,
            watch: Watch = False, as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None,
            folder: Annotated[Path | None, typer.Option(
                "--folder", metavar="DIR", help="On a robot: those that its edge knows, as ~/.brain/edge, without the "
                "cloud.")] = None) -> None:
    """Shows the devices of each robot: what is desired of each property, and what it was last."""
    from brain_edge.devices.tables import devices_here, devices_table

    if folder is not None:
        with_folder(folder, lambda reading: look(lambda: devices_here(reading.status()), devices_table, watch, as_json))
        return
    which = {} if robot is None else {"robot": robot}

    def work(ask: Any) -> None:
        check_robot(ask, robot)
        look(lambda: ask("devices", **which), devices_table, watch, as_json)

    with_cloud(cloud, secure, work)


for verb in (second, consent, upload):
    app.command()(verb)
