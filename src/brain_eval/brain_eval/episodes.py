# SPDX-License-Identifier: Apache-2.0
"""Runs episodes of a suite in lockstep: a fresh brain for each, as fast as the machine allows."""
from __future__ import annotations

import functools
import json
import math
import time
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Protocol, Sequence

from brain_eval import policies
from brain_observe.bags import BagWriter
from brain_runtime.contract.ablation import NONE, Ablation
from brain_runtime.contract.energy import Traffic
from brain_runtime.graph import SIM_WORLD
from brain_runtime.graph.graphs import DEFAULT
from brain_runtime.hosts.local import LocalHost
from brain_runtime.graph.resolve import resolve
from brain_runtime.graph.resolved import Resolved
from brain_runtime.graph.rooms import SAID
from brain_runtime.contract.stepper import RegionError
from brain_wire import messages

SETTLE = 0.5        # s from the episode's start to the first word: the sensors have spoken by then
PATIENCE = 15.0     # s after the episode's time limit, by when the referee must have spoken
SLICE = 0.1         # s between two looks at the verdict
TRUTH = "brain_eval.truth:Truth"     # tells a recording what truly stands in each picture


class Onlooker(Protocol):
    """Looks at a brain while an episode runs, and changes nothing."""

    def begin(self, host: LocalHost, episode: Any) -> None:
        """Before the first step: for listening to topics."""

    def look(self, host: LocalHost, since: float) -> None:
        """Every :data:`SLICE`, ``since`` s after the first word."""


class Record(NamedTuple):
    """Place where episodes are recorded: a bag for each, named after the episode.

    Attributes:
        folder: of the bags.
        storage: ``mcap`` or ``sqlite3``.
    """

    folder: Path
    storage: str = "mcap"

    def bag(self, episode: Any) -> Path:
        """The folder of an episode's bag."""
        return self.folder / episode.id.replace("/", "-")


def text_message(text: str) -> Any:
    """``std_msgs/msg/String``."""
    return messages.make("std_msgs/msg/String", data=text)


def run_local(episode: Any, policy: str = "brain", *, graph: str = DEFAULT, join: Sequence[str] = (),
              parameters: Mapping[str, Mapping[str, Any]] | None = None, energy: float = 0.0,
              ablation: Ablation = NONE, onlooker: Onlooker | None = None, patience: float | None = None,
              record: Record | None = None) -> dict[str, Any]:
    """Runs one episode on LocalHost.

    Args:
        episode: a ``brain_sim.suite.Episode``.
        policy: one of :data:`brain_eval.policies.POLICIES`.
        graph: name or path.
        join: classes, as ``package.module:Class``, that join the brain.
        parameters: by region, over those of the graph's parameter file.
        ablation: what is taken away or replaced.
        energy: budget of each of the brain's regions (B/s), which then publish their spikes too; 0: none.
        onlooker: looks at the brain meanwhile.
        patience: how long the robot is told that a search may take (s); see :func:`brain_eval.policies.patience_of`.
        record: write what the robot senses and does into a bag, and what truly stands in its pictures.

    Returns:
        The referee's verdict as a dict, with ``spikes``, ``synops`` (synaptic operations), ``by_region`` (both, for
        each), ``simulated`` and ``wall`` (s, without what the regions took to load). An outcome ``error`` with a
        reason says that a region raised or that nobody judged. With a budget, ``traffic``: see :func:`traffic_of`.
    """
    if policy in policies.WITHOUT_BRAIN:
        from brain_sim.controls import run_control

        begin = time.perf_counter()
        result = run_control(policy, episode).to_dict()
        return {**result, "spikes": 0, "synops": 0, "simulated": result["time"], "wall": time.perf_counter() - begin}
    resolved = resolved_for(episode, policy, graph=graph, join=join if record is None else (*join, TRUTH),
                            parameters=parameters, energy=energy, ablation=ablation, patience=patience)
    host = LocalHost(resolved.make(), seed=episode.seed, critical=resolved.critical, parameters=resolved.parameters())
    referee = Referee(episode.id)
    host.listen("sim/verdict", lambda m: referee.hear(m.data))
    look = None
    if onlooker is not None:
        onlooker.begin(host, episode)
        look = functools.partial(onlooker.look, host)
    error = ""
    begin = time.perf_counter()
    try:
        with nullcontext() if record is None else BagWriter(record.bag(episode), record.storage) as bag:
            if bag is not None:
                bag.hear(host)
            play(host, episode, episode.script, referee, look)
    except RegionError as raised:
        error = str(raised)
    regions = host.regions.values()
    traffic = {"traffic": traffic_of(host)} if energy else {}
    return {**referee.result(episode, error), "spikes": sum(r.spikes for r in regions),
            "synops": sum(r.synops for r in regions), "simulated": host.now, "wall": time.perf_counter() - begin,
            "by_region": {n: [r.spikes, r.synops] for n, r in host.regions.items() if r.spikes or r.synops}, **traffic}


def resolved_for(episode: Any, policy: str = "brain", *, graph: str = DEFAULT, join: Sequence[str] = (),
                 parameters: Mapping[str, Mapping[str, Any]] | None = None, energy: float = 0.0,
                 ablation: Ablation = NONE, patience: float | None = None) -> Resolved:
    """Resolves what runs in an episode in lockstep; see :func:`run_local`."""
    changed = policies.patient(policies.ablation_of(policy, ablation, graph), graph,
                               policies.patience_of(episode.time_limit, patience))
    return resolve(graph, SIM_WORLD, parameters=parameters, ablation=changed, host="local",
                   join=policies.joined(join), energy=energy, edges=False)


def traffic_of(host: LocalHost) -> dict[str, dict[str, int]]:
    """By topic, what regions with an energy budget sent and saved: see :class:`brain_runtime.contract.energy.Traffic`.

    Bytes are those of the CDR encoding, without what a wire adds. Heartbeats and diagnostics do not count.
    """
    found: dict[str, Traffic] = {}
    for gate in host.gates.values():
        for topic, traffic in gate.traffic.items():
            found[topic] = found.get(topic, Traffic()) + traffic
    return {topic: asdict(traffic) for topic, traffic in sorted(found.items())}


class Referee:
    """Listens to the world's reports (sim/verdict) until they hold the verdict on one episode."""

    def __init__(self, identity: str) -> None:
        self.verdict: dict[str, Any] | None = None
        self.refused = ""
        self._id = identity
        self._report: dict[str, Any] = {}

    def hear(self, text: str) -> None:
        """Takes in a report."""
        if self.done:
            return
        self._report = json.loads(text)
        self.refused = self._report["error"]
        self.verdict = next((v for v in self._report["verdicts"] if v["id"] == self._id), None)

    @property
    def done(self) -> bool:
        """True once there is nothing more to wait for."""
        return self.verdict is not None or bool(self.refused)

    def result(self, episode: Any, error: str = "") -> dict[str, Any]:
        """The verdict with what the world logged at 500 Hz; without one an outcome ``error`` and the reason."""
        reason = error or self.refused or "the referee never spoke"
        invariants = self._report.get("invariants", {})
        return {**(self.verdict or no_verdict(episode, reason)), "violations": invariants.get("violations"),
                "max_speed": invariants.get("max_speed"), "lost": self._report.get("lost")}


class Driven(Protocol):
    """Host that an episode drives in lockstep: LocalHost, or the rank outside of a static group."""

    @property
    def now(self) -> float:
        """Simulated time (s)."""

    def publish(self, topic: str, message: Any) -> None:
        """Says something from outside."""

    def advance(self, seconds: float) -> None:
        """Lets simulated time pass."""


def play(host: Driven, episode: Any, script: Sequence[tuple[float, str]], referee: Referee,
         look: Callable[[float], None] | None = None) -> None:
    """Plays an episode until its referee has spoken, or should have.

    Args:
        host: has the brain, which has not made a step yet.
        episode: a ``brain_sim.suite.Episode``.
        script: what is said, and when (s after the start).
        referee: hears the world's reports.
        look: called every :data:`SLICE` with the time since the first word (s).

    Raises:
        RegionError: a region's step raised.
    """
    host.publish("sim/episode", text_message(episode.to_json()))
    host.advance(SETTLE)
    start = host.now
    left = sorted(script)
    while not referee.done and host.now - start < episode.time_limit + PATIENCE:
        while left and host.now - start >= left[0][0] - 1e-9:
            words = text_message(left.pop(0)[1])
            for topic in SAID:
                host.publish(topic, words)
        next_word = left[0][0] - (host.now - start) if left else math.inf
        host.advance(max(1e-3, min(SLICE, next_word)))
        if look is not None:
            look(host.now - start)


def no_verdict(episode: Any, reason: str) -> dict[str, Any]:
    """Builds the entry for the results where the referee said nothing."""
    return {"id": episode.id, "kind": episode.kind, "lang": episode.lang, "visibility": episode.visibility,
            "sentence": episode.sentence, "outcome": "error", "success": False, "time": math.nan, "path": math.nan,
            "shortest": math.nan, "spl": 0.0, "object": "", "nearest_avoid": None, "reason": reason}


def _one(job: tuple) -> tuple[int, dict[str, Any]]:
    index, episode, policy, more = job
    return index, run_local(episode, policy, **more)


def run_many(episodes: Sequence[Any], policy: str = "brain", *, jobs: int = 1, graph: str = DEFAULT,
             join: Sequence[str] = (), parameters: Mapping[str, Mapping[str, Any]] | None = None, energy: float = 0.0,
             ablation: Ablation = NONE, patience: float | None = None, record: Record | None = None
             ) -> Iterator[tuple[int, dict[str, Any]]]:
    """Runs episodes in ``jobs`` processes of one thread each; yields (index, result) as they come.

    Raises:
        ValueError: the policy cannot be had with these episodes.
    """
    more = dict(graph=graph, join=join, parameters=parameters, energy=energy, ablation=ablation,
                patience=patience, record=record)
    work = [(i, policies.told(policy, episodes, i), policy, more) for i in range(len(episodes))]
    if jobs <= 1:
        for job in work:
            yield _one(job)
        return
    from concurrent.futures import as_completed

    from brain_eval.workers import workers

    with workers(jobs) as pool:
        futures = [pool.submit(_one, job) for job in work]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()
