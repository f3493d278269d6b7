# SPDX-License-Identifier: Apache-2.0
"""*scale* of ``brain bench backends``: a static gloo group beside nodes at one Zenoh router, of the same size and rate.

Zenoh's side is what ``brain bench scale`` measures. In both, all processes are forked from one that has imported what
they need, and share that memory: PSS counts for each its share.
"""
from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Sequence

from brain_wire.router import free_port
from brain_wire.temporary_folder import TemporaryFolder
from experiments.costs import available
from experiments.scale import RATE, Nodes, ScaleProblem, latencies, measure

FOR_ONE = 90e6          # bytes of free memory for each process of a group
LARGE = 64              # processes from which on it is looked whether there is memory for them


def group(count: int, seconds: float, tell: Callable[[str], None]) -> dict[str, Any]:
    """A gloo group of so many ranks, as :func:`experiments.scale.measure` tells of nodes.

    Raises:
        ScaleProblem: it cannot be measured.
    """
    tell(f"a group of {count}: starting")
    port, begin = free_port(), time.monotonic()
    orders = [{"port": port, "number": number, "count": count, "rate": RATE} for number in range(count)]
    with TemporaryFolder("bench") as folder, \
            Nodes(orders, Path(folder) / "nodes.log", "experiments.gloo_nodes") as nodes:
        nodes.answers()
        nodes.answers({"do": "declare"})
        started, costs = time.monotonic() - begin, nodes.costs()
        runs = nodes.answers({"do": "run", "seconds": seconds})
    ran, waited = (sum(run[what] for run in runs) for what in ("ran", "waited"))
    sent, heard = sum(run["sent"] for run in runs), sum(run["heard"] for run in runs)
    return {"started": started, "node": costs, "sent": sent, "lost": sent - heard, **latencies(runs),
            "waiting": waited / (waited + ran) if waited + ran else 0.0}


def compared(counts: Sequence[int], seconds: float, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """Both, by turns, for each number of processes; what cannot be measured says why in ``wrong``.

    Returns:
        By ``host`` and ``processes``: ``started`` (s), of a node ``connections`` and ``descriptors``, of all and the
        router ``pss`` (bytes), ``sent``, ``lost``, ``p50`` and ``p99`` (s), ``waiting``: share of the time in which a
        process that could have run had no core.
    """
    found = []
    for count in counts:
        for host in ("zenoh", "gloo"):
            row: dict[str, Any] = {"host": host, "processes": count, "wrong": ""}
            try:
                if count >= LARGE and available() < count * FOR_ONE:
                    raise ScaleProblem(f"{available() / 1e9:.1f} GB of memory are free, too few for so many")
                report = (group(count, seconds, tell) if host == "gloo" else
                          measure(count, seconds, free_port() % 200, [f"tcp/127.0.0.1:{free_port()}"], tell))
                more = 0 if host == "gloo" else report["router"][0]["rss"]
                row.update({key: report[key] for key in ("started", "sent", "lost", "p50", "p99", "waiting")},
                           connections=report["node"]["connections"], descriptors=report["node"]["descriptors"],
                           pss=report["node"]["pss"] + more)
            except ScaleProblem as why:
                row.update(dict.fromkeys(("started", "sent", "lost", "p50", "p99", "waiting", "connections",
                                          "descriptors", "pss")), wrong=str(why))
            found.append(row)
            tell(row["wrong"] or f"{count} on {host}: up after {row['started']:.1f} s, {row['connections']:.0f} "
                 f"connections each, {1e-6 * row['pss']:.0f} MB, {row['lost']} of {row['sent']} lost, p99 "
                 f"{1e3 * row['p99']:.1f} ms")
    return found
