# SPDX-License-Identifier: Apache-2.0
"""Orders and questions about jobs that people send a cloud; and what the command does with what a file holds."""
from __future__ import annotations

from typing import Any, Iterable, Mapping

from brain_cloud.jobs.manifests import Manifest, manifest
from brain_cloud.jobs.runner import Runner
from brain_edge.schema import FormProblem, check
from brain_edge.state.manifests import MOST

NONE = ("this cloud runs no jobs; start it with `brain cloud --jobs 2` (workers at once), or run the file on this "
        "machine with `brain jobs run FILE`")
_NAME = {"type": "string", "maxLength": 130}
_OBJECT = {"type": "object", "additionalProperties": True}
FORM: Mapping[str, Any] = {"type": "object", "required": ["ask"], "properties": {
    "ask": {"enum": ["check", "apply", "delete", "list", "logs"]}, "kind": _NAME, "name": _NAME, "worker": _NAME,
    "manifests": {"type": "array", "maxItems": MOST, "items": _OBJECT}}}


def serve(runner: Runner | None, order: Any, person: str) -> dict[str, Any]:
    """The answer to an order.

    Args:
        runner: of this cloud; None: it has none.
        order: plain values of others.
        person: who orders it.

    Raises:
        FormProblem: it cannot be meant so, or there is no runner.
        StoreProblem: nothing can be written.
    """
    if runner is None:
        raise FormProblem(NONE)
    check(order, FORM, "job")
    if order["ask"] == "list":
        return {"jobs": runner.jobs(order.get("kind"), order.get("name")), "slots": runner.slots}
    if order["ask"] == "logs":
        if "name" not in order:
            raise FormProblem("a job's logs are asked for by its name")
        return runner.logs(order["name"], order.get("worker"), order.get("kind"))
    found: list[Manifest] = []
    for number, value in enumerate(order.get("manifests", ()), 1):
        try:
            found.append(manifest(value))
        except FormProblem as problem:
            raise FormProblem(f"manifest {number}: {problem}") from None
    if len({(one.kind, one.name) for one in found}) < len(found):
        raise FormProblem("a manifest stands twice; take one away, or give it another name")
    if order["ask"] == "check":
        return {"jobs": runner.check(found)}
    if order["ask"] == "apply":
        return {"jobs": runner.apply(found, person)}
    return {"jobs": runner.delete([(one.kind, one.name) for one in found], person)}


def divided(found: Iterable[Any]) -> tuple[list[dict[str, Any]], list[Any]]:
    """Job manifests of a file as plain values, and its resources of robots."""
    found = list(found)
    return ([one.to_dict() for one in found if isinstance(one, Manifest)],
            [one for one in found if not isinstance(one, Manifest)])


def named(name: str | None) -> dict[str, str]:
    """A job's name as people give it, with its kind before it where two have the same: ``TrainJob/motor``."""
    if name is None:
        return {}
    kind, slash, rest = name.partition("/")
    return {"kind": kind, "name": rest} if slash and kind[:1].isupper() else {"name": name}
