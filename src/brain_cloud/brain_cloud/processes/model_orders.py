# SPDX-License-Identifier: Apache-2.0
"""Orders to the cloud about models: to take one in, to roll it out, to take it back, and to tell of all."""
from __future__ import annotations

from typing import Any, Callable

from brain_cloud.models.rollouts import Rollout
from brain_cloud.processes.cloud import Cloud
from brain_edge.blobs.store import PATTERN, PIECE
from brain_edge.models.model_file import LARGEST, ModelProblem
from brain_edge.models.model_signature import RECORD
from brain_edge.schema import FormProblem
from brain_security.fleet_keys import FleetNameProblem, check_robot
from brain_wire.safe_text import quoted

DOES = ["models", "model", "model_put", "model_add", "model_remove", "rollout", "rollback"]
_NAME: dict[str, Any] = {"type": "string", "maxLength": 80}
_ROBOTS = {"type": "array", "maxItems": 10_000, "items": _NAME}
FIELDS: dict[str, Any] = {
    "record": RECORD, "digest": {"type": "string", "pattern": PATTERN},
    "offset": {"type": "integer", "minimum": 0, "maximum": LARGEST}, "model": _NAME, "region": _NAME,
    "canary": {"type": "integer", "minimum": 0, "maximum": 10_000}, "on": _ROBOTS,
    "goals": {"type": "integer", "minimum": 0, "maximum": 10_000}, "when": {"enum": ["idle", "now"]},
    "expect": {"type": ["number", "null"], "minimum": 0.1, "maximum": 1.0}}

Handler = Callable[[dict[str, Any], str], dict[str, Any]]


def orders(cloud: Cloud) -> dict[str, Handler]:
    """Returns the handler of each order, by its name."""
    return {"models": lambda order, person: {"models": cloud.registry.models(), "rollouts": cloud.rollouts.told()},
            "model": lambda order, person: cloud.registry.model(_given(order, "model")),
            "model_put": lambda order, person: _put(cloud, order),
            "model_add": lambda order, person: dict(cloud.registry.add(_given(order, "record"), person)),
            "model_remove": lambda order, person: cloud.rollouts.remove(_given(order, "model"), person),
            "rollout": lambda order, person: _rollout(cloud, order, person),
            "rollback": lambda order, person: _rollback(cloud, order, person)}


def _given(order: dict[str, Any], name: str) -> Any:
    if name not in order:
        raise FormProblem(f"{name} is missing")
    return order[name]


def _put(cloud: Cloud, order: dict[str, Any]) -> dict[str, Any]:
    data = order.get("data", b"")
    if len(data) > PIECE:
        raise FormProblem(f"a piece of a model has at most {PIECE} bytes, not {len(data)}")
    return {"have": cloud.registry.put(_given(order, "digest"), order.get("offset", 0), data)}


def _rollout(cloud: Cloud, order: dict[str, Any], person: str) -> dict[str, Any]:
    model, on = _given(order, "model"), order.get("on", [])
    try:
        robots = tuple(map(check_robot, order["robots"])) if "robots" in order else None
        canaries = [check_robot(name) for name in on]
    except FleetNameProblem as problem:
        raise FormProblem(str(problem)) from None
    known = {one["robot"]: one["state"] for one in cloud.robots() if one["state"] != "unknown"}
    for name in [*canaries, *(robots or ())]:
        if name not in known:
            raise FormProblem(f"no robot {quoted(name)} has come yet; see `brain fleet nodes`")
    if not on:
        wanted = order.get("canary", 1)
        here = [name for name in sorted(known) if known[name] == "connected" and (robots is None or name in robots)]
        if len(here) < wanted:
            raise ModelProblem(f"{wanted} canaries are asked for, and {len(here)} of those robots are connected now; "
                               f"see `brain fleet nodes`, ask for fewer with --canary, or name some with --on")
        canaries = here[:wanted]
    elif robots is not None and not set(canaries) <= set(robots):
        raise ModelProblem("each canary is one of the robots that are to have the model")
    one, told = cloud.rollouts.begin(model, robots, canaries, goals=order.get("goals", 10),
                                     when=order.get("when", "idle"), expect=order.get("expect"), person=person)
    return _told(cloud, one, told)


def _rollback(cloud: Cloud, order: dict[str, Any], person: str) -> dict[str, Any]:
    return _told(cloud, *cloud.rollouts.back(order.get("region"), person))


def _told(cloud: Cloud, one: Rollout, robots: set[str]) -> dict[str, Any]:
    for robot in robots:
        cloud.wake(robot)
    with cloud.store.change() as db:
        return cloud.rollouts.describe(db, one)
