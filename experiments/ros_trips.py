# SPDX-License-Identifier: Apache-2.0
"""RosHost's side of ``brain bench backends``, in a Python that has rclpy: ``python -m experiments.ros_trips``.

It runs the same regions as the other hosts do, and takes its orders as :mod:`experiments.outside_peer` writes them.
"""
from __future__ import annotations

import itertools
import json
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import get_rmw_implementation_identifier

from brain_eval.bench.wire import PINGING, TYPE
from brain_runtime.hosts.ros_topics import interface, profile
from brain_wire import messages
from brain_wire.qos import FEATURE, LATCHED
from experiments.backend_flood import FLOODING
from experiments.ros_bench import Processes, _node, _wait_for

ANSWER = 60.0       # s for a block


class Asked:
    """Asks regions by one topic, and hears what they tell on another.

    Args:
        node, executor: of rclpy.
        ask, told: topics.
    """

    def __init__(self, node: Any, executor: Any, ask: str, told: str) -> None:
        self._executor, self._ids, self._answers = executor, itertools.count(1), []     # type: ignore[var-annotated]
        self._publisher = node.create_publisher(interface(TYPE), ask, profile(FEATURE))
        node.create_subscription(interface(TYPE), told, self._heard, profile(LATCHED), raw=True)

    def _heard(self, data: bytes) -> None:
        self._answers.append(json.loads(messages.decode(data, TYPE).data))

    def ask(self, patience: float = ANSWER, **order: Any) -> dict[str, Any]:
        """Their answer to an order; empty: there was none."""
        number = next(self._ids)
        data = json.dumps({"id": number, **order})
        self._publisher.publish(bytes(messages.encode(messages.make(TYPE, data=data))))
        until = time.monotonic() + patience
        while (left := until - time.monotonic()) > 0:
            self._executor.spin_once(left)
            while self._answers:
                told = self._answers.pop()
                if told["id"] == number:
                    return told
        return {}


def _start(processes: Processes, classes: dict[str, str]) -> None:
    for name, cls in classes.items():
        processes.start(name, "-m", "brain_runtime.ros_process", "--class", cls, "--name", name)


def _flows(node: Any, executor: Any, processes: Processes, order: dict[str, Any]) -> list[dict[str, Any]]:
    """Measures one-way throughput between regions started for it: the one that floods takes a core while it rests."""
    asked = Asked(node, executor, "bench/flow", "bench/counted")
    _start(processes, FLOODING)
    try:
        _wait_for(lambda: asked.ask(2.0, size=64, seconds=0.05).get("n", 0) > 0, "the region that counts")
        none = {"sent": 0, "n": 0, "took": 0.0}
        return [{**none, **asked.ask(size=size, seconds=order["seconds"])} for size in order["sizes"]]
    finally:
        processes.end(*FLOODING)


def main() -> None:
    """Obeys until there are no more orders."""
    orders = socket.create_connection(("127.0.0.1", int(os.environ["BENCH_ORDERS"]))).makefile("rw", encoding="utf-8")

    def tell(**what: Any) -> None:
        orders.write(json.dumps(what) + "\n")
        orders.flush()
    with tempfile.TemporaryDirectory(prefix="brain-bench-") as folder:
        processes = Processes(Path(folder) / "log")
        try:
            with _node("backends", SignalHandlerOptions.NO) as (node, executor):
                trips = Asked(node, executor, "bench/go", "bench/result")
                _start(processes, PINGING)
                _wait_for(lambda: bool(trips.ask(2.0, size=64, count=1)), "the regions on RosHost")
                tell(about=f"RosHost over {get_rmw_implementation_identifier()}",
                     graph=sorted(name for name, _ in node.get_topic_names_and_types()),
                     nodes=sorted(name for name in node.get_node_names() if name in PINGING))
                for line in orders:
                    order = json.loads(line)
                    if order["do"] == "block":
                        tell(times=trips.ask(size=order["size"], count=order["count"]).get("times", []))
                    else:
                        tell(flows=_flows(node, executor, processes, order))
        except TimeoutError as error:
            tell(error=f"{error}; its log ends: {(Path(folder) / 'log').read_text(errors='replace')[-300:]}")
        finally:
            processes.close()


if __name__ == "__main__":
    main()
