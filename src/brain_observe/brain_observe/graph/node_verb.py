# SPDX-License-Identifier: Apache-2.0
"""``brain node``: lists nodes, and tells what each publishes, hears and serves, in the words of `ros2 node`."""
from __future__ import annotations

from typing import Annotated, Any

import typer

from brain_observe.graph.live import complete_node, looking
from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, tell, tell_json)
from brain_wire import names

ACTION, GOAL = "/_action/", "_SendGoal"
HEADINGS = {"Subscribers": names.SUBSCRIPTION, "Publishers": names.PUBLISHER, "Service Servers": names.SERVER,
            "Service Clients": names.CLIENT}

app = typer.Typer(help="List nodes, and tell of one, as `ros2 node` does, without ROS.", no_args_is_help=True)
Node = Annotated[str, typer.Argument(help="Name of the node; relative ones are below --namespace.",
                                     autocompletion=complete_node)]


@app.callback()
def node() -> None:
    """Lists nodes, and tells of one."""


@app.command("list")
def list_nodes(hidden: Annotated[bool, typer.Option("--all", "-a", help="Those whose name begins with an underscore, "
                                                    "too.")] = False,
               count: Annotated[bool, typer.Option("--count-nodes", "-c", help="Tell only how many there are.")
                                ] = False,
               as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
               namespace: Namespace = "") -> None:
    """Lists the nodes that there are.

    Example: brain node list
    """
    with looking("node", domain, secure, namespace, router) as graph:
        graph.settle()
        found = graph.nodes(hidden)
    if as_json:
        tell_json({"nodes": found})
    elif count:
        tell(str(len(found)))
    else:
        for name in found:
            tell(name)


@app.command()
def info(node: Node,
         hidden: Annotated[bool, typer.Option("--include-hidden", help="Topics and services whose name begins with an "
                                              "underscore, too.")] = False,
         as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
         namespace: Namespace = "") -> None:
    """Tells what a node publishes, hears, serves and asks, with types.

    Example: brain node info vision
    """
    with looking("node", domain, secure, namespace, router) as graph:
        name = graph.known_node(node)
        graph.settle()
        found: dict[str, dict[str, str]] = {heading: {
            one.topic: one.type for one in graph.endpoints(kind, node=name) if hidden or not _hidden(one.topic)}
            for heading, kind in HEADINGS.items()}
        for heading, kind in (("Action Servers", names.SERVER), ("Action Clients", names.CLIENT)):
            found[heading] = {one.topic.partition(ACTION)[0]: one.type.removesuffix(GOAL)
                              for one in graph.endpoints(kind, node=name) if one.topic.endswith(f"{ACTION}send_goal")}
    if as_json:
        tell_json({"node": name, **{_key(heading): dict(sorted(some.items())) for heading, some in found.items()}})
        return
    tell(name)
    for heading, some in found.items():
        tell(f"  {heading}:")
        for topic, kind in sorted(some.items()):
            tell(f"    {topic}: {kind}")


def _hidden(topic: str) -> bool:
    return any(part.startswith("_") for part in topic.split("/"))


def _key(heading: str) -> Any:
    return heading.casefold().replace(" ", "_")
