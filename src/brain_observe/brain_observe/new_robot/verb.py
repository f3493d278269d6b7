# SPDX-License-Identifier: Apache-2.0
"""``brain robot new``: writes a profile from what a running robot tells, and asks about the rest."""
from __future__ import annotations

import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Callable

import typer

from brain_runtime.command.options import (Domain, Namespace, Router, Secure, check_writable, fail, tell, use_domain,
                                           use_security)

if TYPE_CHECKING:
    from brain_observe.doctor.heard import Heard

INTERRUPTED = 130   # exit status after Ctrl-C
GRAPH_SECONDS = 1.5     # of listening for who is there
LIMITS = {"max_linear": 0.1, "max_angular": 0.5, "max_reverse": 0.0, "linear_acceleration": 0.2,
          "angular_acceleration": 0.5, "braking": 0.2}     # as docs/new-robot.md begins
TOPICS = {"scan": "the lidar's topic", "odom": "odometry's topic", "camera/image_raw": "the camera's topic",
          "camera/camera_info": "the topic of its camera_info", "cmd_vel": "the topic on which the base hears commands"}
OPTIONS = {"camera/image_raw": "--image", "camera/camera_info": "--info", "cmd_vel": "--cmd-vel"}

app = typer.Typer(help="Write a robot's profile.", no_args_is_help=True)


@app.callback()
def robot() -> None:
    """Writes a robot's profile."""


def _number(help_text: str, low: float, high: float) -> Any:
    return typer.Option(min=low, max=high, help=f"{help_text} Asked where it is not given.")


def _topic(what: str) -> Any:
    return typer.Option(metavar="TOPIC", help=f"Name of {what}. Asked where it is not given.")


@app.command()
def new(file: Annotated[Path, typer.Argument(help="Profile that is written, as mine.yaml.")],
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Take what is proposed wherever no option says "
                                          "otherwise, and ask nothing.")] = False,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if there is one, unasked.")
                             ] = False,
        offline: Annotated[bool, typer.Option("--offline", help="Do not listen to a running robot.")] = False,
        seconds: Annotated[float, typer.Option(min=1.0, max=600.0, help="How long to listen.")] = 3.0,
        description: Annotated[str | None, typer.Option(help="What robot it is, in one line.")] = None,
        scan: Annotated[str | None, _topic("the lidar's topic")] = None,
        odom: Annotated[str | None, _topic("odometry's topic")] = None,
        image: Annotated[str | None, _topic("the camera's topic")] = None,
        info: Annotated[str | None, _topic("its camera_info")] = None,
        cmd_vel: Annotated[str | None, _topic("the base's commands")] = None,
        stamped: Annotated[bool | None, typer.Option("--stamped/--twist", help="The base hears TwistStamped, or Twist. "
                                                     "Asked where it is not given.")] = None,
        base_frame: Annotated[str | None, typer.Option(help="Frame of the base. Asked where it is not given.")] = None,
        radius: Annotated[float | None, _number("Circle round the base's frame that holds the robot (m).", 0.02, 2.0)
                          ] = None,
        max_linear: Annotated[float | None, _number("Top speed (m/s).", 0.0, 2.0)] = None,
        max_angular: Annotated[float | None, _number("Top turning speed (rad/s).", 0.0, 4.0)] = None,
        max_reverse: Annotated[float | None, _number("Top speed backwards (m/s).", 0.0, 1.0)] = None,
        linear_acceleration: Annotated[float | None, _number("How fast speed may grow (m/s^2).", 0.05, 5.0)] = None,
        angular_acceleration: Annotated[float | None, _number("How fast turning may grow (rad/s^2).", 0.1, 20.0)
                                        ] = None,
        braking: Annotated[float | None, _number("Deceleration that the base reaches (m/s^2).", 0.05, 5.0)] = None,
        command_timeout: Annotated[float | None, typer.Option(
            min=0.0, max=2.0, help="Time after which the base stops by itself (s); 0: nobody has measured it. Asked "
            "where it is not given.")] = None,
        lidar_x: Annotated[float | None, _number("How far ahead of the base's frame the lidar is (m).", -2.0, 2.0)
                           ] = None,
        lidar_y: Annotated[float | None, _number("How far to the left it is (m).", -2.0, 2.0)] = None,
        lidar_yaw: Annotated[float | None, _number("Direction of its angle 0 (rad).", -math.pi, math.pi)] = None,
        camera_x: Annotated[float | None, _number("How far ahead of the base's frame the camera is (m).", -5.0, 5.0)
                            ] = None,
        camera_height: Annotated[float | None, _number("How high above the floor it is (m).", 0.0, 5.0)] = None,
        camera_yaw: Annotated[float | None, _number("Direction it looks in (rad).", -math.pi, math.pi)] = None,
        field_of_view: Annotated[float | None, _number("What its lens sees across (rad).", 0.2, 2.8)] = None,
        router: Router = None, secure: Secure = None, domain: Domain = None, namespace: Namespace = "") -> None:
    """Writes a robot's profile: listens to the running robot, proposes, and asks.

    Topics are found by their types, mounts by tf_static or robot_description, rates and the lens by what comes. An
    empty answer takes what is proposed. It only listens. Exit status: 0 when the profile is written, 1 when not, 2 for
    wrong use, 130 after Ctrl-C.
    """
    given = {key: value for key, value in locals().items() if value is not None}
    use_domain(domain)
    use_security(secure)
    check_writable(file)
    if file.suffix not in (".yaml", ".yml"):
        fail(f"{file} must end in .yaml, so that --robot takes it for a path", 2)
    if os.path.lexists(file) and not overwrite:
        if yes:
            fail(f"{file} is there already; --overwrite replaces it, or name another file", 2)
        if _asked(f"{file} is there already. Write yes to replace it", "no", str, "--overwrite").lower() != "yes":
            fail(f"{file} stays as it is")
    from brain_wire import NameProblem

    try:
        _write(file, given, Questions(given, yes), offline, seconds, router, namespace)
    except NameProblem as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted, before the profile was written", INTERRUPTED)


class Questions:
    """Answers: by the options, else what is proposed (``--yes``), else what a person says.

    Args:
        given: values of the options, by name.
        unasked: nobody is asked.
    """

    def __init__(self, given: dict[str, Any], unasked: bool) -> None:
        self._given, self._unasked = given, unasked

    def ask(self, name: str, what: str, proposed: Any, kind: Callable[[str], Any], option: str = "",
            low: float = -math.inf, high: float = math.inf) -> Any:
        """Value of one entry.

        Args:
            name: of the option.
            what: the question.
            proposed: what an empty answer takes.
            kind: makes a value of an answer; raises ValueError.
            option: as a person writes it.
            low, high: bounds of a number.
        """
        if name in self._given:
            return self._given[name]
        return proposed if self._unasked else _asked(what, proposed, kind, option or f"--{name.replace('_', '-')}",
                                                     low, high)


def _asked(what: str, proposed: Any, kind: Callable[[str], Any], option: str, low: float = -math.inf,
           high: float = math.inf) -> Any:
    shown = f"{proposed:.4g}" if isinstance(proposed, float) else str(proposed)
    while True:
        tell(f"{what} [{shown}]:", err=True)
        line = sys.stdin.readline()
        if not line:
            fail(f"nobody answers; give {option}, or --yes for all that is proposed", 2)
        if not line.strip():
            return proposed
        try:
            value = kind(line.strip())
            if not isinstance(value, (int, float)) or low <= value <= high:
                return value
            tell(f"{value:g} must be between {low:g} and {high:g}", "yellow", err=True)
        except ValueError:
            tell(f"{line.strip()[:60]!r} is none; write it as {shown}", "yellow", err=True)


def _truth(text: str) -> bool:
    if text.lower() not in ("yes", "no", "y", "n", "true", "false"):
        raise ValueError
    return text.lower()[0] in "yt"


def _write(file: Path, given: dict[str, Any], questions: Questions, offline: bool, seconds: float,
           router: str | None, namespace: str) -> None:
    from brain_observe.doctor.heard import Heard
    from brain_observe.new_robot import profile_text, proposals
    from brain_runtime.graph import graphs
    from brain_runtime.graph.robots import Robot, RobotError, load_robot
    from brain_wire import NoRouter, SessionProblem, domain_id, names, open_node

    heard = Heard(Robot("", Path()), False, domain_id(), names.absolute(namespace))
    left: list[str] = []
    if offline:
        left.append("topics, frames and rates: nothing was listened to")
        topics = _topics(questions, {}, left)
    else:
        try:
            with open_node("brain_robot_new", namespace or "/", router=router) as node:
                tell(f"listening for {GRAPH_SECONDS + seconds:g} s ...", err=True)
                heard = _heard(node, heard, GRAPH_SECONDS)
                topics = _topics(questions, proposals.topics(heard), left)
                heard = _heard(node, replace(heard, robot=replace(heard.robot, topics=topics)), seconds)
        except NoRouter as error:
            fail(f"{error}; start the robot and its router, or --offline to answer questions alone")
        except SessionProblem as error:
            fail(str(error), 2)
    base = questions.ask("base_frame", "frame of the base", proposals.base_frame(heard), str)
    mounts, unknown = proposals.mounts(heard, base)
    left += unknown if not offline else []
    lidar, camera = proposals.lidar(heard), proposals.camera(heard)
    profile = _profile(questions, heard, topics, base, mounts, lidar, camera, left)
    how = "Written by `brain robot new`" + ("" if offline else ", from a running robot")
    made = file.with_name(f".{file.name}.new.yaml")
    try:
        made.write_text(f"{profile_text.text(profile, how, left)}", encoding="utf-8")
        load_robot(str(made)).parameters(graphs.load("brain"))
        os.replace(made, file)
    except (RobotError, OSError) as error:
        fail(str(error).replace(str(made), str(file)))
    finally:
        made.unlink(missing_ok=True)
    for one in left:
        tell(f"not known: {one}", "yellow")
    tell(f"written: {file}; now `brain doctor --robot {file}`, and measure what is not (docs/new-robot.md)")


def _heard(node: Any, heard: Heard, seconds: float) -> Heard:
    """Listens anew, with nothing heard yet."""
    from brain_observe.doctor.heard import Heard
    from brain_observe.doctor.listening import listen

    fresh = Heard(heard.robot, heard.named, heard.domain, heard.namespace)
    listen(node, fresh, seconds)
    return fresh


def _topics(questions: Questions, found: dict[str, list[str]], left: list[str]) -> dict[str, str]:
    """The robot's names of topics, where they are not the brain's."""
    told = {}
    for name, what in TOPICS.items():
        candidates = found.get(name, [])
        if found and not candidates:
            left.append(f"{what}: nobody has one of that type")
        others = f" (others: {', '.join(candidates[1:6])})" if len(candidates) > 1 else ""
        option = OPTIONS.get(name, f"--{name}")
        told[name] = questions.ask(option.strip("-").replace("-", "_"), what + others,
                                   candidates[0] if candidates else name, str, option)
    return {name: topic for name, topic in told.items() if topic != name}


def _profile(questions: Questions, heard: Heard, topics: dict[str, str], base: str, mounts: dict[str, float],
             lidar: dict[str, Any], camera: dict[str, Any], left: list[str]) -> dict[str, Any]:
    """The content of the profile, in the order in which it stands in the file."""
    from brain_observe.new_robot import proposals

    def number(name: str, what: str, proposed: float, low: float, high: float) -> float:
        return float(questions.ask(name, what, proposed, float, low=low, high=high))

    stamped = proposals.stamped(heard, topics.get("cmd_vel", "cmd_vel"))
    shared: dict[str, Any] = {
        "base_frame": base,
        "radius": number("radius", "radius of the circle round the base's frame that holds the robot (m)", 0.3, 0.02,
                         2.0),
        **{name: number(name, f"{name.replace('_', ' ')} ({unit})", mounts.get(name, 0.0), -reach, reach)
           for name, unit, reach in (("lidar_x", "m, ahead", 2.0), ("lidar_y", "m, to the left", 2.0),
                                     ("lidar_yaw", "rad", math.pi), ("camera_x", "m, ahead", 5.0))},
        "camera_height": number("camera_height", "camera height (m, above the floor)", max(
            mounts.get("camera_height", 0.3), 0.0), 0.0, 5.0),
        "camera_yaw": number("camera_yaw", "camera yaw (rad)", mounts.get("camera_yaw", 0.0), -math.pi, math.pi),
        **{name: mounts[name] for name in ("camera_y", "camera_pitch", "camera_roll")
           if round(mounts.get(name, 0.0), 3)},
        "field_of_view": number("field_of_view", "what the camera sees across (rad)", camera.get(
            "field_of_view", math.pi / 3), 0.2, 2.8),
        "stamped": questions.ask("stamped", "the base hears TwistStamped, not Twist (yes or no)",
                                 True if stamped is None else stamped, _truth, "--stamped or --twist"),
        "max_linear": number("max_linear", "top speed (m/s)", LIMITS["max_linear"], 0.0, 2.0),
        "max_angular": number("max_angular", "top turning speed (rad/s)", LIMITS["max_angular"], 0.0, 4.0)}
    brainstem = {name: number(name, what, LIMITS[name], low, high) for name, what, low, high in (
        ("max_reverse", "top speed backwards (m/s)", 0.0, 1.0),
        ("linear_acceleration", "how fast speed may grow (m/s^2)", 0.05, 5.0),
        ("angular_acceleration", "how fast turning may grow (rad/s^2)", 0.1, 20.0),
        ("braking", "deceleration that the base reaches (m/s^2)", 0.05, 5.0))}
    timeout = number("command_timeout", "after how long without commands the base stops by itself (s; 0: not "
                     "measured)", 0.0, 0.0, 2.0)
    if not timeout:
        left.append("command_timeout: `brain doctor --measure-timeout` measures it")
    if lidar and not lidar["all_round"]:
        left.append(f"what is behind: the lidar sees {math.degrees(lidar['to'] - lidar['from']):.0f} degrees; keep "
                    f"max_reverse at 0")
    kit = {"lidar": {**{key: lidar[key] for key in ("rate", "beams", "from", "to", "nearest", "farthest", "frame")
                        if key in lidar}, **({"height": mounts["lidar_height"]} if "lidar_height" in mounts else {})},
           "camera": {key: camera[key] for key in ("rate", "width", "height_px", "frame") if key in camera},
           "base": {"odom_rate": proposals.rate(heard.came["odom"])}}
    return {
        "description": questions.ask("description", "what robot it is, in one line", "my robot", str),
        **({"command_timeout": timeout} if timeout else {}), "topics": topics, "shared": shared,
        "scan": {"zero_is_far": True} if lidar.get("zero_is_far") else {},
        "regions": {"brainstem": brainstem, "motor": {
            "turn_speed": min(shared["max_angular"], 1.3), "braking": 0.8 * brainstem["braking"]}},
        "kit": {part: told for part, facts in kit.items() if (told := {
            key: value for key, value in facts.items() if not (isinstance(value, float) and math.isnan(value))})}}
