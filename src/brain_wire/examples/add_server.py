# SPDX-License-Identifier: Apache-2.0
"""Adds two numbers; ask it with: ros2 service call /add_two_ints example_interfaces/srv/AddTwoInts "{a: 2, b: 3}"."""
from pathlib import Path

from brain_wire import Server, open_node
from brain_wire.messages import make, register

register("example_interfaces", Path(__file__).parent / "example_interfaces")


def add(asked):
    return make("example_interfaces/srv/AddTwoInts_Response", sum=asked.a + asked.b)


with open_node("adder") as node:
    server = Server(node)
    server.service("add_two_ints", "example_interfaces/srv/AddTwoInts", add)
    server.serve()
