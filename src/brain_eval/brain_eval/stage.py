# SPDX-License-Identifier: Apache-2.0
"""A brain with its world, watched over and spoken to from one loop: what benches measure and demos show."""
from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

from brain_runtime.graph import secured
from brain_runtime.supervision.supervised_brain import (StartError, SupervisedBrain, refuse_twice, region_children,
                                                        router_child, router_endpoint)
from brain_runtime.graph import SIM_WORLD
from brain_runtime.graph.inspect_graph import inspect_graph
from brain_runtime.supervision.speaker import Speaker
from brain_runtime.run.workload import Event, Workload
from brain_wire import messages
from brain_wire.qos import LATCHED

STRING = "std_msgs/msg/String"


class Stage:
    """Starts the processes of a graph with the first of its worlds, in the room that is asked for.

    Args:
        graph: name or path.
        folder: of the run.
        split, seed: of the room.
        router: endpoint, or None.
        domain: ROS domain.
        stop: ends everything when set.
        request: for sim/episode.
        one_process: regions that can share a process do.
        instead: makes of the regions' processes those that are started.

    Raises:
        GraphError, StartError, SessionProblem, OSError: it cannot be started.
    """

    def __init__(self, graph: str, folder: Path, *, split: str, seed: int, router: str | None, domain: int,
                 stop: threading.Event, request: dict[str, Any], one_process: bool = False,
                 instead: Callable[[list[Workload]], list[Workload]] = lambda workloads: workloads) -> None:
        self.begin = time.monotonic()
        self._stop, self._request, self._domain = stop, request, domain
        resolved = inspect_graph(graph, SIM_WORLD, room={"split": split, "seed": seed})
        secured.check(resolved, domain)
        endpoint = router_endpoint(router)
        own_router = router_child(endpoint)
        if own_router is None:
            refuse_twice([region.name for region in resolved.regions], endpoint, "", domain)
        children = instead(region_children(resolved, seed=seed, folder=folder, state_dir=folder / "state",
                                           router=endpoint, one_process=one_process))
        self.regions = [c.name for c in children]
        self.events: list[Event] = []
        self.supervised = SupervisedBrain([*([own_router] if own_router else []), *children], folder / "logs", endpoint,
                                          on_event=self._take_event)
        self.ready_after: float | None = None
        self._closed = False
        self.tell(f"starting {'a router and ' if own_router else ''}{len(children)} processes: "
                  f"{', '.join(self.regions)}; logs in {folder / 'logs'}")

    def tell(self, text: str) -> None:
        """Says a line for a person; here nobody listens."""

    def _take_event(self, event: Event) -> None:
        self.events.append(event)
        if event.kind in ("ended", "unhealthy", "given up") or (event.kind == "started" and "restart" in event.text):
            self.tell(f"{event.name} {event.kind}: {event.text}")

    @property
    def stopped(self) -> bool:
        """True once the end was asked for."""
        return self._stop.is_set()

    def start(self, patience: float) -> None:
        """Starts the processes and waits until the robot is under control, in the room that was asked for.

        Raises:
            StartError: that did not happen within ``patience`` s.
            NoRouter: there is none.
        """
        self.supervised.start(stop=self._stop)
        node = self.supervised.node
        self._episode = node.publisher("sim/episode", STRING, LATCHED)
        self._episode.publish(messages.make(STRING, data=json.dumps(self._request, ensure_ascii=False)))
        self._world = _World(node)
        self.speaker = Speaker(node)
        self.opened()
        until = time.monotonic() + patience
        while not (self.supervised.ready() and self._world.request == self._request):
            if self._stop.is_set():
                raise StartError("ended before it was ready")
            if time.monotonic() > until or self.supervised.hopeless():
                world = self._world.error or "it does not show the room that was asked for"
                raise StartError(f"not ready after {time.monotonic() - self.begin:.0f} s: " + (
                    ". ".join(self.supervised.missing())
                    or f"world: {world}; see {self.supervised.supervisor.log_path('world')}"))
            self.round()
        self._world.close()
        self.ready_after = time.monotonic() - self.begin
        self.tell(f"{self.supervised.control()} after {self.ready_after:.1f} s")

    def opened(self) -> None:
        """There is a node now, before the first round: for who hears more."""

    def round(self) -> list:
        """Looks after everything once; returns the goal statuses that came."""
        self.supervised.round()
        if self.ready_after is None:
            self._world.take()
        return self.speaker.hear()

    def settle(self, seconds: float) -> None:
        """Goes on for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._stop.is_set():
            self.round()

    def close(self) -> None:
        """Ends the processes, whatever happened."""
        if not self._closed:
            self._closed = True
            self.supervised.stop()
            sys.stdout.flush()


class _World:
    """State of the simulated world: the room that it shows, and what it says is wrong."""

    def __init__(self, node: Any) -> None:
        self.request: Any = None
        self.error = ""
        self._node = node
        self._topics = {topic: node.subscription(topic, STRING, LATCHED) for topic in ("sim/world", "sim/verdict")}

    def take(self) -> None:
        """Takes in what has come; what is not the world's is left out."""
        for topic, subscription in self._topics.items():
            for arrival in subscription.take():
                try:
                    told = json.loads(messages.decode(arrival.data, STRING).data)
                    if topic == "sim/world":
                        self.request = told["request"]
                    else:
                        self.error = str(told.get("error") or "")
                except (messages.MessageError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                    continue

    def close(self) -> None:
        """Hears no more."""
        for subscription in self._topics.values():
            self._node.let_go(subscription)
