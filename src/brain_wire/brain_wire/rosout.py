# SPDX-License-Identifier: Apache-2.0
"""Rosout: what Python code logs, told on /rosout by a node without rclpy."""
from __future__ import annotations

import logging

from brain_wire import messages, safe_text
from brain_wire.node import Node
from brain_wire.owner import OWNER
from brain_wire.qos import QoS

TOPIC, TYPE = "/rosout", "rcl_interfaces/msg/Log"
QUALITY = QoS(reliable=True, latched=True, depth=1000)


class Rosout(logging.Handler):
    """Publishes records, those of Zenoh itself and of other nodes in this process left out.

    Args:
        node: in whose name; while its session is open.
    """

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node
        self._publisher = node.publisher(TOPIC, TYPE, QUALITY)
        self.setFormatter(safe_text.Formatter("%(message)s"))
        owner = OWNER.get()
        self.addFilter(lambda record: OWNER.get() == owner and not record.name.startswith("zenoh"))

    def emit(self, record: logging.LogRecord) -> None:
        if self._node.session.zenoh.is_closed():
            return
        try:
            self._publisher.publish(messages.make(
                TYPE, stamp=messages.time_message(record.created), level=min(max(record.levelno, 0), 255),
                name=self._node.fqn.strip("/").replace("/", "."), msg=self.format(record), file=record.pathname,
                function=record.funcName or "", line=record.lineno))
        except Exception:   # what logs must not fail since it is logged
            self.handleError(record)
