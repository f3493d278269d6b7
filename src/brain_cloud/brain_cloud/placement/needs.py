# SPDX-License-Identifier: Apache-2.0
"""Needs: how late what a brain says may be, as a person declares it beside a graph."""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Mapping

from brain_cloud.placement.files import MS, read_file


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
