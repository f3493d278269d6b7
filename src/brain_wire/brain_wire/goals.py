# SPDX-License-Identifier: Apache-2.0
"""Actions: goals that a node is given, with feedback while it is at them and one result each.

Who serves one declares an :class:`Act` and says what is new of its goals; :mod:`brain_wire.action` speaks the protocol
of ROS 2 ("Actions", design.ros2.org): two services and a cancellation, a topic of feedback, one of statuses. Who has
others do something declares an :class:`Ask`, gives orders, and is told news of its goals.
"""
from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from brain_wire.messages import make
from brain_wire.services import ActionType, action_type


class Status(IntEnum):
    """``action_msgs/msg/GoalStatus``."""

    UNKNOWN = 0
    ACCEPTED = 1
    EXECUTING = 2
    CANCELING = 3
    SUCCEEDED = 4
    CANCELED = 5
    ABORTED = 6


@dataclass(frozen=True)
class Goal:
    """A goal that a region has been given and has not ended yet.

    Attributes:
        id: 16 bytes.
        request: message of the action's goal type.
        canceling: it is to be given up.
    """

    id: bytes
    request: Any
    canceling: bool = False


@dataclass(frozen=True)
class News:
    """News of a goal, feedback or result, as a step returns it; made by an :class:`Act`.

    Attributes:
        goal: id of the goal.
        status: EXECUTING for feedback, else how it ended. To who asked: ACCEPTED once it was; UNKNOWN where nobody
            answers, or not in time.
        message: feedback or result; to who asked, a text where there is none.
    """

    goal: bytes
    status: Status
    message: Any


@dataclass(frozen=True)
class Declared:
    """An action, declared as an attribute of a region's class like a port.

    Attributes:
        topic: name of the action.
        type: ``package/action/Type``.
    """

    topic: str
    type: str

    @property
    def types(self) -> ActionType:
        """Names of its messages and services."""
        return action_type(self.type)


@dataclass(frozen=True)
class Act(Declared):
    """An action that a region serves, by a relative name. Goals make the region step."""

    def __post_init__(self) -> None:
        if not self.topic or self.topic.startswith("/") or "//" in self.topic:
            raise ValueError(f"action {self.topic!r} must have a relative name such as 'seek'")

    def feedback(self, goal: Goal, /, **fields: Any) -> News:
        """Makes feedback on a goal that is being executed."""
        return News(goal.id, Status.EXECUTING, make(self.types.feedback, **fields))

    def succeeded(self, goal: Goal, /, **fields: Any) -> News:
        """It is done; the fields are the result's."""
        return News(goal.id, Status.SUCCEEDED, make(self.types.result, **fields))

    def aborted(self, goal: Goal, /, **fields: Any) -> News:
        """It cannot be done."""
        return News(goal.id, Status.ABORTED, make(self.types.result, **fields))

    def canceled(self, goal: Goal, /, **fields: Any) -> News:
        """It was given up, since that was asked for (``goal.canceling``)."""
        return News(goal.id, Status.CANCELED, make(self.types.result, **fields))


@dataclass(frozen=True)
class Order:
    """Order that a region gives to who serves an action; made by an :class:`Ask`.

    Attributes:
        goal: id of the goal (16 bytes).
        request: message of the action's goal type; None: the goal is to be given up.
    """

    goal: bytes
    request: Any | None = None


@dataclass(frozen=True)
class Ask(Declared):
    """An action of others that a region uses.

    A step returns orders under its name, and finds what is new of its goals there (``inbox.each``). News makes the
    region step.
    """

    def __post_init__(self) -> None:
        if not self.topic or "//" in self.topic:
            raise ValueError(f"action {self.topic!r} must have a name such as 'navigate_to_pose'")

    def order(self, goal: bytes, /, **fields: Any) -> Order:
        """Makes the order of a goal; the fields are the goal's."""
        return Order(goal, make(self.types.goal, **fields))

    def cancel(self, goal: bytes) -> Order:
        """Makes the order to give a goal up."""
        return Order(goal)
