# SPDX-License-Identifier: Apache-2.0
"""ROS 2 nodes in plain Python, in the wire format of rmw_zenoh: real ROS 2 nodes hear and see them as their own.

It knows nothing of a brain, and needs no ROS installation::

    with open_node("say") as node:
        node.publisher("goal/text", "std_msgs/msg/String", LATCHED).publish(text)
"""
import importlib
from typing import TYPE_CHECKING, Any

from brain_wire import moved_modules

if TYPE_CHECKING:   # what a type checker sees; at run time it is __getattr__ that finds them
    from brain_wire.asking import ActionClient
    from brain_wire.attachment import Attachment
    from brain_wire.definitions import register
    from brain_wire.goals import Act, Goal
    from brain_wire.lifecycle import Outcome
    from brain_wire.names import Endpoint, NameProblem, domain_id
    from brain_wire.node import Node, open_node
    from brain_wire.parameters import ParameterError, parameter
    from brain_wire.qos import QoS
    from brain_wire.server import Server
    from brain_wire.service import Client, NoAnswer, Request, Service
    from brain_wire.session import NoRouter, Session, SessionProblem, open_session
    from brain_wire.topics import Arrival, Publisher, Subscription
    from brain_wire.watch import Watch

moved_modules.answer()

# Where each name is. Loaded when it is asked for: who checks parameters or names, as launch does, needs no Zenoh.
_PLACES = {"Act": "goals", "ActionClient": "asking", "Arrival": "topics", "Attachment": "attachment",
           "Client": "service", "Endpoint": "names", "Goal": "goals", "NameProblem": "names", "NoAnswer": "service",
           "NoRouter": "session", "Node": "node", "Outcome": "lifecycle", "ParameterError": "parameters",
           "Publisher": "topics", "QoS": "qos", "Request": "service", "Server": "server", "Service": "service",
           "Session": "session", "SessionProblem": "session", "Subscription": "topics", "Watch": "watch",
           "domain_id": "names", "open_node": "node", "open_session": "session", "parameter": "parameters",
           "register": "definitions"}
__all__ = ["Act", "ActionClient", "Arrival", "Attachment", "Client", "Endpoint", "Goal", "NameProblem", "NoAnswer",
           "NoRouter", "Node", "Outcome", "ParameterError", "Publisher", "QoS", "Request", "Server", "Service",
           "Session", "SessionProblem", "Subscription", "Watch", "domain_id", "open_node", "open_session", "parameter",
           "register"]


def __getattr__(name: str) -> Any:
    """A name of the package, from the module that has it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    return found
