# SPDX-License-Identifier: Apache-2.0
"""Types of services and actions: which messages each is made of, and its hash as ROS 2 computes it.

The standard ones that every ROS 2 node answers are written down here; others are read from the folders of
:func:`brain_wire.definitions.register`. A service's hash covers a third message, the event of service introspection,
and an action is two services and a message (ROS 2 design, "Actions"; REP 2011 and rosidl_generator_type_description for
the hashes).
"""
from __future__ import annotations

import functools
from typing import NamedTuple

from brain_wire.definitions import MessageError, Nodetype, add_type, definition_file, definition_files, packages, parse

# Request and response of each, with full type names.
STANDARD = {
    "rcl_interfaces/srv/DescribeParameters": ("string[] names", "rcl_interfaces/ParameterDescriptor[] descriptors"),
    "rcl_interfaces/srv/GetParameterTypes": ("string[] names", "uint8[] types"),
    "rcl_interfaces/srv/GetParameters": ("string[] names", "rcl_interfaces/ParameterValue[] values"),
    "rcl_interfaces/srv/ListParameters": ("string[] prefixes\nuint64 depth",
                                          "rcl_interfaces/ListParametersResult result"),
    "rcl_interfaces/srv/SetParameters": ("rcl_interfaces/Parameter[] parameters",
                                         "rcl_interfaces/SetParametersResult[] results"),
    "rcl_interfaces/srv/SetParametersAtomically": ("rcl_interfaces/Parameter[] parameters",
                                                   "rcl_interfaces/SetParametersResult result"),
    "lifecycle_msgs/srv/ChangeState": ("lifecycle_msgs/Transition transition", "bool success"),
    "lifecycle_msgs/srv/GetState": ("", "lifecycle_msgs/State current_state"),
    "lifecycle_msgs/srv/GetAvailableStates": ("", "lifecycle_msgs/State[] available_states"),
    "lifecycle_msgs/srv/GetAvailableTransitions": ("", "lifecycle_msgs/TransitionDescription[] available_transitions"),
    "type_description_interfaces/srv/GetTypeDescription": (
        "string type_name\nstring type_hash\nbool include_type_sources",
        "bool successful\nstring failure_reason\ntype_description_interfaces/TypeDescription type_description\n"
        "type_description_interfaces/TypeSource[] type_sources\n"
        "type_description_interfaces/KeyValue[] extra_information"),
    "action_msgs/srv/CancelGoal": ("action_msgs/GoalInfo goal_info",
                                   "int8 return_code\naction_msgs/GoalInfo[] goals_canceling"),
}
SEPARATOR = "---"


class ServiceType(NamedTuple):
    """Names of a service's types.

    Attributes:
        name: ``package/srv/Type``; what its hash and its name on the wire are taken of.
        request, response: of the messages, as :func:`brain_wire.messages.make` takes them.
    """

    name: str
    request: str
    response: str


class ActionType(NamedTuple):
    """Names of an action's types.

    Attributes:
        name: ``package/action/Type``.
        goal, result, feedback: of the messages.
        send_goal, get_result: services of the action.
        cancel_goal: the service that all actions share.
        feedback_message: what travels on the feedback topic.
    """

    name: str
    goal: str
    result: str
    feedback: str
    send_goal: ServiceType
    get_result: ServiceType
    cancel_goal: ServiceType
    feedback_message: str


@functools.cache
def service_type(name: str) -> ServiceType:
    """The service ``package/srv/Type``, known to :mod:`brain_wire.messages` from now on.

    Raises:
        MessageError: there is no such service.
    """
    parts = STANDARD.get(name) or _own(name, "srv", 2)
    return _service(name, *(_parsed(f"{name}{end}", text) for end, text in zip(("_Request", "_Response"), parts)))


@functools.cache
def action_type(name: str) -> ActionType:
    """The action ``package/action/Type``, known to :mod:`brain_wire.messages` from now on.

    Raises:
        MessageError: there is no such action.
    """
    goal, result, feedback = (f"{name}{end}" for end in ("_Goal", "_Result", "_Feedback"))
    for part, text in zip((goal, result, feedback), _own(name, "action", 3)):
        add_type(part, _parsed(part, text))
    ident = ("goal_id", _named("unique_identifier_msgs/msg/UUID"))
    send_goal = _service(f"{name}_SendGoal", [ident, ("goal", _named(goal))],
                         [("accepted", _base("bool")), ("stamp", _named("builtin_interfaces/msg/Time"))])
    get_result = _service(f"{name}_GetResult", [ident], [("status", _base("int8")), ("result", _named(result))])
    message = f"{name}_FeedbackMessage"
    add_type(message, [ident, ("feedback", _named(feedback))])
    return ActionType(name, goal, result, feedback, send_goal, get_result, service_type("action_msgs/srv/CancelGoal"),
                      message)


def find(name: str, kind: str) -> None:
    """Makes the types of the service or action ``name`` known. Raises MessageError if there is none."""
    service_type(name) if kind == "srv" else action_type(name)


def _service(name: str, request: list, response: list) -> ServiceType:
    ours = ServiceType(name, f"{name}_Request", f"{name}_Response")
    add_type(ours.request, request)
    add_type(ours.response, response)
    event = f"{name}_Event"
    add_type(event, [
        ("info", _named("service_msgs/msg/ServiceEventInfo")),
        ("request", (Nodetype.SEQUENCE, (_named(ours.request), 1))),
        ("response", (Nodetype.SEQUENCE, (_named(ours.response), 1)))])
    add_type(name, [("request_message", _named(ours.request)), ("response_message", _named(ours.response)),
                    ("event_message", _named(event))])
    return ours


def _base(kind: str) -> tuple:
    return Nodetype.BASE, (kind, 0)


def _named(name: str) -> tuple:
    return Nodetype.NAME, name


def _own(name: str, kind: str, count: int) -> list[str]:
    """The parts of a definition file of a registered package."""
    path = definition_file(name) if f"/{kind}/" in name and name.count("/") == 2 else None
    if path is None:
        known = [n for n in STANDARD if f"/{kind}/" in n] + [
            f"{other}/{kind}/{file.stem}" for other in packages()
            for file in definition_files(other, kind)]
        what = "service" if kind == "srv" else "action"
        raise MessageError(f"unknown {what} type {name!r}; known are {', '.join(known)}")
    lines = path.read_text(encoding="utf-8").splitlines()
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.strip() == SEPARATOR:
            parts.append([])
        else:
            parts[-1].append(line)
    if len(parts) != count:
        raise MessageError(f"{path} must have {count} parts with {SEPARATOR} between them, but has {len(parts)}")
    return ["\n".join(part) for part in parts]


def _parsed(name: str, text: str) -> list:
    """Fields of a definition; types without a package are the definition's own package's messages."""
    return parse(text, name).fields
