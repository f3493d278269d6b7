# SPDX-License-Identifier: Apache-2.0
"""Light robots for ``brain bench fleet-scale``: many edges in a process, each with a session, a database, an outbox.

``python -m experiments.fleet_robots CLOUD FOLDER NAME...`` runs an edge for each name. They are the edges of
``brain edge`` but for the brain: what is wanted is done at once. Orders are those of :mod:`experiments.fleet_scale`.
"""
from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

from brain_edge.processes.edge import Edge
from brain_edge.state.apply import Effects
from brain_edge.state.desired_state import DesiredState
from brain_edge.store import Store
from brain_runtime.run.ending import leave
from brain_wire.wakeup import Flag
from experiments.orders import Orders

READY = 300.0       # s until all are where they are wanted
LOOK = 0.01         # s between two looks
SENT = "sent"       # value of an order: steady time at which it was given, which is the same in all processes


class AtOnce(Effects):
    """Says of all that is wanted that it is applied, as soon as it is held, and how long after the order that was.

    Args:
        held: what is wanted.
        reported: called when something was reported.
    """

    def __init__(self, held: DesiredState, reported: Callable[[], None]) -> None:
        self._held, self._reported = held, reported
        self.took: list[float] = []

    def start(self) -> None:
        """There is no brain to be kept."""

    def join(self) -> None:
        """There is no thread to wait for."""

    def wake(self) -> None:
        """Does what is wanted; in the thread that has heard of it."""
        for one in self._held.wanted():
            if self._held.report(one, {"state": "applied"}):
                self.took.append(time.monotonic() - one.spec["values"][SENT])
                self._reported()


class LightEdge(Edge):
    """An edge without a brain."""

    effects: AtOnce

    def _bring_about(self, router: str | None, namespace: str) -> Effects:
        self.effects = AtOnce(self.held, self._something)
        return self.effects

    def burst(self, count: int) -> None:
        """Puts so many messages into the outbox at once."""
        with self.store.change() as db:
            for number in range(count):
                self.held.event_within(db, f"message {number} of a burst")
        self._something()


class Robots:
    """Edges in threads of this process.

    Args:
        cloud: endpoint.
        folder: for their databases.
        names: of the robots.
    """

    def __init__(self, cloud: str, folder: Path, names: list[str]) -> None:
        self._stops = [Flag() for _ in names]
        self._edges = [LightEdge(Store(folder / name, name), cloud, credentials=None, router=None, namespace="",
                                 stop=stop) for name, stop in zip(names, self._stops)]
        self._threads = [threading.Thread(target=edge.run, daemon=True) for edge in self._edges]
        for thread in self._threads:
            thread.start()

    def until(self, done: Callable[[LightEdge], bool]) -> None:
        """Waits until something is so for all. Raises TimeoutError."""
        end = time.monotonic() + READY
        for edge in self._edges:
            while not done(edge):
                if time.monotonic() > end:
                    raise TimeoutError(f"{edge.store.member} is not there after {READY:.0f} s")
                time.sleep(LOOK)

    def do(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carries out an order."""
        if order["do"] == "ready":
            self.until(lambda edge: edge.cloud_here and not edge.outbox.waiting("cloud") and edge.tally.received >= 2)
        elif order["do"] == "applied":      # so many orders, and that is reported
            self.until(lambda edge: len(edge.effects.took) >= order["orders"] and not edge.outbox.waiting("cloud"))
            return {"took": [edge.effects.took[order["orders"] - 1] for edge in self._edges]}
        elif order["do"] == "burst":
            for edge in self._edges:
                edge.burst(order["each"])
        elif order["do"] == "drained":
            self.until(lambda edge: not edge.outbox.waiting("cloud"))
        return self.counts()

    def counts(self) -> dict[str, Any]:
        """Of all together: deliveries, messages and bytes so far, and core time (s)."""
        tallies = [edge.tally for edge in self._edges]
        return {"deliveries": sum(t.took.count for t in tallies), "sent": sum(t.sent for t in tallies),
                "received": sum(t.received for t in tallies), "taken": sum(t.taken for t in tallies),
                "bytes": sum(t.sent_bytes + t.received_bytes for t in tallies), "unanswered": sum(
                    t.unanswered for t in tallies), "ran": time.process_time()}

    def close(self) -> None:
        """Ends all."""
        for stop in self._stops:
            stop.set()
        for thread in self._threads:
            thread.join(10.0)
        for edge in self._edges:
            edge.store.close()


def main(argv: list[str]) -> int:
    """Runs until there are no more orders; returns the exit status."""
    robots, orders = Robots(argv[0], Path(argv[1]), argv[2:]), Orders()
    try:
        for order in orders:
            try:
                orders.tell(**robots.do(order))
            except Exception as error:  # whatever it is, who measures is told
                orders.tell(error=f"{type(error).__name__}: {error}")
    finally:
        robots.close()
    return 0


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
