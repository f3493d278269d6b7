# SPDX-License-Identifier: Apache-2.0
"""``brain param``: lists, reads, describes, changes and writes out parameters, in the words of `ros2 param`."""
from __future__ import annotations

from typing import Annotated, Any

import typer

from brain_observe.graph.live import LiveGraph, complete_node, looking, unknown
from brain_observe.graph.plain import as_yaml
from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, fail, tell, tell_json)
from brain_wire import names
from brain_wire.messages import MessageError, make
from brain_wire.parameter_services import Kind, value_message, value_of
from brain_wire.parameters import ParameterError

SERVICES = "rcl_interfaces/srv/"
SAID = {Kind.BOOL: "Boolean value is:", Kind.INTEGER: "Integer value is:", Kind.DOUBLE: "Double value is:",
        Kind.STRING: "String value is:", Kind.BYTE_ARRAY: "Byte values are:", Kind.BOOL_ARRAY: "Boolean values are:",
        Kind.INTEGER_ARRAY: "Integer values are:", Kind.DOUBLE_ARRAY: "Double values are:",
        Kind.STRING_ARRAY: "String values are:"}
SHORT = {Kind.BOOL: "boolean", Kind.BOOL_ARRAY: "boolean array", Kind.NOT_SET: "not set"}

app = typer.Typer(help="List, read, change and write out parameters, as `ros2 param` does, without ROS.",
                  no_args_is_help=True)
Node = Annotated[str, typer.Argument(help="Name of the node; relative ones are below --namespace.",
                                     autocompletion=complete_node)]
Name = Annotated[str, typer.Argument(help="Name of the parameter.")]


@app.callback()
def param() -> None:
    """Lists, reads, changes and writes out parameters."""


class Parameters:
    """Parameters of one node, by its services.

    Args:
        graph: that it is in.
        node: its full name.
    """

    def __init__(self, graph: LiveGraph, node: str) -> None:
        self._graph, self.node = graph, node

    def _ask(self, service: str, **fields: Any) -> Any:
        kind = SERVICES + service.title().replace("_", "")
        with self._graph.asked(f"{self.node}/{service}", kind) as call:
            try:
                return call(make(f"{kind}_Request", **fields))
            except (TimeoutError, MessageError) as error:
                fail(f"{self.node} does not tell of its parameters: {error}")

    def names(self) -> list[str]:
        """Names of all of them, sorted."""
        return sorted(self._ask("list_parameters").result.names)

    def known(self, name: str) -> str:
        """The name, where there is such a parameter; else the command ends."""
        found = self.names()
        return name if name in found else unknown("param", name, found)

    def values(self, names: list[str]) -> dict[str, Any]:
        """Their values, by name; None: not set."""
        told = self._ask("get_parameters", names=names).values
        if len(told) != len(names):
            fail(f"{self.node} tells {len(told)} values for {len(names)} parameters")
        try:
            return {name: value_of(value) for name, value in zip(names, told)}
        except ParameterError as error:
            fail(f"{self.node}: {error}")

    def described(self, names: list[str]) -> dict[str, Any]:
        """Their ParameterDescriptors, by name."""
        return dict(zip(names, self._ask("describe_parameters", names=names).descriptors))

    def change(self, name: str, value: Any) -> Any:
        """Sets one; the SetParametersResult."""
        results = self._ask("set_parameters", parameters=[
            make("rcl_interfaces/msg/Parameter", name=name, value=value_message(value))]).results
        return results[0] if results else fail(f"{self.node} did not answer what became of {name}")


@app.command("list")
def list_parameters(node: Annotated[str, typer.Argument(help="Name of a node. Default: all.",
                                                        autocompletion=complete_node)] = "",
                    as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
                    namespace: Namespace = "") -> None:
    """Lists the parameters of a node, or of all.

    Example: brain param list motor
    """
    with looking("param", domain, secure, namespace, router) as graph:
        if node:
            nodes = [graph.known_node(node)]
        else:
            graph.settle()
            served = {one.name for one in graph.endpoints(names.SERVER) if one.topic.endswith("/list_parameters")}
            nodes = [one for one in graph.nodes() if one in served]
        found = {one: Parameters(graph, one).names() for one in nodes}
    if as_json:
        tell_json({"parameters": found})
        return
    for one, some in found.items():
        if not node:
            tell(f"{one}:")
        for name in some:
            tell(f"  {name}")


@app.command()
def get(node: Node, name: Name, as_json: Json = False, router: Router = None, secure: Secure = None,
        domain: Domain = None, namespace: Namespace = "") -> None:
    """Tells the value of a parameter.

    Example: brain param get motor max_linear
    """
    with looking("param", domain, secure, namespace, router) as graph:
        its = Parameters(graph, graph.known_node(node))
        value = its.values([its.known(name)])[name]
    if as_json:
        tell_json({"node": its.node, "name": name, "value": value})
    elif value is None:
        tell("Parameter not set.")
    else:
        tell(f"{SAID[_kind(value)]} {list(value) if isinstance(value, tuple) else value}")


@app.command("set")
def set_parameter(node: Node, name: Name,
                  value: Annotated[str, typer.Argument(help="Value in YAML, as 0.2, true, \"[1, 2]\".")],
                  as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
                  namespace: Namespace = "") -> None:
    """Changes a parameter while the node runs; one that it refuses stays as it was, and status is 1.

    Example: brain param set motor max_linear 0.2
    """
    import yaml

    try:
        given = yaml.safe_load(value)
        given = value if given is None else given
        value_message(given)
    except (yaml.YAMLError, KeyError, MessageError, TypeError, ValueError):
        fail(f"{value!r:.80} is no value of a parameter: true, 5, 0.5, text, or a list of one of these", 2)
    with looking("param", domain, secure, namespace, router) as graph:
        its = Parameters(graph, graph.known_node(node))
        result = its.change(its.known(name), given)
    if not result.successful:
        fail(f"Setting parameter failed: {result.reason}")
    if as_json:
        tell_json({"node": its.node, "name": name, "value": given})
    else:
        tell("Set parameter successful" + (f": {result.reason}" if result.reason else ""))


@app.command()
def describe(node: Node, name: Annotated[list[str], typer.Argument(help="Names of parameters.")],
             as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
             namespace: Namespace = "") -> None:
    """Tells what a parameter is for, its type and its range.

    Example: brain param describe motor max_linear
    """
    with looking("param", domain, secure, namespace, router) as graph:
        its = Parameters(graph, graph.known_node(node))
        found = its.described([its.known(one) for one in name])
    about = [_about(one) for one in found.values()]
    if as_json:
        tell_json({"node": its.node, "parameters": about})
        return
    for one in about:
        tell(f"Parameter name: {one['name']}\n  Type: {one['type']}\n  Description: {one['description']}\n"
             f"  Constraints:" + "\n    Read only: true" * one["read_only"] + "".join(
                 f"\n    {label}: {one[key]}" for label, key in (
                     ("Min value", "low"), ("Max value", "high"), ("Additional constraints", "constraints"))
                 if one[key] not in (None, "")))


def _about(told: Any) -> dict[str, Any]:
    ranges = [*told.floating_point_range, *told.integer_range]
    kind = Kind(told.type) if told.type in list(Kind) else Kind.NOT_SET
    return {"name": told.name, "type": SHORT.get(kind, kind.name.casefold().replace("_", " ")),
            "description": told.description, "constraints": told.additional_constraints,
            "read_only": bool(told.read_only), "low": ranges[0].from_value if ranges else None,
            "high": ranges[0].to_value if ranges else None}


@app.command()
def dump(node: Node, as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
         namespace: Namespace = "") -> None:
    """Writes all parameters of a node as a file of parameters.

    Example: brain param dump motor > motor.params.yaml
    """
    with looking("param", domain, secure, namespace, router) as graph:
        its = Parameters(graph, graph.known_node(node))
        found = {name: list(value) if isinstance(value, tuple) else value
                 for name, value in its.values(its.names()).items() if value is not None}
    if as_json:
        tell_json({"node": its.node, "parameters": found})
    else:
        tell(as_yaml({its.node: {"ros__parameters": found}}).rstrip("\n"))


def _kind(value: Any) -> Kind:
    return Kind(value_message(value).type)
