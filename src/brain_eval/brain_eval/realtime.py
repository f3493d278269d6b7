# SPDX-License-Identifier: Apache-2.0
"""Runs episodes of a suite in real time: every region a process of its own, over Zenoh or in a static group."""
from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

from brain_eval import policies
from brain_eval.episodes import PATIENCE, SETTLE, Referee, run_local, text_message
from brain_runtime.contract.ablation import NONE, Ablation
from brain_runtime.supervision.supervised_brain import (SupervisedBrain, StartError, group_child, region_children,
                                                        router_child)
from brain_runtime.graph import SIM_WORLD
from brain_runtime.graph.graphs import DEFAULT
from brain_runtime.graph.inspect_graph import inspect_graph
from brain_runtime.graph.rooms import SAID
from brain_runtime.run.workload import Workload
from brain_wire.qos import LATCHED
from brain_wire.router import free_port
from brain_wire.temporary_folder import TemporaryFolder

READY = 60.0    # s for all processes to be active
DOMAIN = 87     # of the evaluation's own router: nobody else is on it, so any will do


def run_many(episodes: Sequence[Any], policy: str = "brain", *, jobs: int = 1, graph: str = DEFAULT,
             join: Sequence[str] = (), parameters: Mapping[str, Mapping[str, Any]] | None = None,
             ablation: Ablation = NONE, patience: float | None = None, host: str = "zenoh",
             each_round: Callable[[SupervisedBrain], None] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Runs episodes one after the other, each with processes that start anew; yields (index, result).

    Arguments that are not told of here are those of :func:`brain_eval.episodes.run_many`.

    Args:
        host: ``zenoh``, or ``torch``: then the brain is a static group, and the world beside it on Zenoh.
        each_round: called again and again with the processes of an episode while it runs: for who watches them.

    Raises:
        GraphError: the graph cannot run.
        ValueError: the policy cannot be had with these episodes, or ``jobs`` is not 1.
        StartError: the processes do not start.
    """
    if jobs != 1:
        raise ValueError("outside lockstep episodes run in real time, one after the other; leave --jobs at 1")
    if policy in policies.WITHOUT_BRAIN:
        for index, episode in enumerate(episodes):
            yield index, run_local(episode, policy)
        return
    limit = min(episode.time_limit for episode in episodes)
    changed = policies.patient(policies.ablation_of(policy, ablation, graph), graph,
                               policies.patience_of(limit, patience))
    resolved = inspect_graph(graph, SIM_WORLD, parameters=parameters or {}, join=policies.joined(join),
                             ablation=changed, host=host)
    together = resolved.grouped
    os.environ.pop("BRAIN_SECURITY", None)      # nobody else reaches the router of its own
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with TemporaryFolder("eval") as folder:
        for index in range(len(episodes)):
            episode = policies.told(policy, episodes, index)
            run = Path(folder) / str(index)
            started: dict[str, Any] = {"seed": episode.seed, "folder": run, "state_dir": run / "state",
                                       "router": endpoint}
            children = [replace(router_child(endpoint), spare=False),
                        *region_children(resolved, **started),
                        *([group_child(resolved, **started)] if together else [])]
            yield index, run_episode(episode, children, endpoint, run / "logs", together, each_round)


def run_episode(episode: Any, children: list[Workload], endpoint: str, logs: Path,
                together: Sequence[str] = (), each_round: Callable[[SupervisedBrain], None] | None = None
                ) -> dict[str, Any]:
    """Starts the processes, runs one episode, and ends them; the result is as :func:`brain_eval.episodes.run_local`'s.

    Args:
        together: names of the regions that are ranks of a static group, which is one of the children.
        each_round: see :func:`run_many`.

    Raises:
        StartError: the processes are not ready in time; says which, and why.
    """
    begin = time.monotonic()
    referee = Referee(episode.id)
    tally = _Tally()
    supervised = SupervisedBrain(children, logs, endpoint, on_event=tally.event, domain=DOMAIN, grouped=together)
    try:
        supervised.start()
        node = supervised.node
        asked = node.publisher("sim/episode", "std_msgs/msg/String", LATCHED)
        verdicts = node.subscription("sim/verdict", "std_msgs/msg/String", LATCHED)
        rooms = node.subscription("sim/world", "std_msgs/msg/String", LATCHED)
        asked.publish(text_message(episode.to_json()))
        shown = _Room(episode, rooms)
        if not supervised.wait_ready(READY, shown.there):
            raise StartError("not ready: " + (". ".join(supervised.missing()) or "the world does not show the room"))
        heard_on = [node.publisher(topic, "std_msgs/msg/String", LATCHED) for topic in SAID]
        _for(supervised, SETTLE)
        start, left = time.monotonic(), sorted(episode.script)
        while not referee.done and time.monotonic() - start < episode.time_limit + PATIENCE:
            while left and time.monotonic() - start >= left[0][0]:
                words = text_message(left.pop(0)[1])
                for goal in heard_on:
                    goal.publish(words)
            supervised.round()
            tally.beats(supervised.ear)
            if each_round is not None:
                each_round(supervised)
            for message in _decoded(verdicts):
                referee.hear(message.data)
        result = referee.result(episode)
        latency = supervised.ear.latency.report()
    finally:
        supervised.stop()
    return {**result, "spikes": round(tally.spikes), "synops": round(tally.synops), "latency": latency,
            "restarts": tally.restarts, "simulated": time.monotonic() - start, "wall": time.monotonic() - begin}


def _for(supervised: SupervisedBrain, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        supervised.round()


def _decoded(subscription: Any) -> list[Any]:
    """Decodes what has come since the last time; what cannot be read is not the world's, and left out."""
    from brain_wire import messages

    found = []
    for arrival in subscription.take():
        with suppress(messages.MessageError):
            found.append(messages.decode(arrival.data, subscription.type))
    return found


class _Room:
    """Check that the world shows the episode's room."""

    def __init__(self, episode: Any, rooms: Any) -> None:
        self._wanted, self._rooms = json.loads(episode.to_json()), rooms
        self._there = False

    def there(self) -> bool:
        """Looks at what has come since the last time."""
        for message in _decoded(self._rooms):
            self._there = json.loads(message.data)["request"] == self._wanted
        return self._there


class _Tally:
    """Counts restarts, and adds up spikes and synaptic operations from the rates that heartbeats tell."""

    def __init__(self) -> None:
        self.spikes = self.synops = 0.0
        self.restarts: list[str] = []
        self._last: float | None = None

    def event(self, event: Any) -> None:
        """An event of the supervisor."""
        if event.kind in ("ended", "unhealthy", "given up"):
            self.restarts.append(f"{event.name} {event.kind}: {event.text}")

    def beats(self, ear: Any) -> None:
        """Adds what was done since the last call."""
        now = time.monotonic()
        dt, self._last = now - (self._last or now), now
        for seen in ear.regions.values():
            if now - seen.heard > 1.0:
                continue
            self.spikes += seen.beat.spikes_per_second * dt
            self.synops += seen.beat.synops_per_second * dt
