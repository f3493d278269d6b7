# SPDX-License-Identifier: Apache-2.0
"""``brain bench scale``: what grows with the number of nodes, at a router and between linked ones.

Routers and nodes are processes of their own. What is known of the wire is asked of the routers: their descriptors and
memory of the kernel, what was declared of their admin space, the tokens of one more node, which comes last and whose
time to know all others is taken. See :mod:`experiments.scale_model` for what is made of it.
"""
from __future__ import annotations

import contextlib
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Callable, Iterator, Sequence

import typer

from brain_eval import saved
from brain_eval.bench.experiment import Experiment, Problem, whole_numbers
from brain_eval.bench.rows import Table, rows
from brain_runtime.command.options import fail, use_domain
from brain_wire import Watch, open_session
from brain_wire.router import free_port, is_router
from brain_wire.temporary_folder import TemporaryFolder
from experiments.costs import Scheduled, cores, descriptors, family, internet, of_process, others, pss
from experiments.processes import Peer, beside
from experiments.scale_nodes import READY

RATE = 10.0             # Hz of each node
QUANTILES = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1)
ROUTERS, LINKED = 3, 60     # of --linked
LIMIT = 0.010           # s, that the 99th percentile may have
SETTLE = 1.0            # s in which a router lets go of the link by which it was asked whether it is there
LARGE = (1_000, 10_000)         # nodes that are simulated
LINES = ("memory", "descriptors", "tokens", "newcomer")
WITHIN = {                      # how far the simulation may be off what linked routers show, as a factor either way
    "p50 within a router": 2.0, "p50 across a link": 2.0, "memory of a router": 1.3, "descriptors of a router": 1.3,
    "core of a router": 2.0, "p99 within a router": 3.0, "p99 across a link": 3.0}


class ScaleProblem(Problem):
    """It cannot be measured; says why."""


def quantile(values: Sequence[float], q: float) -> float:
    """A quantile of sorted values."""
    return values[min(len(values) - 1, int(q * len(values)))]


def neighbours(count: int, routers: int) -> list[tuple[int, int]]:
    """For each node its router, and the node that it hears.

    With one router a ring. With more, nodes are dealt out by turns, as many to each; those with an even place at their
    router hear a node of the same one, the others one of the next.

    Raises:
        ScaleProblem: there are too few of them.
    """
    if routers == 1:
        return [(0, (node - 1) % count) for node in range(count)]
    each = count // routers // 2 * 2
    if each < 4:
        raise ScaleProblem(f"{count} nodes are too few for {routers} routers; take {4 * routers} or more")
    found = []
    for node in range(each * routers):
        router, place = node % routers, node // routers
        source = router if place % 2 == 0 else (router + 1) % routers
        found.append((router, (place + 2) % each * routers + source))
    return found


@contextlib.contextmanager
def router(endpoint: str, connect: Sequence[str] = ()) -> Iterator[subprocess.Popen]:
    """A router as a process of its own, once it routes.

    Raises:
        ScaleProblem: it does not come up.
    """
    linked = [word for other in connect for word in ("--connect", other)]
    with beside("-m", "brain_wire.router", "--listen", endpoint, *linked) as process:
        until = time.monotonic() + READY
        while not is_router(endpoint):
            if process.poll() is not None or time.monotonic() > until:
                raise ScaleProblem(f"no router came up at {endpoint}")
            time.sleep(0.1)
        yield process


class Nodes(Peer):
    """The light processes, behind the one that forks them.

    Args:
        orders: of each, see :class:`experiments.scale_nodes.LightNode`.
        log: file for what they write.
        module: that forks them.
    """

    def __init__(self, orders: list[dict[str, Any]], log: Path, module: str = "experiments.scale_nodes") -> None:
        super().__init__("the nodes", [sys.executable, "-m", module], log, problem=ScaleProblem)
        try:
            self.say(orders)
        except BaseException:
            self.close()
            raise

    def costs(self) -> dict[str, float]:
        """Of a node in the median its ``descriptors`` and TCP ``connections``; of all together ``pss`` (bytes)."""
        children = family([self.pid])[1:]
        links = list(map(descriptors, children))
        tcp = [sum(link in there for link in each) for each, there in zip(links, map(internet, children))]
        return {"descriptors": statistics.median(map(len, links)), "connections": statistics.median(tcp),
                "pss": sum(map(pss, children))}

    def answers(self, order: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Returns the answer of each, after an order or once it is ready.

        Raises:
            ScaleProblem: one has failed.
        """
        return (self.answer() if order is None else self.ask(**order))["nodes"]


def newcomer(endpoint: str, domain: int, expected: int) -> dict[str, Any]:
    """Measures how long one more node takes until it knows of all others (s), and how much there is to know.

    Raises:
        ScaleProblem: it does not learn of all.
    """
    with open_session(endpoint, patience=READY) as session:
        begin = time.monotonic()
        with Watch(session, domain) as watch:
            while len(watch.nodes()) < expected or len(watch.endpoints()) < 2 * expected:
                if time.monotonic() - begin > READY:
                    raise ScaleProblem(f"only {len(watch.nodes())} of {expected} nodes are seen")
                watch.poll()
                time.sleep(0.001)
            took = time.monotonic() - begin
            tokens = len(watch.nodes()) + len(watch.endpoints())
        declared = {kind: sum(1 for reply in session.zenoh.get(f"@/*/router/{kind}/{domain}/**") if reply.ok)
                    for kind in ("publisher", "subscriber")}
    return {"newcomer": took, "tokens": tokens, "declarations": declared}


def carried(endpoint: str) -> dict[str, int] | None:
    """Bytes that a router has sent and received so far on the links that it accepted; None where `ss` does not tell."""
    try:
        told = subprocess.run(["ss", "-tinH", "state", "established", f"( sport = :{endpoint.rpartition(':')[2]} )"],
                              capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return {way: sum(map(int, re.findall(rf"\bbytes_{way}:(\d+)", told))) for way in ("sent", "received")}


def latencies(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Latency (s) of what some nodes heard."""
    took = sorted(1e-9 * ns for run in runs for ns in run["ns"])
    if not took:
        raise ScaleProblem("nothing was heard")
    return {"messages": len(took), "p50": quantile(took, 0.5), "p99": quantile(took, 0.99), "longest": took[-1],
            "quantiles": [[q, quantile(took, q)] for q in QUANTILES]}


def measure(count: int, seconds: float, domain: int, endpoints: Sequence[str], tell: Callable[[str], None]
            ) -> dict[str, Any]:
    """Measures so many nodes at linked routers, one for each endpoint.

    Args:
        count: of nodes.
        seconds: that they publish.
        domain: of ROS.
        endpoints: of the routers, which are started here and linked each with all before.
        tell: what is being done, for people.

    Raises:
        ScaleProblem: it cannot be measured.
        NoRouter, SessionProblem: a router cannot be reached.
    """
    hears = neighbours(count, len(endpoints))
    count = len(hears)
    load = os.getloadavg()[0]
    with TemporaryFolder("bench") as folder, contextlib.ExitStack() as stack:
        routers = []
        for number, endpoint in enumerate(endpoints):
            tell(f"{count} nodes: starting router {number + 1}")
            routers.append(stack.enter_context(router(endpoint, endpoints[:number])))
        time.sleep(SETTLE)
        empty = [of_process(one.pid) for one in routers]
        tell(f"{count} nodes: starting")
        begin = time.monotonic()
        orders = [{"endpoint": endpoints[place], "domain": domain, "number": number, "hears": source, "rate": RATE}
                  for number, (place, source) in enumerate(hears)]
        with Nodes(orders, Path(folder) / "nodes.log") as nodes:
            nodes.answers()
            tell(f"{count} nodes: declaring")
            found = sorted(answer["found"] for answer in nodes.answers({"do": "declare"}))
            started, costs = time.monotonic() - begin, nodes.costs()
            newest = newcomer(endpoints[-1], domain, count)
            tell(f"{count} nodes: publishing for {seconds:g} s")
            before, busy, bytes_before = [Scheduled(one.pid) for one in routers], cores(), carried(endpoints[0])
            begin = time.monotonic()
            runs = nodes.answers({"do": "run", "seconds": seconds})
            span = time.monotonic() - begin
            used = [Scheduled(one.pid).since(then) for one, then in zip(routers, before)]
            busy_after = cores()
            full, bytes_after = [of_process(one.pid) for one in routers], carried(endpoints[0])
    ran, waited = (sum(run[what] for run in runs) for what in ("ran", "waited"))
    sent, heard = sum(run["sent"] for run in runs), sum(run["heard"] for run in runs)
    report = {
        "processes": count, "routers": len(routers), "rate": RATE, "seconds": seconds, "sent": sent,
        "lost": sum(runs[source]["sent"] - run["heard"] for run, (_, source) in zip(runs, hears)),
        "heard": heard, "overwritten": sum(run["overwritten"] for run in runs), **latencies(runs),
        "waiting": _share(waited, ran),
        "late": max(run["late"] for run in runs), "matched": found[-1], "started": started, "node": costs, **newest,
        "router": [{**full[i], "rss_empty": empty[i]["rss"], "descriptors_empty": empty[i]["descriptors"],
                    "cpu": used[i][0] / span, "waiting": _share(used[i][1], used[i][0])}
                   for i in range(len(routers))],
        "load": {"before": load, "cores": os.cpu_count(), "busy": others(busy, busy_after),
                 "ours": (ran + sum(cpu for cpu, _ in used)) / span}}
    if bytes_before is not None and bytes_after is not None:
        report["bytes"] = {way: bytes_after[way] - bytes_before[way] for way in bytes_before}
    if len(endpoints) > 1:
        across = [hears[source][0] != place for place, source in hears]
        report["within"] = latencies([run for run, far in zip(runs, across) if not far])
        report["across"] = latencies([run for run, far in zip(runs, across) if far])
    return report


def _share(waited: float, ran: float) -> float:
    return waited / (waited + ran) if waited + ran else 0.0


def fine(report: dict[str, Any]) -> bool:
    """Checks that nothing was lost, and that the 99th percentile kept its limit."""
    return report["lost"] == 0 and report["p99"] <= LIMIT


def _simulated(known: dict[str, Any], seed: int) -> dict[str, Any]:
    from experiments import scale_model

    if not known.get("sizes") or not known.get("linked"):
        fail("nothing is measured yet that could be simulated from: first `brain bench scale --processes 2,4,8 --save` "
             "and `brain bench scale --linked --save`, here", 2)
    try:
        measured = scale_model.fit(known["sizes"])
        check = scale_model.predict_linked(measured, known["linked"], seed)
    except (scale_model.ModelProblem, KeyError, TypeError) as error:
        fail(f"results/scale.json: {error}", 2)
    for one in check:
        ratio, bound = one["ratio"], WITHIN[one["what"]]
        one.update(bound=bound, within=ratio is not None and 1 / bound <= ratio <= bound)
    return {"seed": seed, "service": measured.service, "sent": measured.sent, "per_host": scale_model.PER_HOST,
            "hosts": scale_model.HOSTS, "shares": scale_model.SHARES, "check": check,
            "sizes": [scale_model.simulate(measured, count, RATE, seed) for count in LARGE],
            "lines": {name: getattr(measured, name)._asdict() for name in LINES},
            "million": scale_model.million(measured, RATE, seed)}


class Scale(Experiment):
    """Measures what grows with the number of nodes, at routers of its own; and simulates from that.

    Each node is a light process with one publisher and one subscription. With --save, what was measured before stays:
    each call replaces its own part. Exit status 0 when nothing was lost and the 99th percentile is at most 10 ms (the
    share of time waiting for a core is told beside it); with --simulate, when it is as near to --linked as it should.
    """

    quick = {"processes": "2", "seconds": 1.0}

    def measure(self, processes: Annotated[str, typer.Option(metavar="N,N,...", help="Numbers of nodes at one router.")
                                           ] = "2,4,8",
                seconds: Annotated[float, typer.Option(min=1, max=50, help="How long they publish at 10 Hz.")] = 20.0,
                linked: Annotated[bool, typer.Option("--linked", help="Measure 60 nodes at 3 linked routers instead.")
                                  ] = False,
                nodes: Annotated[int, typer.Option(min=12, help="Of --linked.")] = LINKED,
                simulate: Annotated[bool, typer.Option("--simulate", help="Measure nothing: simulate 1,000 and 10,000 "
                                                       "nodes from results/scale.json, and check it against --linked.")
                                    ] = False,
                seed: Annotated[int, typer.Option(min=0, help="Of --simulate.")] = 0) -> dict[str, Any]:
        """Takes one part, and what is known of the others."""
        known = saved.known("scale")
        if simulate:
            part = {"simulation": _simulated(known, seed)}
            return {"known": known, "part": part, "good": all(one["within"] for one in part["simulation"]["check"])}
        counts = [nodes] if linked else whole_numbers("--processes", processes, 2, 512)
        domain = use_domain(free_port() % 200)
        taken = {field: value for field, value in saved.provenance().items() if field in ("command", "date", "commit")}
        found = []
        for count in counts:
            endpoints = [f"tcp/127.0.0.1:{free_port()}" for _ in range(ROUTERS if linked else 1)]
            found.append({**measure(count, seconds, domain, endpoints, self.status), "taken": taken})
        if linked:
            part = {"linked": found[0]}
        else:
            sizes = {one["processes"]: one for one in [*known.get("sizes", ()), *found]}
            part = {"sizes": [sizes[count] for count in sorted(sizes)]}
        return {"known": known, "part": part, "good": all(map(fine, found))}

    def figures(self, found: dict[str, Any]) -> dict[str, Any]:
        return {**found["known"], **found["part"]}

    def rows(self, found: dict[str, Any]) -> Iterator[str | Table]:
        return rows(found["part"])

    def good(self, found: dict[str, Any]) -> bool:
        return found["good"]
