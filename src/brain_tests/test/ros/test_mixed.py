# SPDX-License-Identifier: Apache-2.0
"""One brain of both kinds on one wire: regions on ZenohHost and RosHost, a node of rclpy. Over rmw_zenoh_cpp only."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import rclpy
from brain_interfaces.msg import SensorFeatures
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.utilities import get_rmw_implementation_identifier
from std_msgs.msg import String

from brain_tests.ros_graph import all_there
from brain_tests.stages import PATIENCE, free_domain, free_port

pytestmark = pytest.mark.skipif(get_rmw_implementation_identifier() != "rmw_zenoh_cpp",
                                reason="only rmw_zenoh_cpp is on one wire with ZenohHost")
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
HOSTS = {"zenoh": "brain_runtime.process", "ros": "brain_runtime.ros_process"}


class Mixed:
    """Processes on one router, and a node of rclpy."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._children = folder, []
        port = free_port()
        domain = free_domain()
        self._endpoint = f"tcp/127.0.0.1:{port}"
        monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
        self.start("-m", "brain_wire.router", "--listen", self._endpoint)
        # rmw_zenoh's peers and our clients take the same variable.
        monkeypatch.setenv("ZENOH_CONFIG_OVERRIDE", f'connect/endpoints=["{self._endpoint}"]')
        monkeypatch.setenv("ZENOH_ROUTER_CHECK_ATTEMPTS", "0")
        self._context = Context()
        rclpy.init(context=self._context, domain_id=domain)
        self.node = Node("tester", context=self._context, use_global_arguments=False)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)

    def start(self, *arguments: str) -> None:
        with open(self._folder / f"{len(self._children)}.log", "wb") as log:
            self._children.append(subprocess.Popen([sys.executable, *arguments], stdout=log, stderr=log,
                                                   env=dict(os.environ)))

    def mirror(self, host: str, name: str, hears: str, says: str) -> None:
        self.start("-m", HOSTS[host], "--class", "brain_tests.regions:Mirror", "--name", name, "--ros-args",
                   "-r", f"heard:={hears}", "-r", f"said:={says}", "-r", f"held:={name}/held")

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            logs = "\n".join(path.read_text(errors="replace")[-500:] for path in self._folder.glob("*.log"))
            assert time.monotonic() < end, f"it did not come true; the logs end: {logs}"
            self._executor.spin_once(0.1)

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()
        for child in reversed(self._children):
            child.terminate()
            child.wait(PATIENCE)


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mixed]:
    made = Mixed(tmp_path, monkeypatch)
    yield made
    made.close()


@pytest.mark.parametrize("order", [("zenoh", "ros"), ("ros", "zenoh")])
def test_a_message_goes_through_regions_of_both_hosts(mixed: Mixed, order: tuple[str, str]) -> None:
    mixed.mirror(order[0], "one", "a", "b")
    mixed.mirror(order[1], "two", "b", "c")
    heard: list[SensorFeatures] = []
    mixed.node.create_subscription(SensorFeatures, "c", heard.append, 1)
    publisher = mixed.node.create_publisher(SensorFeatures, "a", 1)

    def through() -> bool:
        publisher.publish(SensorFeatures(source="tester"))
        return bool(heard)

    mixed.until(through)
    assert (heard[0].source, heard[0].modality) == ("two", "one")


@pytest.mark.parametrize("host", HOSTS)
def test_latched_topics_both_ways(mixed: Mixed, host: str) -> None:
    mixed.node.create_publisher(String, "goal", LATCHED).publish(String(data="said before"))
    mixed.mirror(host, "late", "a", "b")
    held: list[String] = []
    mixed.node.create_subscription(String, "late/held", held.append, LATCHED)
    mixed.until(lambda: any('"said before"' in message.data for message in held))


def test_each_kind_is_in_the_others_graph(mixed: Mixed) -> None:
    for host in HOSTS:
        mixed.mirror(host, f"on_{host}", "a", "b")
    # A node is announced before its endpoints.
    mixed.until(lambda: all_there(mixed.node, {"on_zenoh", "on_ros", "tester"}, {"b": 2}, {"a": 2}))
