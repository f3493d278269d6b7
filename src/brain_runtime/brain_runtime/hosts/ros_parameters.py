# SPDX-License-Identifier: Apache-2.0
"""A region's parameters as rclpy declares and describes them."""
from __future__ import annotations

import contextlib
from dataclasses import fields
from typing import Any, Mapping

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, ParameterType
from rclpy.node import Node

from brain_runtime.contract import energy
from brain_runtime.hosts.node_parameters import fitting
from brain_wire.parameters import ParameterError, check_parameters, describe

_ELEMENTS = {bool: ParameterType.PARAMETER_BOOL_ARRAY, int: ParameterType.PARAMETER_INTEGER_ARRAY,
             float: ParameterType.PARAMETER_DOUBLE_ARRAY, str: ParameterType.PARAMETER_STRING_ARRAY}


def declare(node: Node, region: str, cls: type, given: Mapping[str, Any]) -> dict[str, str]:
    """Declares the energy budget and what a region's ``Parameters`` have.

    Args:
        node: of the region.
        region: its name.
        cls: its ``Parameters``.
        given: values of its parameters and of those of every node, by name.

    Returns:
        What is wrong with values that do not fit, by name; in their place stands the default.

    Raises:
        ParameterError: a parameter that is given does not exist.
    """
    fits, unfit = fitting(region, cls, given)
    for of in (energy.HostParameters, cls):
        own = {field.name: field for field in fields(of)}
        fitted = check_parameters(region, of, {name: value for name, value in fits.items() if name in own})
        for name, field in own.items():
            node.declare_parameter(name, _as_ros_has_it(getattr(fitted, name)), descriptor(field), ignore_override=True)
    return unfit


def coerced(region: str, cls: type, name: str, value: Any) -> Any:
    """A value as rclpy takes it, by the rule of all hosts; as it is where it does not fit, or is not the region's."""
    for of in (energy.HostParameters, cls):
        with contextlib.suppress(ParameterError):
            return _as_ros_has_it(getattr(check_parameters(region, of, {name: value}), name))
    return value


def _as_ros_has_it(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def values(node: Node, cls: type) -> dict[str, Any]:
    """Values of what a region's ``Parameters`` have, by name."""
    return {field.name: node.get_parameter(field.name).value for field in fields(cls)}


def descriptor(field: Any) -> ParameterDescriptor:
    """Makes the ParameterDescriptor of a parameter; see :func:`brain_wire.parameters.describe`."""
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
