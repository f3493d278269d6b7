# SPDX-License-Identifier: Apache-2.0
"""Wire vectors: for each type a message whose fields all differ, and what it is on the wire, to the byte.

They lie in ``wire_vectors.json``, written by :mod:`brain_tests.ros_wire_vectors` from what ROS 2 itself says. Here is
what reads them, and what makes the messages: plain values (JSON's, and ``"NaN"``), so that our classes and rosidl's can
be filled from the same.
"""
from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any, Iterator

import numpy as np

from brain_runtime import interfaces
from brain_runtime.contract import heartbeat
from brain_runtime.hosts.diagnostics import TYPE as DIAGNOSTICS
from brain_runtime.graph import load_graph, load_worlds
from brain_runtime.share import share_directory
from brain_wire import messages
from brain_wire.definitions import Nodetype
from brain_wire.services import action_type

FILE = Path(__file__).with_name("wire_vectors.json")
AGAIN = "write the vectors anew with `python -m brain_tests.ros_wire_vectors`, where rclpy is"
# What no region has on a port, but nodes beside the brain do.
BESIDE = ("action_msgs/msg/GoalStatusArray", "builtin_interfaces/msg/Time", "geometry_msgs/msg/PoseStamped",
          "geometry_msgs/msg/Twist", "nav_msgs/msg/Path", "rcl_interfaces/msg/Log",
          "rcl_interfaces/msg/ParameterEvent", "rosgraph_msgs/msg/Clock", "sensor_msgs/msg/JointState",
          "std_msgs/msg/Float32", "std_msgs/msg/Float32MultiArray", "std_msgs/msg/Header", "tf2_msgs/msg/TFMessage",
          "visualization_msgs/msg/MarkerArray")
WHOLE = 8       # a bounded sequence of at most so many elements is filled up
SOME = 3        # elements of any other: an odd number, so that what follows needs alignment


def read() -> dict[str, Any]:
    """The vectors: ``seen`` on the wire of rmw_zenoh_cpp, ``types``, and ``parts`` of actions."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def types() -> list[str]:
    """Every type that must have a vector: ours, those of all ports of the graph with all its worlds, and some more."""
    path = share_directory("brain") / "config" / "brain.graph.yaml"
    specs = [spec for world in ("none", *load_worlds(path)) for spec in load_graph(path, world).regions]
    ours = {f"{interfaces.PACKAGE}/msg/{file.stem}" for file in (interfaces.definitions() / "msg").glob("*.msg")}
    return sorted({*ours, *BESIDE, DIAGNOSTICS, heartbeat.TYPE,
                   *(port.type for spec in specs for port in spec.load().ports().values())})


def parts() -> list[str]:
    """Every message that our actions put on the wire as a request, a response or feedback."""
    found = []
    for file in sorted((interfaces.definitions() / "action").glob("*.action")):
        action = action_type(f"{interfaces.PACKAGE}/action/{file.stem}")
        found += [action.send_goal.request, action.send_goal.response, action.get_result.request,
                  action.get_result.response, action.feedback_message]
    return found


def filled(name: str) -> dict[str, Any]:
    """Plain values for all fields of a type, hardly any two alike.

    Some floating point numbers are NaN, -0.0 or an infinity, text is not ASCII alone.
    """
    return _message(name, itertools.count(1))


def _message(name: str, number: Iterator[int]) -> dict[str, Any]:
    return {field: _value(definition, field, number) for field, definition, _ in messages._fields(name)}


def _value(definition: tuple, field: str, number: Iterator[int]) -> Any:
    kind, detail = definition
    if kind == Nodetype.NAME:
        return _message(detail, number)
    if kind == Nodetype.BASE:
        return _number(*detail, field, next(number))
    element, count = detail
    length = count if kind == Nodetype.ARRAY or 0 < count <= WHOLE else SOME
    return [_value(element, field, number) for _ in range(length)]


def _number(base: str, bound: int, field: str, n: int) -> Any:
    if base == "string":
        return messages.clip_utf8(f"{field} {n} 青é", bound or 99)
    if base == "bool":
        return n % 2 == 1
    if base.startswith("float"):
        special = {0: "NaN", 7: "-0.0", 14: "Infinity", 21: "-Infinity"}.get(n % 28)
        return special or (-1) ** n * (n + 0.25)
    if base in ("char", "byte", "octet", "int8"):
        return n % 128      # some take them for signed
    bits = int(base.removeprefix("u").removeprefix("int"))
    if base.startswith("int"):
        return -n
    return (n * 0x0102030405060708 if bits == 64 else n * 0x010203 if bits == 32 else n * 0x0102) % 2**bits


def build(name: str, values: dict[str, Any]) -> Any:
    """A message of ours from plain values."""
    return messages.make(name, **{field: _built(definition, values[field])
                                  for field, definition, _ in messages._fields(name)})


def _built(definition: tuple, value: Any) -> Any:
    kind, detail = definition
    if kind == Nodetype.NAME:
        return build(detail, value)
    if kind == Nodetype.BASE:
        return float(value) if detail[0].startswith("float") else value
    return [_built(detail[0], item) for item in value]


def plain(value: Any) -> Any:
    """A message of ours as plain values."""
    if hasattr(value, "__msgtype__"):
        return {field: plain(getattr(value, field)) for field, _, _ in messages._fields(value.__msgtype__)}
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and (not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0)):
        return "NaN" if math.isnan(value) else str(value).replace("inf", "Infinity")
    return value
