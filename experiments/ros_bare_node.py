# SPDX-License-Identifier: Apache-2.0
"""A node of rclpy and nothing else, beside which RosHost is measured: ``python ros_bare_node.py NAME PORTS``.

PORTS is JSON: lists of ``in`` or ``out``, type and topic. What it hears stays bytes, and nobody looks at them. It is
run by its path and imports nothing of ours, since all that it holds counts.
"""
import importlib
import json
import sys

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node


def main(name: str, ports: str) -> None:
    """Runs the node until SIGINT or SIGTERM."""
    rclpy.init()
    node = Node(name, use_global_arguments=False)
    for direction, kind, topic in json.loads(ports):
        package, folder, leaf = kind.split("/")
        cls = getattr(importlib.import_module(f"{package}.{folder}"), leaf)
        if direction == "in":
            node.create_subscription(cls, topic, lambda data: None, 10, raw=True)
        else:
            node.create_publisher(cls, topic, 10)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass  # asked to end
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
