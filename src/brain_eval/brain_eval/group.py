# SPDX-License-Identifier: Apache-2.0
"""Runs episodes in lockstep on a static group of ``torch.distributed``: one rank for each region, one for the referee.

What comes out is what :mod:`brain_eval.episodes` computes in one process, to the bit; it takes longer, since each step
is told to all ranks.
"""
from __future__ import annotations

import time
from typing import Any, Callable, Iterator, Mapping, Sequence

from brain_eval import policies
from brain_eval.episodes import Referee, play, resolved_for, run_local
from brain_runtime.hosts.backends import GroupError
from brain_runtime.contract.ablation import NONE, Ablation
from brain_runtime.graph.graphs import DEFAULT
from brain_collectives.hosts.torch import TorchHost
from brain_collectives.hosts.torch_group import Group
from brain_runtime.graph.resolved import Resolved
from brain_runtime.contract.stepper import RegionError
from brain_collectives.hosts.torch_ranks import Ranks


def run_many(episodes: Sequence[Any], policy: str = "brain", *, jobs: int = 1, graph: str = DEFAULT,
             join: Sequence[str] = (), parameters: Mapping[str, Mapping[str, Any]] | None = None,
             ablation: Ablation = NONE, patience: float | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Runs episodes one after the other, each with regions that begin anew in the same ranks; yields (index, result).

    Raises:
        GraphError: the graph cannot run.
        GroupError: the ranks do not start, or one is lost.
        ValueError: the policy cannot be had with these episodes, or ``jobs`` is not 1.
    """
    if jobs != 1:
        raise ValueError("a static group plays one episode after the other; leave --jobs at 1")
    if policy in policies.WITHOUT_BRAIN:
        for index, episode in enumerate(episodes):
            yield index, run_local(episode, policy)
        return
    told = [policies.told(policy, episodes, index) for index in range(len(episodes))]
    how: dict[str, Any] = {"graph": graph, "join": join, "parameters": parameters, "ablation": ablation,
                           "patience": patience}
    with Ranks(len(resolved_for(told[0], policy, **how).regions)) as ranks:
        for index, episode in enumerate(told):
            try:
                yield index, run_episode(ranks.group, episode, resolved_for(episode, policy, **how))
            except GroupError as error:
                raise ranks.why(error) from error


def run_episode(group: Group, episode: Any, resolved: Resolved, begin_with: Callable[[TorchHost], None] | None = None
                ) -> dict[str, Any]:
    """Runs one episode; the result is as :func:`brain_eval.episodes.run_local`'s.

    Args:
        group: whose other ranks are in :func:`brain_collectives.torch_process.obey`.
        episode: a ``brain_sim.suite.Episode``.
        resolved: what runs.
        begin_with: is given the host before the episode begins, to listen at it.

    Raises:
        GroupError: a rank is lost. RegionError: a region could not begin.
    """
    host = TorchHost(group, resolved, episode.seed)
    referee = Referee(episode.id)
    host.listen("sim/verdict", lambda m: referee.hear(m.data))
    if begin_with is not None:
        begin_with(host)
    begin, error, counts = time.perf_counter(), "", {}
    try:
        play(host, episode, episode.script, referee)
        counts = host.counts()
    except RegionError as raised:
        error = str(raised)
    worked = {name: both for name, both in counts.items() if any(both)}
    return {**referee.result(episode, error), "spikes": sum(spikes for spikes, _ in worked.values()),
            "synops": sum(synops for _, synops in worked.values()), "simulated": host.now,
            "wall": time.perf_counter() - begin, "by_region": worked}
