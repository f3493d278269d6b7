# SPDX-License-Identifier: Apache-2.0
"""rmw_zenoh's wire format on plain eclipse-zenoh: what a ``Node`` here says and hears, real ROS 2 nodes hear and say.

Usable alone, without regions or hosts::

    with open_node("say") as node:
        node.publisher("goal/text", "std_msgs/msg/String", LATCHED).publish(text)
"""
from brain_runtime.wire.attachment import Attachment
from brain_runtime.wire.names import Endpoint, NameProblem, domain_id
from brain_runtime.wire.node import Arrival, Node, Publisher, Subscription, open_node
from brain_runtime.wire.service import Client, NoAnswer, Request, Service
from brain_runtime.wire.session import NoRouter, Session, SessionProblem, open_session
from brain_runtime.wire.watch import Watch

__all__ = ["Arrival", "Attachment", "Client", "Endpoint", "NameProblem", "NoAnswer", "NoRouter", "Node", "Publisher",
           "Request", "Service", "Session", "SessionProblem", "Subscription", "Watch", "domain_id", "open_node",
           "open_session"]
