# SPDX-License-Identifier: Apache-2.0
"""ActionClient: gives goals of an action, hears how they go, and fetches their results; Orders: without waiting."""
from __future__ import annotations

import threading
import uuid
from typing import Any, Callable

from brain_wire.goals import Ask, News, Order, Status
from brain_wire.messages import MessageError, decode, make
from brain_wire.node import Node
from brain_wire.qos import QoS
from brain_wire.services import action_type

PATIENCE = 10.0     # s until a server that does not answer is given up
ANSWERED = 2.0      # s until an order that nobody answers is given up
MOST = 8            # orders that wait for an answer at a time
MOST_GOALS = 32     # goals that have not ended
LONGEST = 3600.0    # s that a goal may take
FEEDBACK_QUALITY = QoS(reliable=True, latched=False, depth=100)


class Asked:
    """A goal that was accepted.

    Attributes:
        id: ``unique_identifier_msgs/msg/UUID``.
        status: how it stands, as far as it is known here.
        result: message of the action's result type; None until it ends.
    """

    def __init__(self, client: ActionClient, identity: Any) -> None:
        self.id, self.status, self.result = identity, Status.EXECUTING, None
        self._client = client
        self._ended = threading.Event()
        self._feedback: list[Any] = []

    @property
    def feedback(self) -> list[Any]:
        """All feedback messages that have come so far."""
        self._client._sort()
        return self._feedback

    def wait(self, seconds: float) -> Any:
        """The result, once the goal has ended.

        Raises:
            TimeoutError: it has not within so many seconds.
        """
        if not self._ended.wait(seconds):
            raise TimeoutError(f"the goal has not ended within {seconds:g} s")
        return self.result

    def cancel(self) -> bool:
        """Asks for it to be given up; whether the server will."""
        types = self._client.types
        info = make("action_msgs/msg/GoalInfo", goal_id=self.id)
        answer = self._client.cancel_goal.call(make(types.cancel_goal.request, goal_info=info), PATIENCE)
        return bool(answer.goals_canceling)

    def _fetch(self, seconds: float) -> None:
        client = self._client
        try:
            response = client.get_result.call(make(client.types.get_result.request, goal_id=self.id), seconds)
            self.status, self.result = Status(response.status), response.result
        except (TimeoutError, ValueError):      # the server is gone, or answered with a status that there is not
            self.status = Status.UNKNOWN
        self._ended.set()


class ActionClient:
    """A client of one action.

    Args:
        node: in whose name.
        name: of the action.
        kind: ``package/action/Type``.
        longest: s that a goal may take until its result is given up.
    """

    def __init__(self, node: Node, name: str, kind: str, longest: float = 3600.0) -> None:
        self.types = action_type(kind)
        self._longest = longest
        self._send_goal = node.client(f"{name}/_action/send_goal", self.types.send_goal)
        self.cancel_goal = node.client(f"{name}/_action/cancel_goal", self.types.cancel_goal)
        self.get_result = node.client(f"{name}/_action/get_result", self.types.get_result, timeout=longest)
        self._feedback = node.subscription(f"{name}/_action/feedback", self.types.feedback_message, FEEDBACK_QUALITY)
        self._asked: dict[bytes, Asked] = {}

    def ask(self, seconds: float = PATIENCE, **goal: Any) -> Asked | None:
        """Gives a goal with these fields; None where it was not accepted.

        Raises:
            NoAnswer: no server answered within so many seconds.
        """
        asked = Asked(self, make("unique_identifier_msgs/msg/UUID", uuid=list(uuid.uuid4().bytes)))
        self._asked[asked.id.uuid.tobytes()] = asked
        request = make(self.types.send_goal.request, goal_id=asked.id, goal=make(self.types.goal, **goal))
        if not self._send_goal.call(request, seconds).accepted:
            del self._asked[asked.id.uuid.tobytes()]
            return None
        threading.Thread(target=asked._fetch, args=(self._longest,), daemon=True).start()
        return asked

    def _sort(self) -> None:
        for arrival in self._feedback.take():
            message = decode(arrival.data, self.types.feedback_message)
            asked = self._asked.get(message.goal_id.uuid.tobytes())
            if asked is not None:
                asked._feedback.append(message.feedback)


class Orders:
    """Gives orders to who serves an action, and tells news of them; nothing of it waits, whatever the server does.

    Each order that waits for an answer has a thread of its own, since a server that hangs must not delay a
    cancellation.

    Args:
        node: in whose name.
        ask: the action.
        name: that is used, where it was remapped.
        give: takes news, from any thread.
    """

    def __init__(self, node: Node, ask: Ask, name: str, give: Callable[[News], None]) -> None:
        self._node, self._types, self._give = node, ask.types, give
        self._send = node.client(f"{name}/_action/send_goal", self._types.send_goal)
        self._cancel = node.client(f"{name}/_action/cancel_goal", self._types.cancel_goal)
        self._result = node.client(f"{name}/_action/get_result", self._types.get_result, timeout=LONGEST)
        self._known: set[bytes] = set()
        self._waiting = threading.Semaphore(MOST)
        self._closed = False
        self._feedback = node.subscription(f"{name}/_action/feedback", self._types.feedback_message, FEEDBACK_QUALITY,
                                           arrived=self._hear)

    def order(self, order: Order) -> None:
        """Gives an order, from any thread."""
        if order.request is not None and len(self._known) >= MOST_GOALS:
            self._tell(News(order.goal, Status.UNKNOWN, f"{MOST_GOALS} goals have not ended yet"))
            return
        if not self._waiting.acquire(blocking=False):
            self._tell(News(order.goal, Status.UNKNOWN, f"{MOST} orders wait for an answer already"))
            return
        if order.request is not None:
            self._known.add(order.goal)
        threading.Thread(target=self._carry_out, args=(order,), name="order", daemon=True).start()

    def _carry_out(self, order: Order) -> None:
        number = make("unique_identifier_msgs/msg/UUID", uuid=list(order.goal))
        try:
            if order.request is None:
                info = make("action_msgs/msg/GoalInfo", goal_id=number)
                self._cancel.call(make(self._types.cancel_goal.request, goal_info=info), ANSWERED)
                return
            request = make(self._types.send_goal.request, goal_id=number, goal=order.request)
            if not self._send.call(request, ANSWERED).accepted:
                self._tell(News(order.goal, Status.ABORTED, "it was not accepted"))
                return
            self._tell(News(order.goal, Status.ACCEPTED, ""))
        except (TimeoutError, ValueError) as error:
            self._tell(News(order.goal, Status.UNKNOWN, str(error)))
            return
        finally:
            self._waiting.release()
        try:
            answer = self._result.call(make(self._types.get_result.request, goal_id=number), LONGEST)
            self._tell(News(order.goal, Status(answer.status), answer.result))
        except (TimeoutError, ValueError) as error:
            self._tell(News(order.goal, Status.UNKNOWN, str(error)))

    def _tell(self, news: News) -> None:
        if news.status not in (Status.ACCEPTED, Status.EXECUTING):
            self._known.discard(news.goal)
        if not self._closed:
            self._give(news)

    def _hear(self, *_: Any) -> None:
        for arrival in self._feedback.take():
            try:
                message = decode(arrival.data, self._types.feedback_message)
            except MessageError:
                continue        # of whoever published it
            number = message.goal_id.uuid.tobytes()
            if number in self._known:
                self._tell(News(number, Status.EXECUTING, message.feedback))

    def close(self) -> None:
        """Asks and hears no more."""
        self._closed = True
        for part in (self._send, self._cancel, self._result, self._feedback):
            self._node.let_go(part)
