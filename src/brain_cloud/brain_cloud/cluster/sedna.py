# SPDX-License-Identifier: Apache-2.0
"""Sedna's FederatedLearningJob and JointInferenceService: the workers below them, and their status.

The variables by which workers are told of each other are those that Sedna's global manager gives.
"""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from brain_cloud.cluster.kinds import (
    DATASET, DEPLOYMENT, FEDERATED, JOB, JOINT, MODEL, PLAN, SCALER, SERVICE, Kind, owned, owner_labels)
from brain_cloud.cluster.plans import NO_SETTINGS, Below, Child, Plan, Settings, batch, job_state
from brain_cloud.cluster.pods import path_in_pod, worker_template
from brain_cloud.jobs.manifests import SUSPEND
from brain_cloud.jobs.samples import said, told_progress
from brain_cloud.jobs.sedna import AGGREGATION, BIND, Part, compile_federated, compile_joint
from brain_cloud.jobs.status import Batch, Seen, federated_status, heard, holds, joint_status, unblocked
from brain_cloud.jobs.templates import Unfit, digest, fitting
from brain_cloud.jobs.worker_data import Find, given

ROUND = "round"     # container that makes or moves the files of a learning job's round
# Of what writes to a node: folders that kubelet makes belong to root.
ROOT = {"securityContext": {"runAsUser": 0, "allowPrivilegeEscalation": False}}
# By the variables that tell of them.
PORTS = {"AGG_BIND_PORT": 7363, "AGG_PORT": 7363, "BIG_MODEL_BIND_PORT": 5000, "BIG_MODEL_PORT": 5000}


def federated(below: Below, settings: Settings) -> Plan:
    """Plans a FederatedLearningJob as it is now: an aggregator with its Service, and a worker for each data set."""
    job = below.resource
    old = job.get("status") or NO_SETTINGS
    if holds(old.get("conditions") or (), "Complete", "Failed"):
        return Plan([], dict(old), over=True)
    try:
        parts = compile_federated(job, find_in(below))
        children = objects_of(FEDERATED, below, parts, settings)
    except Unfit as problem:
        return blocked(below, problem)
    states = {child.name: batch(child.name, below.jobs.get(child.name)) for child in children if child.kind == JOB}
    states |= _left(job, parts, states)
    failed = next((name for name, one in states.items() if one.state == "Failed"), None)
    end = None
    if failed is not None:
        end = "Failed", "workerFailed", f"the worker {failed} failed; see `kubectl logs job/{failed}`"
    elif {one.state for one in states.values()} == {"Complete"}:
        end = "Complete", "workersCompleted", "all workers have completed"
    told = told_progress(said(below.said.get(f"{job['metadata']['name']}-{AGGREGATION}", "")))
    status = federated_status(old, Seen(list(states.values()), _waits(job), end=end, told=told), below.now)
    ended = tuple(name for name, one in below.jobs.items() if end and name in states
                  and job_state(one) in ("Active", "Suspended"))
    return Plan(children, status, over=end is not None, deleted=ended, suspended=suspended(job))


def _left(job: Mapping[str, Any], parts: Sequence[Part], states: Mapping[str, Batch]) -> dict[str, Batch]:
    """Workers that are done, whatever their pods do, since the part with which they end is."""
    names = {part.name: f"{job['metadata']['name']}-{part.name}" for part in parts}
    return {names[part.name]: Batch(names[part.name], "Complete", succeeded=1) for part in parts
            if part.ends_with and states[names[part.ends_with]].state == "Complete"}


def _waits(job: Mapping[str, Any]) -> tuple[str, str] | None:
    return ("Suspended", f"{job['kind']} is suspended") if suspended(job) else None


def find_in(below: Below) -> Find:
    """See :data:`brain_cloud.jobs.worker_data.Find`: of what a resource refers to."""
    return lambda kind, name, field: below.need({one.kind: one for one in (DATASET, MODEL)}[kind], name)


def _service(kind: Kind, owner: Mapping[str, Any], part: Part) -> Child:
    """The Service at which others find a part that listens."""
    name = fitting(f"{owner['metadata']['name']}-{part.name}", f"the Service of the {part.name} worker")
    port = PORTS[part.listens]
    return Child(SERVICE, owned(kind, owner, SERVICE, name, part.name, spec={
        "selector": owner_labels(kind, owner["metadata"]["name"], part.name),
        "ports": [{"name": "tcp-0", "protocol": "TCP", "port": port, "targetPort": port}]}))


def _env(owner: Mapping[str, Any], part: Part, name: str) -> dict[str, Any]:
    """All variables of a part: each finds the one that it asks by the name of that one's Service."""
    job, namespace = owner["metadata"]["name"], owner["metadata"]["namespace"]
    found: dict[str, Any] = {"NAMESPACE": namespace, **part.env, "WORKER_NAME": name,
                             **given([(one, path_in_pod(one)) for one in part.data])}
    if part.listens:
        found[part.listens] = PORTS[part.listens]
        found |= {} if part.plan is None else {BIND: "0.0.0.0"}
    if part.asks:
        whom, host, port = part.asks
        found |= {host: f"{job}-{whom}.{namespace}", port: PORTS[port]}
    return found


def objects_of(kind: Kind, below: Below, parts: Sequence[Part], settings: Settings) -> list[Child]:
    """The objects of parts that run: a Job, or a Deployment for what does not end, and Services where others find them.

    Raises:
        Unfit: they cannot be run.
    """
    owner, found = below.resource, list[Child]()
    for part in parts:
        found += [_service(kind, owner, part)] if part.listens else []
        if not part.service:
            found.append(part_job(kind, owner, part, part.name, settings))
            continue
        name = f"{owner['metadata']['name']}-{part.name}"
        template = part_template(kind, owner, part, part.name, settings, "Always")
        found.append(deployment(kind, owner, part.name, name, template, scaled=bool(part.scaling)))
        if part.scaling and not suspended(owner):
            target = {"apiVersion": DEPLOYMENT.api_version, "kind": DEPLOYMENT.kind, "name": name}
            found.append(Child(SCALER, owned(kind, owner, SCALER, name, part.name, spec={
                **part.scaling, "scaleTargetRef": target})))
    return found


def part_job(kind: Kind, owner: Mapping[str, Any], part: Part, step: str, settings: Settings) -> Child:
    """A Job of one pod: a part that ends, and is started again where it dies. Raises Unfit where it cannot be run."""
    return job_of(kind, owner, step, f"{owner['metadata']['name']}-{part.name}",
                  part_template(kind, owner, part, step, settings, "OnFailure"))


def job_of(kind: Kind, owner: Mapping[str, Any], step: str, name: str, template: Mapping[str, Any]) -> Child:
    """A Job of one pod."""
    spec = {"template": template, "backoffLimit": 6}
    body = owned(kind, owner, JOB, name, step, spec={**spec, "suspend": suspended(owner)})
    body["metadata"]["annotations"] = {PLAN: digest(spec)}
    return Child(JOB, body)


def part_template(kind: Kind, owner: Mapping[str, Any], part: Part, step: str, settings: Settings, restart: str
                  ) -> dict[str, Any]:
    """The template of a part's pod.

    Args:
        step: of the owner, in labels.
        restart: policy where the part's own template names none.

    Raises:
        Unfit: it cannot be run.
    """
    name = f"{owner['metadata']['name']}-{part.name}"
    first = [_round(part.before, settings)] if part.before else []
    template: Mapping[str, Any] = {"spec": {"containers": first}}
    if part.template is not None:
        spec = part.template.get("spec") or {}
        template = {**part.template, "spec": {**spec, "initContainers": [*first, *(spec.get("initContainers") or ())]}
                    if first else spec}
    if part.plan is not None or part.ends_with:     # what runs is ours
        (own, *others), more = template["spec"]["containers"], ROOT if part.plan is not None else NO_SETTINGS
        own = own if "image" in own else {"image": settings.image, **more, **own}
        template = {**template, "spec": {**template["spec"], "containers": [own, *others]}}
    found = worker_template(kind, owner, step, name, template, part.data, _env(owner, part, name), part.tier,
                            part.node, settings.image, restart)
    for one in found["spec"].get("initContainers", ()) if part.template is not None and first else ():
        if one["name"] == ROUND:
            one["volumeMounts"] = [mount for mount in found["spec"]["containers"][0]["volumeMounts"]
                                   if mount["name"].startswith("fleet-")]
    return found


def _round(words: Sequence[str], settings: Settings) -> dict[str, Any]:
    """The container that makes or moves a round's files."""
    command = ["python3", "-m", "brain_cloud.jobs.rounds", *words]
    return {"name": ROUND, "image": settings.image, "command": command, **ROOT}


def joint(below: Below, settings: Settings) -> Plan:
    """Plans a JointInferenceService as it is now: a Deployment at the edge, one in the cloud, and its Service."""
    service = below.resource
    try:
        children = objects_of(JOINT, below, compile_joint(service, find_in(below)), settings)
    except Unfit as problem:
        return blocked(below, problem)
    wanted = [child.name for child in children if child.kind == DEPLOYMENT]
    ready = {name: ((below.deployments.get(name) or NO_SETTINGS).get("status") or NO_SETTINGS).get("availableReplicas")
             for name in wanted}
    seen = Seen([Batch(name, ready=int(count or 0)) for name, count in ready.items()], _waits(service))
    return Plan(children, joint_status(service.get("status") or NO_SETTINGS, seen, below.now),
                suspended=suspended(service))


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


def blocked(below: Below, problem: Unfit, **more: Any) -> Plan:
    """A resource that cannot be run as it is; what is below it stays."""
    status = dict(below.resource.get("status") or NO_SETTINGS)
    old = list(status.get("conditions") or ())
    new = heard("Failed" if problem.final and below.resource.get("kind") == FEDERATED.kind else "Blocked",
                problem.reason, str(problem), below.now, **more)
    last = old[-1] if old else NO_SETTINGS
    if (last.get("type"), last.get("message")) != (new["type"], new["message"]):
        status["conditions"] = [*unblocked(old), new]
    return Plan([], status, over=True)
