# SPDX-License-Identifier: Apache-2.0
"""Tiers: the robot, what is near it, what is far from it, and the links between them, as a file describes them."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Mapping

from brain_cloud.placement.channel import Way
from brain_cloud.placement.files import MS, PlacementProblem, read_file
from brain_wire.safe_text import quoted

ROBOT = "robot"
Direction = tuple[str, str]     # from tier, to tier: neighbours


@dataclass(frozen=True)
class Link:
    """Link between a tier and the next one towards the robot; both directions are alike.

    Attributes:
        to: the tier towards the robot.
        way: one direction.
        gb: price of a gigabyte.
    """

    to: str
    way: Way
    gb: float


@dataclass(frozen=True)
class Tier:
    """Place where regions can live: its cores, memory, prices, and link.

    Attributes:
        name: of it.
        cores, memory: what regions can have of it (cores; MB).
        speed: of one of its cores, where that of the machine on which costs were measured is 1.
        core_hour, gb_hour: price of a core, and of a gigabyte of memory, for an hour.
        link: towards the robot; None: it is the robot.
        critical: regions without which the robot stands may live here too: its link is good enough for that.
    """

    name: str
    cores: float
    memory: float
    speed: float = 1.0
    core_hour: float = 0.0
    gb_hour: float = 0.0
    link: Link | None = None
    critical: bool = False


class Tiers:
    """A tree of tiers whose root is the robot.

    Args:
        tiers: any order.

    Raises:
        PlacementProblem: they are no tree with that root; names the tier.
    """

    def __init__(self, tiers: Iterable[Tier]) -> None:
        self.by_name: Mapping[str, Tier] = {tier.name: tier for tier in tiers}
        robot = self.by_name.get(ROBOT)
        if robot is None:
            raise PlacementProblem(f"there is no tier {ROBOT}; add one, without a link: it is the root of all others")
        if robot.link is not None:
            raise PlacementProblem(f"tier {ROBOT} has a link; take it away: links lead towards the robot")
        self._above = {name: self._chain(name) for name in self.by_name}
        self.names = sorted(self.by_name, key=lambda name: (len(self._above[name]), self._delay(name), name))

    def _chain(self, name: str) -> list[str]:
        """The tiers from one to the robot, both included."""
        chain = [name]
        while chain[-1] != ROBOT:
            link = self.by_name[chain[-1]].link
            if link is None:
                raise PlacementProblem(f"tier {quoted(chain[-1])} has no link; only {ROBOT} has none: add one, with to")
            if link.to not in self.by_name:
                raise PlacementProblem(f"tier {quoted(chain[-1])} links to {quoted(link.to)}, which is no tier; "
                                       f"there are {', '.join(sorted(self.by_name))}")
            if link.to in chain:
                cycle = [*chain[chain.index(link.to):], link.to]
                raise PlacementProblem(f"tiers link in a cycle: {' -> '.join(cycle)}; every tier must lead to {ROBOT}")
            chain.append(link.to)
        return chain

    def _delay(self, name: str) -> float:
        return sum(link.way.p50 for tier in self._above[name] if (link := self.by_name[tier].link) is not None)

    def depth(self, name: str) -> int:
        """Links between a tier and the robot."""
        return len(self._above[name]) - 1

    def link(self, name: str) -> Link:
        """The link of a tier that is not the robot."""
        link = self.by_name[name].link
        assert link is not None, name
        return link

    @property
    def linked(self) -> list[str]:
        """The tiers that have a link: all but the robot, the nearest first."""
        return [name for name in self.names if name != ROBOT]

    @property
    def directions(self) -> list[Direction]:
        """Both directions of each link."""
        return [one for name in self.linked for one in ((name, self.link(name).to), (self.link(name).to, name))]

    def beyond(self, name: str) -> list[str]:
        """The tiers that are reached by this one's link: itself, and what lies behind it."""
        return [other for other in self.names if name in self._above[other]]

    def path(self, start: str, end: str) -> list[Direction]:
        """The directions of links that a message takes."""
        up, down = self._above[start], self._above[end]
        common = next(tier for tier in up if tier in down)
        there = up[:up.index(common) + 1] + down[:down.index(common)][::-1]
        return list(zip(there, there[1:], strict=False))

    def way(self, direction: Direction) -> Way:
        """Returns the properties of the link in a direction."""
        return self.link(self.far(direction)).way

    def far(self, direction: Direction) -> str:
        """The tier to which a direction's link belongs."""
        start, end = direction
        link = self.by_name[start].link
        return start if link is not None and link.to == end else end

    def usual(self, start: str, end: str, size: float) -> float:
        """Median time of a message of so many bytes between two tiers (s)."""
        return sum(self.way(one).usual(size) for one in self.path(start, end))

    def worst(self, start: str, end: str, size: float) -> float:
        """A bound of its 99th percentile (s): the sum of those of the links."""
        return sum(self.way(one).worst(size) for one in self.path(start, end))


def read_tiers(path: Path) -> Tiers:
    """The tiers of a file.

    Raises:
        PlacementProblem: see there.
    """
    found = read_file(path, "tiers", "the tiers' file")
    try:
        return Tiers(tier_from(name, fields) for name, fields in found["tiers"].items())
    except PlacementProblem as problem:
        raise PlacementProblem(f"the tiers' file {quoted(str(path))}: {problem}") from None


def tier_from(name: str, fields: Mapping[str, Any]) -> Tier:
    """A tier from fields that fit the schema. Raises PlacementProblem where they contradict each other."""
    link = None
    if "link" in fields:
        told = fields["link"]
        way = Way(MS * told["p50_ms"], MS * told["p99_ms"], MS * told.get("jitter_ms", 0.0), told.get("loss", 0.0),
                  1e6 * told["mbit"])
        if way.jitter > way.p50 + 1e-12:
            raise PlacementProblem(f"tiers.{name}.link: jitter_ms is {told['jitter_ms']:g}, more than p50_ms, so that "
                                   f"delays would be negative; measure both again")
        if way.p99 < way.p50 + way.jitter - 1e-12:
            raise PlacementProblem(f"tiers.{name}.link: p99_ms is {told['p99_ms']:g}, less than p50_ms and jitter_ms "
                                   f"together; measure them again")
        link = Link(told["to"], way, told.get("gb", 0.0))
    return Tier(name, fields["cores"], fields["memory_mb"], fields.get("speed", 1.0), fields.get("core_hour", 0.0),
                fields.get("gb_hour", 0.0), link, fields.get("critical", False))
