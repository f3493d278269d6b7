# SPDX-License-Identifier: Apache-2.0
"""Names of the constants in messages, for people. A number from the wire that is none of them has a name as well."""
from __future__ import annotations

import functools

from brain_runtime import interfaces

# A constant is called by its name in the .msg file, STATE_NOT_FOUND "not found", but for these.
OTHERWISE = {
    ("Control", "MODE_IDLE"): "stand",              # what the robot does then; "idle" is said of a goal
    ("DetectedObject", "COLOR_UNKNOWN"): "",        # "ball" and not "unknown ball"
    ("DetectedObject", "SHAPE_UNKNOWN"): "thing",   # a color needs a noun: "red thing"
}


@functools.cache
def names(message: str, prefix: str) -> dict[int, str]:
    """Returns the names of a message's constants, by number, in the order of the definition.

    Args:
        message: of brain_interfaces, as ``GoalStatus``.
        prefix: that the constants share, as ``STATE_``.
    """
    return {number: OTHERWISE.get((message, constant), constant.removeprefix(prefix).lower().replace("_", " "))
            for constant, number in vars(getattr(interfaces, message)).items() if constant.startswith(prefix)}


def goal_state(number: int) -> str:
    """Names the state of a goal, of ``GoalStatus.state``."""
    return names("GoalStatus", "STATE_").get(number, f"state {number}")


def heartbeat_state(number: int) -> str:
    """Names the state of a region, of ``Heartbeat.state``."""
    return names("Heartbeat", "STATE_").get(number, f"state {number}")


def trace_action(number: int) -> str:
    """Names the action that was taken on a command, of ``Trace.action``."""
    return names("Trace", "ACTION_").get(number, f"action {number}")


def control_mode(number: int) -> str:
    """Names the mode that pfc wants, of ``Control.mode``."""
    return names("Control", "MODE_").get(number, f"mode {number}")
