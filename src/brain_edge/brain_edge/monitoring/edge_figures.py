# SPDX-License-Identifier: Apache-2.0
"""An edge's figures for Prometheus."""
from __future__ import annotations

import logging
from typing import Any, Iterator

from brain_edge.monitoring import end_figures
from brain_edge.processes.edge import Edge
from brain_edge.reading import Reading
from brain_edge.store import StoreProblem
from brain_runtime.metrics.families import Family, counter, gauge
from brain_wire.rate_limited_log import RateLimitedLog

limited_log = RateLimitedLog(logging.getLogger(__name__))


class EdgeFigures:
    """Makes the figures of an edge, in the thread of who asks.

    Args:
        edge: of which.
    """

    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    def __call__(self) -> Iterator[Family]:
        """All families."""
        edge = self._edge
        yield from end_figures.deliveries(edge.tally, "edge", edge.store.member)
        yield gauge("brain_edge_cloud_here", "Whether the cloud's token is there (1): the link stands.",
                    float(edge.cloud_here))
        yield counter("brain_edge_links_lost_total", "Times that the cloud's token vanished: the link was cut, or the "
                      "cloud ended.", edge.losses)
        found: list[Family] = []
        try:
            with Reading(edge.store.path.parent) as reading, reading.moment():
                found = [*self._of_database(reading)]
        except (StoreProblem, OSError) as problem:
            limited_log("database", f"figures of the database are missing: {problem}")
        yield end_figures.readable(bool(found))
        yield from found

    def _of_database(self, reading: Reading) -> Iterator[Family]:
        status: dict[str, Any] = reading.status()
        yield from end_figures.kept(reading, self._edge.store)
        yield end_figures.resources((one["kind"], one["state"], 1) for one in status["resources"])
        yield gauge("brain_edge_joined", "Whether a cloud has taken this robot in.", float(status["joined"]))
        yield gauge("brain_edge_apart", "Whether this robot and its cloud are set apart.",
                    float(status["apart"] is not None))
        yield gauge("brain_edge_alone_seconds", "How long the robot has been without its cloud; 0: it has it.",
                    status["alone_s"] or 0.0)
        yield gauge("brain_edge_version", "Newest version of what is wanted that this robot holds.",
                    float(status["version"]))
