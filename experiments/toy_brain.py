# SPDX-License-Identifier: Apache-2.0
"""The toy brain of ``brain bench backends`` on a host of its own, listened to and hurt from outside."""
from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

from brain_runtime import FEATURE
from brain_runtime.graph.inspect_graph import inspect_graph
from brain_runtime.supervision.supervised_brain import SupervisedBrain, group_child, region_children, router_child
from brain_wire import Node, messages
from brain_wire.router import free_port
from brain_wire.services import service_type
from brain_wire.temporary_folder import TemporaryFolder
from experiments.costs import descriptors

READY = 120.0       # s for all regions to be active; torch is imported by each rank
ANSWER = 60.0       # s for an answer
STRING = "std_msgs/msg/String"
TOYS = {name: f"experiments.backend_regions:{name.capitalize()}" for name in ("source", "relay", "sink", "aside")}


def graph(regions: Mapping[str, str]) -> str:
    """A graph of classes, by name."""
    return "\n".join(["name: toys", "regions:", *(f'  {name}: "{cls}"' for name, cls in regions.items()), ""])


class ToyBrain:
    """A source, a relay, a sink and one aside, on a host; see :func:`toys`, after which all processes have ended.

    Args:
        host: ``zenoh`` or ``torch``.
        folder: of the run.
        endpoint: of a router that is started with it.
        domain: ROS domain.
        stop: a flag that ends all waiting.
        classes: ``package.module:Class`` by name; the four toys where none are given.

    Attributes:
        supervised: that keeps the processes running.
        took: s from the start until all regions were active.

    Raises:
        GraphError, StartError, NoRouter, TimeoutError: it does not come up.
    """

    def __init__(self, host: str, folder: Path, endpoint: str, domain: int, stop: Any,
                 classes: Mapping[str, str] = TOYS) -> None:
        self.host, self._stop = host, stop
        self._asked = itertools.count(1)
        path = folder / "toys.graph.yaml"
        path.write_text(graph(classes), encoding="utf-8")
        resolved = inspect_graph(path, "none", None, host=host)
        self.names = [region.name for region in resolved.regions]
        how: dict[str, Any] = {"seed": 0, "folder": folder, "state_dir": folder / "state", "router": endpoint}
        router = router_child(endpoint)
        assert router is not None, "the port was free"
        together = resolved.grouped
        begin = time.monotonic()
        self.supervised = SupervisedBrain([router, *region_children(resolved, **how),
                                           *([group_child(resolved, **how)] if together else [])],
                                          folder / "logs", endpoint, domain=domain, grouped=together)
        try:
            self.supervised.start(stop=stop)
            self.wait(self.supervised.ready, "all regions", READY)
        except BaseException:
            self.supervised.stop()
            raise
        self.took = time.monotonic() - begin
        self._ask = self.node.publisher("backends/asked", STRING, FEATURE)
        self._told = self.node.subscription("backends/told", STRING, FEATURE.with_depth(10), by_publisher=True)

    @property
    def node(self) -> Node:
        """A node outside the brain."""
        return self.supervised.node

    def wait(self, condition: Callable[[], Any], what: str, seconds: float = ANSWER) -> None:
        """Looks after the processes until the condition holds. Raises TimeoutError."""
        if not self.supervised.wait(seconds, lambda: bool(condition()), self._stop):
            raise TimeoutError(f"waited {seconds:g} s in vain for {what} on host {self.host}; "
                               + "; ".join(self.supervised.missing()))

    def rest(self, seconds: float) -> None:
        """Looks after the processes for a while."""
        self.supervised.wait(seconds, lambda: False, self._stop)

    def beat(self, name: str) -> Any | None:
        """Newest heartbeat of a region; None: it was never heard."""
        seen = self.supervised.ear.regions.get(f"/{name}") if self.supervised.ear else None
        return None if seen is None else seen.beat

    def steps(self) -> dict[str, tuple[float, int]]:
        """By region, when its newest heartbeat came (s, steady) and how many steps it had made."""
        regions = self.supervised.ear.regions if self.supervised.ear else {}
        return {name: (regions[f"/{name}"].heard, regions[f"/{name}"].beat.step) for name in self.names}

    def rates(self, seconds: float) -> dict[str, float]:
        """Steps per second of each region (Hz), over a while."""
        before = self.steps()
        self.rest(seconds)
        after = self.steps()
        return {name: (after[name][1] - before[name][1]) / max(after[name][0] - before[name][0], 1e-3)
                for name in self.names}

    def ages(self) -> dict[str, dict[str, Any]]:
        """Asks how old what ``sink`` and ``aside`` heard was (s): ``n``, ``p50`` and ``p99``, since the last call."""
        number = str(next(self._asked))
        found: dict[str, dict[str, Any]] = {}

        def answered() -> bool:
            for arrival in self._told.take():
                told = json.loads(messages.decode(arrival.data, STRING).data)
                if told.pop("id") == number:
                    found[told.pop("name")] = told
            return {"sink", "aside"} <= set(found)
        self._ask.publish(messages.make(STRING, data=number))
        self.wait(answered, "the ages of messages")
        return found

    def delay(self, seconds: float) -> None:
        """Makes each step of the relay take so long. Raises TimeoutError."""
        kind = "rcl_interfaces/srv/SetParameters"
        value = messages.make("rcl_interfaces/msg/ParameterValue", type=3, double_value=seconds)
        request = messages.make(service_type(kind).request, parameters=[
            messages.make("rcl_interfaces/msg/Parameter", name="late", value=value)])
        client = self.node.client("relay/set_parameters", kind)
        until = time.monotonic() + ANSWER
        try:
            # it is refused while a step is made, and a relay that is late makes one after the other
            while not (result := client.call(request, ANSWER).results[0]).successful:
                if time.monotonic() > until:
                    raise TimeoutError(f"the relay does not take its delay: {result.reason}")
        finally:
            self.node.let_go(client)

    def pid(self, name: str) -> int:
        """Process of a region."""
        return int(self.beat(name).pid)     # type: ignore[union-attr]

    def hurt(self, name: str, number: signal.Signals) -> dict[str, Any]:
        """Sends a region's process a signal, and waits until all regions are active again in processes that live.

        Returns:
            ``back``: s until then; ``still``: by region, the longest time (s) in which it made no step meanwhile;
            ``new``: names of the regions that run in another process than before.
        """
        before = {one: self.pid(one) for one in self.names}
        hurt, last = before[name], self.steps()
        begin = time.monotonic()
        moved = {one: begin for one in self.names}
        still = dict.fromkeys(self.names, 0.0)
        os.kill(hurt, number)

        def again() -> bool:
            now = time.monotonic()
            for one, (_, steps) in self.steps().items():
                if steps != last[one][1]:
                    last[one], moved[one] = (now, steps), now
                still[one] = max(still[one], now - moved[one])
            return self.supervised.ready() and self.pid(name) != hurt and now - min(moved.values()) < 1.0
        self.wait(again, f"{name} after {number.name}", READY)
        return {"back": time.monotonic() - begin, "still": still,
                "new": [one for one in self.names if self.pid(one) != before[one]]}

    def descriptors(self) -> dict[str, dict[str, int]]:
        """By region, how many descriptors and, of those, sockets its process has open."""
        links = {name: descriptors(self.pid(name)) for name in self.names}
        return {name: {"open": len(each), "sockets": sum(link.startswith("socket:") for link in each)}
                for name, each in links.items()}


@contextlib.contextmanager
def toys(host: str, stop: Any, classes: Any = TOYS) -> Iterator[ToyBrain]:
    """A toy brain on a router and a domain of its own."""
    port = free_port()
    with TemporaryFolder("bench") as folder:
        brain = ToyBrain(host, Path(folder), f"tcp/127.0.0.1:{port}", port % 200, stop, classes)
        try:
            yield brain
        finally:
            brain.supervised.stop()
