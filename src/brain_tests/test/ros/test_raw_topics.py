# SPDX-License-Identifier: Apache-2.0
"""Our bytes on a real ROS 2 topic, by rclpy's raw publish and raw subscription: how a host without conversion works."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
import rclpy
from brain_interfaces.msg import SensorFeatures
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from brain_wire import messages

DOMAIN = 87  # no other test uses it
TYPE = "brain_interfaces/msg/SensorFeatures"
PATIENCE = 120.0  # seconds until a message that should come is given up


@pytest.fixture
def node_and_executor() -> Iterator[tuple[Node, SingleThreadedExecutor]]:
    context = Context()
    rclpy.init(context=context, domain_id=DOMAIN)
    node = Node("encodings", context=context, use_global_arguments=False)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    yield node, executor
    executor.shutdown()
    node.destroy_node()
    context.try_shutdown()


def test_typed_subscription_gets_what_our_bytes_say_and_raw_one_the_bytes(node_and_executor) -> None:
    node, executor = node_and_executor
    typed: list[SensorFeatures] = []
    raw: list[bytes] = []
    node.create_subscription(SensorFeatures, "sensor/features", typed.append, 1)
    node.create_subscription(SensorFeatures, "sensor/features", raw.append, 1, raw=True)
    publisher = node.create_publisher(SensorFeatures, "sensor/features", 1)
    hazard = np.linspace(0, 1, 36, dtype=np.float32)
    sent = messages.make(TYPE, source="sonar", modality="sonar", confidence=0.5, hazard=hazard)

    end = time.monotonic() + PATIENCE
    while not (typed and raw) and time.monotonic() < end:
        publisher.publish(bytes(messages.encode(sent)))
        executor.spin_once(timeout_sec=0.1)

    assert typed and raw, f"nothing arrived within {PATIENCE:.0f} s"
    assert (typed[0].source, typed[0].confidence) == ("sonar", 0.5)
    np.testing.assert_array_equal(np.asarray(typed[0].hazard, dtype=np.float32), hazard)
    received = messages.decode(bytes(raw[0]), TYPE)
    assert received.source == "sonar"
    np.testing.assert_array_equal(received.hazard, hazard)
