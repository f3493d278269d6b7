# SPDX-License-Identifier: Apache-2.0
"""Asks a doubler over rclpy, and prints what comes: ``python -m experiments.ros_doubled region``, ``... bare``.

It starts the doubler: the region on RosHost, or the node of rclpy.
"""
from __future__ import annotations

import sys
from pathlib import Path

from rclpy.signals import SignalHandlerOptions

from brain_runtime.hosts.ros_topics import interface
from brain_wire import messages
from brain_wire.temporary_folder import TemporaryFolder
from experiments.ros_bench import QUALITY, Processes, _node, _wait_for

KIND = "std_msgs/msg/Float32"


def main(which: str) -> None:
    """Says 21 until the double of it comes. Raises TimeoutError."""
    heard: list[float] = []
    with TemporaryFolder("bench") as folder:
        processes = Processes(Path(folder) / "log")
        try:
            with _node("bench_numbers", SignalHandlerOptions.NO) as (node, executor):
                publisher = node.create_publisher(interface(KIND), "bench/number", QUALITY)
                node.create_subscription(interface(KIND), "bench/doubled",
                                         lambda data: heard.append(messages.decode(data, KIND).data), QUALITY, raw=True)
                if which == "region":
                    processes.region("doubler", "experiments.doubler_region:Doubler")
                else:
                    processes.start(which, str(Path(__file__).with_name("ros_doubler.py")))

                def answered() -> bool:
                    publisher.publish(bytes(messages.encode(messages.make(KIND, data=21.0))))
                    executor.spin_once(0.1)
                    return bool(heard)
                _wait_for(answered, which)
        finally:
            processes.end()
    print("doubled", heard[0], flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
