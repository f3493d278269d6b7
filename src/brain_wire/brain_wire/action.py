# SPDX-License-Identifier: Apache-2.0
"""An action on the wire: goals, cancellations and results as services, feedback and statuses as topics."""
from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from brain_wire.goals import Act, Goal, News, Status
from brain_wire.messages import make, time_message, time_seconds
from brain_wire.node import Node
from brain_wire.qos import LATCHED, QoS
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.service import Request, Service

FEEDBACK_QUALITY = QoS(reliable=True, latched=False, depth=10)
KEPT = 60.0             # s that a result waits to be fetched
MOST = 32               # goals at a time
REMEMBERED = 128        # goals in the book; of those that have ended, the oldest are forgotten
WAITERS = 16            # requests for one goal's result that wait for its end
NONE, REJECTED, UNKNOWN_GOAL, TERMINATED = range(4)     # CancelGoal_Response ERROR_*
_NO_ID = bytes(16)

limited_log = RateLimitedLog(logging.getLogger(__name__))


@dataclass
class _Entry:
    """One goal in the server's book.

    Attributes:
        accepted: time of acceptance (s since the epoch).
        ended: steady time of its end (s); None before.
        waiting: requests for the result.
    """

    goal: Goal
    accepted: float
    status: Status = Status.EXECUTING
    result: Any | None = None
    ended: float | None = None
    waiting: list[Request] = field(default_factory=list)


class ActionServer:
    """Serves an action of a region; all but :meth:`tell` is called in one thread.

    Args:
        node: in whose name.
        act: the action.
        name: that is used, where it was remapped.
        ready: whether goals are taken now.
        give: takes goals, and those again that are to be given up.
        arrived: called when there is something to :meth:`serve`.
        closed: called when it is closed.
    """

    def __init__(self, node: Node, act: Act, name: str, *, ready: Callable[[], bool], give: Callable[[Goal], None],
                 arrived: Callable[[], None], closed: Callable[[ActionServer], None] = lambda server: None) -> None:
        self._node, self._types, self._closed = node, act.types, closed
        self._ready, self._give, self._arrived = ready, give, arrived
        self._book: dict[bytes, _Entry] = {}
        self._news: deque[News] = deque()
        self._send_goal = node.service(f"{name}/_action/send_goal", self._types.send_goal, arrived)
        self._cancel_goal = node.service(f"{name}/_action/cancel_goal", self._types.cancel_goal, arrived)
        self._get_result = node.service(f"{name}/_action/get_result", self._types.get_result, arrived)
        self._feedback = node.publisher(f"{name}/_action/feedback", self._types.feedback_message, FEEDBACK_QUALITY)
        self._statuses = node.publisher(f"{name}/_action/status", "action_msgs/msg/GoalStatusArray", LATCHED)

    def tell(self, news: News) -> None:
        """Takes what is new of a goal, from any thread."""
        self._news.append(news)
        self._arrived()

    def serve(self) -> None:
        """Answers what has come and passes on what is new."""
        self._each(self._send_goal, self._accept)
        self._cancel_goal.answer(lambda asked: self._cancel(asked.goal_info))
        while self._news:
            self._pass_on(self._news.popleft())
        self._each(self._get_result, self._fetch)
        now = time.monotonic()
        for number in [n for n, entry in self._book.items() if entry.ended is not None and now - entry.ended > KEPT]:
            del self._book[number]
        over = [number for number, entry in self._book.items() if entry.ended is not None]
        for number in over[:max(0, len(self._book) - REMEMBERED)]:
            del self._book[number]

    def _each(self, service: Service, serve: Callable[[Request], None]) -> None:
        """Serves the requests that wait; one that cannot be is refused, and the next one is served."""
        for request in service.take():
            try:
                serve(request)
            except Exception as error:
                limited_log(service.endpoint.topic, f"{service.endpoint.topic}: a request could not be answered",
                            trace=True, level=logging.ERROR)
                request.refuse(f"it could not be answered: {type(error).__name__}: {error}")

    def _accept(self, request: Request) -> None:
        number = request.message.goal_id.uuid.tobytes()
        now = time.time()
        running = sum(entry.ended is None for entry in self._book.values())
        accepted = self._ready() and number not in self._book and running < MOST
        request.reply(make(self._types.send_goal.response, accepted=accepted, stamp=time_message(now)))
        if accepted:
            goal = Goal(number, request.message.goal)
            self._book[number] = _Entry(goal, now)
            self._give(goal)
            self._tell_statuses()

    def _cancel(self, asked: Any) -> Any:
        """By goal, by time of acceptance, both, or, where neither is given, all."""
        number, until = asked.goal_id.uuid.tobytes(), time_seconds(asked.stamp)
        found = [entry for entry in self._book.values()
                 if entry.goal.id == number or (number == _NO_ID and until == 0) or (until and entry.accepted <= until)]
        running = [entry for entry in found if entry.ended is None]
        for entry in running:
            if entry.status != Status.CANCELING:
                entry.status, entry.goal = Status.CANCELING, replace(entry.goal, canceling=True)
                self._give(entry.goal)
        if running:
            self._tell_statuses()
        unknown = number != _NO_ID and not found
        code = NONE if running else UNKNOWN_GOAL if unknown else TERMINATED if found else REJECTED
        return make(self._types.cancel_goal.response, return_code=code, goals_canceling=[*map(_info, running)])

    def _pass_on(self, news: News) -> None:
        entry = self._book.get(news.goal)
        if entry is None or entry.ended is not None:
            return
        if news.status == Status.EXECUTING:
            self._feedback.publish(make(self._types.feedback_message, goal_id=_uuid(news.goal), feedback=news.message))
            return
        status = news.status
        if status == Status.CANCELED and entry.status != Status.CANCELING:
            status = Status.ABORTED     # what nobody asked to cancel cannot have been canceled
        entry.status, entry.result, entry.ended = status, news.message, time.monotonic()
        waiting, entry.waiting = entry.waiting, []
        for request in waiting:
            self._answer(request, entry)
        self._tell_statuses()

    def _fetch(self, request: Request) -> None:
        entry = self._book.get(request.message.goal_id.uuid.tobytes())
        if entry is None or entry.ended is not None:
            self._answer(request, entry)
        elif len(entry.waiting) >= WAITERS:
            request.refuse(f"{WAITERS} requests wait for this goal's result already")
        else:
            entry.waiting.append(request)

    def _answer(self, request: Request, entry: _Entry | None) -> None:
        response = self._types.get_result.response
        request.reply(make(response) if entry is None
                      else make(response, status=int(entry.status), result=entry.result))

    def _tell_statuses(self) -> None:
        self._statuses.publish(make("action_msgs/msg/GoalStatusArray", status_list=[
            make("action_msgs/msg/GoalStatus", goal_info=_info(entry), status=int(entry.status))
            for entry in self._book.values()]))

    def close(self) -> None:
        """Aborts what is running, and serves no more."""
        self._closed(self)
        for entry in self._book.values():
            if entry.ended is None:
                self._pass_on(News(entry.goal.id, Status.ABORTED, make(self._types.result)))
        for part in (self._send_goal, self._cancel_goal, self._get_result, self._feedback, self._statuses):
            self._node.let_go(part)


def _uuid(number: bytes) -> Any:
    return make("unique_identifier_msgs/msg/UUID", uuid=list(number))


def _info(entry: _Entry) -> Any:
    return make("action_msgs/msg/GoalInfo", goal_id=_uuid(entry.goal.id), stamp=time_message(entry.accepted))
