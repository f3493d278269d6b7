# SPDX-License-Identifier: Apache-2.0
"""Model of larger networks from measured sizes: fits, a simulation of linked routers, and what follows on paper.

The simulation carries every message of some seconds along its routers. A *pass* is what was measured: from publishing
to receipt by way of one router. One more router adds half a pass, since it adds one link to the two that a pass has.
Each router serves one message after the other, as long as it was measured to compute for one.

Hosts stand in a tree: a router for each host, one for the hosts of a region, one for all. Each host is taken to be as
busy as the measured machine was with as many nodes.
"""
from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

PER_HOST, HOSTS = 32, 16            # nodes of a host, hosts of a region
SHARES = (0.80, 0.15, 0.05)         # of a host's messages that stay there, in its region, or go beyond: an assumption
SECONDS = 5.0
CELL, CELLS = 10_000, 100           # nodes of a network of routers of its own, and how many of these are a million
TIERS = ("host", "region", "beyond")


class ModelProblem(ValueError):
    """There is not enough to go by; says what is missing."""


class Line(NamedTuple):
    """A straight line through what was measured: ``at`` zero, and ``slope``."""

    at: float
    slope: float

    def __call__(self, x: float) -> float:
        return self.at + self.slope * x


class Measured(NamedTuple):
    """Measured figures that the simulation goes by.

    Attributes:
        memory: of a router (bytes) over the nodes of its network.
        descriptors: of a router over the nodes that are linked with it.
        tokens: over nodes.
        newcomer: time (s) of one more node to know all, over tokens.
        service: core time (s) of a router for one message.
        sent: bytes that a router sends for a message, None where not measured.
        passes: for each measured number of nodes the quantiles of a pass, as ``[share, s]``.
    """

    memory: Line
    descriptors: Line
    tokens: Line
    newcomer: Line
    service: float
    sent: float | None
    passes: dict[int, list[list[float]]]


def line(x: Sequence[float], y: Sequence[float]) -> Line:
    """The line of least squares.

    Raises:
        ModelProblem: there are not two different ``x``.
    """
    if len(set(x)) < 2:
        raise ModelProblem("two sizes at least must have been measured: `brain bench scale --processes 2,8 --save`")
    slope, at = np.polyfit(x, y, 1)
    return Line(float(at), float(slope))


def fit(sizes: Sequence[dict[str, Any]]) -> Measured:
    """Fits a model to the reports of :func:`experiments.scale.measure` with one router.

    Raises:
        ModelProblem: they are too few, or lack something.
    """
    try:
        nodes = [s["processes"] for s in sizes]
        rates = [s["processes"] * s["rate"] for s in sizes]
        tokens = [s["tokens"] for s in sizes]
        carried = [s["bytes"]["sent"] / s["heard"] for s in sizes if "bytes" in s and s["heard"]]
        cpu = line(rates, [s["router"][0]["cpu"] for s in sizes])
        return Measured(
            line(nodes, [s["router"][0]["rss"] for s in sizes]),
            line(nodes, [s["router"][0]["descriptors"] for s in sizes]), line(nodes, tokens),
            line(tokens, [s["newcomer"] for s in sizes]), max(cpu.slope, 1e-6),
            carried[-1] if carried else None, {s["processes"]: s["quantiles"] for s in sizes})
    except (KeyError, TypeError, IndexError) as error:
        raise ModelProblem(f"what was measured lacks {error}; measure anew with `brain bench scale --save`") from error


def passes(measured: Measured, nodes: int) -> np.ndarray:
    """Quantiles ``(n, 2)`` of a pass on a machine with so many nodes: those of the nearest size, by ratio."""
    nearest = min(measured.passes, key=lambda n: abs(np.log(n / nodes)))
    return np.asarray(measured.passes[nearest], dtype=float)


def draw(quantiles: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Times (s) that have such quantiles, straight between two of them."""
    return np.interp(rng.random(count), quantiles[:, 0], quantiles[:, 1])


def waits(router: np.ndarray, arrival: np.ndarray, service: float) -> np.ndarray:
    """Computes how long each message waits (s) at its router for those before it, in the order of arrival."""
    order = np.lexsort((arrival, router))
    at, here = arrival[order], router[order]
    begins = np.flatnonzero(np.r_[True, here[1:] != here[:-1]])
    sizes = np.diff(np.r_[begins, len(here)])
    place = np.arange(len(here)) - np.repeat(begins, sizes)
    free = at - place * service     # message n of a queue begins at the latest of all a_k + (n - k) s, k up to n
    # One queue after the other without a loop: each is lifted above all before it.
    lift = (free.max() - free.min() + 1.0) * np.repeat(np.arange(len(begins)), sizes) if len(here) else free
    start = np.maximum.accumulate(free + lift) - lift + place * service
    found = np.empty(len(arrival))
    found[order] = start - at
    return np.maximum(found, 0.0)


def carry(routes: np.ndarray, rate: float, seconds: float, quantiles: np.ndarray, service: float,
          rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Carries the messages of all nodes.

    Args:
        routes: ``(nodes, most)`` numbers of the routers that a node's messages pass, filled up with -1.
        rate: of each node (Hz).
        seconds: of time.
        quantiles: of a pass.
        service: time of a router for one message (s).
        rng: draws phases and times.

    Returns:
        For each message its node and its latency (s).
    """
    count = int(rate * seconds)
    node = np.repeat(np.arange(len(routes)), count)
    sent = (rng.random(len(routes))[:, None] + np.arange(count)).ravel() / rate
    took = np.zeros(len(node))
    for stage in range(routes.shape[1]):
        router = routes[node, stage]
        here = np.flatnonzero(router >= 0)
        if not len(here):
            break
        took[here] += waits(router[here], sent[here] + took[here], service)
        took[here] += draw(quantiles, len(here), rng) * (1.0 if stage == 0 else 0.5)
    return node, took


def figures(took: np.ndarray) -> dict[str, float]:
    """p50 and p99 (s) of latencies."""
    return {"messages": int(len(took)), "p50": float(np.quantile(took, 0.5)), "p99": float(np.quantile(took, 0.99))}


def tree(nodes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, int]:
    """Hosts in regions, one router for each, and where each node's messages go.

    Returns:
        Routes ``(nodes, 5)``, the tier of each node's messages (0 host, 1 region, 2 beyond), and the hosts.
    """
    hosts = -(-nodes // PER_HOST)
    regions = -(-hosts // HOSTS)
    host = np.arange(nodes) // PER_HOST
    region = host // HOSTS
    tier = np.searchsorted(np.cumsum(SHARES), rng.random(nodes), side="right").clip(0, 2)
    tier[(tier == 2) & (regions == 1)] = 1
    target = host.copy()
    for where in (1, 2):
        asked = np.flatnonzero(tier == where)
        other = rng.integers(0, hosts, len(asked))
        if where == 1:
            first = region[asked] * HOSTS
            other = first + rng.integers(0, np.minimum(HOSTS, hosts - first), len(asked))
        target[asked] = other
    tier[target == host] = 0
    far = target // HOSTS
    tier[(tier == 2) & (far == region)] = 1
    routes = np.full((nodes, 5), -1)
    routes[:, 0] = host
    near, beyond = tier == 1, tier == 2
    routes[near, 1], routes[near, 2] = hosts + region[near], target[near]
    routes[beyond, 1], routes[beyond, 2] = hosts + region[beyond], hosts + regions
    routes[beyond, 3], routes[beyond, 4] = hosts + far[beyond], target[beyond]
    return routes, tier, hosts


def simulate(measured: Measured, nodes: int, rate: float, seed: int = 0) -> dict[str, Any]:
    """So many nodes in a tree of routers.

    Args:
        rate: of each node (Hz).
        seed: of who talks to whom, and of the times.
    """
    rng = np.random.default_rng(seed)
    routes, tier, hosts = tree(nodes, rng)
    node, took = carry(routes, rate, SECONDS, passes(measured, min(nodes, PER_HOST)), measured.service, rng)
    regions = -(-hosts // HOSTS)
    load = np.bincount(routes[routes >= 0], minlength=hosts + regions + 1) * rate
    kinds = {"host": load[:hosts], "region": load[hosts:hosts + regions], "top": load[hosts + regions:]}
    return {
        "nodes": nodes, "hosts": hosts, "regions": regions, "rate": rate, "all": figures(took),
        "tiers": [{"tier": name, "routers": 1 + 2 * number, "share": float(np.mean(tier == number)),
                   **figures(took[tier[node] == number])}
                  for number, name in enumerate(TIERS) if np.any(tier == number)],
        "routers": [{"router": kind, "count": len(rates), "messages": float(rates.max()),
                     "core": float(rates.max() * measured.service),
                     "bytes": None if measured.sent is None else float(rates.max() * measured.sent)}
                    for kind, rates in kinds.items()],
        "flat": flat(measured, nodes)}


def flat(measured: Measured, nodes: int) -> dict[str, float]:
    """Computes what each router and newcomer has to know where all nodes are in one network; nothing is simulated."""
    tokens = measured.tokens(nodes)
    return {"nodes": nodes, "tokens": tokens, "memory": measured.memory(nodes), "newcomer": measured.newcomer(tokens)}


def predict_linked(measured: Measured, report: dict[str, Any], seed: int = 0) -> list[dict[str, Any]]:
    """Simulates a run with linked routers; returns the figures beside those measured there.

    Args:
        report: of :func:`experiments.scale.measure`; of it only the layout goes in.

    Returns:
        For each figure ``what`` it is, ``simulated``, ``measured`` and their ``ratio``.
    """
    from experiments.scale import neighbours

    count, routers = report["processes"], report["routers"]
    hears = neighbours(count, routers)
    routes = np.full((count, 2), -1)
    for router, source in hears:
        routes[source, 0] = hears[source][0]
        if hears[source][0] != router:
            routes[source, 1] = router
    across = routes[:, 1] >= 0
    node, took = carry(routes, report["rate"], report["seconds"], passes(measured, count), measured.service,
                       np.random.default_rng(seed))
    within, far = figures(took[~across[node]]), figures(took[across[node]])
    load = np.bincount(routes[routes >= 0], minlength=routers) * report["rate"]
    pairs = {
        "p50 within a router": (within["p50"], report["within"]["p50"]),
        "p99 within a router": (within["p99"], report["within"]["p99"]),
        "p50 across a link": (far["p50"], report["across"]["p50"]),
        "p99 across a link": (far["p99"], report["across"]["p99"]),
        "memory of a router": (measured.memory(count), float(np.mean([r["rss"] for r in report["router"]]))),
        "descriptors of a router": (measured.descriptors(count / routers) + routers - 1,
                                    float(np.mean([r["descriptors"] for r in report["router"]]))),
        "core of a router": (float(load.mean()) * measured.service,
                             float(np.mean([r["cpu"] for r in report["router"]])))}
    return [{"what": what, "simulated": simulated, "measured": was, "ratio": simulated / was if was else None}
            for what, (simulated, was) in pairs.items()]


def million(measured: Measured, rate: float, seed: int = 0) -> dict[str, Any]:
    """A million nodes on paper: cells, each a network of routers of its own, between which only named topics go.

    Args:
        rate: of each node (Hz).
        seed: of the times of the tiers.

    Returns:
        ``links``: what each kind of router serves, with its core time and what it sends. ``tiers``: latency by the
        routers that a message passes, without queues. ``flat``: what all in one network would have to know.
    """
    host, region = PER_HOST * rate, PER_HOST * HOSTS * rate
    hosts = -(-CELL // PER_HOST)
    links = {
        "a host's router": host * (1 + SHARES[1] + SHARES[2]),
        "a region's router": region * (SHARES[1] + 2 * SHARES[2]),
        "the top of a cell": CELL * rate * SHARES[2],
        "a cell's gate, if 5 % of all messages crossed it either way": 2 * CELL * rate * SHARES[2],
        "one router between all cells, if so": CELLS * CELL * rate * SHARES[2],
        "a cell's gate, one summary of each host, out": hosts * rate,
        "one router between all cells, one summary of each cell": CELLS * rate}
    quantiles, rng = passes(measured, PER_HOST), np.random.default_rng(seed)
    tiers = {"within a host": 1, "within a region": 3, "within a cell": 5, "between cells": 9}
    return {
        "cell": CELL, "cells": CELLS, "flat": flat(measured, CELL * CELLS),
        "links": [{"what": what, "messages": messages, "core": messages * measured.service,
                   "bytes": None if measured.sent is None else messages * measured.sent}
                  for what, messages in links.items()],
        "tiers": [{"what": what, "routers": routers, **figures(
            draw(quantiles, 100_000, rng) + sum((0.5 * draw(quantiles, 100_000, rng) for _ in range(routers - 1)),
                                                np.zeros(100_000)))}
                  for what, routers in tiers.items()]}
