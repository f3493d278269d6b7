# SPDX-License-Identifier: Apache-2.0
"""The life of a managed node as ROS 2 has it (design.ros2.org, "Managed nodes"), for hosts without rclpy.

States and transitions have the numbers of ``lifecycle_msgs``, so that ``ros2 lifecycle`` understands them.
"""
from __future__ import annotations

import logging
from enum import IntEnum
from typing import Any, Callable, Mapping, NamedTuple

from brain_wire.messages import make
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

limited_log = RateLimitedLog(logging.getLogger(__name__))


class State(IntEnum):
    """Lifecycle state of a node; from 10 on, it is on its way to another."""

    UNKNOWN = 0
    UNCONFIGURED = 1
    INACTIVE = 2
    ACTIVE = 3
    FINALIZED = 4
    CONFIGURING = 10
    CLEANINGUP = 11
    SHUTTINGDOWN = 12
    ACTIVATING = 13
    DEACTIVATING = 14
    ERRORPROCESSING = 15


class Outcome(IntEnum):
    """Outcome of a transition; as transitions are numbered, the last digit."""

    SUCCESS = 0
    FAILURE = 1
    ERROR = 2


class Transition(NamedTuple):
    """One arrow of the state machine."""

    id: int
    label: str
    start: State
    goal: State


class _Way(NamedTuple):
    """A transition that may be asked for, and where it leads."""

    id: int
    label: str
    start: State
    through: State
    success: State
    failure: State


_S = State
_WAYS = (
    _Way(1, "configure", _S.UNCONFIGURED, _S.CONFIGURING, _S.INACTIVE, _S.UNCONFIGURED),
    _Way(2, "cleanup", _S.INACTIVE, _S.CLEANINGUP, _S.UNCONFIGURED, _S.INACTIVE),
    _Way(3, "activate", _S.INACTIVE, _S.ACTIVATING, _S.ACTIVE, _S.INACTIVE),
    _Way(4, "deactivate", _S.ACTIVE, _S.DEACTIVATING, _S.INACTIVE, _S.ACTIVE),
    _Way(5, "shutdown", _S.UNCONFIGURED, _S.SHUTTINGDOWN, _S.FINALIZED, _S.FINALIZED),
    _Way(6, "shutdown", _S.INACTIVE, _S.SHUTTINGDOWN, _S.FINALIZED, _S.FINALIZED),
    _Way(7, "shutdown", _S.ACTIVE, _S.SHUTTINGDOWN, _S.FINALIZED, _S.FINALIZED),
)
_TENS = {_S.CONFIGURING: 10, _S.CLEANINGUP: 20, _S.ACTIVATING: 30, _S.DEACTIVATING: 40, _S.SHUTTINGDOWN: 50,
         _S.ERRORPROCESSING: 60}
_ENDS = ("transition_success", "transition_failure", "transition_error")


def _arrows() -> tuple[Transition, ...]:
    found = []
    for way in _WAYS:
        found.append(Transition(way.id, way.label, way.start, way.through))
        if way.label == "shutdown" and way.start != State.ACTIVE:
            continue    # the three ways to the end share what comes behind
        for number, (label, goal) in enumerate(zip(_ENDS, (way.success, way.failure, State.ERRORPROCESSING))):
            found.append(Transition(_TENS[way.through] + number, label, way.through, goal))
    for number, (label, goal) in enumerate(zip(_ENDS, (State.UNCONFIGURED, State.FINALIZED, State.FINALIZED))):
        found.append(Transition(_TENS[State.ERRORPROCESSING] + number, label, State.ERRORPROCESSING, goal))
    return tuple(found)


TRANSITIONS = _arrows()
"""All arrows of the state machine, in the order in which rcl_lifecycle lists them."""


class Lifecycle:
    """A node's state, and how it changes.

    Args:
        transitions: what is to be done, by label: ``configure``, ``activate``, ``deactivate``, ``cleanup``,
            ``shutdown``. Each tells how it ended.
        recover: error processing: SUCCESS leads back to unconfigured, all else to the end.
        tell: takes each ``lifecycle_msgs/msg/TransitionEvent``.
    """

    def __init__(self, transitions: Mapping[str, Callable[[], Outcome]], recover: Callable[[], Outcome],
                 tell: Callable[[Any], None]) -> None:
        self.state = State.UNCONFIGURED
        self._do, self._recover, self._tell = transitions, recover, tell

    def available(self) -> list[Transition]:
        """Transitions that may be asked for now."""
        return [arrow for arrow in TRANSITIONS if arrow.start == self.state]

    def change(self, wanted: int | str) -> bool:
        """Makes a transition.

        Args:
            wanted: its number or label.

        Returns:
            Whether it succeeded; False also where it is not possible in this state, and then nothing was done.
        """
        way = next((w for w in _WAYS if w.start == self.state and wanted in (w.id, w.label)), None)
        if way is None:
            limited_log("impossible", f"transition {quoted(str(wanted))} is not possible in the state "
                        f"{self.state.name.lower()}; possible are "
                        f"{', '.join(arrow.label for arrow in self.available()) or 'none'}", level=logging.ERROR)
            return False
        self._go(way.id, way.label, way.through)
        outcome = self._do[way.label]()
        goal = {Outcome.SUCCESS: way.success, Outcome.FAILURE: way.failure}.get(outcome, State.ERRORPROCESSING)
        self._end(outcome, goal)
        if goal == State.ERRORPROCESSING:
            recovered = self._recover()
            self._end(recovered, State.UNCONFIGURED if recovered == Outcome.SUCCESS else State.FINALIZED)
        return outcome == Outcome.SUCCESS

    def _end(self, outcome: Outcome, goal: State) -> None:
        self._go(_TENS[self.state] + outcome, _ENDS[outcome], goal)

    def _go(self, number: int, label: str, goal: State) -> None:
        arrow = Transition(number, label, self.state, goal)
        self.state = goal
        event = make("lifecycle_msgs/msg/TransitionEvent", transition=transition_message(arrow),
                     start_state=state_message(arrow.start), goal_state=state_message(arrow.goal))
        self._tell(event)


def state_message(state: State) -> Any:
    """``lifecycle_msgs/msg/State``."""
    return make("lifecycle_msgs/msg/State", id=int(state), label=state.name.lower())


def transition_message(arrow: Transition) -> Any:
    """``lifecycle_msgs/msg/Transition``."""
    return make("lifecycle_msgs/msg/Transition", id=arrow.id, label=arrow.label)


def description(arrow: Transition) -> Any:
    """``lifecycle_msgs/msg/TransitionDescription``."""
    return make("lifecycle_msgs/msg/TransitionDescription", transition=transition_message(arrow),
                start_state=state_message(arrow.start), goal_state=state_message(arrow.goal))


def handlers(life: Lifecycle, change: Callable[[int | str], bool] | None = None
             ) -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """The five services of a managed node: type, and what answers a request, by name below the node's.

    Args:
        life: of the node.
        change: makes a transition that is asked for; None: :meth:`Lifecycle.change`.
    """
    change = change or life.change
    transitions = "lifecycle_msgs/srv/GetAvailableTransitions"

    def change_state(request: Any) -> Any:
        wanted = request.transition
        return make("lifecycle_msgs/srv/ChangeState_Response", success=change(wanted.label or wanted.id))

    def get_state(_: Any) -> Any:
        return make("lifecycle_msgs/srv/GetState_Response", current_state=state_message(life.state))

    def get_available_states(_: Any) -> Any:
        return make("lifecycle_msgs/srv/GetAvailableStates_Response", available_states=[*map(state_message, State)])

    def get_available_transitions(_: Any) -> Any:
        return make(f"{transitions}_Response", available_transitions=[*map(description, life.available())])

    def get_transition_graph(_: Any) -> Any:
        return make(f"{transitions}_Response", available_transitions=[*map(description, TRANSITIONS)])

    return {"change_state": ("lifecycle_msgs/srv/ChangeState", change_state),
            "get_state": ("lifecycle_msgs/srv/GetState", get_state),
            "get_available_states": ("lifecycle_msgs/srv/GetAvailableStates", get_available_states),
            "get_available_transitions": (transitions, get_available_transitions),
            "get_transition_graph": (transitions, get_transition_graph)}
