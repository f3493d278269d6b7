# SPDX-License-Identifier: Apache-2.0
"""How messages come to a RosHost's input, by what rclpy tells of each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from brain_runtime.hosts.input import Input
from brain_runtime.hosts.ros_topics import RosPublication, subscribe
from brain_runtime.contract.inbox import make_slot
from brain_runtime.contract.ports import In
from brain_wire import messages
from brain_wire.qos import FEATURE, LATCHED

DOMAIN = 86  # no other test uses it
TYPE = "std_msgs/msg/String"
PATIENCE = 120.0  # seconds until a message that should come is given up


@pytest.fixture
def world() -> Iterator[tuple[Node, Node, SingleThreadedExecutor]]:
    context = Context()
    rclpy.init(context=context, domain_id=DOMAIN)
    ear, mouth = (Node(name, context=context, use_global_arguments=False) for name in ("ear", "mouth"))
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(ear)
    yield ear, mouth, executor
    executor.shutdown()
    ear.destroy_node()
    mouth.destroy_node()
    context.try_shutdown()


@pytest.mark.parametrize("qos", [FEATURE.with_depth(10), LATCHED.with_depth(10)], ids=["volatile", "latched"])
def test_each_publisher_is_named_with_its_latency_and_its_loss(world, qos) -> None:
    ear, mouth, executor = world
    port = In("chatter", TYPE, qos)
    inbound = Input("chatter", port, make_slot(port), messages.decoder(TYPE), lambda *_: None)
    ring = inbound.subscription = subscribe(ear, inbound, lambda inbound: None)
    publications = [RosPublication(node, "chatter", TYPE, qos, [node.get_fully_qualified_name()])
                    for node in (mouth, ear)]
    end = time.monotonic() + PATIENCE
    while any(not p.heard() for p in publications) and time.monotonic() < end:
        executor.spin_once(timeout_sec=0.05)
    message = messages.make(TYPE, data="x")
    for _ in range(5):
        for publication in publications:
            publication.send(message)
    while sum(e.messages for e in ring.edges(time.monotonic())) < 10 and time.monotonic() < end:
        executor.spin_once(timeout_sec=0.05)
    edges = {edge.source: edge for edge in ring.edges(time.monotonic())}
    assert edges.keys() == {"/mouth", "/ear"} and {e.topic for e in edges.values()} == {"/chatter"}
    for edge in edges.values():
        assert (edge.messages, edge.overwritten, edge.clocks_differ) == (5, 0, False)
        assert edge.lost in (0, None) and 0 < edge.p50 <= edge.p99 < PATIENCE
    inbound.take()    # of ten that waited the newest is looked at
    assert sum(edge.overwritten for edge in ring.edges(time.monotonic())) == 9
    ring.close()
