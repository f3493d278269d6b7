# SPDX-License-Identifier: Apache-2.0
"""Publishes a text each second; hear it with: ros2 topic echo /chatter, or python listener.py."""
import itertools
import time

from brain_wire import open_node
from brain_wire.messages import make

with open_node("talker") as node:
    chatter = node.publisher("chatter", "std_msgs/msg/String")
    for number in itertools.count(1):
        chatter.publish(make("std_msgs/msg/String", data=f"hello {number}"))
        time.sleep(1.0)
