# SPDX-License-Identifier: Apache-2.0
"""rmw_zenoh's wire format on plain eclipse-zenoh: what a ``Node`` here says and hears, real ROS 2 nodes hear and say.

Usable alone, without regions or hosts::

    with open_node("say") as node:
        node.publisher("goal/text", "std_msgs/msg/String", LATCHED).publish(text)
"""
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:   # what a type checker sees; at run time it is __getattr__ that finds them
    from brain_wire.attachment import Attachment
    from brain_wire.names import Endpoint, NameProblem, domain_id
    from brain_wire.node import Arrival, Node, Publisher, Subscription, open_node
    from brain_wire.service import Client, NoAnswer, Request, Service
    from brain_wire.session import NoRouter, Session, SessionProblem, open_session
    from brain_wire.watch import Watch

# Where each name is. Loaded when it is asked for: who checks parameters or names, as launch does, needs no Zenoh.
_PLACES = {"Arrival": "node", "Attachment": "attachment", "Client": "service", "Endpoint": "names",
           "NameProblem": "names", "NoAnswer": "service", "NoRouter": "session", "Node": "node", "Publisher": "node",
           "Request": "service", "Service": "service", "Session": "session", "SessionProblem": "session",
           "Subscription": "node", "Watch": "watch", "domain_id": "names", "open_node": "node",
           "open_session": "session"}
__all__ = ["Arrival", "Attachment", "Client", "Endpoint", "NameProblem", "NoAnswer", "NoRouter", "Node", "Publisher",
           "Request", "Service", "Session", "SessionProblem", "Subscription", "Watch", "domain_id", "open_node",
           "open_session"]


def __getattr__(name: str) -> Any:
    """A name of the package, from the module that has it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    return found
