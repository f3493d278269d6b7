# SPDX-License-Identifier: Apache-2.0
"""RosHost's side of ``brain bench backends``, in a Python that has rclpy: ``python -m experiments.ros_trips``.

It runs the same regions as the other hosts do, and takes orders.
"""
from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import get_rmw_implementation_identifier

from brain_eval.bench.wire import ORDER, PINGING, RegionBlocks
from brain_runtime.hosts.ros_topics import interface, profile
from brain_wire import messages
from brain_wire.qos import FEATURE, LATCHED
from brain_wire.temporary_folder import TemporaryFolder
from brain_eval.bench.flood import FLOODING, RegionFlow, region_flows
from experiments.orders import Orders
from experiments.ros_bench import Processes, _node, _wait_for


class Topics:
    """A topic to publish on and one to hear, over rclpy, as those of a node of :mod:`brain_wire` are used.

    Args:
        node, executor: of rclpy.
        said, heard: topics.
    """

    def __init__(self, node: Any, executor: Any, said: str, heard: str) -> None:
        self._executor, self._heard = executor, []      # type: ignore[var-annotated]
        self._publisher = node.create_publisher(interface(ORDER), said, profile(FEATURE))
        node.create_subscription(interface(ORDER), heard, self._heard.append, profile(LATCHED), raw=True)

    def publish(self, message: Any) -> None:
        """Publishes a message."""
        self._publisher.publish(bytes(messages.encode(message)))

    def wait(self, seconds: float) -> list[Any]:
        """Returns the messages that have come, after at most so long."""
        self._executor.spin_once(seconds)
        come = [SimpleNamespace(data=data) for data in self._heard]
        self._heard.clear()
        return come


def _flows(node: Any, executor: Any, processes: Processes, order: dict[str, Any]) -> list[dict[str, Any]]:
    """Measures one-way throughput between regions started for it: the one that floods takes a core while it rests."""
    topics = Topics(node, executor, "bench/flow", "bench/counted")
    for name, cls in FLOODING.items():
        processes.region(name, cls)
    try:
        return region_flows(RegionFlow(topics, topics), order["sizes"], order["seconds"])
    finally:
        processes.end(*FLOODING)


def main() -> None:
    """Obeys until there are no more orders."""
    orders = Orders()
    with TemporaryFolder("bench") as folder:
        processes = Processes(Path(folder) / "log")
        try:
            with _node("backends", SignalHandlerOptions.NO) as (node, executor):
                topics = Topics(node, executor, "bench/go", "bench/result")
                trips = RegionBlocks(topics, topics)
                for name, cls in PINGING.items():
                    processes.region(name, cls)
                _wait_for(lambda: bool(trips.block(64, 1, 2.0)), "the regions on RosHost")
                orders.tell(about=f"RosHost over {get_rmw_implementation_identifier()}",
                            graph=sorted(name for name, _ in node.get_topic_names_and_types()),
                            nodes=sorted(name for name in node.get_node_names() if name in PINGING))
                for order in orders:
                    if order["do"] == "block":
                        orders.tell(times=trips.block(order["size"], order["count"]))
                    else:
                        orders.tell(flows=_flows(node, executor, processes, order))
        except TimeoutError as error:
            orders.tell(error=f"{error}; its log ends: {(Path(folder) / 'log').read_text(errors='replace')[-300:]}")
        finally:
            processes.end()


if __name__ == "__main__":
    main()
