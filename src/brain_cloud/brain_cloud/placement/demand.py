# SPDX-License-Identifier: Apache-2.0
"""Placement problem: the regions of a graph, which of them may move, and which budgets their messages have.

Budgets are declared (:class:`.files.Needs`) or, for every other edge whose topic carries something, derived: a message
is to take no longer than as many of them as the hearer's depth take to be published, than the hearer's own tick, or,
where it does not make the hearer step, than what does takes to come again: whichever is longest. What is latched has
none: it is heard late as well as early.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence

from brain_cloud.placement.files import ChainNeed, Costs, Needs, PlacementProblem
from brain_cloud.placement.tiers import ROBOT, Tiers
from brain_runtime.contract import heartbeat
from brain_runtime.contract.ports import In, Out
from brain_wire.safe_text import quoted

HEARTBEAT = heartbeat.PORT.topic
# s; the brainstem's patience with a critical region is 0.4 s by default: less the period, and less one that comes late.
HEARTBEAT_WITHIN = 0.2
MOST_CHAINS = 64        # ways that triggers lead from one topic to another
CRITICAL = "without it the robot stands, and the tiers' file does not say `critical: true` there"


@dataclass(frozen=True)
class Heard:
    """A topic as a region hears it.

    Attributes:
        topic: after remapping.
        trigger: it makes the region step.
        depth: messages that wait.
        latched: kept for who comes late.
    """

    topic: str
    trigger: bool
    depth: int
    latched: bool


@dataclass(frozen=True)
class Region:
    """A region of the graph, as far as its place goes.

    Attributes:
        name: of it.
        critical, moves: as the graph and the class say.
        rate: steps a second by itself; None: it only answers.
        hears, says: its topics; what is heard or said on demand only is left out.
    """

    name: str
    critical: bool
    moves: bool
    rate: float | None
    hears: tuple[Heard, ...]
    says: tuple[str, ...]


@dataclass(frozen=True)
class Edge:
    """Edge of the graph: a topic that one region publishes and another hears.

    Attributes:
        topic: of it.
        source: region; ``robot``: a sensor, a person or another program there.
        target: region.
        rate, size: messages a second, bytes of each.
    """

    topic: str
    source: str
    target: str
    rate: float
    size: float

    def __str__(self) -> str:
        return f"{self.topic} from {self.source} to {self.target}"


@dataclass(frozen=True)
class Budget:
    """Time budget of a chain of edges and steps.

    Attributes:
        name: for people.
        within: at most (s).
        edges, steps: what takes the time, one after the other: ways, and regions that step.
        why: where it comes from.
        age: of what the first edge carries, when that is published (s).
    """

    name: str
    within: float
    edges: tuple[Edge, ...]
    steps: tuple[str, ...]
    why: str
    age: float = 0.0


@dataclass(frozen=True)
class Demand:
    """All that is to be placed.

    Attributes:
        graph: its name.
        regions: by name.
        fixed: why, by the name of each region that never leaves the robot.
        place: tiers to which a region is bound by what somebody asked for.
        critical: tiers on which critical regions may live: the robot, and those of which the tiers' file says so.
        edges, budgets: see there; every edge, with a budget or without.
        chains: of the budgets, those that were declared from a topic to another.
        costs, needs: what they were made of.
    """

    graph: str
    regions: Mapping[str, Region]
    fixed: Mapping[str, str]
    place: Mapping[str, tuple[str, ...]]
    critical: tuple[str, ...]
    edges: tuple[Edge, ...]
    budgets: tuple[Budget, ...]
    chains: tuple[Budget, ...]
    costs: Costs
    needs: Needs

    def publishers(self, topic: str) -> list[str]:
        """The regions that publish a topic."""
        return publishers(self.regions, topic)


def publishers(regions: Mapping[str, Region], topic: str) -> list[str]:
    """The regions that publish a topic; heartbeats come from all."""
    return list(regions) if topic == HEARTBEAT else [one.name for one in regions.values() if topic in one.says]


def regions_of(graph: str) -> tuple[str, dict[str, Region]]:
    """A graph's name and its regions. It imports their modules.

    Args:
        graph: name or path.

    Raises:
        PlacementProblem: there is no such graph, or it cannot run.
    """
    name, ports = _ports(graph)
    return name, {one.name: _region(one, found) for one, found in ports}


def types_of(graph: str) -> dict[str, str]:
    """The message type of each topic that a graph's regions hear or say without being asked; see :func:`regions_of`."""
    found = {one.remap.get(port.topic, port.topic): port.type for one, ports in _ports(graph)[1] for port in ports
             if not (port.feeds if isinstance(port, In) else port.on_demand)}
    return {**found, HEARTBEAT: heartbeat.TYPE}


def _ports(graph: str) -> tuple[str, list[tuple[Any, list[Any]]]]:
    from brain_runtime.graph import NO_WORLD, GraphError
    from brain_runtime.graph.inspect_graph import inspect_graph

    try:
        resolved = inspect_graph(graph, NO_WORLD, None)     # in a process of its own: a module may do anything
        return resolved.name, [(one, [port for port in one.load().ports().values() if isinstance(port, (In, Out))])
                               for one in resolved.regions]
    except (GraphError, ValueError) as error:
        raise PlacementProblem(str(error)) from None


def _region(resolved: Any, ports: list[Any]) -> Region:
    named = lambda port: resolved.remap.get(port.topic, port.topic)     # noqa: E731
    return Region(
        resolved.name, resolved.critical, resolved.moves, resolved.rate,
        tuple(Heard(named(port), port.trigger, port.qos.depth, port.qos.latched) for port in ports
              if isinstance(port, In) and not port.feeds),
        tuple(named(port) for port in ports if isinstance(port, Out) and not port.on_demand))


def demand(graph: str, regions: Mapping[str, Region], costs: Costs, needs: Needs, tiers: Tiers,
           asked: Mapping[str, str] | None = None) -> Demand:
    """Builds the placement problem of a graph.

    Args:
        graph: name, for messages.
        asked: tier by region, as a person asks for it.

    Raises:
        PlacementProblem: something is named that there is not, or asked for that never is.
    """
    fixed = _fixed(regions)
    critical = tuple(name for name in tiers.names if name == ROBOT or tiers.by_name[name].critical)
    place = _places(regions, fixed, critical, needs, tiers, asked or {})
    missing = [name for name in regions if name not in costs.regions]
    if missing:
        raise PlacementProblem(f"the costs tell nothing of region {', '.join(missing)} of graph {graph}; measure them "
                               f"while it runs: brain fleet costs {graph} --out FILE, and give --costs FILE")
    edges = tuple(_edges(regions, costs))
    chains = tuple(one for need in needs.chains for one in _chains(need, regions, edges, costs))
    budgets = (*chains, *_edge_budgets(regions, edges, needs))
    return Demand(graph, regions, fixed, place, critical, edges, budgets, chains, costs, needs)


def _fixed(regions: Mapping[str, Region]) -> dict[str, str]:
    """Finds the regions that command actuators, and those that command these; gives the reason for each.

    A robot must be able to stop, and to be stopped, by itself.
    """
    fixed = {name: "it commands actuators" for name, one in regions.items() if one.moves}
    for mover in list(fixed):
        for heard in regions[mover].hears:
            for name in publishers(regions, heard.topic) if heard.trigger else ():
                fixed.setdefault(name, f"its {heard.topic} drives {mover}, which commands actuators")
    return fixed


def _places(regions: Mapping[str, Region], fixed: Mapping[str, str], critical: Sequence[str], needs: Needs,
            tiers: Tiers, asked: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    place = {**needs.place, **{region: (tier,) for region, tier in asked.items()}}
    for region, wanted in place.items():
        if region not in regions:
            raise PlacementProblem(f"there is no region {quoted(region)} to place; the graph has {', '.join(regions)}")
        for tier in wanted:
            if tier not in tiers.by_name:
                raise PlacementProblem(f"region {region} is to live on {quoted(tier)}, which is no tier; there are "
                                       f"{', '.join(tiers.names)}")
        if region in fixed and ROBOT not in wanted:
            raise PlacementProblem(f"region {region} never leaves the {ROBOT}, since {fixed[region]}; do not place it "
                                   f"on {', '.join(wanted)}")
        if regions[region].critical and not set(wanted) & set(critical):
            raise PlacementProblem(f"region {region} does not live on {', '.join(wanted)}: {CRITICAL}")
    for region in needs.without:
        if region not in regions:
            raise PlacementProblem(f"the needs' file says what happens without {quoted(region)}, which is no region; "
                                   f"the graph has {', '.join(regions)}")
    return place


def _edges(regions: Mapping[str, Region], costs: Costs) -> Iterator[Edge]:
    for name, region in regions.items():
        for topic in dict.fromkeys(heard.topic for heard in region.hears):
            cost, sources = costs.topic(topic), publishers(regions, topic)
            for source in sources or [ROBOT]:
                if source != name:
                    yield Edge(topic, source, name, cost.rate / max(1, len(sources)), cost.size)


def _edge_budgets(regions: Mapping[str, Region], edges: Sequence[Edge], needs: Needs) -> list[Budget]:
    found: list[Budget] = []
    used: set[int] = set()
    for edge in edges:
        declared = [need for need in needs.edges if need.topic == edge.topic and need.region in ("", edge.target)]
        used.update(map(id, declared))
        critical = edge.topic != HEARTBEAT or regions[edge.source].critical
        if declared:
            need = max(declared, key=lambda one: one.region != "")
            if need.within is not None and critical:
                found.append(Budget(str(edge), need.within, (edge,), (), need.why or "declared"))
        elif critical and (derived := _derived(regions[edge.target], edge, edges)) is not None:
            found.append(Budget(str(edge), derived[0], (edge,), (), derived[1]))
    for need in needs.edges:
        if id(need) not in used:
            known = {edge.topic for edge in edges}
            raise PlacementProblem(f"the needs' file has a budget for {quoted(need.topic)}"
                                   + (f" to {quoted(need.region)}" if need.region else "") + (
                                       ", which that region does not hear" if need.topic in known else
                                       f", which no region hears; there are {', '.join(sorted(known))}"))
    return found


def _derived(hearer: Region, edge: Edge, edges: Sequence[Edge]) -> tuple[float, str] | None:
    if edge.topic == HEARTBEAT:
        return HEARTBEAT_WITHIN, "derived: a critical region's heartbeat"
    heard = [one for one in hearer.hears if one.topic == edge.topic]
    if not edge.rate or any(one.latched for one in heard):
        return None
    depth = max(one.depth for one in heard)
    within, why = depth / edge.rate, f"derived: {depth} message{'s' if depth > 1 else ''} at {edge.rate:.3g} Hz"
    if hearer.rate and 1 / hearer.rate > within:
        within, why = 1 / hearer.rate, f"derived: {hearer.name} ticks at {hearer.rate:g} Hz"
    triggers = {one.topic for one in hearer.hears if one.trigger}
    if edge.topic not in triggers:
        often = max((one.rate for one in edges if one.target == hearer.name and one.topic in triggers), default=0.0)
        if often and 1 / often > within:
            within, why = 1 / often, f"derived: {hearer.name} steps when something else comes, at {often:.3g} Hz"
    return within, why


def _chains(need: ChainNeed, regions: Mapping[str, Region], edges: tuple[Edge, ...], costs: Costs) -> list[Budget]:
    """All ways on which triggers lead from one topic to another."""
    known = {(edge.topic, edge.source, edge.target): edge for edge in edges}
    reached: set[str] = set()
    found: list[tuple[tuple[Edge, ...], tuple[str, ...]]] = []

    def follow(topic: str, source: str, way: tuple[Edge, ...], steps: tuple[str, ...]) -> None:
        reached.add(topic)
        if topic == need.end and steps:
            found.append((way, steps))
            return
        for region in regions.values():
            edge = known.get((topic, source, region.name))
            if edge is None or region.name in steps or len(found) >= MOST_CHAINS or not any(
                    heard.topic == topic and heard.trigger for heard in region.hears):
                continue
            for said in region.says:
                follow(said, region.name, (*way, edge), (*steps, region.name))

    for source in publishers(regions, need.start) or [ROBOT]:
        follow(need.start, source, (), ())
    if not found:
        raise PlacementProblem(f"no triggers lead from {quoted(need.start)} to {quoted(need.end)}; from there they "
                               f"lead to {', '.join(sorted(reached - {need.start})) or 'nothing'}")
    name, age = f"{need.start} to {need.end}", costs.topic(need.start).age
    return [Budget(name + (f" by {', '.join(steps)}" if len(found) > 1 else ""), need.within, way, steps,
                   need.why or "declared", age) for way, steps in dict.fromkeys(found)]
