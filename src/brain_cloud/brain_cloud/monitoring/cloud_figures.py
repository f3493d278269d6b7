# SPDX-License-Identifier: Apache-2.0
"""The cloud's figures for Prometheus.

Without keys anybody can make robots up, as many as he likes. So the first :data:`ROBOTS` have series of their own,
those that are known when the cloud starts before all others, and the rest are counted.
"""
from __future__ import annotations

import logging
from typing import Iterator, Mapping

from brain_cloud import audit
from brain_cloud.processes.cloud import Cloud
from brain_edge.monitoring import end_figures
from brain_edge.reading import Reading
from brain_edge.store import StoreProblem
from brain_runtime.metrics.families import Family, Listed, counter, counters, gauge, gauges
from brain_security.fleet_keys import CLOUD, LONGEST
from brain_wire.rate_limited_log import RateLimitedLog

ROBOTS = 1000       # with series of their own
STATES = ("connected", "away", "apart", "unknown")

limited_log = RateLimitedLog(logging.getLogger(__name__))


class CloudFigures:
    """Makes the figures of a cloud, in the thread of who asks.

    Args:
        cloud: of which.
        orders: counts of orders, by what they ask for and what came of them.
    """

    def __init__(self, cloud: Cloud, orders: Mapping[tuple[str, str], int]) -> None:
        self._cloud, self._orders = cloud, orders
        self._listed = Listed(ROBOTS, rf"[a-z][a-z0-9_]{{0,{LONGEST - 1}}}",
                              (name for (name,) in cloud.store.read("SELECT name FROM peers ORDER BY name")))

    def __call__(self) -> Iterator[Family]:
        """All families."""
        cloud = self._cloud
        yield from end_figures.deliveries(cloud.tally, "cloud", CLOUD)
        yield counters("brain_cloud_orders_total", "What people asked and ordered, by what came of it.",
                       ("order", "outcome"), sorted(dict(self._orders).items()))
        yield counter("brain_cloud_links_lost_total", "Times that a robot's token vanished: its link was cut, or it "
                      "ended.", sum(dict(cloud.losses).values()))
        try:
            with Reading(cloud.store.path.parent) as reading, reading.moment():
                found = [*self._of_database(reading)]
        except (StoreProblem, OSError) as problem:
            limited_log("database", f"figures of the database are missing: {problem}")
            found = []
        yield end_figures.readable(bool(found))
        yield from found

    def _of_database(self, reading: Reading) -> Iterator[Family]:
        cloud = self._cloud
        yield from end_figures.kept(reading, cloud.store)
        yield end_figures.resources(reading.rows(
            "SELECT desired.kind, json_extract(status, '$.state'), COUNT(*) FROM desired LEFT JOIN reported ON "
            "reported.robot = desired.robot AND reported.kind = desired.kind AND reported.name = desired.name AND "
            "reported.version = desired.version GROUP BY 1, 2"))
        yield counter("brain_cloud_audit_entries_total", "Entries that the audit log has had. A log that was cut short "
                      "shows as one that has fewer than before.", audit.entries(reading.rows))
        robots = cloud.robots(reading.rows)
        states = [one["state"] for one in robots]
        yield gauges("brain_cloud_robots", "Robots, by state; unknown: something is wanted of one that never came.",
                     ("state",), [((state,), float(states.count(state))) for state in STATES])
        shown = [one for one in robots if one["state"] != "unknown" and self._listed(one["robot"])]
        yield gauge("brain_cloud_robots_unlisted", f"Robots without series of their own: beyond the first {ROBOTS}.",
                    float(len(robots) - states.count("unknown") - len(shown)))
        yield gauges("brain_cloud_robot_connected", "Whether a robot is connected, and heard of lately.", ("robot",),
                     [((one["robot"],), float(one["state"] == "connected")) for one in shown])
        yield gauges("brain_cloud_robot_apart", "Whether a robot is set apart: nothing is exchanged with it until a "
                     "person accepts it.", ("robot",),
                     [((one["robot"],), float(one["state"] == "apart")) for one in shown])
        yield gauges("brain_cloud_robot_silence_seconds", "Time since a robot was heard; missing where it was not "
                     "since the cloud started.", ("robot",),
                     [((one["robot"],), one["heard_s"]) for one in shown if one["heard_s"] is not None])
        yield gauges("brain_cloud_robot_waiting_messages", "Messages that wait for a robot.", ("robot",),
                     [((one["robot"],), one["waiting"]) for one in shown])
        losses = dict(cloud.losses)
        yield counters("brain_cloud_robot_links_lost_total", "Times that this robot's token vanished.", ("robot",),
                       [((one["robot"],), losses.get(one["robot"], 0)) for one in shown])
