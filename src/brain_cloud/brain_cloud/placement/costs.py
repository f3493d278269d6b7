# SPDX-License-Identifier: Apache-2.0
"""Costs: what each region of a brain takes, and what each topic carries, as they were measured at work."""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

from brain_cloud.placement.files import MS, read_file


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
