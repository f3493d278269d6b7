# SPDX-License-Identifier: Apache-2.0
"""The cheapest places that keep all budgets, found by HiGHS as a mixed-integer program.

``x[r, t]`` is 1 where region ``r`` lives on tier ``t``; ``z[p, h, a, b]`` is 1 where ``p`` lives on ``a`` and ``h`` on
``b``, so that what one says to the other takes the way from ``a`` to ``b``; ``w[topic, p, d]`` is 1 where a topic of
``p`` crosses a link in direction ``d``, once for all that hear it beyond. Sums of these are times, cores, memory, bits
and prices.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Collection, Iterable, Mapping

from brain_cloud.placement.demand import Budget, Demand, Edge
from brain_cloud.placement.highspy_program import Program, Terms
from brain_cloud.placement.tiers import ROBOT, Direction, Tiers

FULL = 0.8              # share of a link's bandwidth that is planned for: queues grow without a bound near all of it
HOUR = 3600.0           # s
GB = 1e9                # bytes
SAME = 1e-7             # share of a price within which two plans cost the same
Key = tuple[str, Any]   # of what limits: ("budget", i), ("cores", tier), ("memory", tier), ("link", direction)


@dataclass(frozen=True)
class Solution:
    """Places.

    Attributes:
        place: tier by region.
        price: of an hour.
    """

    place: Mapping[str, str]
    price: float


class Problem:
    """The program of a demand.

    Args:
        demand: what is to be placed.
        tiers: where.
        within: tiers by region beside those that the demand allows.
        without: limits that do not hold.
    """

    def __init__(self, demand: Demand, tiers: Tiers, within: Mapping[str, Collection[str]] | None = None,
                 without: Collection[Key] = ()) -> None:
        self._demand, self._tiers, self._program = demand, tiers, Program()
        self._pairs: dict[tuple[str, str], dict[tuple[str, str], Terms]] = {}
        self._without = without
        self._x = {name: {tier: self._program.column(self._price(name, tier), whole=True) for tier in tiers.names
                          if allowed(demand, name, tier) and tier in (within or {}).get(name, tiers.by_name)}
                   for name in demand.regions}
        for columns in self._x.values():
            self._program.row(1, 1, dict.fromkeys(columns.values(), 1.0))
        for number, budget in enumerate(demand.budgets):
            if ("budget", number) not in without:
                self._program.row(-math.inf, 1e3 * (budget.within - budget.age), self.time(budget))
        self._capacities()
        self._links()

    def _price(self, name: str, tier: str) -> float:
        return price(self._demand, self._tiers, name, tier)

    def time(self, budget: Budget) -> Terms:
        """Returns the time that a budget's edges and steps take (ms), as terms."""
        terms: Terms = {}
        for edge in budget.edges:
            for (start, end), pair in self._pair(edge.source, edge.target).items():
                _add(terms, pair, 1e3 * slowest(self._demand, self._tiers, start, end, edge))
        for name in budget.steps:
            for tier, column in self._x[name].items():
                _add(terms, {column: 1e3 * self._demand.costs.regions[name].step_p99 / self._tiers.by_name[tier].speed})
        return terms

    def _pair(self, source: str, target: str) -> dict[tuple[str, str], Terms]:
        """For each two tiers, terms that are 1 where source and target live there."""
        known = self._pairs.get((source, target))
        if known is not None:
            return known
        starts: dict[str, Terms] = ({ROBOT: {}} if source == ROBOT else
                                    {tier: {column: 1.0} for tier, column in self._x[source].items()})
        ends: dict[str, Terms] = {tier: {column: 1.0} for tier, column in self._x[target].items()}
        found: dict[tuple[str, str], Terms]
        if len(starts) <= 1:
            found = {(start, end): terms for start in starts for end, terms in ends.items()}
        elif len(ends) <= 1:
            found = {(start, end): terms for start, terms in starts.items() for end in ends}
        else:
            found = {(start, end): {self._program.column(): 1.0} for start in starts for end in ends}
            for start, terms in starts.items():
                self._equal(terms, [found[start, end] for end in ends])
            for end, terms in ends.items():
                self._equal(terms, [found[start, end] for start in starts])
        self._pairs[source, target] = found
        return found

    def _equal(self, one: Terms, several: Iterable[Terms]) -> None:
        terms = {column: -value for column, value in one.items()}
        for other in several:
            _add(terms, other)
        self._program.row(0, 0, terms)

    def _capacities(self) -> None:
        costs = self._demand.costs.regions
        for name, tier in self._tiers.by_name.items():
            here = {region: columns[name] for region, columns in self._x.items() if name in columns}
            if ("cores", name) not in self._without:
                self._program.row(-math.inf, tier.cores * tier.speed,
                                  {column: costs[region].cores for region, column in here.items()})
            if ("memory", name) not in self._without:
                self._program.row(-math.inf, tier.memory,
                                  {column: costs[region].memory for region, column in here.items()})

    def _links(self) -> None:
        heard: dict[tuple[str, str], list[Edge]] = {}
        for edge in self._demand.edges:
            if edge.rate:
                heard.setdefault((edge.topic, edge.source), []).append(edge)
        used: dict[Direction, Terms] = {}
        for edges in heard.values():
            crossed: dict[Direction, list[Terms]] = {}
            for edge in edges:
                one: dict[Direction, Terms] = {}
                for (start, end), pair in self._pair(edge.source, edge.target).items():
                    for direction in self._tiers.path(start, end):
                        _add(one.setdefault(direction, {}), pair)
                for direction, terms in one.items():
                    crossed.setdefault(direction, []).append(terms)
            flow = edges[0].rate * edges[0].size
            for direction, several in crossed.items():
                price = flow * HOUR / GB * self._tiers.link(self._tiers.far(direction)).gb
                crosses = self._program.column(price)
                for terms in several:
                    self._program.row(0, math.inf, {crosses: 1.0, **{c: -value for c, value in terms.items()}})
                used.setdefault(direction, {})[crosses] = 8e-6 * flow
        for direction, terms in used.items():
            if ("link", direction) not in self._without:
                self._program.row(-math.inf, FULL * 1e-6 * self._tiers.way(direction).bandwidth, terms)

    def solve(self, nearest: bool = False) -> Solution | None:
        """The cheapest places; None: there are none.

        Args:
            nearest: of those that cost the same, those nearest to the robot.
        """
        if not all(self._x.values()):
            return None
        values = self._program.solve(self._program.costs)
        if values is None:
            return None
        total = sum(cost * value for cost, value in zip(self._program.costs, values, strict=True))
        if nearest:
            depths = [0.0] * len(values)
            for columns in self._x.values():
                for tier, column in columns.items():
                    depths[column] = float(self._tiers.depth(tier))
            largest = max(self._program.costs) or 1.0   # the solver's tolerances are those of numbers about 1
            prices = {column: cost / largest for column, cost in enumerate(self._program.costs) if cost}
            self._program.row(-math.inf, (1 + SAME) * total / largest, prices)
            values = self._program.solve(depths) or values
            self._program.rows.pop()
        return Solution({name: max(columns, key=lambda tier: values[columns[tier]])
                         for name, columns in self._x.items()}, total)


def allowed(demand: Demand, name: str, tier: str) -> bool:
    """Checks whether rules and what was asked for let a region live on a tier."""
    if name in demand.fixed:
        return tier == ROBOT
    if demand.regions[name].critical and tier not in demand.critical:
        return False
    return tier in demand.place.get(name, (tier,))


def slowest(demand: Demand, tiers: Tiers, start: str, end: str, edge: Edge) -> float:
    """A bound of how long a message takes between two tiers (s): the 99th percentiles of its links and routers."""
    routers = 1 + len(tiers.path(start, end))
    return tiers.worst(start, end, edge.size) + routers * demand.costs.hop_p99


def price(demand: Demand, tiers: Tiers, name: str, tier: str) -> float:
    """Of an hour of a region on a tier, without its messages."""
    cost, there = demand.costs.regions[name], tiers.by_name[tier]
    return cost.cores / there.speed * there.core_hour + cost.memory / 1e3 * there.gb_hour


def _add(terms: Terms, more: Terms, factor: float = 1.0) -> None:
    for column, value in more.items():
        terms[column] = terms.get(column, 0.0) + factor * value
