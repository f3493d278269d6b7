# SPDX-License-Identifier: Apache-2.0
"""A Kubeflow TrainJob over its runtime: a headless Service, and an indexed Job for each step, as a JobSet has them.

The names, labels and variables are those that Kubeflow's own controller gives, so that torchrun finds its master
and the SDK finds the pods.
"""
from __future__ import annotations

import math
import re
from typing import Any, Mapping

from brain_fleet.cluster.kinds import JOB, PLAN, SERVICE, TIER, TRAIN_JOB, owned
from brain_fleet.cluster.placement import placed
from brain_fleet.cluster.plans import NO_SETTINGS, Child, Settings
from brain_fleet.cluster.storage import FETCHED, Source, gate
from brain_fleet.cluster.templates import (Unfit, digest, fitting, labelled, overlaid, pod_template, variables,
                                           with_variables)

CONTROLLER = "trainer.kubeflow.org/trainjob-controller"     # in managedBy: whose jobs this operator does
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
NODE = "node"           # container and step of the trainer
PORT = 29500
JOBSET = "jobset.sigs.k8s.io"
RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
RESERVED = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")
POLICIES = ("mpi", "jax", "xgboost", "flux")    # of training; torch is done, and none


def steps(job: Mapping[str, Any], runtime: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps of a job: its runtime's replicated jobs, with what the job says over them, and torchrun's variables.

    Each has ``name``, ``replicas``, ``labels``, ``dependsOn`` and ``job``, the spec of a Kubernetes Job.

    Raises:
        Unfit: it cannot be run.
    """
    spec, policy = job["spec"], (runtime["spec"].get("mlPolicy") or NO_SETTINGS)
    other = next((name for name in POLICIES if policy.get(name) is not None), None)
    if other is not None:
        raise Unfit("TrainingRuntimeNotSupported", f"the runtime {runtime['metadata']['name']} trains by {other}, and "
                                                   f"this operator runs torch and plain jobs; choose another runtime",
                    final=True)
    template = patched(runtime["spec"]["template"], spec.get("runtimePatches") or ())
    if template["spec"].get("volumeClaimPolicies"):
        raise Unfit("TrainingRuntimeNotSupported", f"the runtime {runtime['metadata']['name']} claims volumes for each "
                    f"job, which this operator does not; name a claim of your own in its volumes", final=True)
    found = []
    for one in template["spec"].get("replicatedJobs") or ():
        inner = one.get("template") or NO_SETTINGS
        labels = dict((inner.get("metadata") or NO_SETTINGS).get("labels") or NO_SETTINGS)
        body = dict(inner.get("spec") or NO_SETTINGS)
        body["template"] = pod_template(body.get("template") or NO_SETTINGS, f"step {one['name']}", "OnFailure")
        found.append({"name": one["name"], "replicas": one.get("replicas", 1), "labels": labels, "job": body,
                      "dependsOn": [(that["name"], that["status"]) for that in one.get("dependsOn") or ()]})
    for step in found:
        kind = step["labels"].get(ANCESTOR)
        if kind == "trainer":
            _trainer(step, job, policy)
        elif kind in ("dataset-initializer", "model-initializer"):
            step["replicas"] = 1
            _initializer(step, kind, (spec.get("initializer") or NO_SETTINGS).get(kind.partition("-")[0]))
    order = (template["spec"].get("startupPolicy") or NO_SETTINGS).get("startupPolicyOrder")
    for before, step in zip(found, found[1:]) if order == "InOrder" else ():
        step["dependsOn"].append((before["name"], "Ready"))
    if not any(step["labels"].get(ANCESTOR) == "trainer" for step in found):
        raise Unfit("NoTrainer", f"the runtime {runtime['metadata']['name']} has no step with the label "
                                 f"{ANCESTOR}: trainer")
    return found


def left_out(runtime: Mapping[str, Any]) -> list[str]:
    """What a runtime asks for and this operator does not do; a job runs all the same."""
    spec = runtime["spec"]
    inner = spec["template"].get("spec") or NO_SETTINGS
    found = ["podGroupPolicy (gang scheduling)"] if spec.get("podGroupPolicy") else []
    if (inner.get("failurePolicy") or NO_SETTINGS).get("maxRestarts"):
        found.append("failurePolicy.maxRestarts (backoffLimit of a step's job is)")
    return found + (["ttlSecondsAfterFinished"] if inner.get("ttlSecondsAfterFinished") is not None else [])


def patched(template: Mapping[str, Any], patches: Any) -> dict[str, Any]:
    """A runtime's template with the patches that others, as queues, have written into the job."""
    found: Any = dict(template)
    for one in patches:
        found = overlaid(found, (one.get("trainingRuntimeSpec") or NO_SETTINGS).get("template") or NO_SETTINGS)
    return found


def _trainer(step: dict[str, Any], job: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
    trainer = job["spec"].get("trainer") or NO_SETTINGS
    nodes = trainer.get("numNodes", policy.get("numNodes", 1))
    if nodes < 1:
        raise Unfit("NoNodes", "trainer.numNodes is 0, so there would be no worker; set it to 1 or more", final=True)
    wrong = [one["name"] for one in trainer.get("env") or () if one["name"] in RESERVED]
    if wrong and policy.get("torch") is not None:
        raise Unfit("ReservedVariable", f"trainer.env sets {wrong[0]}, which the operator sets for torchrun; take it "
                                        f"away", final=True)
    step["replicas"] = 1
    step["job"] |= {"completionMode": "Indexed", "parallelism": nodes, "completions": nodes}
    containers = step["job"]["template"]["spec"]["containers"]
    for number, one in enumerate(containers):
        if one["name"] != NODE:
            continue
        said = {name: trainer[name] for name in ("image", "command", "args") if trainer.get(name) is not None}
        if trainer.get("resourcesPerNode"):
            said["resources"] = trainer["resourcesPerNode"]
        one = with_variables({**one, **said}, trainer.get("env") or ())
        if policy.get("torch") is not None:
            one = _torchrun(one, job["metadata"]["name"], nodes, trainer.get("numProcPerNode"))
        containers[number] = one
    for target in ((policy.get("torch") or NO_SETTINGS).get("envInjection") or NO_SETTINGS).get("targets") or ():
        if target["jobName"] == step["name"]:
            for number, one in enumerate(containers):
                if one["name"] in target["containerNames"] and one["name"] != NODE:
                    containers[number] = _torchrun(one, job["metadata"]["name"], nodes, trainer.get("numProcPerNode"))


def _torchrun(container: Mapping[str, Any], job: str, nodes: int, processes: int | None) -> dict[str, Any]:
    found = with_variables(container, variables({
        "PET_NNODES": nodes, "PET_NPROC_PER_NODE": processes_of(container.get("resources"), processes),
        "PET_NODE_RANK": RANK, "PET_MASTER_ADDR": f"{job}-{NODE}-0-0.{job}", "PET_MASTER_PORT": PORT}))
    return overlaid(found, {"ports": [{"containerPort": PORT}]})


def processes_of(resources: Mapping[str, Any] | None, said: int | None) -> str:
    """How many processes torchrun starts on a node.

    What is said; else with GPUs one for each, which torchrun counts itself; else one for each CPU that is asked for.
    """
    if said is not None:
        return str(said)
    resources = resources or NO_SETTINGS
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    if any("gpu" in name and str(count) != "0" for name, count in asked.items()):
        return "auto"
    return str(max(1, _cpus(asked.get("cpu", 0))))


def _cpus(quantity: Any) -> int:
    text = str(quantity)
    found = re.fullmatch(r"([0-9.]+)(m?)", text)
    try:
        return math.ceil(float(found[1]) / (1000 if found[2] else 1)) if found else 0
    except ValueError:
        return 0


def _initializer(step: dict[str, Any], kind: str, said: Mapping[str, Any] | None) -> None:
    if not said:
        return
    uri = variables({"STORAGE_URI": said["storageUri"]} if said.get("storageUri") else {})
    containers = step["job"]["template"]["spec"]["containers"]
    for number, one in enumerate(containers):
        if one["name"] == kind:
            one = with_variables(one, [*uri, *(said.get("env") or ())])
            if said.get("secretRef"):
                one["envFrom"] = [*one.get("envFrom", ()), {"secretRef": {"name": said["secretRef"]["name"]}}]
            containers[number] = one


def _gated(step: dict[str, Any], said: Mapping[str, Any], image: str) -> None:
    """The runtime has no step that fetches the data set, so each worker's gate does."""
    secret = (said.get("secretRef") or NO_SETTINGS).get("name")
    source = Source("dataset", said["storageUri"], "DATASET_PATH", True, secret=secret)
    if not source.fetched:
        raise Unfit("UrlUnfit", f"the runtime has no step {ANCESTOR}: dataset-initializer, and the data gate fetches "
                                f"http:// and https:// only; choose a runtime with that step")
    spec, mount = step["job"]["template"]["spec"], {"name": "fleet-dataset", "mountPath": FETCHED}
    spec["volumes"] = [*spec.get("volumes", ()), {"name": "fleet-dataset", "emptyDir": {}}]
    spec["initContainers"] = [gate([source], [mount], image, list(said.get("env") or ())),
                              *spec.get("initContainers", ())]
    for number, one in enumerate(spec["containers"]):
        if one["name"] == NODE:
            spec["containers"][number] = with_variables(overlaid(one, {"volumeMounts": [mount]}),
                                                        variables({source.variable: source.path}))


def children(job: Mapping[str, Any], runtime: Mapping[str, Any], settings: Settings) -> list[Child]:
    """The objects below a TrainJob.

    Raises:
        Unfit: it cannot be run.
    """
    name, about = job["metadata"]["name"], job["metadata"]
    fitting(name, "its Service")
    group = {f"{JOBSET}/jobset-name": name}
    network = (runtime["spec"]["template"].get("spec") or NO_SETTINGS).get("network") or NO_SETTINGS
    found = [Child(SERVICE, owned(TRAIN_JOB, job, SERVICE, name, "network", spec={
        "clusterIP": "None", "selector": group,
        "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True)}))]
    wanted = steps(job, runtime)
    dataset = (job["spec"].get("initializer") or NO_SETTINGS).get("dataset") or NO_SETTINGS
    fetches = any(step["labels"].get(ANCESTOR) == "dataset-initializer" for step in wanted)
    copies = {step["name"]: step["replicas"] for step in wanted}
    tier = (about.get("annotations") or NO_SETTINGS).get(TIER)
    for step in wanted:
        trains = step["labels"].get(ANCESTOR) == "trainer"
        if trains and dataset.get("storageUri") and not fetches:
            _gated(step, dataset, settings.image)
        after = []
        for that, how in step["dependsOn"]:
            if that not in copies:
                raise Unfit("DependencyNotFound", f"step {step['name']} depends on {that}, which the runtime has not")
            after += [(f"{name}-{that}-{number}", how) for number in range(copies[that])]
        for number in range(step["replicas"]):
            body = _job(job, step, number, {**group, f"{JOBSET}/replicatedjob-name": step["name"],
                                            f"{JOBSET}/job-index": str(number)}, tier if trains else None)
            found.append(Child(JOB, body, tuple(after)))
    return found


def _job(job: Mapping[str, Any], step: Mapping[str, Any], number: int, labels: Mapping[str, str], tier: str | None
         ) -> dict[str, Any]:
    name = f"{job['metadata']['name']}-{step['name']}-{number}"
    pods = step["job"].get("parallelism", 1)
    fitting(f"{name}-{pods - 1}", f"the host of step {step['name']}")
    template = labelled(placed(step["job"]["template"], tier), {**step["labels"], **labels})
    template["spec"].setdefault("subdomain", job["metadata"]["name"])
    spec = {**step["job"], "template": template}
    spec.setdefault("completionMode", "Indexed")
    plan = digest(spec)
    spec["suspend"] = bool(job["spec"].get("suspend"))
    body = owned(TRAIN_JOB, job, JOB, name, step["name"], spec=spec)
    body["metadata"]["labels"] |= {**step["labels"], **labels}
    body["metadata"]["annotations"] = {PLAN: plan}
    return body
