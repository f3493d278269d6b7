# SPDX-License-Identifier: Apache-2.0
"""From messages of a brain, live or recorded, to what rules are shown. What a message holds is anyone's."""
from __future__ import annotations

import math
from typing import Any

from brain_runtime.interfaces import GoalStatus, Trace
from brain_training.incremental.rules import Acted, Heard, Looked, Stood

OBJECTS, TRACE, STATUS = "vision/objects", "brain/trace", "goal/status"
TOPICS = {OBJECTS: "brain_interfaces/msg/DetectedObjects", TRACE: "brain_interfaces/msg/Trace",
          STATUS: "brain_interfaces/msg/GoalStatus"}
"""What rules are about, with the types."""
PURSUED = (GoalStatus.STATE_SEARCHING, GoalStatus.STATE_APPROACHING, GoalStatus.STATE_WAITING)


class Hearing:
    """Turns messages into what rules are shown.

    Args:
        threshold: confidence from which on vision tells of a thing.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._goal: int | None = None
        self._began = 0.0

    def heard(self, topic: str, at: float, message: Any) -> Heard | None:
        """Turns a message of a topic, heard at ``at`` (s), into what rules judge; None: no rule is about it."""
        if topic == OBJECTS:
            told = (float(one.confidence) for one in message.objects)
            return Looked(at, tuple(one for one in told if math.isfinite(one)), self._threshold)
        if topic == TRACE:
            return Acted(at, int(message.action) == Trace.ACTION_REFLEX)
        if topic == STATUS:
            goal, state = int(message.goal_id), int(message.state)
            if goal != self._goal or at < self._began or state not in PURSUED:
                self._goal, self._began = goal, at
            return Stood(at, goal, state, at - self._began)
        return None
