# SPDX-License-Identifier: Apache-2.0
"""RosStage: RosHost on a real rclpy, talked with by raw bytes."""
from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from brain_runtime import messages
from brain_runtime.ros_host import interface, profile
from brain_tests.stages import ProcessStage


class RosStage(ProcessStage):
    """A region as a ROS 2 node."""

    module = "brain_runtime.ros_process"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._context = Context()
        rclpy.init(context=self._context, domain_id=self.domain)
        self._node = Node("stage", context=self._context, use_global_arguments=False)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._publishers: dict[str, Any] = {}
        self._ears: dict[str, Any] = {}

    def say(self, topic, message, qos):
        if topic not in self._publishers:
            self._publishers[topic] = self._node.create_publisher(interface(message.__msgtype__), topic, profile(qos))
        self._publishers[topic].publish(messages.encode(message))

    def hear(self, topic, type_name, qos):
        heard: list = []
        decode = messages.decoder(type_name)
        self._ears[topic] = self._node.create_subscription(
            interface(type_name), topic, lambda data: heard.append(decode(data)), profile(qos.with_depth(100)), raw=True)
        return heard

    def unhear(self, topic):
        self._node.destroy_subscription(self._ears.pop(topic))

    def pause(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._executor.spin_once(timeout_sec=left)

    def close(self):
        super().close()
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()
