# SPDX-License-Identifier: Apache-2.0
"""``brain status``: how each region is, heard on the wire from any terminal."""
from __future__ import annotations

from typing import Annotated, Any

import typer

from brain_runtime.command.options import (
    Domain, Json, Namespace, Router, Secure, fail, tell_json, use_domain, use_security)
from brain_runtime.report import footer, input_lines, reason_lines, report, table

WINDOW = 1.5        # s of listening where nothing else is said
REFRESH = 0.5       # s between two pictures of --watch


def status(graph: Annotated[str, typer.Option(help="Graph whose regions ought to be there: a name or a path.")
                            ] = "brain",
           watch: Annotated[bool, typer.Option("--watch", help="Go on until Ctrl-C.")] = False,
           seconds: Annotated[float, typer.Option(min=0.2, help="How long to listen.")] = WINDOW,
           as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
           namespace: Namespace = "") -> None:
    """Shows how each region is: from what is on the wire, without asking anybody.

    Exit status: 0 when all regions that are heard or ought to be there are active, 1 otherwise.
    With --watch --json, one line of JSON for each look.
    """
    number = use_domain(domain)
    use_security(secure)
    from brain_runtime.command.terminal import Terminal

    from brain_runtime.listen import Ear
    from brain_wire import NameProblem, NoRouter, SessionProblem, open_node

    expected = _expected(graph, namespace)
    found: dict[str, Any] = {}
    try:
        with open_node("brain_status", namespace or "/", router=router) as node:
            ear = Ear(node)
            look = lambda: report(ear, expected, number, namespace)  # noqa: E731
            ear.listen(seconds)
            found = look()
            if watch:
                _watch(ear, look, as_json, Terminal())
                found = look()
            ear.close()
    except (NoRouter, SessionProblem, NameProblem) as error:
        fail(str(error))
    except KeyboardInterrupt:
        return
    if not watch:
        if as_json:
            tell_json(found)
        elif not found["regions"]:
            fail(f"no brain is heard in domain {number}" + (f", namespace {namespace}" if namespace else "")
                 + "; start one with `brain up`, or see --domain and --namespace")
        else:
            console = Terminal()
            console.print(table(found))
            console.print("input ages (s):\n" + input_lines(found), soft_wrap=True)
            if reasons := reason_lines(found):
                console.print(reasons, style="yellow", soft_wrap=True)
            console.print(footer(found), soft_wrap=True)
    well = found["regions"] and not found["missing"] and all(r["state"] == "active" for r in found["regions"])
    raise typer.Exit(0 if well else 1)


def _expected(graph: str, namespace: str) -> list[str]:
    from brain_runtime.graph import GraphError
    from brain_runtime.graphs import load

    prefix = "/" + namespace.strip("/") if namespace.strip("/") else ""
    try:
        return [f"{prefix}/{spec.name}" for spec in load(graph).regions if not spec.optional]
    except GraphError as error:
        fail(str(error))


def _watch(ear: Any, look: Any, as_json: bool, console: Any) -> None:
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
            live.update(Group(table(found), input_lines(found), reason_lines(found), footer(found)))
