# SPDX-License-Identifier: Apache-2.0
"""Gives a server of ROS 2 or fibonacci_server.py a goal: python fibonacci_client.py 8."""
import sys
from pathlib import Path

from brain_wire import ActionClient, open_node
from brain_wire.messages import register

register("example_interfaces", Path(__file__).parent / "example_interfaces")

with open_node("student") as node:
    order = int(sys.argv[1]) if sys.argv[1:] else 8
    asked = ActionClient(node, "fibonacci", "example_interfaces/action/Fibonacci").ask(order=order)
    if asked is None:
        sys.exit("the goal was not accepted")
    print(asked.wait(60.0).sequence.tolist(), asked.status.name, f"after {len(asked.feedback)} feedbacks")
