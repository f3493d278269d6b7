# SPDX-License-Identifier: Apache-2.0
"""Nodes are announced before their endpoints; who waits for the nodes alone counts too early."""
from __future__ import annotations

import time

import zenoh

from brain_wire.router import free_port
from brain_tests.ros_graph import SlowNode, WatchSight, all_there
from brain_tests.stages import PATIENCE
from brain_wire import Watch, open_session
from brain_wire.router import Router

DOMAIN = 122


def until(condition) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_all_nodes_may_be_seen_while_their_endpoints_are_not() -> None:
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    config = zenoh.Config()
    for key, value in {"mode": '"client"', "connect/endpoints": f'["{endpoint}"]',
                       "scouting/multicast/enabled": "false"}.items():
        config.insert_json5(key, value)
    with Router([endpoint]), open_session(endpoint) as ours, zenoh.open(config) as one, zenoh.open(config) as other, \
            Watch(ours, DOMAIN) as watch:
        sight = WatchSight(watch)
        slow = [SlowNode(session, DOMAIN, name, publishes=("b",), hears=("a",), late=1.5)
                for name, session in (("on_zenoh", one), ("on_ros", other))]
        names = {"on_zenoh", "on_ros"}
        until(lambda: names <= set(sight.get_node_names()))
        assert (sight.count_publishers("b"), sight.count_subscribers("a")) == (0, 0), "it is no race any more"
        assert not all_there(sight, names, {"b": 2}, {"a": 2})
        until(lambda: all_there(sight, names, {"b": 2}, {"a": 2}))
        for node in slow:
            node.close()
        until(lambda: not sight.get_node_names() and sight.count_publishers("b") == 0)
