# SPDX-License-Identifier: Apache-2.0
"""What a node is given by files and on the command line, checked before any process starts."""
from __future__ import annotations

from typing import Any, Mapping

SIM_TIME = "use_sim_time"
RCLPYS = "start_type_description_service"   # a parameter of rclpy's nodes, which `ros2 param dump` writes down too
OVERRIDES = "qos_overrides."


def of_the_region(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a node's parameters that are no ROS 2 node's own; the host's ``energy_budget`` is among them."""
    return {name: value for name, value in values.items()
            if name not in (SIM_TIME, RCLPYS) and not name.startswith(OVERRIDES)}


def check(name: str, parameters: type, values: Mapping[str, Any]) -> None:
    """Checks what a node is given as its host does when it starts.

    Args:
        name: of the node.
        parameters: the region's dataclass.
        values: all that it is given.

    Raises:
        ParameterError: a parameter that there is not, or a value that does not fit.
    """
    from brain_runtime.hosts.node_parameters import split   # which takes this module's names

    split(name, parameters, values)
