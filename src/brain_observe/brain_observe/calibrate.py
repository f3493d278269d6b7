# SPDX-License-Identifier: Apache-2.0
"""``brain calibrate camera``: measures how a camera is tilted, by pictures and scans of walls that meet the floor."""
from __future__ import annotations

import math
from typing import Annotated

import typer

from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, fail, tell, tell_json, use_domain,
                                           use_security)

app = typer.Typer(help="Measure how a sensor is mounted.", no_args_is_help=True)


@app.callback()
def calibrate() -> None:
    """Measures how a sensor is mounted."""


@app.command()
def camera(robot: Annotated[str, typer.Option(help="The robot's profile: a name, such as turtlebot3_burger, or a path; "
                                              "its camera_height has to be right, where it has one.")] = "",
           seconds: Annotated[float, typer.Option(min=2.0, max=600.0, help="How long to look. Turn the robot slowly "
                                                  "meanwhile, where walls are within 6 m.")] = 10.0,
           as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
           namespace: Namespace = "") -> None:
    """Measures the camera's pitch and roll by where walls meet the floor, and says what the profile is to tell.

    Where nobody tells how high the camera is, either, it is measured with them, by 24 pictures and walls near and far.
    It only listens. Exit status: 0 when they are measured, 1 when pictures do not tell, 2 for wrong use.
    """
    number = use_domain(domain)
    use_security(secure)
    from brain_observe.doctor import camera_tilt, examination
    from brain_observe.doctor.frames import camera_of
    from brain_observe.doctor.listening import listen
    from brain_runtime.graph.robots import RobotError
    from brain_wire import NameProblem, NoRouter, SessionProblem, names, open_node

    try:
        heard = examination.expect(robot, "brain", number, names.absolute(namespace))
        if heard.refused is not None:
            fail(f"{heard.refused.text}; {heard.refused.remedy}", 2)
        with open_node("brain_calibrate", namespace or "/", router=router) as node:
            listen(node, heard, seconds)
    except (RobotError, SessionProblem, NameProblem, NoRouter) as error:
        fail(str(error), 2)
    found, told = camera_tilt.tilt(heard), camera_of(heard)
    if isinstance(found, str):
        fail(f"the camera's tilt is not measured: {found}", 1)
    if as_json:
        tell_json({"height": found.height, "pitch": found.pitch, "roll": found.roll, "sureness": found.sureness,
                   "spread": found.spread,
                   "told": {"height": told.height, "pitch": told.pitch, "roll": told.roll}})
        return
    angles = [math.degrees(angle) for angle in (found.pitch, told.pitch, found.roll, told.roll, found.spread)]
    tell("pitched down by {:.1f} degrees (told: {:.1f}), rolled by {:.1f} (told: {:.1f}); both halves of the pictures "
         "agree within {:.1f} degrees".format(*angles)
         + f"; for a camera {found.height:.2f} m above the floor (told: {told.height:.2f})")
    tell(f"in the profile, {camera_tilt.line(found)}")
