# SPDX-License-Identifier: Apache-2.0
"""Meaning of a TrainJob, wherever it runs: its runtime, with patches and what the job says over it, as a list of steps.

Pure functions over plain values. The runner of this machine (:mod:`.local_plan`) and the operator of a cluster
(:mod:`brain_cloud.cluster.trainjob`) make processes and pods of the same steps, so both refuse the same jobs for the
same reasons.
"""
from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Mapping, Sequence

from brain_cloud.jobs.kinds import CLUSTER_RUNTIME, GROUPS, RUNTIMES
from brain_cloud.jobs.templates import Unfit, overlaid, plain, pod_template, variables, with_variables
from brain_cloud.jobs.worker_data import Data, digest_in
from brain_wire.safe_text import quoted

ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"    # label of a replicated job: its role
TRAINER = "trainer"
INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}
NODE = "node"           # container of the trainer
MOST_NODES = 10_000
READY = "Ready"
POLICIES = ("torch", "jax", "xgboost")      # of a runtime's mlPolicy; without one, commands run as they are
UNDONE = ("mpi", "flux")
_SCALE = {"m": Decimal("0.001"), "": Decimal(1), "k": Decimal(1000)}


@dataclass(frozen=True)
class ReplicatedJob:
    """A replicated job of the runtime.

    Attributes:
        name: of it.
        role: :data:`TRAINER`, one of :data:`INITIALIZERS`, or empty.
        replicas: jobs of it.
        labels: of it.
        job: spec of a Kubernetes Job, its pod's template with what the job says over it.
        after: steps, and what must be true of each before: Complete or :data:`READY`.
        ranks: containers that are told by variables which of the nodes they are (:func:`rank_variables`).
    """

    name: str
    role: str
    replicas: int
    labels: Mapping[str, str]
    job: dict[str, Any]
    after: tuple[tuple[str, str], ...] = ()
    ranks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Training:
    """A TrainJob.

    Attributes:
        steps: in order.
        nodes: of the trainer.
        policy: by which its nodes find each other, one of :data:`POLICIES`; empty: they do not.
        processes: of a node; of torchrun's also ``auto``: one for each GPU.
        slots: processors, or GPUs, that a node uses.
        fetched: what has to be fetched for the nodes before they start.
        restarts: of the whole job, where a step has failed too often.
        success: ``All`` or ``Any``: of which steps jobs must complete for the whole to; the steps, none: all.
        jobset: spec of the runtime's JobSet, with the job's patches.
        notes: fields that have no effect anywhere.
    """

    steps: tuple[ReplicatedJob, ...]
    nodes: int
    policy: str
    processes: str
    slots: int
    fetched: tuple[Data, ...] = ()
    restarts: int = 0
    success: tuple[str, tuple[str, ...]] = ("All", ())
    jobset: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def compile_train_job(job: Mapping[str, Any], runtime: Mapping[str, Any]) -> Training:
    """Compiles a TrainJob.

    Args:
        job, runtime: manifests.

    Raises:
        Unfit: it cannot be run anywhere; names the field.
    """
    spec, policy = job["spec"], runtime["spec"].get("mlPolicy") or {}
    other = next((name for name in UNDONE if policy.get(name) is not None), None)
    if other is not None:
        raise Unfit("TrainingRuntimeNotSupported", f"spec.runtimeRef: its mlPolicy.{other} is not run here; take a "
                    f"runtime with {', '.join(POLICIES)}, or without any", final=True)
    found = next((name for name in POLICIES if policy.get(name) is not None), "")
    template = _patched(runtime["spec"].get("template") or {}, spec.get("runtimePatches") or ())
    inner, trainer = template.get("spec") or {}, spec.get("trainer") or {}
    nodes = _nodes(trainer, policy)
    _check_reserved(trainer, found)
    notes = [] if found == "torch" or not trainer.get("numProcPerNode") else [
        "spec.trainer.numProcPerNode has no effect: the runtime has no mlPolicy.torch"]
    in_order = (inner.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    steps: list[ReplicatedJob] = []
    for one in inner.get("replicatedJobs") or ():
        steps.append(_step(one, spec, policy, nodes, _after(one, [step.name for step in steps], in_order)))
    trains = next((step for step in steps if step.role == TRAINER), None)
    if trains is None:
        raise Unfit("NoTrainer", f"spec.runtimeRef: of its replicated jobs none has the label {ANCESTOR}: {TRAINER}; "
                    f"give it to the one that trains")
    resources = next((container.get("resources") for container in trains.job["template"]["spec"]["containers"]
                      if container["name"] == NODE), None)
    processes, slots = "1", 1
    if found == "torch":
        processes, slots = processes_of(resources, trainer.get("numProcPerNode"))
    elif found == "xgboost":    # a worker for each GPU
        slots = _gpus(resources) or 1
        processes = str(slots)
    return Training(tuple(steps), nodes, found, processes, slots, tuple(_fetched(spec, steps)),
                    (inner.get("failurePolicy") or {}).get("maxRestarts") or 0, _success(inner), inner, tuple(notes))


def _success(jobset: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    policy = jobset.get("successPolicy") or {}
    return policy.get("operator") or "All", tuple(policy.get("targetReplicatedJobs") or ())


def runtime_ref(spec: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the kind and the name of the runtime to which the spec of a TrainJob refers. Raises Unfit."""
    ref, wanted = spec["runtimeRef"], GROUPS[0]
    group, kind = ref.get("apiGroup", wanted), ref.get("kind", CLUSTER_RUNTIME)
    if group != wanted:
        raise Unfit("TrainingRuntimeNotSupported", f"spec.runtimeRef.apiGroup is {quoted(str(group))}; runtimes are of "
                    f"{wanted}", final=True)
    if kind not in RUNTIMES:
        raise Unfit("TrainingRuntimeNotSupported", f"spec.runtimeRef.kind is {quoted(str(kind))}; there are "
                    f"{' and '.join(RUNTIMES)}", final=True)
    return kind, ref["name"]


def rank_variables(policy: str, nodes: int, processes: str, address: str, port: int, rank: Any) -> dict[str, Any]:
    """Returns the variables by which the processes of a policy's nodes find each other, named as Kubeflow's plugins do.

    Args:
        policy: one of :data:`POLICIES`.
        nodes: of the trainer.
        processes: of a node.
        address, port: of the first node.
        rank: of this node, or where its pod finds it.
    """
    if policy == "torch":
        return {"PET_NNODES": nodes, "PET_NPROC_PER_NODE": processes, "PET_NODE_RANK": rank,
                "PET_MASTER_ADDR": address, "PET_MASTER_PORT": port}
    if policy == "jax":
        return {"JAX_NUM_PROCESSES": nodes, "JAX_PROCESS_ID": rank, "JAX_COORDINATOR_ADDRESS": f"{address}:{port}"}
    return {"DMLC_TRACKER_URI": address, "DMLC_TRACKER_PORT": port, "DMLC_TASK_ID": rank,
            "DMLC_NUM_WORKER": nodes * int(processes)}


def _check_reserved(trainer: Mapping[str, Any], policy: str) -> None:
    """Raises Unfit where a job sets a variable of the policy itself."""
    names = rank_variables(policy, 1, "1", "", 0, 0) if policy else {}
    found = next((one["name"] for one in trainer.get("env") or () if one["name"] in names
                  or policy == "torch" and one["name"].startswith("PET_")), None)
    if found:
        whose = "torchrun" if policy == "torch" else policy
        raise Unfit("ReservedVariable", f"spec.trainer.env: {quoted(found)} is set for {whose}; take it away, and give "
                    f"numNodes" + (" and numProcPerNode" if policy == "torch" else ""), final=True)


def _after(one: Mapping[str, Any], known: Sequence[str], in_order: bool) -> tuple[tuple[str, str], ...]:
    """Steps, and what must be true of each, before a replicated job starts."""
    after = [(that["name"], that["status"]) for that in one.get("dependsOn") or ()]
    after += [(known[-1], READY)] if in_order and known and known[-1] not in dict(after) else []
    if one["name"] in known:
        raise Unfit("NameTaken", f"two replicated jobs of the runtime are called {quoted(one['name'])}; give another "
                    f"name to one")
    for that, _ in after:
        if that not in known:
            raise Unfit("DependencyNotFound", f"the runtime's replicated job {one['name']} depends on {quoted(that)}, "
                        f"which does not stand before it; put it there, or take the dependency away")
    return tuple(after)


def _step(one: Mapping[str, Any], spec: Mapping[str, Any], policy: Mapping[str, Any], nodes: int,
          after: tuple[tuple[str, str], ...]) -> ReplicatedJob:
    """A replicated job of the runtime, with what the job says over it."""
    made = one.get("template") or {}
    labels = dict((made.get("metadata") or {}).get("labels") or {})
    body = dict(made.get("spec") or {})
    body["template"] = pod_template(body.get("template") or {}, f"step {one['name']}", "OnFailure")
    role, replicas, ranks = labels.get(ANCESTOR, ""), one.get("replicas") or 1, _targets(one["name"], policy)
    containers = body["template"]["spec"]["containers"]
    if role == TRAINER:
        replicas, trainer = 1, spec.get("trainer") or {}
        ranks += [NODE] if any(policy.get(name) is not None for name in POLICIES) else []
        body |= {"completionMode": "Indexed", "parallelism": nodes, "completions": nodes}
        containers[:] = [_of_node(container, trainer) if container["name"] == NODE else container
                         for container in containers]
    elif role in INITIALIZERS:
        replicas, said = 1, (spec.get("initializer") or {}).get(INITIALIZERS[role]) or {}
        containers[:] = [_initializing(container, said) if container["name"] == role else container
                         for container in containers]
    else:
        role = ""
    return ReplicatedJob(one["name"], role, replicas, labels, body, after, tuple(ranks))


def _nodes(trainer: Mapping[str, Any], policy: Mapping[str, Any]) -> int:
    nodes = trainer.get("numNodes", policy.get("numNodes", 1))
    if not 1 <= nodes <= MOST_NODES:
        raise Unfit("NoNodes", f"spec.trainer.numNodes is {nodes}; give 1 to {MOST_NODES}, or suspend: true",
                    final=True)
    return int(nodes)


def _targets(step: str, policy: Mapping[str, Any]) -> list[str]:
    """Containers of a step that are told torchrun's variables beside those that train."""
    targets = ((policy.get("torch") or {}).get("envInjection") or {}).get("targets") or ()
    return [name for target in targets if target["jobName"] == step for name in target["containerNames"]]


def _of_node(container: Mapping[str, Any], trainer: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: trainer[name] for name in ("image", "command", "args") if trainer.get(name) is not None}
    if trainer.get("resourcesPerNode"):
        said["resources"] = trainer["resourcesPerNode"]
    found = with_variables({**container, **said}, trainer.get("env") or ())
    if not any(found.get(name) for name in ("command", "args", "image")):
        raise Unfit("NoCommand", "spec.trainer.command is missing, and the runtime has neither a command nor an image; "
                    "give one", final=True)
    return found


def _initializing(container: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    uri = variables({"STORAGE_URI": said["storageUri"]} if said.get("storageUri") else {})
    found = with_variables(container, [*uri, *(said.get("env") or ())])
    if said.get("secretRef"):
        found["envFrom"] = [*found.get("envFrom", ()), {"secretRef": {"name": said["secretRef"]["name"]}}]
    return found


def _fetched(spec: Mapping[str, Any], steps: Sequence[ReplicatedJob]) -> list[Data]:
    present, found = {step.role for step in steps}, []
    for role, what in INITIALIZERS.items():
        said = (spec.get("initializer") or {}).get(what) or {}
        if role in present or not said.get("storageUri"):
            continue
        if not re.match(r"(https?|file)://", said["storageUri"]):
            raise Unfit("UrlUnfit", f"spec.initializer.{what}.storageUri: without a replicated job with the label "
                        f"{ANCESTOR}: {role} in the runtime, only file://, http:// and https:// are fetched; add it, "
                        f"or take another runtime")
        env = tuple(said.get("env") or ())
        found.append(Data(what, f"{what.upper()}_PATH", said["storageUri"], True, digest_in(plain(env), what),
                          (said.get("secretRef") or {}).get("name"), env=env))
    return found


def _patched(template: Mapping[str, Any], patches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: Any = dict(template)
    for number, patch in enumerate(patches):
        place = f"spec.runtimePatches[{number}]"
        over = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        names = [one["name"] for one in (found.get("spec") or {}).get("replicatedJobs") or ()]
        for one in (over.get("spec") or {}).get("replicatedJobs") or ():
            if one["name"] not in names:
                raise Unfit("PatchUnfit", f"{place}: the runtime has no replicated job {quoted(one['name'])}; there "
                            f"are {', '.join(names)}", final=True)
            pod = (((one.get("template") or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
            for container in pod.get("containers") or ():
                if container.get("env") and container["name"] in (NODE, *INITIALIZERS):
                    raise Unfit("PatchUnfit", f"{place}: variables of the container {container['name']} are given in "
                                f"spec.trainer.env or spec.initializer, not in a patch", final=True)
        found = overlaid(found, over)
    return found


def _gpus(resources: Mapping[str, Any] | None) -> int:
    """The number of GPUs that are asked for; 0: none."""
    asked = {**((resources or {}).get("limits") or {}), **((resources or {}).get("requests") or {})}
    found = [str(count) for name, count in asked.items() if "gpu" in name and str(count) != "0"]
    return max(1, int(found[0]) if re.fullmatch(r"\d{1,4}", found[0]) else 1) if found else 0


def processes_of(resources: Mapping[str, Any] | None, said: int | None) -> tuple[str, int]:
    """Processes that torchrun starts on a node, and how many processors or GPUs that uses.

    As many as are said; else with GPUs one for each, which torchrun counts itself (``auto``); else one for each CPU
    that is asked for, as Kubeflow has it.

    Raises:
        Unfit: the number of processors is none.
    """
    resources = resources or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    if said is not None:
        return str(said), said
    gpus = _gpus(resources)
    if gpus:
        return "auto", gpus
    text = str(asked.get("cpu", 1))
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)(m|k|)", text)
    if found is None:
        raise Unfit("ResourcesUnfit", f"resources: cpu must be a number of processors, as \"2\" or \"500m\", but is "
                    f"{quoted(text)}", final=True)
    count = max(1, math.ceil(Decimal(found[1]) * _SCALE[found[2]]))
    return str(count), count
