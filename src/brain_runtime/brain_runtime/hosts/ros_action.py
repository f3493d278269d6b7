# SPDX-License-Identifier: Apache-2.0
"""RosAction: an action of a region, served by rclpy."""
from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any, Callable

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.lifecycle import LifecycleNode

from brain_runtime.hosts.ros_types import interface, ours, theirs
from brain_wire.goals import Act, Goal, News, Status


class RosAction:
    """Serves an action; all but :meth:`tell` is called in the executor's thread.

    Args:
        node: in whose name.
        act: the action.
        ready: whether goals are taken now.
        give: takes goals, and those again that are to be given up.
        wake: makes the executor end its waiting.
        closed: called when it is closed.
    """

    def __init__(self, node: LifecycleNode, act: Act, *, ready: Callable[[], bool], give: Callable[[Goal], None],
                 wake: Callable[[], None], closed: Callable[[RosAction], None]) -> None:
        self._types, self._cls = act.types, interface(act.type)
        self._give, self._wake, self._closed = give, wake, closed
        self._news: deque[News] = deque()
        self._goals: dict[bytes, tuple[Any, Goal]] = {}
        # A goal is "executed" when it has ended already: a coroutine that waits for the end would be asked without a
        # pause whether it can go on, and would keep the executor from everything else.
        self._server = ActionServer(
            node, self._cls, act.topic, lambda handle: self._cls.Result(),
            goal_callback=lambda _: GoalResponse.ACCEPT if ready() else GoalResponse.REJECT,
            handle_accepted_callback=self._accepted, cancel_callback=self._cancel)

    def _accepted(self, handle: Any) -> None:
        goal = Goal(bytes(handle.goal_id.uuid), ours(handle.request, self._types.goal))
        self._goals[goal.id] = handle, goal
        self._give(goal)

    def _cancel(self, handle: Any) -> CancelResponse:
        known = self._goals.get(bytes(handle.goal_id.uuid))
        if known is None:
            return CancelResponse.REJECT
        self._give(replace(known[1], canceling=True))
        return CancelResponse.ACCEPT

    def tell(self, news: News) -> None:
        """Takes what is new of a goal, from any thread."""
        self._news.append(news)
        self._wake()

    def pass_on(self) -> None:
        """Passes on what is new."""
        while self._news:
            news = self._news.popleft()
            if news.goal not in self._goals:
                continue
            if news.status == Status.EXECUTING:
                self._goals[news.goal][0].publish_feedback(theirs(news.message, self._cls.Feedback))
            else:
                self._end(self._goals.pop(news.goal)[0], news)

    def _end(self, handle: Any, news: News) -> None:
        def finish(handle: Any) -> Any:
            if news.status == Status.SUCCEEDED:
                handle.succeed()
            elif news.status == Status.CANCELED and handle.is_cancel_requested:     # else rcl does not allow it
                handle.canceled()
            else:
                handle.abort()
            return theirs(news.message, self._cls.Result)
        handle.execute(finish)

    def close(self) -> None:
        """Serves no more. Whoever still waits for a result is told so by the server's disappearance."""
        self._closed(self)
        self._goals.clear()
        self._server.destroy()
