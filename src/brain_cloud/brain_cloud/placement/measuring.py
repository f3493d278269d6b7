# SPDX-License-Identifier: Apache-2.0
"""Measures the costs of a brain that is at work: cores, memory and steps of each region, messages of each topic."""
from __future__ import annotations

import math
import os
import socket
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping

from brain_cloud.placement.demand import Region, publishers
from brain_cloud.placement.files import Costs, PlacementProblem, RegionCost, TopicCost
from brain_runtime.supervision.edge_ear import EdgeEar
from brain_runtime.supervision.listen import Ear
from brain_wire import Node, Subscription, messages
from brain_wire.qos import STREAM

TICK = os.sysconf("SC_CLK_TCK")     # of the kernel's clock of processor time (Hz)
KEPT = 512              # messages that may wait between two looks
ROUND = 0.05            # s between two looks
OLDEST = 60.0           # s; what a sensor publishes is no older, or its clock is another


@dataclass
class _Topic:
    """Statistics of the messages that were heard on a topic."""

    subscription: Subscription
    sensed: bool                # it comes from outside the brain, so that its stamp tells of its capture
    count: int = 0
    size: int = 0
    ages: list[float] = field(default_factory=list)

    def take(self) -> None:
        for arrival in self.subscription.take():
            self.count += 1
            self.size += len(arrival.data)
            if self.sensed and (age := _age(arrival, self.subscription.type)) is not None:
                self.ages.append(age)


def measure(node: Node, graph: str, regions: Mapping[str, Region], types: Mapping[str, str], seconds: float,
            look: Callable[[], object] = lambda: None) -> Costs:
    """Listens for a while.

    Args:
        node: that listens; its namespace is the brain's.
        graph: name, for messages.
        regions: of the graph.
        types: message type by topic.
        look: called again and again meanwhile.

    Raises:
        PlacementProblem: a region is not heard, or runs on another machine.
    """
    ear, edges = Ear(node), EdgeEar(node)
    sensed = {topic for topic, kind in types.items()
              if not publishers(regions, topic) and messages.has_field(kind, "header")}
    topics = {topic: _Topic(node.subscription(topic, kind, STREAM.with_depth(KEPT)), topic in sensed)
              for topic, kind in types.items()}
    try:
        ear.listen(1.0)
        processes = _processes(ear, graph, regions, node.namespace)
        begin, before = time.monotonic(), {name: _core_time(pid) for name, pid in processes.items()}
        end = begin + seconds
        while time.monotonic() < end:
            ear.listen(ROUND)
            edges.take()
            look()
            for one in topics.values():
                one.take()
        took = time.monotonic() - begin
        return Costs(
            {name: _region(ear, node.namespace, name, pid, before[name], took) for name, pid in processes.items()},
            {topic: TopicCost(one.count / took, one.size / one.count,
                              max(0.0, statistics.median(one.ages)) if one.ages else 0.0)
             for topic, one in topics.items() if one.count}, *_hop(edges),
            f"{took:.0f} s at work on a machine of {os.cpu_count()} cores with a load of {os.getloadavg()[0]:.1f}")
    finally:
        for one in topics.values():
            node.let_go(one.subscription)
        ear.close()


def _full(namespace: str, name: str) -> str:
    return f"{namespace.rstrip('/')}/{name}"


def _processes(ear: Ear, graph: str, regions: Mapping[str, Region], namespace: str) -> dict[str, int]:
    found = {}
    for name in regions:
        seen = ear.regions.get(_full(namespace, name))
        if seen is None:
            raise PlacementProblem(f"region {name} of graph {graph} is not heard; start all of it on this machine: "
                                   f"brain up {graph}")
        if seen.beat.hostname != socket.gethostname():
            raise PlacementProblem(f"region {name} runs on another machine, so that its cost cannot be read here; "
                                   f"measure a brain that runs on this one")
        found[name] = int(seen.beat.pid)
    return found


def _region(ear: Ear, namespace: str, name: str, pid: int, before: float, took: float) -> RegionCost:
    beat: Any = ear.regions[_full(namespace, name)].beat
    step = lambda value: float(value) if math.isfinite(value) and value >= 0 else 0.0   # noqa: E731
    return RegionCost(max(0.0, _core_time(pid) - before) / took, _memory(pid), step(beat.step_p50),
                      max(step(beat.step_p50), step(beat.step_p99)))


def _core_time(pid: int) -> float:
    """Core time that a process has taken (s)."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError as error:
        raise PlacementProblem(f"process {pid} cannot be read: {error.strerror or error}; its region was started again "
                               f"meanwhile, or is another user's: measure again") from None
    return (int(told[11]) + int(told[12])) / TICK


def _memory(pid: int) -> float:
    """Its share of memory, PSS (MB)."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError as error:
        raise PlacementProblem(f"memory of process {pid} cannot be read: {error.strerror or error}; measure as the "
                               f"user who runs the brain") from None
    raise PlacementProblem(f"the kernel does not tell the memory (PSS) of process {pid}; measure on a newer Linux")


def _hop(edges: EdgeEar) -> tuple[float, float]:
    """Medians of what edges tell of their ways: of their medians, and of their 99th percentiles (s)."""
    known = [edge for told in edges.told().values() for edge in told if math.isfinite(edge.p50)]
    return (statistics.median(edge.p50 for edge in known), statistics.median(edge.p99 for edge in known)
            ) if known else (0.0, 0.0)


def _age(arrival: Any, kind: str) -> float | None:
    """Computes the age of a message by its stamp (s); None: it cannot be read, or its clock is another."""
    try:
        age = time.time() - (time.monotonic() - arrival.received) - messages.time_seconds(
            messages.decode(arrival.data, kind).header.stamp)
    except messages.MessageError:
        return None
    return age if abs(age) < OLDEST else None
