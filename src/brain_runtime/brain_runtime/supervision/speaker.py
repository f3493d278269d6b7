# SPDX-License-Identifier: Apache-2.0
"""Tells a brain what to do through a node, and follows how the goal goes."""
from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Iterable

from brain_runtime.graph.rooms import SAID

TAKEN_UP = 5.0      # s in which a sentence is taken up
STATUS, LANGUAGE = "brain_interfaces/msg/GoalStatus", "brain_interfaces/msg/LanguageFeatures"


@dataclass(frozen=True)
class Answer:
    """Outcome of a sentence.

    Attributes:
        status: exit status: 0 reached (or taken up, where nobody waited), 1 not found, wrong or not in time, 2 not
            understood, 130 interrupted.
        state: of the goal, as :func:`brain_runtime.contract.constants.goal_state` calls it; empty if nobody took it up.
        reason: for a person.
        goal_id: number that language gave it, or None.
        seconds: from speaking to the answer.
    """

    status: int
    state: str
    reason: str
    goal_id: int | None
    seconds: float


class Speaker:
    """Says sentences through a node and follows the goal's status.

    Args:
        node: its namespace is the brain's; it must stay open as long as the sentence is to stand.
        look: called again and again while waiting, in the waiting thread.
    """

    def __init__(self, node: Any, look: Callable[[], None] | None = None) -> None:
        from brain_wire.qos import FEATURE, LATCHED

        self._heard_on = [node.publisher(topic, "std_msgs/msg/String", LATCHED) for topic in SAID]
        self._statuses = node.subscription("goal/status", STATUS, LATCHED.with_depth(16))
        self._language = node.subscription("lang/features", LANGUAGE, FEATURE.with_depth(8))
        self._look = look
        self.said = False
        self.newest: Any | None = None

    def hear(self, seconds: float = 0.0) -> list:
        """Goal statuses that have come since the last call, waiting up to ``seconds`` for the first."""
        found = _decoded(self._statuses.wait(seconds) if seconds > 0 else self._statuses.take(), STATUS)
        if found:
            self.newest = found[-1]
        return found

    def say(self, text: str) -> None:
        """Says a sentence."""
        from brain_wire import messages

        self.said = True
        for goals in self._heard_on:
            goals.publish(messages.make("std_msgs/msg/String", data=text))

    def ask(self, text: str, wait: float | None) -> Answer:
        """Says a sentence and waits until it is done, at most ``wait`` s; None: until it is taken up."""
        from brain_runtime.contract.constants import goal_state
        from brain_runtime.interfaces import GoalStatus

        before = None if self.newest is None else (self.newest.goal_id, self.newest.text)
        begin = time.monotonic()
        self.say(text)
        until = begin + (TAKEN_UP if wait is None else wait)
        ours: Any | None = None
        while (left := until - time.monotonic()) > 0:
            if self._look is not None:
                self._look()
            for said in _decoded(self._language.take(), LANGUAGE):
                if said.understood and said.reason and said.text == clipped(text):  # no order: the goal stays another
                    return Answer(2, goal_state(GoalStatus.STATE_NOT_UNDERSTOOD), said.reason, None,
                                  time.monotonic() - begin)
            for status in self.hear(min(left, 0.1)):
                taken = time.monotonic() - begin
                if (status.goal_id, status.text) == before and ours is None:
                    continue
                if status.text != clipped(text):
                    if ours is not None:
                        return Answer(1, goal_state(ours.state), f"another sentence took its place: {status.text!r}",
                                      ours.goal_id, taken)
                    continue
                ours = status
                if status.state == GoalStatus.STATE_NOT_UNDERSTOOD:
                    return Answer(2, goal_state(status.state), status.reason, status.goal_id, taken)
                if status.state in (GoalStatus.STATE_REACHED, GoalStatus.STATE_STOPPED):
                    return Answer(0, goal_state(status.state), status.reason, status.goal_id, taken)
                if status.state in (GoalStatus.STATE_NOT_FOUND, GoalStatus.STATE_WRONG):
                    return Answer(1 if wait is not None else 0, goal_state(status.state), status.reason, status.goal_id,
                                  taken)
                if wait is None:
                    return Answer(0, goal_state(status.state), status.reason, status.goal_id, taken)
        taken = time.monotonic() - begin
        if ours is None:
            return Answer(1, "", f"nobody took it up within {taken:.0f} s; `brain status` shows whether language and "
                          f"pfc are well", None, taken)
        reason = f" ({ours.reason})" if ours.reason else ""
        return Answer(1, goal_state(ours.state), f"not reached within {wait:g} s{reason}", ours.goal_id, taken)


def _decoded(arrivals: Iterable[Any], kind: str) -> list:
    """Messages that can be read; others are not the brain's."""
    from brain_wire import messages

    found = []
    for arrival in arrivals:
        try:
            found.append(messages.decode(arrival.data, kind))
        except messages.MessageError:
            continue
    return found


def clipped(text: str) -> str:
    """A sentence as it stands in the goal's status."""
    from brain_runtime.contract.heartbeat import clip_utf8

    return clip_utf8(text, 256)


def checked(text: str) -> str:
    """The sentence, if it can be sent.

    Raises:
        ValueError: it is empty or not text.
    """
    if not text.strip():
        raise ValueError("the sentence is empty; say what is wanted, as in: brain say \"go to the red ball\"")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("the sentence is not UTF-8 text; set a UTF-8 locale, such as LANG=C.UTF-8") from None
    return text
