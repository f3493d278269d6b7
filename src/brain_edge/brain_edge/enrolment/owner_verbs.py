# SPDX-License-Identifier: Apache-2.0
"""``brain fleet consent`` and ``upload``: what a robot's owner does, on the robot."""
from __future__ import annotations

import getpass
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_edge.processes.options import FOLDER, CloudAt
from brain_runtime.command.options import Json, fail, tell, tell_json

EdgeFolder = Annotated[Path, typer.Option("--folder", metavar="DIR", help="Of this robot's edge.")]


def consent(pictures: Annotated[bool | None, typer.Option("--pictures/--no-pictures", help="Whether single pictures "
                                "may leave this robot.")] = None,
            recordings: Annotated[bool | None, typer.Option("--recordings/--no-recordings", help="Whether recordings "
                                  "may, which hold pictures too.")] = None,
            daily: Annotated[float | None, typer.Option("--daily", metavar="MB", min=0.0, help="At most so much of "
                             "each kind that is named leaves within a day. Default: 100.")] = None,
            keep: Annotated[float | None, typer.Option("--keep", metavar="DAYS", help="So long the cloud may keep it. "
                            "Default: 30.")] = None,
            folder: EdgeFolder = FOLDER / "edge", as_json: Json = False) -> None:
    """Says what may leave this robot, and shows what has left. Run it on the robot: the cloud cannot change it."""
    from brain_edge.enrolment.consent import KINDS, Consent, ConsentProblem

    said = {kind: yes for kind, yes in (("pictures", pictures), ("recordings", recordings)) if yes is not None}
    if daily is not None and not math.isfinite(daily):
        fail(f"--daily is {daily:g}; give megabytes a day", 2)
    if not said and (daily is not None or keep is not None):
        fail("name what that is for: --pictures, --recordings", 2)
    try:
        owner = Consent(folder.expanduser())
        for kind, yes in said.items():
            owner.decide(kind, yes, daily=None if daily is None else int(1e6 * daily), keep=keep, by=_user())
        answers, lines = {kind: owner.answer(kind) for kind in KINDS}, owner.lines()
    except (ConsentProblem, ValueError) as problem:
        fail(str(problem))
    if as_json:
        tell_json({"consent": {kind: answer._asdict() for kind, answer in answers.items()}, "lines": lines})
        return
    for kind, answer in answers.items():
        told = f", said by {answer.by} on {answer.at}" if answer.at else ", since nobody has said anything"
        tell(f"{kind}: may leave this robot, up to {answer.daily / 1e6:g} MB a day, to be kept for {answer.keep:g} days"
             f"{told}" if answer.allowed else f"{kind}: stay on this robot{told}")
    for one in reversed(lines):
        tell(f"{one['at']}  {one['kind']}: {one['what']}, {one['bytes'] / 1e6:.1f} MB, to the {one['to']}: "
             f"{one['state']}{': ' + one['why'] if one['why'] else ''}")


def upload(file: Annotated[Path, typer.Argument(help="A picture, or a recording; or the folder of `brain fleet "
                                                "collect`, whose clips leave each once.", metavar="FILE")],
           kind: Annotated[str, typer.Option("--kind", help="pictures or recordings.")] = "recordings",
           cloud: CloudAt = None,
           secure: Annotated[Path | None, typer.Option("--secure", metavar="FILE", envvar="BRAIN_FLEET_SECURITY",
                             help="This robot's one file of credentials. Default: what it enrolled with.")] = None,
           door: Annotated[str | None, typer.Option("--door", metavar="HOST:PORT", help="Where the cloud gives "
                           "certificates, instead of --cloud: the cloud is one port before.")] = None,
           folder: EdgeFolder = FOLDER / "edge", as_json: Json = False) -> None:
    """Hands a picture or a recording of this robot to its cloud, where the owner has consented. Run it on the robot."""
    from brain_edge.enrolment.client import Refused, door_of
    from brain_edge.enrolment.consent import ConsentProblem, NoConsent
    from brain_edge.enrolment.names import FILE
    from brain_edge.enrolment.upload import NotSent, Uploads, remember, unsent
    from brain_edge.processes.settings import CLOUD_AT
    from brain_security.certificates import CertificateError
    from brain_wire import SessionProblem

    folder = folder.expanduser()
    credentials = folder / FILE if secure is None else secure.expanduser()
    if secure is None and not credentials.exists():
        fail(f"this robot has not enrolled: there is no {credentials}; name its file of credentials with --secure, as "
             f"robot1.json5, or its edge's folder with --folder")
    found: dict[str, Any] = {}
    left = 0
    try:
        at = cloud or CLOUD_AT.replace("tcp/", "tls/")
        host, port = door_of(at, door)
        files = unsent(file) if file.is_dir() else [file]
        with Uploads(folder, credentials, at if cloud or door is None else f"tls/{host}:{port - 1}") as uploads:
            for one in files:
                if file.is_dir() and not one.exists():
                    continue        # who collects has just let it go
                found = dict(uploads.send(kind, one))
                if file.is_dir():
                    remember(file, one.name)
                    left += 1
    except (NoConsent, ConsentProblem, NotSent, SessionProblem, Refused, ValueError, CertificateError) as problem:
        fail(f"{left} of {len(files)} clips are with the cloud: {problem}" if left else str(problem))
    except OSError as error:
        fail(f"cannot read {error.filename or file}: {error.strerror or error}")
    if file.is_dir():
        tell_json({**found, "clips": left}) if as_json else tell(f"{left} clips are with the cloud")
        return
    tell_json(found) if as_json else tell(f"{file.name} is with the cloud")


def _user() -> str:
    try:
        return getpass.getuser()[:40]
    except (OSError, KeyError):     # a user without a name
        return "somebody"
