# SPDX-License-Identifier: Apache-2.0
"""Memory of a region on RosHost, beside a bare node of rclpy with the same topics, in one run.

It is taken as PSS: pages that several processes share count for each in parts, so the processes run at the same time.
"""
from __future__ import annotations

import json
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Callable

from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from brain_runtime.hosts import diagnostics
from brain_runtime.contract import heartbeat as beat
from brain_runtime.graph import RegionSpec
from brain_runtime.hosts.ros_topics import interface, profile
from brain_wire import messages
from experiments import ros_bare_node

if TYPE_CHECKING:
    from experiments.ros_bench import Processes

REGIONS = {"brainstem": "brain_regions.brainstem:Brainstem", "goals": "brain_regions.goals:Goals",
           "place": "brain_regions.place:Place"}
"""Those of the default graph that need no torch."""
MORE = 15e6             # bytes that such a region may take beyond the bare node
READY = 60.0            # s for all to run
SETTLE = 3.0            # s after that


def measure(node: Node, executor: SingleThreadedExecutor, processes: Processes) -> dict[str, dict[str, float]]:
    """PSS (bytes) by region: ``bare`` and ``host``. The processes are ended afterwards.

    Raises:
        TimeoutError: one of them does not run.
    """
    active: set[str] = set()

    def heard(data: bytes) -> None:
        told = messages.decode(data, beat.TYPE)
        if told.state == beat.ACTIVE:
            active.add(told.name.removeprefix("/"))

    subscription = node.create_subscription(interface(beat.TYPE), beat.PORT.topic, heard,
                                            profile(beat.PORT.qos.with_depth(100)), raw=True)
    for name, cls in REGIONS.items():
        processes.start(f"{name}_bare", ros_bare_node.__file__, f"{name}_bare", json.dumps(_ports(cls)))
        processes.start(name, "-m", "brain_runtime.ros_process", "--class", cls, "--name", name)

    def running() -> bool:
        executor.spin_once(0.1)
        there = set(node.get_node_names())
        return active >= REGIONS.keys() and all(f"{name}_bare" in there for name in REGIONS)

    _wait_for(running)
    node.destroy_subscription(subscription)
    time.sleep(SETTLE)
    found = {name: {"bare": _pss(processes.pid(f"{name}_bare")), "host": _pss(processes.pid(name))}
             for name in REGIONS}
    processes.end(*(process for name in REGIONS for process in (name, f"{name}_bare")))
    return found


def _ports(cls: str) -> list[tuple[str, str, str]]:
    """The topics of a region's node, its signs of life too, as far as their packages are installed."""
    region = RegionSpec("region", cls).load()
    ports = [*(("in", port.type, port.topic) for port in region.inputs().values()),
             *(("out", port.type, port.topic) for port in region.outputs().values()),
             ("out", beat.TYPE, beat.PORT.topic), ("out", diagnostics.TYPE, diagnostics.TOPIC)]
    return [port for port in ports if find_spec(port[1].partition("/")[0])]


def _pss(pid: int) -> float:
    """Proportional set size of a process (bytes)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return 1024.0 * int(line.split()[1])
    raise RuntimeError(f"/proc/{pid}/smaps_rollup tells no Pss; this needs Linux 4.14 or newer")


def _wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + READY
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"the regions and the bare nodes beside them did not all run within {READY:g} s")
