# SPDX-License-Identifier: Apache-2.0
"""SimulatedTime: what ``use_sim_time`` asks for: the time that a simulator publishes."""
from __future__ import annotations

from typing import Any

from brain_wire import messages, shared_memory
from brain_wire.node import Node
from brain_wire.qos import SENSOR

TYPE = "rosgraph_msgs/msg/Clock"


class SimulatedTime:
    """The newest time that was published (s); 0 before the first, as rclpy has it.

    Args:
        node: that listens.
        topic: name of the topic.
    """

    TOPIC = "/clock"

    def __init__(self, node: Node, topic: str = "/clock") -> None:
        self._node = node
        self._now = 0.0
        self._decode = messages.decoder(TYPE)
        self._subscription = node.subscription(topic, TYPE, SENSOR, at_once=self._take)

    def _take(self, payload: Any, received: float) -> bool:
        try:
            self._now = messages.time_seconds(self._decode(shared_memory.read(payload)).clock)
        except messages.MessageError:
            return False    # it is kept and counted like anything that nobody reads
        return True

    def __call__(self) -> float:
        return self._now

    def close(self) -> None:
        """Listens no more."""
        self._node.let_go(self._subscription)
