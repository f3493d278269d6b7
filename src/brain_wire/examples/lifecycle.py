# SPDX-License-Identifier: Apache-2.0
"""A managed node; lead it through its life with: ros2 lifecycle set /lamp configure, then activate."""
from brain_wire import Outcome, Server, open_node


def activate():
    print("the lamp is on", flush=True)
    return Outcome.SUCCESS


with open_node("lamp") as node:
    server = Server(node)
    server.lifecycle(configure=lambda: print("there is a bulb", flush=True), activate=activate)
    server.serve()
