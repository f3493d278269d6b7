# SPDX-License-Identifier: Apache-2.0
"""A client of the action Seek on plain Zenoh, as rmw_zenoh_cpp's clients are: three services and a topic."""
from __future__ import annotations

import threading
import uuid
from typing import Any

from brain_runtime.hosts.local import Asked
from brain_wire import Node
from brain_wire.goals import Status
from brain_wire.messages import make
from brain_wire.qos import QoS
from brain_wire.services import action_type

SEEK = "brain_interfaces/action/Seek"
PATIENCE = 120.0     # s


class WireAsked(Asked):
    """A goal as its asker sees it; feedback and result come in while one looks at them."""

    def __init__(self, node: Node, name: str) -> None:
        super().__init__()
        types = action_type(SEEK)
        self.goal = make("unique_identifier_msgs/msg/UUID", uuid=list(uuid.uuid4().bytes))
        self._heard: list = []
        self._feedback = node.subscription(f"{name}/_action/feedback", types.feedback_message, QoS(True, False, 100))
        self._cancel = node.client(f"{name}/_action/cancel_goal", types.cancel_goal)
        self._result = node.client(f"{name}/_action/get_result", types.get_result)
        self._types = types
        self.cancel = self._give_up

    @property
    def feedback(self) -> list:
        from brain_wire.messages import decode
        told = [decode(a.data, self._types.feedback_message) for a in self._feedback.take()]
        self._heard += [m.feedback for m in told
                        if m.goal_id.uuid.tobytes() == self.goal.uuid.tobytes()]
        return self._heard

    @feedback.setter
    def feedback(self, _: list) -> None:
        """Asked sets it, to nothing."""

    def follow(self) -> None:
        """Waits for the result in a thread."""
        threading.Thread(target=self._fetch, daemon=True).start()

    def _fetch(self) -> None:
        response = self._result.call(make(self._types.get_result.request, goal_id=self.goal), PATIENCE)
        self.result = response.result
        self.status = Status(response.status)

    def _give_up(self) -> Any:
        info = make("action_msgs/msg/GoalInfo", goal_id=self.goal)
        return self._cancel.call(make(self._types.cancel_goal.request, goal_info=info), PATIENCE)


def ask_on_wire(node: Node, text: str, name: str = "seek") -> WireAsked | None:
    """Gives a goal; None where it was not accepted."""
    types = action_type(SEEK)
    asked = WireAsked(node, name)
    client = node.client(f"{name}/_action/send_goal", types.send_goal)
    request = make(types.send_goal.request, goal_id=asked.goal, goal=make(types.goal, text=text))
    if not client.call(request, PATIENCE).accepted:
        return None
    asked.follow()
    return asked
