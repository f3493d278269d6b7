# SPDX-License-Identifier: Apache-2.0
"""Effects of a cut link on a plan: which regions the robot loses, and what it still does without them."""
from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Mapping

from brain_cloud.placement.demand import Demand
from brain_cloud.placement.tiers import ROBOT, Tiers


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

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


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
