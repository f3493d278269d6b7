# SPDX-License-Identifier: Apache-2.0
"""A node with a parameter; change it with: ros2 param set /blinker rate 5.0."""
from dataclasses import dataclass

from brain_wire import Server, open_node, parameter


@dataclass(frozen=True)
class Parameters:
    """Parameters that may be changed."""

    rate: float = parameter(2.0, "Blinks per second.", unit="Hz", low=0.1, high=20.0)


with open_node("blinker") as node:
    server = Server(node)
    server.parameters(Parameters(), lambda new: print("rate is", new.rate, flush=True))
    server.serve()
