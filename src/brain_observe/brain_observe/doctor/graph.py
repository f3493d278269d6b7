# SPDX-License-Identifier: Apache-2.0
"""Findings of a graph: regions that are not well, and edges that nobody feeds or hears."""
from __future__ import annotations

import math
from typing import Iterator

from brain_observe.doctor.finding import DEGRADES, STOPS, Finding
from brain_observe.doctor.heard import DEVICES, Beats, Heard
from brain_runtime.contract.constants import heartbeat_state
from brain_runtime.graph.resolved import ResolvedRegion
from brain_runtime.supervision.listen import SILENT
from brain_wire import names

LEAST = 1.0             # s of heartbeats after which a region must have made a step
STUCK = 1.0             # s that a step may take
LOG = "look at its log (`brain up` says where), and at `brain status`"


def findings(heard: Heard) -> list[Finding]:
    """All that is wrong with the graph that runs, and with the one that is to run."""
    found = [] if heard.refused is None else [heard.refused]
    if not heard.beats:
        return found
    regions = {} if heard.resolved is None else {region.node: region for region in heard.resolved.regions}
    for name in sorted({*heard.beats, *heard.expected}):
        found += _region(heard, name, regions.get(name))
    return [*found, *_edges(heard, regions), *_types(heard)]


def unjudged(heard: Heard) -> Iterator[str]:
    """Tells of what could not be judged."""
    if not heard.beats:
        yield "regions and their edges: no brain is heard yet"


def _region(heard: Heard, name: str, region: ResolvedRegion | None) -> Iterator[Finding]:
    beats = heard.beats.get(name)
    worst = STOPS if (region.critical if region else beats is not None and beats.newest.critical) else DEGRADES
    if beats is None:
        there = any(e.name == name for e in heard.endpoints)
        yield Finding("region-silent" if there else "region-missing", worst, name, "its node is there, but it says "
                      "nothing" if there else "it is not heard", LOG if there else f"brain start {name.strip('/')}, or "
                      f"start it as the others; {LOG}")
        return
    newest, state = beats.newest, heartbeat_state(beats.newest.state)
    if heard.until - beats.newest_at > SILENT:
        silent = heard.until - beats.newest_at
        yield Finding("region-silent", worst, name, f"it has said nothing for {silent:.1f} s", LOG)
    elif state == "error":
        yield Finding("region-error", worst, name, f"it is in error: {newest.reason or 'it does not say why'}", LOG)
    elif state != "active":
        yield Finding("region-inactive", worst, name, f"it is {state}", f"brain start {name.strip('/')}")
    elif newest.epoch != beats.first.epoch or newest.restarts > beats.first.restarts:
        yield Finding("region-restarts", worst, name, "it was started again meanwhile",
                      f"{LOG}: it may end again and again")
    elif why := _stuck(heard, beats, region):
        yield Finding("region-stuck", worst, name, why, f"{LOG}; a restart of its process ends a hang")
    elif newest.reason:
        yield Finding("region-unhealthy", worst, name, newest.reason, "see the findings above; else its log")


def _stuck(heard: Heard, beats: Beats, region: ResolvedRegion | None) -> str:
    """Reason why a region counts as never stepping: it makes none though it is asked to; empty where it is well."""
    first, newest, took = beats.first, beats.newest, beats.newest_at - beats.first_at
    if newest.step > first.step or took < LEAST:
        return ""
    if newest.stepping and newest.step_age > STUCK:
        return f"its step {newest.step + 1} takes more than {newest.step_age:.1f} s"
    if region is None:
        return ""
    ages = dict(zip(newest.inputs, newest.input_ages, strict=False))
    came = {heard.topic(name) for name, messages in heard.came.items() if messages}     # we have heard it ourselves
    fresh = [topic for topic in region.triggers if float(ages.get(topic, math.nan)) < took
             or names.expand(topic, region.namespace, region.name) in came]
    if region.rate is None and not fresh:
        return ""
    return (f"it is active, but made no step within {took:.1f} s (step {newest.step}), though "
            + (f"{fresh[0]} came" if fresh else f"it is to step at {region.rate:g} Hz"))


def _edges(heard: Heard, regions: dict[str, ResolvedRegion]) -> Iterator[Finding]:
    """Findings of topics between regions that run, of which one end is not on the wire."""
    ends: dict[str, tuple[list[ResolvedRegion], list[ResolvedRegion]]] = {}
    for region in regions.values():
        for at, topics in enumerate((region.publishes, region.hears)):
            for topic in topics:
                ends.setdefault(names.expand(topic, region.namespace, region.name), ([], []))[at].append(region)
    for topic, (writers, readers) in sorted(ends.items()):
        written, read = ([r for r in side if r.node in heard.beats] for side in (writers, readers))
        if writers and read and not heard.publishers(topic):
            yield Finding("edge-unpublished", STOPS if any(r.critical for r in read) else DEGRADES, topic,
                          f"{_named(read)} hears it, and nobody publishes it", f"start {_named(writers)}, or correct "
                          f"its remapping")
        sure = [r for r in readers if r.node in heard.expected]     # the others may rest while nobody looks at them
        if sure and written and heard.publishers(topic) and not heard.subscriptions(topic):
            yield Finding("edge-unheard", DEGRADES, topic, f"{_named(written)} publishes it, and nobody hears it",
                          f"start {_named(sure)}, or correct its remapping")


def _named(regions: list[ResolvedRegion]) -> str:
    return ", ".join(sorted(region.name for region in regions))


def _types(heard: Heard) -> Iterator[Finding]:
    """Findings of topics of the brain's whose two ends have nothing in common, and so do not hear each other."""
    devices = {heard.topic(name) for name in DEVICES}
    for topic in sorted({e.topic for e in heard.endpoints if e.name in heard.beats} - devices):
        ends = heard.publishers(topic), heard.subscriptions(topic)
        written, read = ({(e.type, e.type_hash) for e in side} for side in ends)
        if written and read and not written & read:
            types = [sorted({e.type for e in side}) for side in ends]
            yield Finding("edge-type", DEGRADES, topic, f"it is published as {', '.join(types[0])} and heard as "
                          f"{', '.join(types[1])}" + (" in another version" if types[0] == types[1] else ""),
                          "install the same version of all packages on all machines, and rebuild")
