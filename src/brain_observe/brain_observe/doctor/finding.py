# SPDX-License-Identifier: Apache-2.0
"""Finding: what is wrong with a robot, a machine or a graph, and the remedy."""
from __future__ import annotations

from typing import NamedTuple

STOPS, DEGRADES, NOTE = "stops", "degrades", "note"
SEVERITIES = (STOPS, DEGRADES, NOTE)
"""From the worst: the robot does not drive, or not where it should; it drives worse; it is to be known."""


class Finding(NamedTuple):
    """Something that is wrong.

    Attributes:
        code: that names the fault, for programs.
        severity: one of :data:`SEVERITIES`.
        subject: topic, region, frame or part of the machine.
        text: what was seen, with its numbers. It may hold text of others.
        remedy: what to do, in a line.
    """

    code: str
    severity: str
    subject: str
    text: str
    remedy: str


def ordered(findings: list[Finding]) -> list[Finding]:
    """Sorts findings: the worst first, then by subject; what was found twice is told once."""
    return sorted(dict.fromkeys(findings), key=lambda one: (SEVERITIES.index(one.severity), one.subject, one.code))
