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
    from brain_runtime import energy    # the processes of regions take this module's names only
    from brain_wire.parameters import ParameterError, check_parameters

    if not isinstance(values.get(SIM_TIME, False), bool):
        raise ParameterError(f"parameter {SIM_TIME} of {name} must be true or false, but is {values[SIM_TIME]!r}")
    own = of_the_region(values)
    energy.budget_of(name, own)
    own.pop(energy.PARAMETER, None)
    check_parameters(name, parameters, own)
