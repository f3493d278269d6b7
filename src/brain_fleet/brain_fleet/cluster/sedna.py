# SPDX-License-Identifier: Apache-2.0
"""Sedna's FederatedLearningJob and JointInferenceService: the workers below them, and their status.

The variables by which workers are told of each other are those that Sedna's global manager gives.
"""
from __future__ import annotations

from typing import Any, Mapping

from brain_fleet.cluster import conditions
from brain_fleet.cluster.kinds import (DATASET, DEPLOYMENT, FEDERATED, JOB, JOINT, MODEL, PLAN, SCALER, SERVICE,
                                       SHA256, SUSPEND, Kind, owned, owner_labels)
from brain_fleet.cluster.placement import placed
from brain_fleet.cluster.plans import NO_SETTINGS, Below, Child, Plan, Settings, job_state, pods_of
from brain_fleet.cluster.storage import Source, of_resource, stored
from brain_fleet.jobs.sedna import Find, Part, compile_federated, compile_joint
from brain_fleet.jobs.templates import Unfit, digest, fitting, labelled, pod_template, variables, with_variables

# By the variables that tell of them.
PORTS = {"AGG_BIND_PORT": 7363, "AGG_PORT": 7363, "BIG_MODEL_BIND_PORT": 5000, "BIG_MODEL_PORT": 5000}


def federated(below: Below, settings: Settings) -> Plan:
    """Plans a FederatedLearningJob as it is now: an aggregator with its Service, and a worker for each data set."""
    job = below.resource
    status = dict(job.get("status") or NO_SETTINGS)
    old = list(status.get("conditions") or ())
    if conditions.holds(old, "Complete", "Failed"):
        return Plan([], status, over=True)
    try:
        children = _federated_children(below, settings)
    except Unfit as problem:
        return blocked(below, problem)
    counts = [pods_of(one) for one in below.jobs.values()]
    status |= {"startTime": status.get("startTime") or conditions.stamp(below.now),
               "active": sum(one[0] for one in counts), "succeeded": sum(one[2] for one in counts),
               "failed": sum(one[3] for one in counts), "conditions": unblocked(old), "phase": "Running"}
    workers = [child.name for child in children if child.kind == JOB]
    states = {name: job_state(below.jobs[name]) for name in workers if name in below.jobs}
    failed = next((name for name, state in states.items() if state == "Failed"), None)
    if suspended(job):
        status["phase"] = "Pending"
    if failed is not None:
        status |= {"phase": "Failed", "conditions": [*status["conditions"], heard(
            below, "Failed", "workerFailed", f"the worker {failed} failed; see `kubectl logs job/{failed}`")]}
    elif len(states) == len(workers) and set(states.values()) == {"Complete"}:
        status |= {"phase": "Succeeded", "completionTime": conditions.stamp(below.now), "conditions": [
            *status["conditions"], heard(below, "Complete", "workersCompleted", "all workers have completed")]}
    over = status["phase"] in ("Failed", "Succeeded")
    ended = tuple(name for name, state in states.items() if over and state not in ("Complete", "Failed"))
    return Plan(children, status, over=over, deleted=ended, suspended=suspended(job))


def _find(below: Below) -> Find:
    return lambda kind, name, field: below.need({one.kind: one for one in (DATASET, MODEL)}[kind], name)


def _sources(part: Part) -> list[Source]:
    return [Source(one.role, one.url, one.variable, one.checked, one.sha256, one.secret) for one in part.data]


def _service(kind: Kind, owner: Mapping[str, Any], part: Part) -> Child:
    """The Service at which others find a part that listens."""
    name = fitting(f"{owner['metadata']['name']}-{part.name}", f"the Service of the {part.name} worker")
    port = PORTS[part.listens]
    return Child(SERVICE, owned(kind, owner, SERVICE, name, part.name, spec={
        "selector": owner_labels(kind, owner["metadata"]["name"], part.name),
        "ports": [{"name": "tcp-0", "protocol": "TCP", "port": port, "targetPort": port}]}))


def _env(owner: Mapping[str, Any], part: Part) -> dict[str, Any]:
    """All variables of a part: each finds the one that it asks by the name of that one's Service."""
    name, namespace = owner["metadata"]["name"], owner["metadata"]["namespace"]
    found: dict[str, Any] = {"NAMESPACE": namespace, **part.env, "WORKER_NAME": f"{name}-{part.name}"}
    if part.listens:
        found[part.listens] = PORTS[part.listens]
    if part.asks:
        whom, host, port = part.asks
        found |= {host: f"{name}-{whom}.{namespace}", port: PORTS[port]}
    return found


def _federated_children(below: Below, settings: Settings) -> list[Child]:
    job = below.resource
    found: list[Child] = []
    for part in compile_federated(job, _find(below)):
        found += [_service(FEDERATED, job, part)] if part.listens else []
        found.append(worker_job(FEDERATED, job, part.name, f"{job['metadata']['name']}-{part.name}", part.template,
                                _sources(part), _env(job, part), part.tier, part.node, settings))
    return found


def data_of(dataset: Mapping[str, Any], variable: str, name: str = "dataset") -> Source:
    """A Dataset as a worker has it: checked by the gate before the worker starts."""
    digest_wanted = (dataset["metadata"].get("annotations") or NO_SETTINGS).get(SHA256, "")
    return of_resource(dataset, name, variable, True, digest_wanted)


def worker_job(kind: Kind, owner: Mapping[str, Any], step: str, name: str, template: Mapping[str, Any],
               sources: list[Source], env: Mapping[str, Any], tier: str, node: str | None, settings: Settings) -> Child:
    """A Job of one pod: a worker that ends, and is started again where it dies.

    Args:
        template: of its pod, as the owner has it.
        sources: data and models that it gets.
        env: variables.
        tier: where it may run.
        node: the one node where it must.

    Raises:
        Unfit: it cannot be run.
    """
    spec = {"template": worker_template(kind, owner, step, name, template, sources, env, tier, node, settings,
                                        "OnFailure"), "backoffLimit": 6}
    body = owned(kind, owner, JOB, name, step, spec={**spec, "suspend": suspended(owner)})
    body["metadata"]["annotations"] = {PLAN: digest(spec)}
    return Child(JOB, body)


def worker_template(kind: Kind, owner: Mapping[str, Any], step: str, name: str, template: Mapping[str, Any],
                    sources: list[Source], env: Mapping[str, Any], tier: str, node: str | None, settings: Settings,
                    restart: str) -> dict[str, Any]:
    """The template of a worker's pod; arguments as in :func:`worker_job`."""
    fitting(name, f"the worker {step}")
    found = pod_template(template, f"the worker {step}", restart)
    found = placed(stored(found, sources, settings.image), tier, node)
    found["spec"]["containers"] = [with_variables(one, variables(env)) for one in found["spec"]["containers"]]
    return labelled(found, owner_labels(kind, owner["metadata"]["name"], step))


def joint(below: Below, settings: Settings) -> Plan:
    """Plans a JointInferenceService as it is now: a Deployment at the edge, one in the cloud, and its Service."""
    service = below.resource
    status = dict(service.get("status") or NO_SETTINGS)
    old = list(status.get("conditions") or ())
    try:
        children = _joint_children(below, settings)
    except Unfit as problem:
        return blocked(below, problem)
    wanted = [child.name for child in children if child.kind == DEPLOYMENT]
    ready = [name for name in wanted if ((below.deployments.get(name) or NO_SETTINGS).get("status") or NO_SETTINGS
                                         ).get("availableReplicas")]
    status |= {"startTime": status.get("startTime") or conditions.stamp(below.now), "active": len(ready), "failed": 0}
    waiting = ", ".join(name for name in wanted if name not in ready)
    new = heard(below, "Running", "workersReady", "both workers are ready") if not waiting else heard(
        below, "Pending", "workersNotReady", f"not ready: {waiting}")
    status["conditions"] = turned(unblocked(old), new)
    return Plan(children, status, suspended=suspended(service))


def _joint_children(below: Below, settings: Settings) -> list[Child]:
    service = below.resource
    found: list[Child] = []
    for part in compile_joint(service, _find(below)):
        worker = f"{service['metadata']['name']}-{part.name}"
        found += [_service(JOINT, service, part)] if part.listens else []
        template = worker_template(JOINT, service, part.name, worker, part.template, _sources(part),
                                   _env(service, part), part.tier, part.node, settings, "Always")
        found.append(deployment(JOINT, service, part.name, worker, template, scaled=bool(part.scaling)))
        if part.scaling and not suspended(service):
            target = {"apiVersion": DEPLOYMENT.api_version, "kind": DEPLOYMENT.kind, "name": worker}
            found.append(Child(SCALER, owned(JOINT, service, SCALER, worker, part.name, spec={
                **part.scaling, "scaleTargetRef": target})))
    return found


def deployment(kind: Kind, owner: Mapping[str, Any], step: str, name: str, template: Mapping[str, Any],
               scaled: bool = False) -> Child:
    """A Deployment of one pod, or none while its owner is suspended.

    Args:
        scaled: another says how many pods there are.
    """
    labels = owner_labels(kind, owner["metadata"]["name"], step)
    spec: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": template}
    if suspended(owner) or not scaled:
        spec["replicas"] = 0 if suspended(owner) else 1
    return Child(DEPLOYMENT, owned(kind, owner, DEPLOYMENT, name, step, spec=spec))


def suspended(owner: Mapping[str, Any]) -> bool:
    """Tells whether a resource of Sedna, whose kinds have no such field, is suspended by its annotation."""
    return (owner["metadata"].get("annotations") or NO_SETTINGS).get(SUSPEND) == "true"


def heard(below: Below, kind: str, reason: str, message: str, **more: Any) -> dict[str, Any]:
    """A condition with the fields that all of Sedna's kinds have."""
    return {"type": kind, "status": "True", "reason": reason, "message": message[:conditions.LONGEST],
            "lastHeartbeatTime": conditions.stamp(below.now), **more}


def turned(old: list[dict[str, Any]], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Conditions of which one holds at a time, the newest last; nothing new where it says the same again."""
    same = old and all(old[-1].get(name) == new[name] for name in ("type", "reason", "message"))
    return old if same else [*({**one, "status": "False"} for one in old if one.get("type") != new["type"]), dict(new)]


def unblocked(old: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Conditions without the one that says why a resource cannot be run."""
    return [dict(one) for one in old if one.get("type") != "Blocked"]


def blocked(below: Below, problem: Unfit, **more: Any) -> Plan:
    """A resource that cannot be run as it is; what is below it stays."""
    status = dict(below.resource.get("status") or NO_SETTINGS)
    old = list(status.get("conditions") or ())
    new = heard(below, "Failed" if problem.final and below.resource.get("kind") == FEDERATED.kind else "Blocked",
                problem.reason, str(problem), **more)
    last = old[-1] if old else NO_SETTINGS
    if (last.get("type"), last.get("message")) != (new["type"], new["message"]):
        status["conditions"] = [*unblocked(old), new]
    return Plan([], status, over=True)
