# SPDX-License-Identifier: Apache-2.0
"""Asks the solver all that a person wants to know: where each region may live, where it should, and what decides it.

And what a cut link does to a plan: which regions the robot loses, and what it still does without them.
"""
from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Collection, Mapping

from brain_cloud.placement.demand import CRITICAL, Budget, Demand
from brain_cloud.placement.files import PlacementProblem
from brain_cloud.placement.solve import FULL, Key, Problem, Solution, allowed, price, slowest
from brain_cloud.placement.tiers import ROBOT, Tiers

PATIENCE = 60.0     # s in which it is looked where else regions may live: with 32 tiers that are thousands of problems
UNKNOWN = f"not looked at: the places before it took {PATIENCE:.0f} s"
CHEAPER = 1e-6      # share of a price by which a plan must be cheaper to count as that


@dataclass(frozen=True)
class Spent:
    """Use of a limit by a plan.

    Attributes:
        name: of the limit.
        spent, limit: in ``unit``.
        unit: as ``ms``.
        why: where the limit comes from.
        saves: how much less an hour would cost without it; 0: it decides nothing.
    """

    name: str
    spent: float
    limit: float
    unit: str
    why: str
    saves: float = 0.0


@dataclass(frozen=True)
class Cut:
    """A link that is cut.

    Attributes:
        link: in words.
        lost: regions beyond it, by what it does to the robot.
        critical: those of them without which the brainstem lets nothing move.
        silent: topics that nobody publishes any more on the robot's side.
        missing: by region that is left, what it then misses.
        chains: that end, with the budgets that were declared.
        left: what the robot still does, in words.
    """

    link: str
    lost: tuple[str, ...]
    critical: tuple[str, ...]
    silent: tuple[str, ...]
    missing: Mapping[str, tuple[str, ...]]
    chains: tuple[str, ...]
    left: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """Result of :func:`plan`.

    Attributes:
        place: tier by region.
        price: of an hour.
        may: by region and tier, why it cannot live there; empty: it can.
        why: by region, why it lives where it does.
        limits: all budgets and capacities that anything counts towards.
        cuts: of each link.
        without: by region that may leave the robot, what the robot does without its link.
        bits: by tier whose link it is, megabits a second towards the robot and away from it.
    """

    place: Mapping[str, str]
    price: float
    may: Mapping[str, Mapping[str, str]]
    why: Mapping[str, str]
    limits: tuple[Spent, ...]
    cuts: tuple[Cut, ...]
    without: Mapping[str, str]
    bits: Mapping[str, tuple[float, float]]

    @property
    def binding(self) -> list[Spent]:
        """The limits without which another plan would be cheaper."""
        return [one for one in self.limits if one.saves]


def plan(demand: Demand, tiers: Tiers) -> Plan:
    """The cheapest places that keep all budgets, and what decides them.

    Raises:
        PlacementProblem: there are none; names limits that exclude each other.
    """
    best = Problem(demand, tiers).solve(nearest=True)
    if best is None:
        raise PlacementProblem(_impossible(demand, tiers))
    until = time.monotonic() + PATIENCE
    may = {name: {tier: "" if tier == best.place[name] else UNKNOWN if time.monotonic() > until else
                  why_not(demand, tiers, name, tier) for tier in tiers.names} for name in demand.regions}
    limits = tuple(_limits(demand, tiers, best))
    why = {name: _why(demand, tiers, best, name, may[name]) for name in demand.regions}
    return Plan(best.place, best.price, may, why, limits, cuts(demand, tiers, best.place), without(demand),
                bits(demand, tiers, best.place))


# -- where it may live ------------------------------------------------------------------------------------------------


def why_not(demand: Demand, tiers: Tiers, name: str, tier: str) -> str:
    """Returns why a region cannot live on a tier; empty: there is a plan in which it does."""
    if name in demand.fixed and tier != ROBOT:
        return f"never leaves the {ROBOT}: {demand.fixed[name]}"
    if not allowed(demand, name, tier):
        bound = demand.place.get(name, (tier,))
        return CRITICAL if tier in bound else f"bound to {', '.join(bound)}"
    there = {name: (tier,)}
    if Problem(demand, tiers, there).solve() is not None:
        return ""
    return "; ".join(conflict(demand, tiers, there))


def conflict(demand: Demand, tiers: Tiers, within: Mapping[str, Collection[str]]) -> list[str]:
    """A smallest set of limits that exclude each other, in words: without any one of them there is a plan."""
    left = keys(demand, tiers)
    dropped: set[Key] = set()
    for key in list(left):
        if Problem(demand, tiers, within, {*dropped, key}).solve() is None:
            dropped.add(key)
    return [_told(demand, tiers, key) for key in left if key not in dropped]


def keys(demand: Demand, tiers: Tiers) -> list[Key]:
    """All limits that any places could break, those first that a person would rather not hear of as the reason."""
    costs = [demand.costs.regions[name] for name in demand.regions]
    cores, memory = sum(one.cores for one in costs), sum(one.memory for one in costs)
    flows = {(edge.topic, edge.source): 8 * edge.rate * edge.size for edge in demand.edges}
    return [*(("link", one) for one in tiers.directions if sum(flows.values()) > FULL * tiers.way(one).bandwidth),
            *(("memory", name) for name, tier in tiers.by_name.items() if memory > tier.memory),
            *(("cores", name) for name, tier in tiers.by_name.items() if cores > tier.cores * tier.speed),
            *(("budget", number) for number in reversed(range(len(demand.budgets)))
              if _most(demand, tiers, demand.budgets[number]) > demand.budgets[number].within)]


def _most(demand: Demand, tiers: Tiers, budget: Budget) -> float:
    """More than a budget's edges and steps take together at any places (s)."""
    where = {name: [tier for tier in tiers.names if allowed(demand, name, tier)] for name in demand.regions}
    where[ROBOT] = [ROBOT]
    return budget.age + sum(
        max((slowest(demand, tiers, start, end, edge) for start in where[edge.source] for end in where[edge.target]),
            default=0.0) for edge in budget.edges) + sum(
        max((demand.costs.regions[name].step_p99 / tiers.by_name[tier].speed for tier in where[name]), default=0.0)
        for name in budget.steps)


def _told(demand: Demand, tiers: Tiers, key: Key) -> str:
    kind, which = key
    if kind == "budget":
        budget: Budget = demand.budgets[which]
        return f"{budget.name} within {1e3 * budget.within:.4g} ms ({budget.why})"
    if kind == "link":
        return (f"{FULL * 1e-6 * tiers.way(which).bandwidth:.4g} Mbit/s from {which[0]} to {which[1]} "
                f"({FULL:.0%} of the link)")
    tier = tiers.by_name[which]
    return (f"{tier.cores:g} core{'' if tier.cores == 1 else 's'} of {which}" if kind == "cores" else
            f"{tier.memory:g} MB of {which}")


def _impossible(demand: Demand, tiers: Tiers) -> str:
    excluded = conflict(demand, tiers, {})
    bound = ", ".join(f"{name} on {'/'.join(where)}" for name, where in demand.place.items())
    kept = [name for name, one in demand.regions.items() if one.critical and name not in demand.fixed
            and len(demand.critical) < len(tiers.names)]
    return ("no plan keeps " + ("all of these: " if len(excluded) > 1 else "") + "; ".join(excluded)
            + (f"; with {bound}" if bound else "") + "; raise one of them, or "
            + ("take a --place or place back" if bound else "add a tier that is nearer or larger")
            + (f", or say `critical: true` of one that {', '.join(kept)} may live on" if kept else ""))


# -- what decides it --------------------------------------------------------------------------------------------------


def spent(demand: Demand, tiers: Tiers, place: Mapping[str, str], budget: Budget) -> float:
    """Computes what a plan spends of a budget (s), at the 99th percentile of each part."""
    where = {ROBOT: ROBOT, **place}
    return budget.age + sum(
        slowest(demand, tiers, where[edge.source], where[edge.target], edge) for edge in budget.edges) + sum(
        demand.costs.regions[name].step_p99 / tiers.by_name[where[name]].speed for name in budget.steps)


def bits(demand: Demand, tiers: Tiers, place: Mapping[str, str]) -> dict[str, tuple[float, float]]:
    """Megabits a second of each tier's link, towards the robot and away from it."""
    where = {ROBOT: ROBOT, **place}
    crossing = {(edge.topic, edge.source, direction): 8e-6 * edge.rate * edge.size for edge in demand.edges
                for direction in tiers.path(where[edge.source], where[edge.target])}
    found = {name: [0.0, 0.0] for name in tiers.linked}
    for (_, _, direction), flow in crossing.items():
        far = tiers.far(direction)
        found[far][direction[0] != far] += flow
    return {name: (one[0], one[1]) for name, one in found.items()}


def _limits(demand: Demand, tiers: Tiers, best: Solution) -> list[Spent]:
    can = set(keys(demand, tiers))

    def saves(key: Key) -> float:
        if key not in can:
            return 0.0
        other = Problem(demand, tiers, without={key}).solve()
        less = 0.0 if other is None else best.price - other.price
        return less if less > CHEAPER * (1e-9 + abs(best.price)) else 0.0

    found = [Spent(budget.name, 1e3 * spent(demand, tiers, best.place, budget), 1e3 * budget.within, "ms", budget.why,
                   saves(("budget", number))) for number, budget in enumerate(demand.budgets)]
    for name, tier in tiers.by_name.items():
        here = [demand.costs.regions[region] for region, there in best.place.items() if there == name]
        found.append(Spent(f"cores of {name}", sum(one.cores for one in here) / tier.speed, tier.cores, "cores",
                           "capacity", saves(("cores", name))))
        found.append(Spent(f"memory of {name}", sum(one.memory for one in here), tier.memory, "MB", "capacity",
                           saves(("memory", name))))
    for name, flows in bits(demand, tiers, best.place).items():
        to = tiers.link(name).to
        for direction, flow in zip(((name, to), (to, name)), flows, strict=True):
            found.append(Spent(f"link from {direction[0]} to {direction[1]}", flow,
                               FULL * 1e-6 * tiers.way(direction).bandwidth, "Mbit/s", f"{FULL:.0%} of its bandwidth",
                               saves(("link", direction))))
    return found


def _why(demand: Demand, tiers: Tiers, best: Solution, name: str, may: Mapping[str, str]) -> str:
    tier = best.place[name]
    if name in demand.fixed:
        return f"never leaves the {ROBOT}: {demand.fixed[name]}"
    if name in demand.place:
        return "asked for" if len(demand.place[name]) == 1 else f"of {', '.join(demand.place[name])} the best"
    can = [other for other in tiers.names if not may[other]]
    if can == [tier]:
        looked = " of the places that were looked at" if UNKNOWN in may.values() else ""
        return f"it can live nowhere else{looked}"
    here = price(demand, tiers, name, tier)
    cheaper = [other for other in can if price(demand, tiers, name, other) < here - CHEAPER * abs(here)]
    if not cheaper:
        equal = [other for other in can if abs(price(demand, tiers, name, other) - here) <= CHEAPER * abs(here)]
        return "cheapest, and nearest of those" if len(equal) > 1 else "cheapest"
    other = min(cheaper, key=lambda one: price(demand, tiers, name, one))
    there = Problem(demand, tiers, {name: (other,)}).solve()
    more = 0.0 if there is None else there.price - best.price
    if more <= CHEAPER * abs(best.price):
        return f"as cheap as {other} with its messages, and nearer"
    return f"alone it would be cheaper on {other}; with its messages all is dearer by {more:.2g}"


# -- what a cut link does ---------------------------------------------------------------------------------------------


def cuts(demand: Demand, tiers: Tiers, place: Mapping[str, str]) -> tuple[Cut, ...]:
    """The cut of each link, the nearest first."""
    return tuple(_cut(demand, tiers, place, name) for name in tiers.linked)


def _cut(demand: Demand, tiers: Tiers, place: Mapping[str, str], name: str) -> Cut:
    beyond = set(tiers.beyond(name))
    lost = [region for region, tier in place.items() if tier in beyond]
    critical = [region for region in lost if demand.regions[region].critical]
    silent, missing = _missing(demand, lost)
    chains = [chain.name for chain in demand.chains if set(chain.steps) & set(lost)]
    return Cut(f"{name} - {tiers.link(name).to}", tuple(lost), tuple(critical), tuple(silent), missing, tuple(chains),
               tuple(_left(demand, lost, critical)))


def _missing(demand: Demand, lost: list[str]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """The topics that nobody publishes without some regions, and by region that is left, those that it then misses."""
    stay = [region for region in demand.regions if region not in lost]
    said = {topic for region in lost for topic in demand.regions[region].says}
    still = {topic for region in stay for topic in demand.regions[region].says}
    silent = sorted(said - still)
    return silent, {region: topics for region in stay if (topics := tuple(
        sorted({heard.topic for heard in demand.regions[region].hears} & set(silent))))}


def without(demand: Demand) -> dict[str, str]:
    """Tells of each region that may leave the robot what the robot does without it, as where its link is cut."""
    found = {}
    for name, region in demand.regions.items():
        if name in demand.fixed:
            continue
        missing = "; ".join(f"{other} misses {', '.join(topics)}"
                            for other, topics in _missing(demand, [name])[1].items())
        found[name] = (f"the {ROBOT} stands until it is back" if region.critical else
                       demand.needs.without.get(name) or missing or f"the {ROBOT} goes on")
    return found


def _left(demand: Demand, lost: list[str], critical: list[str]) -> list[str]:
    if not lost:
        return [f"nothing of the plan lives beyond it: the {ROBOT} does all it did"]
    found = []
    if critical:
        return [f"the {ROBOT} stands until {', '.join(critical)} {'is' if len(critical) == 1 else 'are'} back: the "
                f"brainstem lets nothing move without what is critical"]
    for region in lost:
        if region in demand.needs.without:
            found.append(f"without {region}: {demand.needs.without[region]}")
    told = [region for region in lost if region not in demand.needs.without]
    if told:
        found.append(f"the {ROBOT} goes on without {', '.join(told)}")
    return found


def to_dict(demand: Demand, tiers: Tiers, found: Plan, predicted: Mapping[str, Any]) -> dict[str, Any]:
    """A plan as plain values.

    Args:
        predicted: by chain, what :func:`.rehearsal.rehearse` tells.
    """
    return {"graph": demand.graph, "price_per_hour": found.price, "place": dict(found.place), "why": dict(found.why),
            "may": {name: {tier: {"may": not why, **({"why": why} if why else {})} for tier, why in tiers_of.items()}
                    for name, tiers_of in found.may.items()},
            "limits": [vars(one) for one in found.limits], "binding": [one.name for one in found.binding],
            "predicted": dict(predicted), "mbit": {name: {"towards_robot": one[0], "away": one[1]}
                                                   for name, one in found.bits.items()},
            "cuts": [asdict(one) for one in found.cuts], "without": dict(found.without), "tiers": tiers.names}
