# SPDX-License-Identifier: Apache-2.0
"""Regions that are measured from outside: asked by JSON on one topic, with answers on another."""
from __future__ import annotations

import json
import time
from typing import Any

from brain_wire import messages

TYPE = "std_msgs/msg/UInt8MultiArray"    # bytes, as of a picture
ORDER = "std_msgs/msg/String"
READY = 30.0            # s for the processes to answer


class Asked:
    """Asks regions from a node outside: JSON on one topic, which they answer with the same ``id`` on another.

    Args:
        orders: publisher.
        answers: subscription.
    """

    def __init__(self, orders: Any, answers: Any) -> None:
        self._orders, self._answers, self._id = orders, answers, 0

    def ask(self, patience: float = 60.0, **order: Any) -> dict[str, Any]:
        """Their answer; empty: none came within ``patience`` s."""
        self._id += 1
        self._orders.publish(messages.make(ORDER, data=json.dumps({"id": self._id, **order})))
        until = time.monotonic() + patience
        while (left := until - time.monotonic()) > 0:
            for arrival in self._answers.wait(left):
                told = json.loads(messages.decode(arrival.data, ORDER).data)
                if told["id"] == self._id:
                    return told
        return {}


def wait_for(condition: Any, what: str) -> None:
    """Waits until ``condition()`` holds.

    Raises:
        TimeoutError: ``what`` did not answer in time.
    """
    until = time.monotonic() + READY
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} did not answer within {READY:g} s")
