# SPDX-License-Identifier: Apache-2.0
"""A node with a type that no one else has: publishes it ten times a second, and tells what it consists of.

Words: folder of the definitions, router, domain.
"""
import sys
import time

from brain_wire import definitions, type_descriptions
from brain_wire.messages import make
from brain_wire.node import open_node
from brain_wire.qos import FEATURE
from brain_wire.server import Server

TYPE = "stranger_msgs/msg/Odd"

folder, router, domain = sys.argv[1:]
definitions.register("stranger_msgs", folder)
with open_node("stranger", domain=int(domain), router=router) as node:
    port, server = node.publisher("odd", TYPE, FEATURE), Server(node)
    server.services(type_descriptions.handlers(lambda: [TYPE]))
    while True:
        port.publish(make(TYPE, name="it", inner=make("stranger_msgs/msg/Inner", values=[1.5, 2.5]),
                          many=[make("stranger_msgs/msg/Inner"), make("stranger_msgs/msg/Inner", values=[3.0, 4.0])],
                          bytes=range(200)))
        server.serve(0.1)
        time.sleep(0.0)
