# SPDX-License-Identifier: Apache-2.0
"""Figures that cloud and edge both have: of deliveries, from memory, and of what waits, from the database.

The database is read by a connection of its own, read only: SQLite's log lets it read while others write, so nobody who
delivers, applies or answers waits for a scrape.
"""
from __future__ import annotations

from typing import Any, Iterable, Iterator

from brain_edge.messages.delivery_counters import DeliveryCounters
from brain_edge.processes.settings import software
from brain_edge.reading import Reading
from brain_edge.state.kinds import KINDS
from brain_edge.store import FILE, Store
from brain_runtime.metrics.families import Family, counter, counters, gauges, one_of

STATES = ("ordered", "applied", "waiting", "refused", "kept")


def deliveries(tally: DeliveryCounters, end: str, member: str) -> Iterator[Family]:
    """Yields the metrics of deliveries since the process began."""
    yield gauges("brain_fleet_info", "Which end of a fleet this is, whose, and the version of its software; always 1.",
                 ("end", "member", "version"), [((end, member, software()), 1.0)])
    yield counters("brain_fleet_deliveries_total", "Deliveries of messages to other ends, empty ones too, by what came "
                   "of them; unanswered: the link was cut, or nobody was there.", ("outcome",), [
                       (("answered",), tally.took.count), (("unanswered",), tally.unanswered),
                       (("refused",), tally.refused)])
    yield tally.took.family("brain_fleet_delivery_seconds", "From a delivery to its acknowledgement, which comes when "
                            "it is on the other end's disk.")
    yield counter("brain_fleet_messages_sent_total", "Messages that another end has applied, and acknowledged.",
                  tally.sent)
    yield counter("brain_fleet_messages_received_total", "Messages of other ends that were applied here.",
                  tally.received)
    yield counters("brain_fleet_messages_put_aside_total", "Messages that could not be applied: here, or at another "
                   "end.", ("where",), [(("here",), tally.refused_here), (("there",), tally.put_aside)])
    yield counters("brain_fleet_requests_total", "Deliveries of other ends, by what came of them; held_back: to come "
                   "again, since there are too many or the disk is full; turned_away: they break the format.",
                   ("outcome",), [(("taken",), tally.taken), (("held_back",), tally.held_back),
                                  (("turned_away",), tally.turned_away)])
    yield counter("brain_fleet_sent_bytes_total", "Bytes of deliveries to other ends.", tally.sent_bytes)
    yield counter("brain_fleet_received_bytes_total", "Bytes of deliveries of other ends.", tally.received_bytes)
    yield counter("brain_fleet_apart_total", "Times that this end and another were set apart, since their databases do "
                  "not have the same history.", tally.apart)


def kept(reading: Reading, store: Store) -> Iterator[Family]:
    """Yields the metrics of what the database holds."""
    rows = reading.rows("SELECT stream, SUM(waiting), SUM(bytes) FROM outgoing GROUP BY stream")
    yield gauges("brain_fleet_outbox_messages", "Messages that wait to be delivered.", ("stream",),
                 [((stream,), count) for stream, count, _ in rows])
    yield gauges("brain_fleet_outbox_bytes", "Bytes of the messages that wait.", ("stream",),
                 [((stream,), size) for stream, _, size in rows])
    sizes = []
    for name, path in (("database", store.path), ("log", store.path.with_name(f"{FILE}-wal"))):
        if path.exists():
            sizes.append(((name,), float(path.stat().st_size)))
    yield gauges("brain_fleet_database_bytes", "Size of the database, and of the log of what was written to it last.",
                 ("file",), sizes)


def resources(counts: Iterable[tuple[Any, Any, int]]) -> Family:
    """Returns the metric of resources: how many there are, of each kind and state."""
    found: dict[tuple[str, str], int] = {}
    for kind, state, count in counts:
        key = one_of(str(kind), KINDS), one_of(str(state or "ordered"), STATES)
        found[key] = found.get(key, 0) + count
    return gauges("brain_fleet_resources", "Resources that are wanted of robots, by how they are done: each robot's "
                  "counts.", ("kind", "state"), found.items())


def readable(fine: bool) -> Family:
    """Returns the metric that tells whether the figures of the database are there at all."""
    return gauges("brain_fleet_database_readable", "Whether the database could be read for this scrape (1) or not (0): "
                  "then what comes from it is missing.", (), [((), float(fine))])
