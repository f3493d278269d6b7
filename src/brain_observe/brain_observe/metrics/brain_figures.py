# SPDX-License-Identifier: Apache-2.0
"""Figures of a brain's regions, by what these tell of themselves, as families.

Anybody on the wire can call himself a region, and name topics as he likes. So regions that the graph has always have
their series, and of all others the first :data:`REGIONS`; of topics and hops only so many are shown.
"""
from __future__ import annotations

import math
import time
from collections import Counter
from typing import Any, Iterable, Iterator, Sequence

from brain_runtime.contract.constants import names, trace_action
from brain_runtime.supervision.edge_ear import EdgeEar
from brain_runtime.hosts.edges import NOBODY, Edge
from brain_runtime.supervision.listen import Ear, Seen
from brain_runtime.metrics.families import OTHER, Family, Listed, counter, counters, gauge, gauges, one_of, quantiles
from brain_wire import Node

REGIONS = 64        # with series of their own
INPUTS = 512        # inputs of all regions that are shown
HOPS = 512
NAMES = r"/[\w/]{1,127}"        # of nodes and topics, as ROS 2 has them
ACTIONS = (*names("Trace", "ACTION_").values(), OTHER)
STATES = (*names("Heartbeat", "STATE_").values(), "silent", "gone", OTHER)
UNNAMED = "unnamed"     # publishers that no token names: each start of one brings another id


class BrainFigures:
    """Listens to a brain, and makes figures of it; for one thread, but for :meth:`families`.

    Args:
        node: its namespace is the brain's.
        expected: full names of the regions that ought to be there.
    """

    def __init__(self, node: Node, expected: Sequence[str]) -> None:
        self._ear = Ear(node, on_beat=self._beat, on_token=self._token, on_trace=self._trace)
        self._edges = EdgeEar(node)
        self._listed, self._topics = Listed(REGIONS + len(expected), NAMES, expected), Listed(INPUTS, r"[\w/~]{1,128}")
        self._hops = Listed(HOPS, r".{1,600}")
        self._expected = tuple(expected)
        self._starts: dict[str, tuple[int, int]] = {}      # epoch of the newest process, and how many there were
        self._losses: Counter[str] = Counter()
        self._actions: Counter[str] = Counter()
        self._made: list[Family] = []

    def listen(self, seconds: float) -> None:
        """Hears the brain for so long, and makes the figures anew."""
        self._ear.listen(seconds)
        self._edges.take()
        self._made = list(self._make(time.monotonic()))

    def families(self) -> list[Family]:
        """The figures as they were last made; from any thread."""
        return self._made

    def close(self) -> None:
        """Hears no more."""
        self._ear.close()

    def _beat(self, beat: Any) -> None:
        if not self._listed(beat.name):
            return
        epoch, starts = self._starts.get(beat.name, (-1, 0))
        if int(beat.epoch) > epoch:
            self._starts[beat.name] = int(beat.epoch), starts + 1

    def _token(self, name: str, alive: bool) -> None:
        if not alive and self._ear.linked and name in self._ear.regions and self._listed(name):
            self._losses[name] += 1

    def _trace(self, trace: Any) -> None:
        self._actions[one_of(trace_action(trace.action), ACTIONS)] += 1

    def _make(self, now: float) -> Iterator[Family]:
        seen = {name: one for name, one in sorted(self._ear.regions.items()) if self._listed(name)}
        yield gauge("brain_router_linked", "Whether there is a link to the brain's router (1) or not (0).",
                    float(self._ear.linked))
        yield gauge("brain_regions_unlisted", "Regions that are heard and have no series of their own: they are too "
                    "many, or their names are none.", float(len(self._ear.regions) - len(seen)))
        yield counter("brain_unreadable_messages_total", "Heartbeats, traces and diagnostics that could not be read.",
                      self._ear.broken + self._edges.broken)
        yield from self._states(seen, now)
        # What one said of itself holds as long as it is heard.
        fresh = {name: one.beat for name, one in seen.items() if one.state(now) not in ("silent", "gone")}
        yield from _steps(fresh)
        yield from self._inputs(fresh)
        yield from self._commands()
        counts = {name: found for name, found in self._edges.counts().items() if name in seen}
        yield from _counts(counts)
        yield from self._hop_families({name: found for name, found in self._edges.told().items() if name in seen})

    def _states(self, seen: dict[str, Seen], now: float) -> Iterator[Family]:
        states = {**dict.fromkeys(self._expected, "gone"), **{name: one.state(now) for name, one in seen.items()}}
        states = {name: one_of(state, STATES) for name, state in states.items()}
        yield gauges("brain_region_up", "Whether a region is active and heard (1) or not (0); a region of the graph "
                     "that was never heard is not.", ("region",),
                     [((name,), float(state == "active")) for name, state in states.items()])
        yield gauges("brain_region_state", "State of a region: 1 for the one that it is in, 0 for the others; silent "
                     "and gone are those of which nothing is heard, with their token and without.", ("region", "state"),
                     [((name, one), float(state == one)) for name, state in states.items() for one in STATES])
        yield gauges("brain_region_critical", "Whether the robot must not move without this region.", ("region",),
                     [((name,), float(one.beat.critical)) for name, one in seen.items()])
        yield gauges("brain_region_heartbeat_age_seconds", "Time since a region's last heartbeat.", ("region",),
                     [((name,), now - one.heard) for name, one in seen.items()])
        yield counters("brain_region_restarts_total", "Times that a region's supervisor started it again, as its "
                       "heartbeat says.", ("region",), [((name,), one.beat.restarts) for name, one in seen.items()])
        yield counters("brain_region_starts_total", "Processes of a region that were heard, one after the other.",
                       ("region",), [((name,), self._starts[name][1]) for name in seen if name in self._starts])
        yield counters("brain_region_losses_total", "Times that a region's token vanished: it died, ended or lost its "
                       "link.", ("region",), [((name,), self._losses[name]) for name in seen])

    def _inputs(self, fresh: dict[str, Any]) -> Iterator[Family]:
        rows = [((name, str(topic)), float(age)) for name, beat in fresh.items()
                for topic, age in zip(beat.inputs, beat.input_ages) if math.isfinite(age) and self._topics(str(topic))]
        yield gauges("brain_region_input_age_seconds", "Age of the newest message of a region's input.",
                     ("region", "topic"), dict(rows[:INPUTS]).items())

    def _commands(self) -> Iterator[Family]:
        yield counters("brain_commands_total", "Commands to the wheels, by what became of each.", ("action",),
                       [((action,), self._actions[action]) for action in ACTIONS])
        found = self._ear.latency.report()
        yield quantiles("brain_camera_to_command_seconds", "From the camera's picture to the first command that it "
                        "influenced; of the last 2000 pictures.", (),
                        [((quantile,), float(found[key] or 0.0)) for quantile, key in (("0.5", "p50"), ("0.95", "p95"))
                         if found[key] is not None])

    def _hop_families(self, told: dict[str, list[Edge]]) -> Iterator[Family]:
        hops: dict[tuple[str, str, str], list[Edge]] = {}
        for name, edges in told.items():
            for edge in edges:
                source = UNNAMED if edge.source.startswith(NOBODY) else edge.source
                if self._hops(f"{source} {name} {edge.topic}"):
                    hops.setdefault((source, name, edge.topic), []).append(edge)
        labels = ("source", "region", "topic")
        yield quantiles("brain_hop_latency_seconds", "From publishing to receipt; of a publisher's last 512 messages, "
                        "of several that have no name the largest.", labels,
                        [((*key, quantile), max(getattr(one, name) for one in edges if not math.isnan(one.p50)))
                         for key, edges in hops.items() if not all(math.isnan(one.p50) for one in edges)
                         for quantile, name in (("0.5", "p50"), ("0.99", "p99"))])
        for name, text, count in (
                ("messages", "Messages that a region received from a publisher.", lambda one: one.messages),
                ("lost", "Messages that were published, and not received.", lambda one: one.lost),
                ("overwritten", "Messages that gave way to newer ones before a step; no fault.",
                 lambda one: one.overwritten)):
            yield counters(f"brain_hop_{name}_total", text, labels, [
                (key, sum(count(one) for one in edges)) for key, edges in hops.items()
                if all(count(one) is not None for one in edges)])


def _steps(fresh: dict[str, Any]) -> Iterator[Family]:
    def of(field: str) -> Iterable[tuple[tuple[str, ...], float]]:
        return [((name,), float(value)) for name, beat in fresh.items()
                if math.isfinite(value := getattr(beat, field))]

    yield counters("brain_region_steps_total", "Steps that a region's process has made.", ("region",), of("step"))
    yield gauges("brain_region_rate_hertz", "Steps a second over the last seconds.", ("region",), of("rate"))
    yield gauges("brain_region_step_age_seconds", "Time since a region's last step ended.", ("region",), of("step_age"))
    yield quantiles("brain_region_step_seconds", "How long a step takes; of the latest steps.", ("region",),
                    [((name, quantile), value) for quantile, field in (("0.5", "step_p50"), ("0.99", "step_p99"))
                     for (name,), value in of(field)])
    yield gauges("brain_region_spikes_per_second", "Spikes of a region's neurons.", ("region",),
                 of("spikes_per_second"))
    yield gauges("brain_region_synaptic_operations_per_second", "Synaptic operations of a region: what its energy "
                 "goes with.", ("region",), of("synops_per_second"))


_COUNTS = {
    "messages dropped": ("brain_region_dropped_messages_total", "Messages to a region that it could not read."),
    "messages sent": ("brain_region_sent_messages_total", "Messages that a region with an energy budget published."),
    "bytes sent": ("brain_region_sent_bytes_total", "Bytes that a region with an energy budget published."),
    "messages gated": ("brain_region_gated_messages_total", "Messages that waited for the energy budget."),
    "messages cut": ("brain_region_cut_messages_total", "Messages that the energy budget let go with a part of "
                     "their content."),
    "bytes saved": ("brain_region_saved_bytes_total", "Bytes that the energy budget saved."),
}


def _counts(found: dict[str, dict[str, int]]) -> Iterator[Family]:
    for key, (name, text) in _COUNTS.items():
        yield counters(name, text, ("region",), [((region,), counts[key]) for region, counts in found.items()
                                                 if key in counts])
