# SPDX-License-Identifier: Apache-2.0
"""*pairs* of ``brain bench backends``: the same episodes driven by the whole brain on Zenoh and on a static group.

Both are ``brain eval`` in real time, with the simulated world as processes beside the brain. Episodes are played in
pairs, and who is first changes from pair to pair.
"""
from __future__ import annotations

import math
import time
from typing import Any, Callable, Sequence

from brain_eval import results
from brain_eval.realtime import run_many
from brain_runtime.supervision.edge_ear import EdgeEar
from brain_runtime.supervision.supervised_brain import SupervisedBrain
from experiments.backend_trips import median_of
from experiments.costs import core_time, family, pss

HOSTS = ("zenoh", "torch")
TIME_LIMIT = 60.0       # s of an episode, as the suite has it
CHAIN = ("/camera/image_raw", "/vision/objects", "/pfc/control", "/motor/command", "/cmd_vel")   # from eye to wheel
LEFT_OUT = ("/brain/heartbeat", "/diagnostics")     # hops that tell of health, and carry no percept or command
MOST = 990.0            # s after which no further pair begins
LOOK = 1.0              # s between two looks at the processes


class Watcher:
    """Sums up what the processes of an episode cost while it is driven, and how messages get from one to the next."""

    def __init__(self) -> None:
        self._ear: EdgeEar | None = None
        self._next = -math.inf
        self._first: tuple[float, dict[int, float]] | None = None
        self._last: tuple[float, dict[int, float]] | None = None
        self.memory = 0         # bytes (PSS) of all processes, at most
        self.edges: dict[str, list[Any]] = {}

    def look(self, supervised: SupervisedBrain) -> None:
        """Called again and again."""
        if self._ear is None:
            self._ear = EdgeEar(supervised.node)
        self._ear.take()
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LOOK
        supervisor = supervised.supervisor
        processes = family([pid for name in supervisor.names if (pid := supervisor.pid(name)) is not None])
        self._last = now, {pid: took for pid in processes if (took := core_time(pid)) is not None}
        self._first = self._first or self._last
        self.memory = max(self.memory, sum(map(memory_of, processes)))
        self.edges = dict(self._ear.told())

    @property
    def cores(self) -> float | None:
        """Cores that were busy with it on average; what ended in between is left out."""
        if self._first is None or self._last is None or self._last[0] <= self._first[0]:
            return None
        (begin, before), (end, after) = self._first, self._last
        return sum(took - before.get(pid, 0.0) for pid, took in after.items()) / (end - begin)

    def hops(self) -> dict[str, dict[str, Any]]:
        """By topic, publisher and hearer: ``p50``, ``p99`` (s) and ``lost``."""
        return {f"{edge.topic} {edge.source} > {hearer}": {
            "p50": None if math.isnan(edge.p50) else edge.p50, "p99": None if math.isnan(edge.p99) else edge.p99,
            "lost": edge.lost} for hearer, told in self.edges.items() for edge in told}


def memory_of(process: int) -> int:
    """Its share of memory (bytes); 0: it has ended."""
    try:
        return pss(process)
    except (FileNotFoundError, ProcessLookupError, StopIteration):
        return 0


def play(host: str, episode: Any) -> dict[str, Any]:
    """One episode on a host: success, times, latency from the camera to the wheels, what it cost, hops."""
    watcher = Watcher()
    ((_, result),) = run_many([episode], host=host, each_round=watcher.look)
    return {"reached": result["success"], "outcome": result["outcome"], "time": result["time"],
            "latency": result["latency"], "restarts": len(result["restarts"]), "cores": watcher.cores,
            "memory": watcher.memory, "hops": watcher.hops(), "wall": result["wall"]}


def compared(count: int, seed: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Pairs of episodes, as many of ``count`` as there is time for.

    Returns:
        ``pairs``: of each ``id`` and the two sides; ``hosts``: a row of sums for each; ``hops``: of each, medians
        of the episodes, and ``chain``, those of the way from the camera to the wheels; ``asked`` and ``played``.

    Raises:
        GraphError, StartError: a brain does not start.
    """
    episodes = results.SUITES["language-v1"].episodes("val", count, seed, 0, TIME_LIMIT) if count else []
    begin, pairs = time.monotonic(), []
    for number, episode in enumerate(episodes):
        if time.monotonic() - begin > MOST:
            tell(f"{number} pairs took {MOST:g} s; no more are played")
            break
        pair: dict[str, Any] = {"id": episode.id}
        for host in HOSTS if number % 2 == 0 else HOSTS[::-1]:
            pair[host] = play(host, episode)
            tell(f"pair {number + 1} on {host}: {pair[host]['outcome']} after {pair[host]['time']:.0f} s, "
                 f"{pair[host]['memory'] / 1e6:.0f} MB")
        pairs.append(pair)
    hops = _hops(pairs)
    chain = [one for topic in CHAIN for one in hops if one["hop"].split()[0] == topic]
    return {"asked": count, "played": len(pairs), "time_limit": TIME_LIMIT, "seed": seed,
            "hosts": [_sums(host, pairs) for host in HOSTS] if pairs else [], "hops": hops, "chain": chain,
            "pairs": [{"id": pair["id"], **{host: {k: v for k, v in pair[host].items() if k != "hops"}
                                            for host in HOSTS}} for pair in pairs]}


def _sums(host: str, pairs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    mine = [pair[host] for pair in pairs]
    only = sum(pair[host]["reached"] and not all(pair[other]["reached"] for other in HOSTS) for pair in pairs)
    return {"host": host, "n": len(mine), "reached": sum(one["reached"] for one in mine), "only": only,
            "time": median_of(one["time"] for one in mine if one["reached"]),
            "p50": median_of(one["latency"]["p50"] for one in mine if one["latency"]["n"]),
            "p95": median_of(one["latency"]["p95"] for one in mine if one["latency"]["n"]),
            "cores": median_of(one["cores"] for one in mine), "memory": median_of(one["memory"] for one in mine),
            "started": median_of(one["wall"] - one["time"] for one in mine),
            "restarts": sum(one["restarts"] for one in mine)}


def _hops(pairs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for pair in pairs:
        for host in HOSTS:
            for hop, told in pair[host]["hops"].items():
                if hop.split()[0] in LEFT_OUT:
                    continue
                found.setdefault((host, hop), []).append(told)
    return [{"host": host, "hop": hop, "p50": median_of(one["p50"] for one in told),
             "p99": median_of(one["p99"] for one in told), "lost": sum(one["lost"] or 0 for one in told)}
            for (host, hop), told in sorted(found.items(), key=lambda item: (item[0][1], item[0][0]))]
