# SPDX-License-Identifier: Apache-2.0
"""Predicts how long a chain takes under a plan, by playing it: messages, steps, and links with all that crosses them.

What a chain starts with comes at its topic's rate. Each region steps when a message of the chain comes; while it steps,
the newest waits and the others are left out, as in a region's inbox. Each link is a :class:`.channel.Channel` that all
messages of the plan go through in the order in which they are sent, those of other topics too. Each start counts once,
with the first end that was made from it; those that a newer one displaced do not count.

Steps, and a message's way through each router, take as long as their median in 98 of 100 cases, else longer, so that
1 of 100 is beyond the 99th percentile. Not played: steps that a region makes by its own rate, and cores that regions
share.
"""
from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import dataclass, field
from typing import Any, Mapping

from brain_cloud.placement.channel import USUAL, Channel
from brain_cloud.placement.demand import Budget, Demand, Edge
from brain_cloud.placement.tiers import ROBOT, Direction, Tiers

LONG = 60.0             # s that are played
BEGIN = 2.0             # s at the beginning that do not count
FRAMING = 100           # bytes of Zenoh's and TCP's own around each message: key, attachment, headers
SELDOM = 5.0            # Hz at which a chain is played that begins more seldom, so that there is something to count
MOST = 60_000           # messages that are played: of floods, a shorter time


@dataclass(order=True)
class _Event:
    time: float
    order: int
    edge: Edge | None = field(compare=False)
    path: list[Direction] = field(compare=False)
    stage: int = field(compare=False)       # of the chain; -1: of another topic
    origin: float = field(compare=False)


def usual(demand: Demand, tiers: Tiers, place: Mapping[str, str], chain: Budget) -> float:
    """The sum of medians (s): of steps, of ways on one machine, and of links without any other traffic."""
    where = {ROBOT: ROBOT, **place}
    ways = [(where[edge.source], where[edge.target], edge.size + FRAMING) for edge in chain.edges]
    steps = (demand.costs.regions[name].step / tiers.by_name[where[name]].speed for name in chain.steps)
    return chain.age + sum(steps) + sum(tiers.usual(*way) for way in ways) + demand.costs.hop * sum(
        1 + len(tiers.path(start, end)) for start, end, _ in ways)


def rehearse(demand: Demand, tiers: Tiers, place: Mapping[str, str], chain: Budget, seed: int = 0) -> dict[str, Any]:
    """Plays a plan.

    Returns:
        ``n``, ``p50``, ``p95``, ``p99`` (s) of the chain, and ``sum_of_medians``; None where nothing came through.
    """
    times = sorted(_Play(demand, tiers, place, chain, seed).times())
    pick = lambda q: times[min(len(times) - 1, int(q * len(times)))] if times else None  # noqa: E731
    return {"n": len(times), "p50": pick(0.5), "p95": pick(0.95), "p99": pick(0.99),
            "sum_of_medians": usual(demand, tiers, place, chain)}


class _Play:
    def __init__(self, demand: Demand, tiers: Tiers, place: Mapping[str, str], chain: Budget, seed: int) -> None:
        self._demand, self._tiers, self._chain = demand, tiers, chain
        self._where = {ROBOT: ROBOT, **place}
        self._channels = {one: Channel(tiers.way(one), 1000 * seed + number)
                          for number, one in enumerate(tiers.directions)}
        self._random = random.Random(seed)
        self._events: list[_Event] = []
        self._order = itertools.count()
        self._free = [0.0] * len(chain.steps)           # when the step ends that each region is at
        self._waiting: dict[int, float] = {}            # by stage, the newest that came during a step
        self._found: list[float] = []
        self._newest = -1.0
        self._begin_at = BEGIN

    def _push(self, time: float, edge: Edge | None, path: list[Direction], stage: int, origin: float = 0.0) -> None:
        heapq.heappush(self._events, _Event(time, next(self._order), edge, path, stage, origin))

    def times(self) -> list[float]:
        """Plays the chain; returns the time that it took, each time (s)."""
        rate = max(SELDOM, self._chain.edges[0].rate)
        own = {(edge.topic, edge.source, direction) for edge in self._chain.edges
               for direction in self._tiers.path(self._where[edge.source], self._where[edge.target])}
        crossing: dict[tuple[str, str, Direction], Edge] = {}
        for edge in self._demand.edges:
            for direction in self._tiers.path(self._where[edge.source], self._where[edge.target]):
                crossing.setdefault((edge.topic, edge.source, direction), edge)
        # A chain's topics are played as they come; what their publishers say beyond that, from other triggers, too.
        others = [(edge, crosses[2], extra) for crosses, edge in crossing.items()
                  if (extra := edge.rate - (rate if crosses in own else 0.0)) > 0.01 * edge.rate]
        long = min(LONG, MOST / (rate * len(self._chain.edges) + sum(extra for _, _, extra in others)))
        self._begin_at = min(BEGIN, 0.1 * long)
        for number in range(int(long * rate)):
            self._send(number / rate + self._chain.age, 0, number / rate)
        for number, (edge, direction, extra) in enumerate(others):
            phase = (0.37 * number) % 1.0
            for beat in range(int(long * extra)):
                self._push((beat + phase) / extra, edge, [direction], -1)
        while self._events:
            self._take(heapq.heappop(self._events))
        return self._found

    def _send(self, now: float, stage: int, origin: float) -> None:
        """Publishes what the chain has at a stage."""
        edge = self._chain.edges[stage]
        path = self._tiers.path(self._where[edge.source], self._where[edge.target])
        self._push(now + self._hop(), edge, path, stage, origin)

    def _hop(self) -> float:
        return self._drawn(self._demand.costs.hop, self._demand.costs.hop_p99)

    def _drawn(self, p50: float, p99: float) -> float:
        return p50 if self._random.random() < USUAL else self._random.uniform(p50, max(p50, 2 * p99 - p50))

    def _take(self, event: _Event) -> None:
        if event.edge is None:
            self._step(event)
        elif event.path:
            channel = self._channels[event.path[0]]
            arrival = channel.arrival(event.time, round(event.edge.size) + FRAMING)
            if event.stage >= 0:
                self._push(arrival + self._hop(), event.edge, event.path[1:], event.stage, event.origin)
        else:
            if event.time < self._free[event.stage]:
                self._waiting[event.stage] = max(self._waiting.get(event.stage, -1.0), event.origin)
            else:
                self._begin(event.time, event.stage, event.origin)

    def _begin(self, now: float, stage: int, origin: float) -> None:
        name = self._chain.steps[stage]
        speed = self._tiers.by_name[self._where[name]].speed
        cost = self._demand.costs.regions[name]
        end = now + self._drawn(cost.step, cost.step_p99) / speed
        self._free[stage] = end
        self._push(end, None, [], stage, origin)

    def _step(self, event: _Event) -> None:
        """A region's step has ended."""
        if event.stage + 1 < len(self._chain.edges):
            self._send(event.time, event.stage + 1, event.origin)
        elif event.origin > self._newest:
            self._newest = event.origin
            if event.origin >= self._begin_at:
                self._found.append(event.time - event.origin)
        if event.stage in self._waiting:
            self._begin(event.time, event.stage, self._waiting.pop(event.stage))
