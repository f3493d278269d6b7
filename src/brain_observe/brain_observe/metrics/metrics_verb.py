# SPDX-License-Identifier: Apache-2.0
"""``brain metrics``: a brain's figures, for Prometheus."""
from __future__ import annotations

from typing import Annotated, Any

import typer

from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, fail, tell, tell_json, use_domain,
                                           use_security)
from brain_runtime.metrics.address import HELP

PORT = 9462
LISTEN = 0.5        # s between two times that the figures are made
RETRY = 1.0         # s between two attempts to reach a router that is not there


def metrics(address: Annotated[str, typer.Argument(metavar="[HOST:]PORT", help=HELP)] = str(PORT),
            graph: Annotated[str, typer.Option(help="Graph whose regions ought to be there: a name or a path.")
                             ] = "brain",
            as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
            namespace: Namespace = "") -> None:
    """Shows a brain's figures to Prometheus until Ctrl-C, from what is on the wire, without asking anybody.

    It runs beside the brain, is started before or after it, and nothing of the brain waits for it. With --json it
    prints one object once it listens.
    """
    use_domain(domain)
    use_security(secure)
    from brain_runtime.run.ending import Ending
    from brain_runtime.metrics.address import MetricsProblem, shown_address
    from brain_runtime.metrics.opening import open_server

    expected = _expected(graph, namespace)
    ending = Ending()
    try:
        with open_server(address) as server:
            url = f"http://{shown_address(server.address)}/metrics"
            tell_json({"url": url}, None) if as_json else tell(f"the brain's figures are at {url}")
            _run(server, expected, router, namespace, ending.asked)
    except MetricsProblem as problem:
        fail(str(problem))


def _run(server: Any, expected: list[str], router: str | None, namespace: str, stop: Any) -> None:
    from brain_observe.metrics.brain_figures import BrainFigures
    from brain_runtime.metrics.families import gauge
    from brain_wire import NameProblem, NoRouter, SessionProblem, open_node

    alone = [gauge("brain_router_linked", "Whether there is a link to the brain's router (1) or not (0).", 0.0)]
    figures: list[BrainFigures] = []
    server.start(lambda: figures[0].families() if figures else alone)
    said = ""
    while not stop.is_set():
        try:
            with open_node("brain_metrics", namespace or "/", router=router) as node:
                found = BrainFigures(node, expected)
                found.listen(0.0)
                figures.append(found)
                while not stop.is_set():        # Zenoh itself links it again when the router was away
                    found.listen(LISTEN)
                found.close()
        except NoRouter as problem:
            if str(problem) != said:
                said = str(problem)
                tell(f"{said}; trying again", "yellow", err=True)
            stop.wait(RETRY)
        except (SessionProblem, NameProblem) as problem:
            fail(str(problem))


def _expected(graph: str, namespace: str) -> list[str]:
    from brain_runtime.graph import GraphError
    from brain_runtime.graph.graphs import expected_regions

    try:
        return expected_regions(graph, namespace)
    except GraphError as error:
        fail(str(error))
