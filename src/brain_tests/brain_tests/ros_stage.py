# SPDX-License-Identifier: Apache-2.0
"""RosStage: RosHost on a real rclpy, talked with by raw bytes."""
from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import rclpy
from rclpy.action import ActionClient
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from brain_runtime.hosts.local import Asked
from brain_runtime.hosts.ros_topics import profile
from brain_runtime.hosts.ros_types import interface, ours, theirs
from brain_tests.stages import PATIENCE, ProcessStage
from brain_wire import messages
from brain_wire.goals import Status
from brain_wire.services import action_type, service_type

SEEK = "brain_interfaces/action/Seek"
AGAIN = 1.0         # s until what was not answered is asked again


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
        self._asking: list[ActionClient] = []
        self._clients: dict[str, Any] = {}
        self._met: set[tuple[str, int]] = set()     # services, and which of the region's processes

    def say(self, topic, message, qos):
        if topic not in self._publishers:
            self._publishers[topic] = self._node.create_publisher(interface(message.__msgtype__), topic, profile(qos))
        self._publishers[topic].publish(messages.encode(message))

    def hear(self, topic, type_name, qos):
        heard: list = []
        decode = messages.decoder(type_name)
        self._ears[topic] = self._node.create_subscription(
            interface(type_name), topic, lambda data: heard.append(decode(data)), profile(qos.with_depth(100)),
            raw=True)
        return heard

    def unhear(self, topic):
        self._node.destroy_subscription(self._ears.pop(topic))

    def call(self, service, type_name, request=None):
        kind, types = interface(type_name), service_type(type_name)
        client = self._clients.get(service)
        if client is None:
            client = self._clients[service] = self._node.create_client(kind, service)
        assert client.wait_for_service(PATIENCE), f"nobody serves {service}; {self.log()}"
        if (service, len(self._children)) not in self._met:
            self._meet(client, theirs(messages.make(types.request), kind.Request))
            self._met.add((service, len(self._children)))
        request = messages.make(types.request) if request is None else request
        future = client.call_async(theirs(request, kind.Request))
        self.until(future.done)
        return ours(future.result(), types.response)

    def _meet(self, client, nothing):
        """Asks for nothing until it is answered.

        A client knows its server before the server knows where this client takes answers, and what is answered until
        then is lost (rmw_fastrtps: "client will not receive response"). Nobody tells a client when that is over. None
        of the services that are asked here does anything for an empty request: no parameters, transition 0.
        """
        asked = []

        def answered():
            if not asked or time.monotonic() - asked[-1][0] > AGAIN:
                asked.append((time.monotonic(), client.call_async(nothing)))
            return any(future.done() for _, future in asked)
        self.until(answered)
        for _, future in asked:
            client.remove_pending_request(future)

    def ask(self, text):
        asked = Asked()
        kind = interface(SEEK)
        client = ActionClient(self._node, kind, "seek")
        self._asking.append(client)
        assert client.wait_for_server(PATIENCE), self.log()
        sending = client.send_goal_async(kind.Goal(text=text), feedback_callback=lambda message: asked.feedback.append(
            ours(message.feedback, action_type(SEEK).feedback)))
        self.until(sending.done)
        handle = sending.result()
        if not handle.accepted:
            return None

        def ended(future: Any) -> None:
            asked.status = Status(future.result().status)
            asked.result = ours(future.result().result, action_type(SEEK).result)
        handle.get_result_async().add_done_callback(ended)
        asked.cancel = handle.cancel_goal_async
        return asked

    def pause(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._executor.spin_once(timeout_sec=left)

    def close(self):
        super().close()
        for client in self._asking:
            client.destroy()
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()
