# SPDX-License-Identifier: Apache-2.0
"""Own outline: what of the scan is the robot itself, confirmed by a person and written into the robot's profile."""
from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Sequence

import yaml

from brain_observe.doctor.heard import Heard
from brain_observe.doctor.scan import own_parts
from brain_runtime import yaml_text
from brain_runtime.contract import outline
from brain_runtime.graph.robots import RobotError, load_robot, robots_directory


def proposed(heard: Heard) -> list[float] | str:
    """Value of ``scan_own`` with all parts that stood in the scan for a full turn; else why there is none."""
    if not heard.value("radius", 0.0, "brainstem"):
        return "the profile says no radius"
    inside, beyond, turned = own_parts(heard)
    if turned < outline.TURN:
        return (f"the robot turned by {math.degrees(turned):.0f} degrees; turn it once around, by hand or by joystick, "
                f"within --seconds")
    found = beyond or inside
    return [*heard.value("scan_own", (), "brainstem"), *found] if found else "nothing of the robot stands in its scan"


def question(own: Sequence[float], path: Path) -> str:
    """Text that asks a person to confirm."""
    told = "; ".join(f"from {math.degrees(begin):.0f} to {math.degrees(end):.0f} degrees, nearer than {reach:.2f} m"
                     for begin, end, reach in zip(own[::3], own[1::3], own[2::3]))
    return (f"These beams end at the robot while it turns round (counter-clockwise from ahead): {told}. Left out, they "
            f"tell of nothing there, and of no free floor. Is each of them a part of the robot? Write yes to have it "
            f"in {path}:")


def file_of(heard: Heard) -> Path:
    """File that the answer goes to: the profile, or for one that comes with the package a copy in this folder."""
    path = heard.robot.path
    return Path.cwd() / path.name if path.parent.resolve() == robots_directory().resolve() else path


def write(heard: Heard, own: Sequence[float], path: Path) -> None:
    """Writes the profile with ``scan: {own: ...}``; all else in its text stays as it is.

    Raises:
        RobotError: the file is there and is another profile's, or cannot be written, or its text is so unusual that the
            line has to be written by hand; says which line.
    """
    if path.exists() and path.resolve() != heard.robot.path.resolve():
        raise RobotError(f"{path} is there already; name it as --robot, or take it away")
    by_hand = f"write it by hand: scan: {{own: {outline.in_words(own)}}}"
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        before = heard.robot.path.read_text(encoding="utf-8")
        temporary.write_text(with_own(before, own), encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise RobotError(f"cannot write {path} ({error.strerror}); {by_hand}") from error
    except (yaml.YAMLError, yaml_text.YamlProblem, ValueError) as error:
        raise RobotError(f"cannot write it into {path}; {by_hand}") from error
    load_robot(str(path))


def with_own(text: str, own: Sequence[float]) -> str:
    """The text of a profile with ``scan: {own: ...}``.

    Raises:
        ValueError, YAMLError: it is no profile, or one that this cannot be put into.
    """
    value = outline.in_words(own)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise ValueError("it is no mapping of lines")
    scan = next((node for key, node in root.value if key.value == "scan"), None)
    inner = next((node for key, node in getattr(scan, "value", ()) if key.value == "own"), None) if isinstance(
        scan, yaml.MappingNode) else None
    if scan is None:
        made = f"{text.rstrip()}\n\nscan:\n  own: {value}\n"
    elif inner is not None:
        tail = text[inner.end_mark.index:]
        made = text[:inner.start_mark.index] + value + ("" if tail[:1] in ("\n", ",", "}", "", " ") else "\n") + tail
    elif isinstance(scan, yaml.MappingNode):
        at, column = scan.start_mark.index, scan.start_mark.column
        made = (f"{text[:at + 1]}own: {value}{', ' if scan.value else ''}{text[at + 1:]}" if scan.flow_style else
                f"{text[:at]}own: {value}\n{' ' * column}{text[at:]}")
    elif scan.value:
        raise ValueError("its scan is no mapping")
    else:
        made = f"{text[:scan.start_mark.index]} {{own: {value}}}{text[scan.end_mark.index:]}"
    wanted = yaml_text.parse(text)
    wanted["scan"] = {**(wanted.get("scan") or {}), "own": yaml_text.parse(value)}
    if yaml_text.parse(made) != wanted:
        raise ValueError("its text is written in another way")
    return made
