# SPDX-License-Identifier: Apache-2.0
"""Text of a new profile, with what each line means, so that it can be read and corrected by hand."""
from __future__ import annotations

from typing import Any, Mapping

from brain_runtime import yaml_text

REMARKS = {
    "radius": "m; the circle round the base's frame that holds robot and load",
    "stamped": "cmd_vel is a TwistStamped; false: a Twist",
    "max_linear": "m/s; begin low, and go up as docs/new-robot.md says",
    "max_angular": "rad/s",
    "lidar_x": "m, ahead of the base's frame", "lidar_y": "m, to the left", "lidar_yaw": "rad, of the scan's angle 0",
    "camera_x": "m, ahead of the base's frame", "camera_height": "m, above the floor",
    "camera_y": "m, to the left", "camera_pitch": "rad, how far down it looks",
    "camera_roll": "rad, how far its right side hangs down", "camera_yaw": "rad",
    "field_of_view": "rad, horizontal, while camera_info is missing",
    "max_reverse": "m/s; 0 where the lidar does not see behind",
    "linear_acceleration": "m/s^2; not measured: cautious", "angular_acceleration": "rad/s^2; not measured: cautious",
    "braking": "m/s^2; not measured: cautious"}
WIDTH = 30      # columns before a remark


def text(profile: Mapping[str, Any], how: str, left: list[str]) -> str:
    """YAML of a profile.

    Args:
        profile: its content, in the order in which it is to stand; numbers are rounded.
        how: it was made, for a person.
        left: what could not be told, which is to be measured.
    """
    lines = [f"# {how}", "# Not measured: see docs/new-robot.md, and let `brain doctor --robot FILE` look.",
             *(f"# Not known: {' '.join(one.split())}" for one in left)]
    for key, value in profile.items():
        if not isinstance(value, Mapping):
            lines += ["" if key != "command_timeout" else None, _line(key, value, "")]
        elif value:
            lines += ["", f"{key}:", *_below(value, "  ")]
    return "\n".join(line for line in lines if line is not None) + "\n"


def _below(values: Mapping[str, Any], indent: str) -> list[str]:
    lines: list[str] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{key}:", *_below(value, indent + "  ")]
        else:
            lines.append(_line(key, value, indent))
    return lines


def _line(key: str, value: Any, indent: str) -> str:
    if isinstance(value, float):
        value = round(value, 4)
    (plain,) = yaml_text.written({key: value}).strip().splitlines()
    remark = REMARKS.get(key, "")
    return f"{indent + plain:<{WIDTH}}# {remark}" if remark else indent + plain
