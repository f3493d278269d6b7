# SPDX-License-Identifier: Apache-2.0
"""Asks a server of ROS 2 or add_server.py for a sum: python add_client.py 2 3."""
import sys
from pathlib import Path

from brain_wire import open_node
from brain_wire.messages import make, register

register("example_interfaces", Path(__file__).parent / "example_interfaces")

with open_node("asker") as node:
    client = node.client("add_two_ints", "example_interfaces/srv/AddTwoInts")
    a, b = map(int, sys.argv[1:] or (2, 3))
    request = make(client.type.request, a=a, b=b)
    print(client.call(request).sum)
