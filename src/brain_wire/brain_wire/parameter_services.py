# SPDX-License-Identifier: Apache-2.0
"""The services by which ROS 2 lists, describes, reads and changes a node's parameters, for hosts without rclpy.

What is asked for a parameter that there is not gets an empty answer, as rclpy gives it.
"""
from __future__ import annotations

from enum import IntEnum
from typing import Any, Callable, Mapping, NamedTuple

from brain_wire.messages import make
from brain_wire.parameters import Description, ParameterError
from brain_wire.qos import QoS

EVENTS = "/parameter_events"
EVENT_TYPE = "rcl_interfaces/msg/ParameterEvent"
EVENT_QUALITY = QoS(reliable=True, latched=False, depth=1000)
ANY_DEPTH = 0
SEPARATOR = "."


class Kind(IntEnum):
    """``rcl_interfaces/msg/ParameterType``."""

    NOT_SET = 0
    BOOL = 1
    INTEGER = 2
    DOUBLE = 3
    STRING = 4
    BYTE_ARRAY = 5
    BOOL_ARRAY = 6
    INTEGER_ARRAY = 7
    DOUBLE_ARRAY = 8
    STRING_ARRAY = 9


_FIELDS = {Kind.BOOL: "bool_value", Kind.INTEGER: "integer_value", Kind.DOUBLE: "double_value",
           Kind.STRING: "string_value", Kind.BYTE_ARRAY: "byte_array_value", Kind.BOOL_ARRAY: "bool_array_value",
           Kind.INTEGER_ARRAY: "integer_array_value", Kind.DOUBLE_ARRAY: "double_array_value",
           Kind.STRING_ARRAY: "string_array_value"}
_SCALARS = {bool: Kind.BOOL, int: Kind.INTEGER, float: Kind.DOUBLE, str: Kind.STRING}


class Access(NamedTuple):
    """Access to a node's parameters.

    Attributes:
        descriptions: of all parameters, by name.
        values: their values now.
        change: changes some, all or none; raises ParameterError.
    """

    descriptions: Callable[[], Mapping[str, Description]]
    values: Callable[[], Mapping[str, Any]]
    change: Callable[[Mapping[str, Any]], None]


def kind_of(value: Any) -> Kind:
    """Type of a parameter's value; a list is of its first element's type, an empty one of bytes."""
    if isinstance(value, (tuple, list)):
        return Kind(_SCALARS[type(value[0])] + 5) if value else Kind.BYTE_ARRAY
    return _SCALARS[type(value)]


def value_message(value: Any) -> Any:
    """``rcl_interfaces/msg/ParameterValue``."""
    kind = kind_of(value)
    return make("rcl_interfaces/msg/ParameterValue", type=int(kind), **{_FIELDS[kind]: value})


def value_of(message: Any) -> Any:
    """The value in a ``rcl_interfaces/msg/ParameterValue``; None where it is not set.

    Raises:
        ParameterError: it is of no type that ROS 2 knows.
    """
    if message.type == Kind.NOT_SET:
        return None
    try:
        value = getattr(message, _FIELDS[Kind(message.type)])
    except ValueError:
        kinds = ", ".join(k.name for k in Kind)
        raise ParameterError(f"{message.type} is no parameter type; there are {kinds}") from None
    if message.type < Kind.BYTE_ARRAY:
        return value
    return tuple(value if isinstance(value, list) else value.tolist())


def descriptor_message(name: str, about: Description, value: Any) -> Any:
    """``rcl_interfaces/msg/ParameterDescriptor``."""
    ranges: dict[str, Any] = {}
    if about.range is not None:
        low, high = about.range
        if about.kind is float:
            ranges["floating_point_range"] = [
                make("rcl_interfaces/msg/FloatingPointRange", from_value=low, to_value=high)]
        else:
            ranges["integer_range"] = [make("rcl_interfaces/msg/IntegerRange", from_value=low, to_value=high, step=1)]
    return make("rcl_interfaces/msg/ParameterDescriptor", name=name, type=int(kind_of(value)), description=about.text,
                additional_constraints=about.constraints, read_only=about.read_only, dynamic_typing=about.dynamic,
                **ranges)


def changed(node: str, stamp: Any, values: Mapping[str, Any]) -> Any:
    """Makes the message that tells of changed parameters on :data:`EVENTS`."""
    return make(EVENT_TYPE, stamp=stamp, node=node, changed_parameters=[
        make("rcl_interfaces/msg/Parameter", name=name, value=value_message(value)) for name, value in values.items()])


def listed(names: list[str], prefixes: list[str], depth: int) -> tuple[list[str], list[str]]:
    """Names of parameters below any of ``prefixes`` and not deeper than ``depth`` parts below, and their prefixes.

    Without prefixes these are all names.
    """
    found = []
    for name in names:
        for prefix in prefixes or [""]:
            below = name if not prefix else name.removeprefix(prefix + SEPARATOR) if name != prefix else ""
            inside = not prefix or name == prefix or name.startswith(prefix + SEPARATOR)
            if inside and (depth == ANY_DEPTH or below.count(SEPARATOR) < depth):
                found.append(name)
                break
    return found, sorted({name.rpartition(SEPARATOR)[0] for name in found if SEPARATOR in name})


def handlers(access: Access) -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """The six services: type, and what makes the response from the request, by name below the node's."""
    response = "rcl_interfaces/srv/{}_Response".format

    def known(names: list[str]) -> bool:
        return all(name in access.descriptions() for name in names)

    def list_parameters(request: Any) -> Any:
        names, prefixes = listed(list(access.descriptions()), request.prefixes, request.depth)
        return make(response("ListParameters"),
                    result=make("rcl_interfaces/msg/ListParametersResult", names=names, prefixes=prefixes))

    def get_parameters(request: Any) -> Any:
        values = access.values()
        return make(response("GetParameters"),
                    values=[value_message(values[n]) for n in request.names] if known(request.names) else [])

    def get_parameter_types(request: Any) -> Any:
        values = access.values()
        return make(response("GetParameterTypes"),
                    types=[int(kind_of(values[n])) for n in request.names] if known(request.names) else [])

    def describe_parameters(request: Any) -> Any:
        about, values = access.descriptions(), access.values()
        return make(response("DescribeParameters"), descriptors=[
            descriptor_message(n, about[n], values[n]) for n in request.names] if known(request.names) else [])

    def attempt(parameters: list[Any]) -> Any:
        try:
            access.change({p.name: value_of(p.value) for p in parameters})
        except ParameterError as error:
            return make("rcl_interfaces/msg/SetParametersResult", successful=False, reason=str(error))
        return make("rcl_interfaces/msg/SetParametersResult", successful=True)

    def set_parameters(request: Any) -> Any:
        return make(response("SetParameters"), results=[attempt([parameter]) for parameter in request.parameters])

    def set_parameters_atomically(request: Any) -> Any:
        return make(response("SetParametersAtomically"), result=attempt(request.parameters))

    found = (list_parameters, get_parameters, get_parameter_types, describe_parameters, set_parameters,
             set_parameters_atomically)
    return {f.__name__: ("rcl_interfaces/srv/" + f.__name__.title().replace("_", ""), f) for f in found}
