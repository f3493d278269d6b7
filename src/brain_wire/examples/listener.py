# SPDX-License-Identifier: Apache-2.0
"""Prints what is said on /chatter by talker.py, or by: ros2 topic pub /chatter std_msgs/msg/String "{data: hello}"."""
from brain_wire import open_node

with open_node("listener") as node:
    for message in node.subscription("chatter", "std_msgs/msg/String").messages():
        print("heard", message.data, flush=True)
