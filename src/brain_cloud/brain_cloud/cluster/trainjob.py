# SPDX-License-Identifier: Apache-2.0
"""Objects of a TrainJob on a cluster: a headless Service, and an indexed Job for each step, as a JobSet has them.

The names, labels and variables are those that Kubeflow's own controller gives, so that nodes find the first one
and the SDK finds the pods. What the job means is compiled by :mod:`brain_cloud.jobs.training`.
"""
from __future__ import annotations

from typing import Any, Mapping

from brain_cloud.cluster.kinds import JOB, PLAN, SERVICE, TIER, TRAIN_JOB, owned
from brain_cloud.cluster.placement import placed
from brain_cloud.cluster.plans import NO_SETTINGS, Child, Settings
from brain_cloud.cluster.storage import Source, stored
from brain_cloud.jobs.fields import told
from brain_cloud.jobs.templates import Unfit, digest, fitting, labelled, overlaid, variables, with_variables
from brain_cloud.jobs.training import NODE, TRAINER, Step, Training, compile_train_job, rank_variables

PORT = 29500
JOBSET = "jobset.sigs.k8s.io"
ATTEMPT = f"{JOBSET}/restart-attempt"       # label: how often the whole job was started again before
RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}


def left_out(runtime: Mapping[str, Any], job: Mapping[str, Any] = NO_SETTINGS) -> list[str]:
    """Lists what a job and its runtime ask for and this operator does not do; a job runs all the same."""
    return [*told("TrainJob", job, cluster=True), *told("TrainingRuntime", runtime, "the runtime's ", cluster=True)]


def children(job: Mapping[str, Any], runtime: Mapping[str, Any], settings: Settings, attempt: int = 0) -> list[Child]:
    """Makes the objects below a TrainJob.

    Args:
        attempt: how often the whole job was started again before.

    Raises:
        Unfit: it cannot be run.
    """
    name, about = job["metadata"]["name"], job["metadata"]
    fitting(name, "its Service")
    training = compile_train_job(job, runtime)
    inner = runtime["spec"]["template"].get("spec") or NO_SETTINGS
    if inner.get("volumeClaimPolicies"):
        raise Unfit("TrainingRuntimeNotSupported", f"the runtime {runtime['metadata']['name']} claims volumes for each "
                    f"job, which this operator does not; name a claim of your own in its volumes", final=True)
    group = {f"{JOBSET}/jobset-name": name, **({ATTEMPT: str(attempt)} if training.restarts else {})}
    network = inner.get("network") or NO_SETTINGS
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


def _template(job: Mapping[str, Any], step: Step, training: Training, settings: Settings) -> dict[str, Any]:
    """The template of a step's pods, with what its nodes find each other by, and what the data gate fetches."""
    template = step.job["template"]
    if step.role == TRAINER and training.fetched:
        sources = [Source(one.what, one.uri, one.variable, True, secret=one.secret) for one in training.fetched]
        template = stored(template, sources, settings.image, [v for one in training.fetched for v in one.env], NODE)
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


def _job(job: Mapping[str, Any], step: Step, template: dict[str, Any], number: int, labels: Mapping[str, str],
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
