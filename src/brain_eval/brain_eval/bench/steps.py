# SPDX-License-Identifier: Apache-2.0
"""Cost of a step of each network while the brain is at work: time on one core, accumulates, multiply-accumulates.

A step of a region reads messages, lets its network's membranes and synapses go on for the time that has passed, and
makes messages of what fired. The limits are on all of it; what the network integrates is told apart.

A room is played in lockstep on LocalHost, on one core; a sentence is said every few seconds, since language does
nothing while there is nothing to read. Between the rooms a product of two matrices is timed on the same core: what this
machine was worth meanwhile.
"""
from __future__ import annotations

import math
import os
import time
from typing import Annotated, Any, Callable, Iterable, Iterator

import numpy as np
import typer

from brain_eval.bench.experiment import Experiment
from brain_eval.bench.rows import Table
from brain_eval.episodes import text_message
from brain_eval.lockstep import lockstep_parts
from brain_runtime.graph import graphs
from brain_runtime.contract.ablation import NONE, Ablation
from brain_runtime.command.options import fail
from brain_runtime.contract.declared import Network
from brain_runtime.graph import SIM_WORLD
from brain_runtime.hosts.local import LocalHost

EVERY = 4.0                 # s between two sentences
SECONDS = 20.0              # of a room
SIDE = 256                  # of the matrices that are multiplied
CALM = 0.1                  # share of the steps that were quicker than what is called quick


def networks(graph: str = graphs.DEFAULT) -> dict[str, Network]:
    """Networks of a graph's regions, by region.

    Raises:
        GraphError: there is no such graph, or a class of it cannot be loaded.
    """
    found = {spec.name: spec.load().network for spec in graphs.load(graph, SIM_WORLD).regions
             if not spec.lacks_package()}
    return {name: network for name, network in found.items() if network is not None}


def reference(repeats: int = 60) -> float:
    """Quickest of some products of two matrices of SIDE x SIDE float32 (ms)."""
    a = np.random.default_rng(0).random((SIDE, SIDE), np.float32)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        a @ a
        times.append(1e3 * (time.perf_counter() - begin))
    return min(times)


def _clocked(region: Any, log: list[tuple[float, ...]]) -> None:
    """Writes each of a region's steps into a log.

    That is its time and that of its network (ms), spikes, synaptic operations and multiply-accumulates.
    """
    step = region.step
    spent = 0.0

    def within(work: Callable) -> Callable:
        def timed(*arguments: Any, **named: Any) -> Any:
            nonlocal spent
            begin = time.perf_counter()
            try:
                return work(*arguments, **named)
            finally:
                spent += 1e3 * (time.perf_counter() - begin)
        return timed

    for path in region.network.work:
        part, name = path.split(".")
        setattr(getattr(region, part), name, within(getattr(getattr(region, part), name)))

    def timed(*arguments: Any) -> Any:
        nonlocal spent
        before, spent = (region.spikes, region.synops, region.multiplies), 0.0
        begin = time.perf_counter()
        made = step(*arguments)
        took = 1e3 * (time.perf_counter() - begin)
        log.append((took, spent, region.spikes - before[0], region.synops - before[1],
                    region.multiplies - before[2]))
        return made

    region.step = timed


def _room(seed: int, names: Iterable[str], ablation: Ablation, graph: str) -> dict[str, list[tuple[float, ...]]]:
    regions, parameters, critical = lockstep_parts("val", seed, ablation, graph=graph)
    host = LocalHost(regions, seed=seed, critical=critical, parameters=parameters)
    logs: dict[str, list] = {name: [] for name in names}
    host.advance(1.0)       # the first steps warm up
    for name in names:
        if host.regions[name].network is not None:      # what takes a network's place under an ablation may be none
            _clocked(host.regions[name], logs[name])
    drive(host)
    return logs


def drive(host: LocalHost) -> int:
    """Goes on for SECONDS, and says a sentence every EVERY seconds; returns how many."""
    things = host.regions["world"].simulation.room.objects
    sentences = round(SECONDS / EVERY)
    for number in range(sentences):
        goal, other = things[number % len(things)], things[(number + 1) % len(things)]
        host.publish("goal/text", text_message(
            f"go to the {goal.color} {goal.shape} but stay away from the {other.color} {other.shape}"))
        host.advance(EVERY)
    return sentences


def measure(rooms: int, seed: int = 0, ablation: Ablation = NONE, graph: str = graphs.DEFAULT
            ) -> Iterator[dict[str, Any]]:
    """Steps of each network of a graph, in as many rooms; meanwhile this process stays on one core.

    Yields:
        After each room all so far, by ``region``: ``steps``, ``quick``, ``median`` and ``slow`` (10, 50 and 95 of 100
        are at most so long, ms), ``limit`` of the median, ``network`` (median of what it integrates, ms), ``spikes``,
        ``accumulates`` and ``multiply_accumulates`` of a step (mean of those in which something was computed); with the
        ``reference`` (ms).
    """
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        found = networks(graph)
        logs: dict[str, list] = {name: [] for name in found}
        quickest = reference()
        for number in range(rooms):
            for name, log in _room(seed + number, found, ablation, graph).items():
                logs[name] += log
            quickest = min(quickest, reference())
            yield {"reference": quickest, "regions": [
                _told(name, np.array(log), found[name].limit) for name, log in logs.items()]}
    finally:
        os.sched_setaffinity(0, cores)


def _told(name: str, log: np.ndarray, limit: float) -> dict[str, Any]:
    log = log.reshape(-1, 5)
    busy = log[log[:, 3] > 0]       # without a sentence language does nothing
    quick, median, slow = np.quantile(busy[:, 0], [CALM, 0.5, 0.95]) if len(busy) else [np.nan] * 3
    spikes, synops, multiplies = busy[:, 2:].mean(0) if len(busy) else [np.nan] * 3
    network = float(np.median(busy[:, 1])) if len(busy) else math.nan
    return {"region": name, "steps": len(busy), "quick": float(quick), "median": float(median), "slow": float(slow),
            "network": network, "limit": limit, "spikes": float(spikes), "accumulates": float(synops),
            "multiply_accumulates": float(multiplies)}


class Steps(Experiment):
    """Measures the cost of each network's step on one core, while a robot is at work.

    Multiply-accumulates (where real numbers come in) and accumulates (where spikes do) are counted apart. Exit status 0
    when the median of each network's whole step keeps the limit that its region declares. That needs a quiet core.
    """

    quick = {"rooms": 1}

    def measure(self, rooms: Annotated[int, typer.Option(min=1, help="Rooms, 20 s of each.")] = 3,
                seed: Annotated[int, typer.Option(min=0, help="Seed of the first room (split val).")] = 0,
                ablate: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="As in brain eval.")
                                  ] = None,
                graph: Annotated[str, typer.Option(help="Graph whose networks are measured: a name or a path.")] =
                graphs.DEFAULT) -> dict[str, Any]:
        """Plays rooms; see :func:`measure`."""
        from brain_eval import ablations

        try:
            ablation = ablations.parse(ablate or (), graph)
            if not networks(graph):
                raise ValueError(f"no region of graph {graph} has a network; name another with --graph")
        except ValueError as error:
            fail(str(error), 2)
        for number, found in enumerate(measure(rooms, seed, ablation, graph), 1):
            self.status(f"{number} of {rooms} rooms")
        return found

    def rows(self, found: dict[str, Any]) -> Iterator[Table]:
        yield Table(f"a step on one core (a product of two {SIDE} x {SIDE} matrices: {found['reference']:.2f} ms)",
                    ("region", "p10", "median", "p95", "limit (ms)", "network", "spikes", "accumulates",
                     "multiply-accumulates"),
                    [(r["region"], *(f"{r[key]:.2f}" for key in ("quick", "median", "slow")), f"{r['limit']:g}",
                      f"{r['network']:.2f}", *(f"{r[key]:,.0f}" for key in ("spikes", "accumulates",
                                                                            "multiply_accumulates")))
                     for r in found["regions"]])

    def good(self, found: dict[str, Any]) -> bool:
        return not any(r["steps"] and r["median"] > r["limit"] for r in found["regions"])
