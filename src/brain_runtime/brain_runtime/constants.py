# SPDX-License-Identifier: Apache-2.0
"""Names of the constants in messages. A number from the wire that is none of them has a name all the same."""
from __future__ import annotations

from typing import Sequence

GOAL_STATES = ("idle", "searching", "approaching", "reached", "not found", "not understood", "stopped", "waiting",
               "wrong")
HEARTBEAT_STATES = ("unconfigured", "inactive", "active", "finalized", "error")
TRACE_ACTIONS = ("passed", "limited", "reflex", "stale", "estop", "refused")
CONTROL_MODES = ("stand", "search", "approach", "stop", "avoid")


def name_of(number: int, names: Sequence[str], kind: str) -> str:
    """What a constant is called, by its number; ``state 200`` where there is none of that number.

    Args:
        number: as it came.
        names: in the order of the numbers, from 0.
        kind: what it is, for one that there is not.
    """
    return names[number] if 0 <= number < len(names) else f"{kind} {number}"


def goal_state(number: int) -> str:
    """How a goal stands, of ``GoalStatus.state``."""
    return name_of(number, GOAL_STATES, "state")


def heartbeat_state(number: int) -> str:
    """How a region is, of ``Heartbeat.state``."""
    return name_of(number, HEARTBEAT_STATES, "state")


def trace_action(number: int) -> str:
    """What became of a command, of ``Trace.action``."""
    return name_of(number, TRACE_ACTIONS, "action")


def control_mode(number: int) -> str:
    """What pfc wants, of ``Control.mode``."""
    return name_of(number, CONTROL_MODES, "mode")
