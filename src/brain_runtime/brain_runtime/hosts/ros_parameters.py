# SPDX-License-Identifier: Apache-2.0
"""A region's parameters as rclpy declares and describes them."""
from __future__ import annotations

from dataclasses import fields
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, ParameterType
from rclpy.node import Node

from brain_runtime import energy
from brain_wire.parameters import check_parameters, describe

OF_EVERY_NODE = ("use_sim_time", "start_type_description_service", energy.PARAMETER)

_ELEMENTS = {bool: ParameterType.PARAMETER_BOOL_ARRAY, int: ParameterType.PARAMETER_INTEGER_ARRAY,
             float: ParameterType.PARAMETER_DOUBLE_ARRAY, str: ParameterType.PARAMETER_STRING_ARRAY}


def declare(node: Node, region: str, cls: type) -> None:
    """Declares the energy budget and what a region's ``Parameters`` have.

    Args:
        node: of the region.
        region: its name.
        cls: its ``Parameters``.

    Raises:
        ParameterError: a parameter that is given does not exist, or its value does not fit.
    """
    known = {field.name for field in fields(cls)}
    given = {name for name in node._parameter_overrides
             if name not in OF_EVERY_NODE and not name.startswith("qos_overrides.")}
    if given - known:   # says which, and what was meant
        check_parameters(region, cls, dict.fromkeys(sorted(given - known)))
    for field in (*fields(energy.HostParameters), *fields(cls)):
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        node.declare_parameter(field.name, default, descriptor(field))
    check_parameters(region, cls, values(node, cls))


def values(node: Node, cls: type) -> dict[str, Any]:
    """Values of what a region's ``Parameters`` have, by name."""
    return {field.name: node.get_parameter(field.name).value for field in fields(cls)}


def descriptor(field: Any) -> ParameterDescriptor:
    """How ROS 2 describes a parameter; see :func:`brain_wire.parameters.describe`."""
    about = describe(field)
    found = ParameterDescriptor(description=about.text, additional_constraints=about.constraints,
                                dynamic_typing=about.dynamic)
    if about.range is not None and about.kind is float:
        found.floating_point_range = [FloatingPointRange(from_value=about.range[0], to_value=about.range[1])]
    elif about.range is not None:
        found.integer_range = [IntegerRange(from_value=about.range[0], to_value=about.range[1], step=1)]
    if about.kind is tuple and not about.dynamic:
        found.type = _ELEMENTS[type(field.default[0])]
    return found
