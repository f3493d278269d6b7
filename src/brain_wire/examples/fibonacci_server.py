# SPDX-License-Identifier: Apache-2.0
"""Serves an action: ros2 action send_goal -f /fibonacci example_interfaces/action/Fibonacci "{order: 8}"."""
from pathlib import Path

from brain_wire import Act, Server, open_node
from brain_wire.messages import register

register("example_interfaces", Path(__file__).parent / "example_interfaces")
FIBONACCI, goals = Act("fibonacci", "example_interfaces/action/Fibonacci"), {}

with open_node("mathematician") as node:
    server = Server(node)
    action = server.action(FIBONACCI, lambda goal: goals.setdefault(goal.id, [goal, [0, 1]]).__setitem__(0, goal))
    while True:
        server.serve(0.1)
        for goal, numbers in list(goals.values()):
            numbers.append(numbers[-1] + numbers[-2])
            action.tell(FIBONACCI.feedback(goal, sequence=numbers))
            if goal.canceling or len(numbers) >= goal.request.order:
                end = FIBONACCI.canceled if goal.canceling else FIBONACCI.succeeded
                action.tell(end(goals.pop(goal.id)[0], sequence=numbers))
