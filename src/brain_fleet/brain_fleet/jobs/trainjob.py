# SPDX-License-Identifier: Apache-2.0
"""The workers of a TrainJob: its runtime, patched and overridden as Kubeflow's controller does, for this machine."""
from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, Mapping

from brain_fleet.jobs.containers import RESOURCES, grace, pod_steps
from brain_fleet.jobs.manifests import Manifest, elastic, ttl
from brain_fleet.jobs.plan import BACKOFF, COMPLETE, Group, Load, Places, Plan, Worker, merged, noted
from brain_fleet.schema import FormProblem
from brain_wire.shown import quoted

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
LOADERS = {"dataset-initializer": "dataset", "model-initializer": "model"}
MOST_WORKERS = 1000
_SCALE = {"m": Decimal("0.001"), "": Decimal(1), "k": Decimal(1000)}
_JOB = {"template", "backoffLimit", "activeDeadlineSeconds", "parallelism", "completions", "completionMode"}
_POLICIES = ("torch", "mpi", "jax", "xgboost", "flux")
# What every cluster with the trainer has; one of that name in a manifest is taken in its place.
TORCH = {"spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [{
    "name": "node", "template": {"metadata": {"labels": {STEP: "trainer"}}, "spec": {"template": {"spec": {
        "containers": [{"name": "node"}]}}}}}]}}}}
BUILT_IN = {("ClusterTrainingRuntime", "torch-distributed"): TORCH}


def train_plan(job: Manifest, objects: Mapping[tuple[str, str], Manifest], places: Places) -> Plan:
    """What a TrainJob comes to.

    Args:
        job: of the kind TrainJob.
        objects: what it may refer to, by kind and name.
        places: where its parts are.

    Raises:
        FormProblem: it refers to what is not there, or asks for what cannot be here; names the field.
    """
    spec, notes = job.spec, list[str]()
    runtime = _runtime(job, objects)
    template = _patched(runtime.get("template", {}).get("spec", {}), spec.get("runtimePatches") or (), notes)
    policy = runtime.get("mlPolicy") or {}
    for kind in _POLICIES:
        if kind in policy and kind != "torch":
            raise FormProblem(f"spec.runtimeRef: its mlPolicy.{kind} is not run here; take a runtime with torch, or "
                              f"without any")
    trainer = spec.get("trainer") or {}
    nodes = trainer.get("numNodes", policy.get("numNodes", 1))
    bounds = elastic(job)
    if not 1 <= nodes <= MOST_WORKERS:
        raise FormProblem(f"spec.trainer.numNodes is {nodes}; give 1 to {MOST_WORKERS}, or suspend: true")
    if bounds is not None and not bounds[0] <= nodes <= bounds[1]:
        raise FormProblem(f"spec.trainer.numNodes is {nodes}, and the annotation fleet.brain/elastic allows "
                          f"{bounds[0]} to {bounds[1]}; change one of them")
    if bounds is not None and "torch" not in policy:
        raise FormProblem("the annotation fleet.brain/elastic is for runtimes with mlPolicy.torch; leave it out")
    noted(notes, *(f"the runtime's template.spec.{key} has no effect here" for key in template
                   if key not in ("replicatedJobs", "failurePolicy", "ttlSecondsAfterFinished",
                                  "volumeClaimPolicies")))
    if "podGroupPolicy" in runtime:
        noted(notes, "the runtime's podGroupPolicy has no effect here: nodes always start together")
    if trainer.get("image"):
        noted(notes, "images are not used: commands run in the environment of this machine")
    if trainer.get("resourcesPerNode"):
        noted(notes, RESOURCES)
    if spec.get("suspend"):
        noted(notes, "it is suspended until it is applied with suspend: false; Kueue, which does that on a cluster, is "
                     "not run here")
    groups, deadlines = [], [float(spec["activeDeadlineSeconds"])] if "activeDeadlineSeconds" in spec else []
    replicated = template.get("replicatedJobs") or []
    steps = [((one["template"].get("metadata") or {}).get("labels") or {}).get(STEP, "") for one in replicated]
    if "trainer" not in steps:
        raise FormProblem(f"spec.runtimeRef: of its replicatedJobs none has the label {STEP}: trainer; give it to the "
                          f"one that trains")
    for which, loaded in LOADERS.items():
        if loaded in (spec.get("initializer") or {}) and which not in steps:
            raise FormProblem(f"spec.initializer.{loaded} needs a replicated job with the label {STEP}: {which} in the "
                              f"runtime; add it, or take another runtime")
    present = [which for which in LOADERS if which in steps]
    for one, step in zip(replicated, steps):
        jobs = one["template"].get("spec") or {}
        noted(notes, *(f"the runtime's replicated job {one['name']}: {key} has no effect here" for key in jobs
                       if key not in _JOB))
        deadlines += [float(jobs["activeDeadlineSeconds"])] if "activeDeadlineSeconds" in jobs else []
        after = tuple((before["name"], before["status"]) for before in one.get("dependsOn") or ())
        make = _Making(job, one["name"], jobs, places, notes, jobs.get("backoffLimit", BACKOFF), after)
        if step in LOADERS:
            groups.append(make.loaders(step, LOADERS[step], nodes))
        elif step == "trainer":
            own = "torch" in policy
            procs = trainer.get("numProcPerNode") or (_cpus(trainer.get("resourcesPerNode") or _resources(jobs))
                                                      if own else 1)
            needs = tuple(replicated[steps.index(which)]["name"] for which in present)
            groups.append(make.nodes(nodes, procs, own, bounds, needs, present))
        else:
            groups.append(make.others((one.get("replicas") or 1) * (jobs.get("parallelism") or 1)))
    kept = ttl(job)
    lives = template.get("ttlSecondsAfterFinished") if kept is None else kept
    return Plan(tuple(groups), tuple(notes), (template.get("failurePolicy") or {}).get("maxRestarts", 0),
                min(deadlines, default=None), None if lives is None else float(lives))


class _Making:
    """Makes a group of a replicated job."""

    def __init__(self, job: Manifest, name: str, spec: Mapping[str, Any], places: Places, notes: list[str],
                 backoff: int, after: tuple[tuple[str, str], ...]) -> None:
        self._job, self._name, self._places, self._notes = job, name, places, notes
        self._backoff, self._after = backoff, after
        self._template = spec.get("template") or {}
        self._place = f"the runtime's replicated job {name}: template"

    def loaders(self, step: str, which: str, nodes: int) -> Group:
        """A loader for each node."""
        container = next((one for one in self._template["spec"]["containers"] if one["name"] == step), None)
        if container is None:
            raise FormProblem(f"{self._place} holds no container {step}; name its container so")
        wanted = (self._job.spec.get("initializer") or {}).get(which) or {}
        env = {one["name"]: one.get("value", "") for one in (*(container.get("env") or ()), *(wanted.get("env") or ()))}
        uri = wanted.get("storageUri") or env.get("STORAGE_URI", "")
        if wanted.get("secretRef"):
            noted(self._notes, f"spec.initializer.{which}.secretRef has no effect here: a loader has the credentials "
                               f"of who runs it")
        workers = []
        for index in range(nodes):
            to = str(self._places.folder / "nodes" / str(index) / which)
            name = f"{self._name}-{index}"
            if container.get("command"):
                steps = pod_steps(self._template, self._place, name, index, self._places, self._notes,
                                  {**env, "STORAGE_URI": uri}, self._job.namespace, {f"/workspace/{which}": to}, step)
                workers.append(Worker(name, steps, grace=grace(self._template)))
                continue
            if not uri:
                raise FormProblem(f"spec.initializer.{which}.storageUri is missing, and the runtime names none; give "
                                  f"it, as file:///data/rooms")
            digest = env.get("SHA256") or None
            if digest is not None and not re.fullmatch("[0-9a-f]{64}", digest):
                raise FormProblem(f"spec.initializer.{which}.env: SHA256 must be 64 hexadecimal digits, as `brain jobs "
                                  f"digest PATH` prints them, but is {quoted(digest)}")
            workers.append(Worker(name, load=Load(uri, digest, to)))
        return Group(self._name, tuple(workers), self._after, self._backoff)

    def nodes(self, nodes: int, procs: int, torch: bool, bounds: tuple[int, int] | None, loaders: tuple[str, ...],
              present: list[str]) -> Group:
        """The nodes that train."""
        trainer = self._job.spec.get("trainer") or {}
        over = {key: trainer[key] for key in ("command", "args") if key in trainer}
        pod = dict(self._template.get("spec") or {})
        pod["containers"] = [{**one, **over, "env": merged(one.get("env") or [], trainer.get("env") or [])}
                             if one["name"] == "node" else one for one in pod.get("containers") or ()]
        if not any("command" in one or "args" in one for one in pod["containers"] if one["name"] == "node"):
            raise FormProblem("spec.trainer.command is missing, and the runtime has none; what its image would start "
                              "is not known here")
        workers = []
        for index in range(nodes):
            name = f"{self._name}-{index}"
            paths = {f"/workspace/{LOADERS[which]}": str(self._places.folder / "nodes" / str(index) / LOADERS[which])
                     for which in present}
            steps = pod_steps({"spec": pod}, self._place, name, index, self._places, self._notes,
                              {"JOB_COMPLETION_INDEX": str(index)}, self._job.namespace, paths, "node")
            workers.append(Worker(name, steps, needs=tuple(f"{loader}-{index}" for loader in loaders), slots=procs,
                                  grace=grace(self._template)))
        # a node waits for its own loader, not for those of the others
        after = tuple(one for one in self._after if one[0] not in loaders or one[1] != COMPLETE)
        return Group(self._name, tuple(workers), after, self._backoff, together=torch and bounds is None and nodes > 1,
                     elastic=bounds, torch=torch, procs=procs)

    def others(self, count: int) -> Group:
        """Any other job of the runtime."""
        if not 1 <= count <= MOST_WORKERS:
            raise FormProblem(f"{self._place}: {count} workers cannot be; give 1 to {MOST_WORKERS}")
        workers = tuple(Worker(f"{self._name}-{index}", pod_steps(
            self._template, self._place, f"{self._name}-{index}", index, self._places, self._notes,
            {"JOB_COMPLETION_INDEX": str(index)}, self._job.namespace), grace=grace(self._template))
            for index in range(count))
        return Group(self._name, workers, self._after, self._backoff)


def _runtime(job: Manifest, objects: Mapping[tuple[str, str], Manifest]) -> Mapping[str, Any]:
    ref = job.spec["runtimeRef"]
    kind = ref.get("kind", "ClusterTrainingRuntime")
    name = job.near(ref["name"]) if kind == "TrainingRuntime" else ref["name"]
    if (kind, name) in objects:
        return objects[kind, name].spec
    if (kind, name) in BUILT_IN:
        return BUILT_IN[kind, name]["spec"]
    known = sorted({f"{k} {n}" for k, n in (*objects, *BUILT_IN) if k.endswith("TrainingRuntime")})
    raise FormProblem(f"spec.runtimeRef: there is no {kind} {quoted(name)}; apply it first or in the same file. There "
                      f"are {', '.join(known)}")


def _patched(template: Any, patches: Any, notes: list[str]) -> Mapping[str, Any]:
    for number, patch in enumerate(patches):
        place = f"spec.runtimePatches[{number}]"
        over = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        if over.get("metadata"):
            noted(notes, f"{place}: labels and annotations of the JobSet have no effect here")
        over = over.get("spec") or {}
        names = [one["name"] for one in template.get("replicatedJobs") or ()]
        for one in over.get("replicatedJobs") or ():
            if one["name"] not in names:
                raise FormProblem(f"{place}: the runtime has no replicated job {quoted(one['name'])}; there are "
                                  f"{', '.join(names)}")
            pod = (((one.get("template") or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
            for container in pod.get("containers") or ():
                if container.get("env") and container["name"] in ("node", *LOADERS):
                    raise FormProblem(f"{place}: variables of the container {container['name']} are given in "
                                      f"spec.trainer.env or spec.initializer, not in a patch")
        template = merged(template, over)
    return dict(template)


def _resources(job: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = (job.get("template", {}).get("spec") or {}).get("containers") or ()
    return next((one.get("resources") or {} for one in containers if one["name"] == "node"), {})


def _cpus(resources: Mapping[str, Any]) -> int:
    """Ranks of a node where none are given: as many as it asks for processors, as Kubeflow has it."""
    wanted = (resources.get("requests") or {}).get("cpu") or (resources.get("limits") or {}).get("cpu") or 1
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)(m|k|)", str(wanted))
    if found is None:
        raise FormProblem(f"resources: cpu must be a number of processors, as \"2\" or \"500m\", but is "
                          f"{quoted(str(wanted))}")
    return max(1, math.ceil(Decimal(found[1]) * _SCALE[found[2]]))
