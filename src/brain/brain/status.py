# SPDX-License-Identifier: Apache-2.0
"""``brain status``: how each region is, heard on the wire from any terminal."""
from __future__ import annotations

from typing import Annotated, Any

import typer

from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, fail, tell_json, use_domain,
                                           use_security)
from brain_runtime.supervision.report import (EDGES_FOOTER, edges_report, edges_table, footer, here_lines, input_lines,
                                              reason_lines, report, table)
from brain_wire.safe_text import line

WINDOW = 1.5        # s of listening where nothing else is said
REFRESH = 0.5       # s between two pictures of --watch
PATIENCE = 2.0      # s more until every region has told of its edges, which it does once a second


def status(graph: Annotated[str, typer.Option(help="Graph whose regions ought to be there: a name or a path.")
                            ] = "brain",
           watch: Annotated[bool, typer.Option("--watch", help="Go on until Ctrl-C.")] = False,
           hops: Annotated[bool, typer.Option("--hops", help="Show each edge: latency, loss, messages.")] = False,
           seconds: Annotated[float, typer.Option(min=0.2, help="How long to listen.")] = WINDOW,
           as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
           namespace: Namespace = "") -> None:
    """Shows how each region is: from what is on the wire, without asking anybody.

    Exit status: 0 when all regions that are heard or ought to be there are active, 1 otherwise, 130 after Ctrl-C
    without --watch.
    With --watch --json, one line of JSON for each look. With --hops, what each region tells on /diagnostics of the
    topics that it hears: regions in one process (`brain eval`) or in a static group have no hops to tell of.
    """
    number = use_domain(domain)
    use_security(secure)
    from brain_runtime.command.terminal import Terminal

    from brain_runtime.supervision.edge_ear import EdgeEar
    from brain_runtime.supervision.listen import Ear
    from brain_wire import NameProblem, NoRouter, SessionProblem, open_node

    expected = _expected(graph, namespace)
    found: dict[str, Any] = {}
    try:
        with open_node("brain_status", namespace or "/", router=router) as node:
            ear = Ear(node)
            edges = EdgeEar(node) if hops else None
            look = lambda: _look(ear, edges, expected, number, namespace)  # noqa: E731
            ear.listen(seconds)
            if edges is not None:
                ear.listen(PATIENCE, lambda ear: all_told(ear, edges))
            found = look()
            if watch:
                _watch(ear, look, as_json, Terminal(), namespace)
                found = look()
            ear.close()
    except (NoRouter, SessionProblem, NameProblem) as error:
        fail(str(error))
    except KeyboardInterrupt:
        if watch:
            return
        fail("interrupted, before all was heard", 130)
    if not watch:
        if as_json:
            tell_json(found)
        elif not found["regions"]:
            fail(f"no brain is heard in domain {number}" + (f", namespace {namespace}" if namespace else "")
                 + "; start one with `brain up`, or see --domain and --namespace"
                 + "".join(f". {here}" for here in here_lines(found).splitlines()))
        else:
            console = Terminal()
            for part in _edges(found, namespace) if hops else (
                    table(found), "input ages (s):\n" + input_lines(found)):
                console.print(part, soft_wrap=isinstance(part, str))
            if reasons := reason_lines(found):
                console.print(reasons, style="yellow", soft_wrap=True)
            console.print(footer(found), soft_wrap=True)
            if expected and set(expected) <= set(found["missing"]):
                console.print(f"no region of the graph {graph} is heard; where another one runs, name it with --graph",
                              style="yellow", soft_wrap=True, markup=False)
            if here := here_lines(found):
                console.print(here, soft_wrap=True, markup=False)
    well = found["regions"] and not found["missing"] and all(r["state"] == "active" for r in found["regions"])
    raise typer.Exit(0 if well else 1)


def _look(ear: Any, edges: Any, expected: list[str], domain: int, namespace: str) -> dict[str, Any]:
    found = report(ear, expected, domain, namespace)
    if edges is not None:
        edges.take()
        told = edges.told()
        found["hops"] = edges_report(told)
        found["without_hops"] = [r["name"] for r in found["regions"] if r["name"] not in told]
    return found


def _edges(found: dict[str, Any], namespace: str) -> list[Any]:
    parts = [edges_table(found["hops"], namespace), EDGES_FOOTER]
    if silent := found["without_hops"]:
        parts.append(line(f"tell of no hops: {', '.join(silent)}"))
    return parts


def all_told(ear: Any, edges: Any) -> bool:
    """Tells whether each region that is heard has told of its edges."""
    edges.take()
    return not ear.regions.keys() - edges.told().keys()


def _expected(graph: str, namespace: str) -> list[str]:
    from brain_runtime.graph import GraphError
    from brain_runtime.graph.graphs import expected_regions

    try:
        return expected_regions(graph, namespace)
    except GraphError as error:
        fail(str(error))


def _watch(ear: Any, look: Any, as_json: bool, console: Any, namespace: str) -> None:
    if as_json:
        while True:
            ear.listen(REFRESH)
            tell_json(look(), None)
    from rich.console import Group
    from rich.live import Live

    with Live(console=console, refresh_per_second=4) as live:
        while True:
            ear.listen(REFRESH)
            found = look()
            parts = _edges(found, namespace) if "hops" in found else [table(found), input_lines(found)]
            live.update(Group(*parts, reason_lines(found), footer(found)))
