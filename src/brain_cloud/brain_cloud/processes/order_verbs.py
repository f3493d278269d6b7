# SPDX-License-Identifier: Apache-2.0
"""Verbs of ``brain fleet`` with which a person orders something of the cloud, or asks how that is."""
from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Any, Callable

import typer

from brain_cloud.jobs.verbs import read_file
from brain_edge.processes.options import CloudAt, FleetSecure, Watch
from brain_edge.processes.with_cloud import REFRESH, check_robot, look, with_cloud
from brain_runtime.command.options import Json, fail, tell, tell_json

File = Annotated[Path, typer.Argument(help="Manifests in YAML, several with --- between them.", metavar="FILE")]


def ordered(cloud: CloudAt, secure: FleetSecure, as_json: bool, order: Callable[[Any], dict[str, Any]],
            say: Callable[[dict[str, Any]], None]) -> None:
    """Orders something of the cloud, and prints what came of it: as JSON, or as ``say`` does.

    Args:
        order: asks the cloud.
    """
    def work(ask: Any) -> None:
        found = order(ask)
        tell_json(found) if as_json else say(found)

    with_cloud(cloud, secure, work)


def apply(file: File, as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Orders the resources and jobs of a file: all of them or, where one cannot be meant so, none."""
    from brain_cloud.jobs.manifests import read
    from brain_cloud.jobs.served import divided
    from brain_cloud.jobs.tables import tell_applied

    manifests, wanted = divided(read_file(file, read))

    def order(ask: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"resources": []}
        if manifests and wanted:    # two orders: neither is given where the other cannot be meant so
            ask("jobs", job={"ask": "check", "manifests": manifests})
        if wanted:
            found |= ask("apply", resources=[one.to_dict() for one in wanted])
        if manifests:
            found |= ask("jobs", job={"ask": "apply", "manifests": manifests})
        return found

    def say(found: dict[str, Any]) -> None:
        tell_applied({"jobs": [], **found}, tell)
        for one in found["resources"]:
            robots = ", ".join(one["changed"])
            tell(f"{one['kind']} {one['name']}: " + (f"ordered for {robots}" if robots else "nothing is new"))
            for why in one.get("cannot", ()):
                tell(why, "yellow", err=True)
            if not one["effect"]:
                tell(f"robots of this version keep a {one['kind']}, and do nothing about it", "yellow", err=True)

    ordered(cloud, secure, as_json, order, say)


def delete(file: File, as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Takes resources and jobs of a file back. What they have changed or made stays until something else is ordered."""
    from brain_cloud.jobs.manifests import read
    from brain_cloud.jobs.served import divided
    from brain_cloud.jobs.tables import tell_deleted

    manifests, wanted = divided(read_file(file, read))

    def order(ask: Any) -> dict[str, Any]:
        found = {"resources": [], **(ask("jobs", job={"ask": "delete", "manifests": manifests}) if manifests else {})}
        if wanted:
            found |= ask("delete", resources=[{"kind": one.kind, "name": one.name} for one in wanted])
        return found

    def say(found: dict[str, Any]) -> None:
        tell_deleted({"jobs": [], **found}, tell)
        for one in found["resources"]:
            robots = ", ".join(one["changed"]) or "nobody"
            tell(f"{one['kind']} {one['name']}: " + (f"taken back from {robots}" if one["known"] else "there was none"))

    ordered(cloud, secure, as_json, order, say)


def accept(robots: Annotated[list[str] | None, typer.Argument(help="Robots that are set apart.")] = None,
           every: Annotated[bool, typer.Option("--all", help="All that are set apart.")] = False,
           installation: Annotated[str | None, typer.Option(
               help="Which one is the robot, where several say so: its first digits, see `brain fleet nodes`.")] = None,
           as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Takes robots in anew whose database, or whose cloud's, was lost or restored.

    What the cloud wants now holds then, and the robot begins a new epoch.
    """
    if bool(robots) == every:
        fail("name robots, or give --all", 2)
    if installation is not None and (robots is None or len(robots) != 1):
        fail("--installation is of one robot", 2)
    which: dict[str, Any] = {} if every else {"robots": robots}
    which |= {} if installation is None else {"installation": installation}
    ordered(cloud, secure, as_json, lambda ask: ask("accept", **which), lambda found: tell(
        f"taken in anew: {', '.join(found['robots'])}" if found["robots"] else "no robot is set apart"))


def enroll(robot: Annotated[str, typer.Argument(help="Name that it is to have.", metavar="ROBOT")],
           hours: Annotated[float, typer.Option("--hours", help="How long the token is good for.")] = 24.0,
           as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Prints a token with which a robot joins a secured fleet, once."""
    if not math.isfinite(hours):
        fail(f"--hours is {hours:g}; give the hours that the token is good for, up to 720", 2)

    def say(found: dict[str, Any]) -> None:
        typer.echo(found["token"])
        tell(f"on {robot}, within {hours:g} h: brain edge --cloud {cloud or 'tls/CLOUD:7460'} --enroll TOKEN. Whoever "
             f"has the token first is {robot}.", err=True)

    ordered(cloud, secure, as_json, lambda ask: ask("enroll", robot=robot, hours=hours), say)


def revoke(robot: Annotated[str, typer.Argument(help="Whose rights are taken away.", metavar="ROBOT")],
           as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Takes a robot's rights away, be it connected or not: its certificates and its token are of no use any more."""
    ordered(cloud, secure, as_json, lambda ask: ask("revoke", robot=robot), lambda found: tell(
        f"{robot} was revoked; `brain fleet enroll {robot}` lets it come back"))


def learning(watch: Watch = False, as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Shows what the fleet learns together: the round that is open, and those before."""
    from brain_cloud.processes.model_tables import learning_table

    with_cloud(cloud, secure, lambda ask: look(lambda: ask("learning"), learning_table, watch, as_json))


def logs(robot: Annotated[str | None, typer.Argument(help="What is about this robot only.")] = None,
         job: Annotated[str | None, typer.Option("--job", metavar="NAME", help="What happened to this job, and the end "
                                                 "of its workers' logs.")] = None,
         worker: Annotated[str | None, typer.Option("--worker", help="Of --job: this one's log, more of it.")] = None,
         watch: Watch = False, as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Prints what happened, and who ordered it, oldest first."""
    from brain_cloud.jobs.served import named
    from brain_cloud.jobs.tables import tell_logs

    def work(ask: Any) -> None:
        after = 0
        if job is not None:
            found = ask("jobs", job={"ask": "logs", **named(job), **({} if worker is None else {"worker": worker})})
            tell_json(found) if as_json else tell_logs(found, tell)
            return
        check_robot(ask, robot)
        while True:
            found = ask("logs", after=after, **({} if robot is None else {"robot": robot}))
            if as_json:
                tell_json(found, None if watch else 1)
            else:
                for one in found["events"]:
                    who = one["person"] or one["robot"] or "cloud"
                    tell(f"{one['at']}  {who}: {one['text']}")
            after = max([after, *(one["number"] for one in found["events"])])
            if not watch:
                return
            time.sleep(REFRESH)

    with_cloud(cloud, secure, work)


def jobs(name: Annotated[str | None, typer.Argument(help="One only, with its workers.")] = None, watch: Watch = False,
         as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Shows jobs (Kubeflow's TrainJob, Sedna's) that the cloud runs, and how far they are."""
    from brain_cloud.jobs.served import named
    from brain_cloud.jobs.tables import jobs_table

    def work(ask: Any) -> None:
        def listed() -> dict[str, Any]:
            found: dict[str, Any] = ask("jobs", job={"ask": "list", **named(name)})
            if name is not None and not found["jobs"]:
                fail(f"there is no job {name[:60]!r}; `brain fleet jobs` shows those that there are")
            return found

        look(listed, jobs_table, watch, as_json)

    with_cloud(cloud, secure, work)
