# SPDX-License-Identifier: Apache-2.0
"""Gate of all that robots ask of their cloud: who asks is told by the key, which the router holds certificates to."""
from __future__ import annotations

from typing import Callable

from brain_edge.schema import FormProblem
from brain_security.fleet_keys import robot_of
from brain_wire.safe_text import quoted


def asker(key: str, end: str, barred: Callable[[str], bool]) -> str:
    """Returns the robot on whose key a question came.

    Args:
        key: of the question.
        end: last part of the keys on which such questions come, as ``learn``.
        barred: whether a robot was revoked.

    Raises:
        FormProblem: it is no robot's key, or the robot was revoked.
    """
    robot = robot_of(key, end)
    if robot is None:
        raise FormProblem(f"{quoted(key)} is no robot's key")
    if barred(robot):
        raise FormProblem(f"{robot} was revoked")
    return robot
