# SPDX-License-Identifier: Apache-2.0
"""The files of a placement, YAML against schemas; whatever is wrong is one line.

*Costs* are what each region of a brain takes, and what each topic carries, as they were measured at work. *Needs* are
how late what a brain says may be, as a person declares it beside a graph. For the tiers see :mod:`.tiers`.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

from brain_edge.schema import FormProblem, check, check_plain, load_schema
from brain_runtime.yaml_text import YamlProblem, read
from brain_wire.safe_text import quoted

MS = 1e-3


class PlacementProblem(ValueError):
    """A file, or what is asked for, cannot be meant so; names the thing and the remedy, in one line."""


def read_file(path: Path, schema: str, what: str) -> dict[str, Any]:
    """Plain values of a file.

    Args:
        schema: name of the schema in this package.
        what: the file is, for messages.

    Raises:
        PlacementProblem: it cannot be read, or is something else.
    """
    try:
        found = read(path)
        check_plain(found)
        check(found, load_schema("brain_cloud.placement", schema))
    except OSError as error:
        raise PlacementProblem(f"cannot read {what} {quoted(str(path))}: {error.strerror or error}") from None
    except (YamlProblem, FormProblem) as problem:
        raise PlacementProblem(f"{what} {quoted(str(path))}: {problem}") from None
    if not isinstance(found, dict):
        raise PlacementProblem(f"{what} {quoted(str(path))} holds no fields")
    return found


@dataclass(frozen=True)
class RegionCost:
    """Cost of a region: cores, memory, and time of a step.

    Attributes:
        cores: that it keeps busy, all its threads (1: one core, all the time).
        memory: of its process (MB).
        step, step_p99: how long a step takes (s).
    """

    cores: float
    memory: float
    step: float
    step_p99: float


@dataclass(frozen=True)
class TopicCost:
    """Traffic of a topic, of all that publish it.

    Attributes:
        rate: messages a second.
        size: bytes of a message.
        age: of what a sensor publishes, since its capture (s).
    """

    rate: float
    size: float
    age: float = 0.0


@dataclass(frozen=True)
class Costs:
    """Of one brain.

    Attributes:
        regions, topics: by name; topics relative, as regions declare them.
        hop, hop_p99: from publishing to receipt through one router, on one machine (s); each further router on the
            way takes about as long once more.
        measured: how, in words.
    """

    regions: Mapping[str, RegionCost]
    topics: Mapping[str, TopicCost] = field(default_factory=dict)
    hop: float = 0.0
    hop_p99: float = 0.0
    measured: str = ""

    def topic(self, name: str) -> TopicCost:
        """Returns the traffic of a topic; none where nothing was heard on it."""
        return self.topics.get(name, TopicCost(0.0, 0.0))

    def to_dict(self) -> dict[str, Any]:
        """As the file has them."""
        ms = lambda seconds: round(1e3 * seconds, 3)    # noqa: E731
        return {"measured": self.measured, "hop_ms": ms(self.hop), "hop_p99_ms": ms(self.hop_p99),
                "regions": {name: {"cores": round(one.cores, 4), "memory_mb": round(one.memory, 1),
                                   "step_ms": ms(one.step), "step_p99_ms": ms(one.step_p99)}
                            for name, one in self.regions.items()},
                "topics": {name: {"hz": round(one.rate, 2), "bytes": round(one.size),
                                  **({"age_ms": ms(one.age)} if one.age else {})}
                           for name, one in sorted(self.topics.items())}}


def read_costs(path: Path) -> Costs:
    """The costs of a file.

    Raises:
        PlacementProblem: see there.
    """
    return costs_from(read_file(path, "costs", "the costs' file"))


def costs_from(found: Mapping[str, Any]) -> Costs:
    """The costs from plain values that fit the schema."""
    return Costs(
        {name: RegionCost(one["cores"], one["memory_mb"], MS * one["step_ms"],
                          MS * max(one["step_ms"], one.get("step_p99_ms", 0.0)))
         for name, one in found["regions"].items()},
        {name: TopicCost(one["hz"], one["bytes"], MS * one.get("age_ms", 0.0))
         for name, one in found["topics"].items()},
        MS * found.get("hop_ms", 0.0), MS * max(found.get("hop_ms", 0.0), found.get("hop_p99_ms", 0.0)),
        found.get("measured", ""))


@dataclass(frozen=True)
class ChainNeed:
    """From the capture of what a topic carries to the publication of what it triggers.

    Attributes:
        start, end: topics.
        within: at most (s).
        why: in words; empty: not told.
    """

    start: str
    end: str
    within: float
    why: str = ""


@dataclass(frozen=True)
class EdgeNeed:
    """From publishing to receipt.

    Attributes:
        topic: of the edge.
        region: that hears it; empty: each that does.
        within: at most (s); None: however long it takes.
        why: in words; empty: not told.
    """

    topic: str
    region: str
    within: float | None
    why: str = ""


@dataclass(frozen=True)
class Needs:
    """All that is declared of one graph.

    Attributes:
        chains, edges: see there.
        place: tiers by region, which must live on one of these.
        without: what the robot does without a region, in words.
    """

    chains: tuple[ChainNeed, ...] = ()
    edges: tuple[EdgeNeed, ...] = ()
    place: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)


def read_needs(path: Path) -> Needs:
    """The needs of a file.

    Raises:
        PlacementProblem: see there.
    """
    found = read_file(path, "needs", "the needs' file")
    return Needs(
        tuple(ChainNeed(one["from"], one["to"], MS * one["within_ms"], one.get("why", ""))
              for one in found.get("chains", ())),
        tuple(EdgeNeed(one["topic"], one.get("region", ""),
                       None if one["within_ms"] is None else MS * one["within_ms"], one.get("why", ""))
              for one in found.get("edges", ())),
        {region: tuple(tiers) for region, tiers in found.get("place", {}).items()}, found.get("without", {}))
