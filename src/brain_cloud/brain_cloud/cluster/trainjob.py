# SPDX-License-Identifier: Apache-2.0
"""A TrainJob on a cluster: a headless Service, and an indexed Job for each step, as a JobSet has them; and its status.

The names, labels and variables are those that Kubeflow's own controller gives, so that nodes find the first one
and the SDK finds the pods; so are conditions and counts. What the job means is compiled by
:mod:`brain_cloud.jobs.training`.
"""
from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Mapping

from brain_cloud.cluster.kinds import CLUSTER_RUNTIME, JOB, PLAN, RUNTIME, SERVICE, STEP, TIER, TRAIN_JOB, Kind, owned
from brain_cloud.cluster.plans import NO_SETTINGS, Below, Child, Plan, Settings, batch, job_state
from brain_cloud.cluster.pods import placed, stored
from brain_cloud.jobs.status import RESTARTED, Seen, condition, find, holds, seconds, train_status, with_condition
from brain_cloud.jobs.templates import Unfit, digest, fitting, labelled, overlaid, variables, with_variables
from brain_cloud.jobs.training import (
    NODE, TRAINER, ReplicatedJob, Training, compile_train_job, rank_variables, runtime_ref)

ENDED = ("Complete", "Failed")
PORT = 29500
JOBSET = "jobset.sigs.k8s.io"
ATTEMPT = f"{JOBSET}/restart-attempt"       # label: how often the whole job was started again before
RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}


def plan(below: Below, settings: Settings) -> Plan:
    """Plans a TrainJob as it is now."""
    job = below.resource
    status, suspended = job.get("status") or NO_SETTINGS, bool(job["spec"].get("suspend"))
    old = list(status.get("conditions") or ())
    if holds(old, *ENDED):
        return Plan([], dict(status), over=True)
    attempt = _attempt(old)
    try:
        training = compile_train_job(job, below.need(*runtime_of(job)))
        wanted = children(job, training, settings, attempt)
    except Unfit as problem:
        return stopped(below, problem)
    stale = tuple(name for name, one in below.jobs.items()
                  if int((one["metadata"].get("labels") or NO_SETTINGS).get(ATTEMPT, attempt)) != attempt)
    below = replace(below, jobs={name: one for name, one in below.jobs.items() if name not in stale})
    end = _end(below, wanted, training)
    seen = Seen([batch(child.body["metadata"]["labels"][STEP], below.jobs.get(child.name)) for child in wanted
                 if child.kind == JOB], ("Suspended", "TrainJob is suspended") if suspended else None)
    if end is not None:
        again = end[1] == "FailedJobs" and attempt < training.restarts
        seen = replace(seen, restarts=(attempt + 1, end[2])) if again else replace(seen, end=end)
    deleted = stale
    if seen.end is not None:
        # Others would wait for one that is dead, or are no longer asked for.
        deleted += tuple(name for name, one in below.jobs.items() if job_state(one) not in ENDED)
    return Plan(wanted, train_status(status, seen, below.now, job["metadata"].get("generation", 0)),
                over=seen.end is not None, deleted=deleted, suspended=suspended)


def runtime_of(job: Mapping[str, Any]) -> tuple[Kind, str]:
    """The runtime that a job refers to.

    Raises:
        Unfit: it is of a kind that nobody here knows.
    """
    kind, name = runtime_ref(job["spec"])
    return {one.kind: one for one in (RUNTIME, CLUSTER_RUNTIME)}[kind], name


def children(job: Mapping[str, Any], training: Training, settings: Settings, attempt: int = 0) -> list[Child]:
    """Makes the objects below a TrainJob.

    Args:
        training: that it was compiled to.
        attempt: how often the whole job was started again before.

    Raises:
        Unfit: it cannot be run.
    """
    name, about, jobset = job["metadata"]["name"], job["metadata"], training.jobset
    fitting(name, "its Service")
    if jobset.get("volumeClaimPolicies"):
        raise Unfit("TrainingRuntimeNotSupported", f"the runtime {job['spec']['runtimeRef']['name']} claims volumes "
                    f"for each job, which this operator does not; name a claim of your own in its volumes", final=True)
    group = {f"{JOBSET}/jobset-name": name, **({ATTEMPT: str(attempt)} if training.restarts else {})}
    network = jobset.get("network") or NO_SETTINGS
    found = [Child(SERVICE, owned(TRAIN_JOB, job, SERVICE, name, "network", spec={
        "clusterIP": "None", "selector": {f"{JOBSET}/jobset-name": name},
        "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True)}))]
    copies = {step.name: step.replicas for step in training.steps}
    tier = (about.get("annotations") or NO_SETTINGS).get(TIER)
    for step in training.steps:
        template = _template(job, step, training, settings)
        after = tuple((f"{name}-{that}-{number}", how) for that, how in step.after for number in range(copies[that]))
        for number in range(step.replicas):
            body = _job(job, step, template, number, {**group, f"{JOBSET}/replicatedjob-name": step.name,
                                                      f"{JOBSET}/job-index": str(number)},
                        tier if step.role == TRAINER else None)
            found.append(Child(JOB, body, after))
    return found


def _template(job: Mapping[str, Any], step: ReplicatedJob, training: Training, settings: Settings) -> dict[str, Any]:
    """The template of a step's pods, with what its nodes find each other by, and what the data gate fetches."""
    template = step.job["template"]
    if step.role == TRAINER and training.fetched:
        template = stored(template, training.fetched, settings.image, NODE)
    spec = {**template["spec"]}
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [_ranked(one, job["metadata"]["name"], training) if one["name"] in step.ranks else one
                          for one in spec[kind]]
    return {**template, "spec": spec}


def _ranked(container: Mapping[str, Any], job: str, training: Training) -> dict[str, Any]:
    found = with_variables(container, variables(rank_variables(
        training.policy, training.nodes, training.processes, f"{job}-{NODE}-0-0.{job}", PORT, RANK)))
    return overlaid(found, {"ports": [{"containerPort": PORT}]}) if container["name"] == NODE else found


def _job(job: Mapping[str, Any], step: ReplicatedJob, template: dict[str, Any], number: int, labels: Mapping[str, str],
         tier: str | None) -> dict[str, Any]:
    name = f"{job['metadata']['name']}-{step.name}-{number}"
    pods = step.job.get("parallelism", 1)
    fitting(f"{name}-{pods - 1}", f"the host of step {step.name}")
    template = labelled(placed(template, tier), {**step.labels, **labels})
    template["spec"].setdefault("subdomain", job["metadata"]["name"])
    spec = {**step.job, "template": template}
    spec.setdefault("completionMode", "Indexed")
    spec.pop("suspend", None)       # the TrainJob's counts
    plan = digest(spec)
    spec["suspend"] = bool(job["spec"].get("suspend"))
    body = owned(TRAIN_JOB, job, JOB, name, step.name, spec=spec)
    body["metadata"]["labels"] |= {**step.labels, **labels}
    body["metadata"]["annotations"] = {PLAN: plan}
    return body


def _attempt(old: list[Mapping[str, Any]]) -> int:
    """Number of times that the whole job was started again."""
    found = re.fullmatch(r"Attempt(\d{1,6})", str((find(old, RESTARTED) or NO_SETTINGS).get("reason")))
    return int(found[1]) if found else 0


def stopped(below: Below, problem: Unfit) -> Plan:
    """A job that cannot be run as it is: blocked until it can, or failed where no change would help."""
    job, kind = below.resource, "Failed" if problem.final else "Blocked"
    old = [one for one in (job.get("status") or NO_SETTINGS).get("conditions") or ()
           if one.get("type") != "Blocked" or kind == "Blocked"]
    new = with_condition(old, condition(
        kind, True, problem.reason, str(problem), below.now, job["metadata"].get("generation", 0)))
    return Plan([], {**(job.get("status") or NO_SETTINGS), "conditions": new}, over=True)


def _end(below: Below, wanted: list[Child], training: Training) -> tuple[str, str, str] | None:
    """Complete or Failed, the reason and the message with which a job ends; None: it has not."""
    jobs = {child.name: below.jobs.get(child.name) for child in wanted if child.kind == JOB}
    failed = next((name for name, one in jobs.items() if one is not None and job_state(one) == "Failed"), None)
    if failed is not None:
        return "Failed", "FailedJobs", f"job {failed} failed: {_why(jobs[failed])}"
    operator, targets = training.success
    counted = [below.jobs.get(child.name) for child in wanted if child.kind == JOB and (
        not targets or child.body["metadata"]["labels"][STEP] in targets)]
    done = [one is not None and job_state(one) == "Complete" for one in counted]
    if done and (any(done) if operator == "Any" else all(done)):
        return "Complete", "AllJobsCompleted", "the jobs below it have completed"
    return _late(below)


def _late(below: Below) -> tuple[str, str, str] | None:
    job = below.resource
    limit = job["spec"].get("activeDeadlineSeconds")
    if not limit or job["spec"].get("suspend"):
        return None
    resumed = find((job.get("status") or NO_SETTINGS).get("conditions") or (), "Suspended")
    began = seconds(resumed["lastTransitionTime"] if resumed is not None and resumed["status"] == "False"
                    else job["metadata"].get("creationTimestamp"))
    if began is None or below.now <= began + limit:
        return None
    return "Failed", "DeadlineExceeded", "TrainJob exceeded its active deadline"


def _why(job: Any) -> str:
    one = find((job.get("status") or NO_SETTINGS).get("conditions") or (), "Failed") or NO_SETTINGS
    return f"{one.get('message') or one.get('reason') or 'no reason is given'}; see `kubectl logs`"
