# SPDX-License-Identifier: Apache-2.0
"""Hears of a brain's edges: what its regions tell on ``/diagnostics`` of how messages come to them."""
from __future__ import annotations

import time
from typing import NamedTuple

from brain_runtime.hosts import diagnostics
from brain_runtime.hosts.edges import MOST, Edge, parse
from brain_wire import Node, messages

REGIONS = 256       # that are kept
STATUSES = 64       # of one message that are looked at; a region sends one
VALUES = 4 * MOST   # of one status that are looked at
NAME = "brain: "    # in front of a region's name
FRESH = 5.0         # s, age beyond which what a region told holds no more


class Told(NamedTuple):
    """Last report of a region: its edges, when (s, steady), and what it counts (:func:`.diagnostics.counts`)."""

    edges: list[Edge]
    heard: float
    counts: dict[str, int] = {}


class EdgeEar:
    """Listens to ``/diagnostics`` through a node whose namespace is the brain's. Call :meth:`take` now and then.

    Args:
        node: that listens.
    """

    def __init__(self, node: Node) -> None:
        self._prefix = node.namespace.rstrip("/") + "/"
        self._told: dict[str, Told] = {}
        self._subscription = node.subscription(diagnostics.TOPIC, diagnostics.TYPE, diagnostics.QUALITY,
                                               by_publisher=True)
        self.broken = 0

    def take(self) -> None:
        """Takes in what has been told since the last time."""
        for arrival in self._subscription.take():
            try:
                message = messages.decode(arrival.data, diagnostics.TYPE)
            except messages.MessageError:
                self.broken += 1
                continue
            for status in message.status[:STATUSES]:
                if status.name.startswith(NAME + self._prefix):
                    self._keep(status.name.removeprefix(NAME)[:256], status.values[:VALUES], arrival.received)

    def _keep(self, name: str, values: list, received: float) -> None:
        if name not in self._told and len(self._told) >= REGIONS:
            del self._told[min(self._told, key=lambda known: self._told[known].heard)]
        found = [one for one in (parse(pair.key, pair.value) for pair in values) if one is not None]
        self._told[name] = Told(found[:MOST], received, diagnostics.counts(values))

    def told(self) -> dict[str, list[Edge]]:
        """Edges by the full name of the region that they lead to, sorted; of regions that were heard of lately."""
        now = time.monotonic()
        return {name: told.edges for name, told in sorted(self._told.items()) if now - told.heard < FRESH}

    def counts(self) -> dict[str, dict[str, int]]:
        """Returns each region's counters, by its full name; of regions that were heard of lately."""
        now = time.monotonic()
        return {name: told.counts for name, told in sorted(self._told.items()) if now - told.heard < FRESH}
