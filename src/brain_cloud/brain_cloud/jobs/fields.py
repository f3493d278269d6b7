# SPDX-License-Identifier: Apache-2.0
"""Fields of manifests, and what each does where: it has an effect, has none and is told so, or is refused.

One table for the messages of both executors, for the page in the docs (``python -m brain_cloud.jobs.fields`` prints
its table) and for the test that changes each field and looks whether that is so.
"""
from __future__ import annotations

import functools
from fnmatch import fnmatchcase
from typing import Any, Iterator, Mapping, NamedTuple

EFFECT, NONE, REFUSED = "effect", "none, told", "refused"
IMAGES = "images are not used: commands run in the environment of this machine"
RESOURCES = "resources are told and not enforced"
_PATCH = "manager and time of runtimePatches say who wrote them and when, and have no effect"


class Field(NamedTuple):
    """Row of the table.

    Attributes:
        path: of a field and of all below it but for what has rows of its own; lists are passed through, ``*`` is any
            name.
        here, cluster: what it does on this machine, and in a cluster.
        why: reason, for people.
        line: message that is told in place of one for each field; also of a field that has some effect.
        form: of what stands below, whose rows are its own.
    """

    path: str
    here: str = EFFECT
    cluster: str = EFFECT
    why: str = ""
    line: str = ""
    form: str = ""


_POD, _TEMPLATE = "Pod", "Template"
_LEARNING = (
    Field("dataset"), Field("outputDir"), Field("trainSpec.template", form=_TEMPLATE), Field("trainSpec.trigger"),
    Field("evalSpec.template", form=_TEMPLATE), Field("deploySpec.template", form=_TEMPLATE),
    Field("credentialName", NONE, NONE, "those of its Datasets and Models count"))
# Of each form the more special row wins, whatever the order.
FORMS: Mapping[str, tuple[Field, ...]] = {
    "TrainJob": (
        Field("runtimeRef"), Field("initializer.*.storageUri"), Field("initializer.*.env"),
        Field("initializer.*.secretRef", NONE, EFFECT, "a loader has the credentials of who runs it"),
        Field("trainer.image", NONE, EFFECT, line=IMAGES), Field("trainer.command"), Field("trainer.args"),
        Field("trainer.env"), Field("trainer.numNodes"), Field("trainer.numProcPerNode"),
        Field("trainer.resourcesPerNode", NONE, EFFECT, line=RESOURCES),
        Field("trainer.resourcesPerNode.*.cpu", why="ranks, where numProcPerNode is not given", line=RESOURCES),
        Field("trainer.resourcesPerNode.*.*gpu*", why="ranks, where numProcPerNode is not given", line=RESOURCES),
        Field("runtimePatches.manager", NONE, NONE, line=_PATCH),
        Field("runtimePatches.time", NONE, NONE, line=_PATCH),
        Field("runtimePatches.trainingRuntimeSpec", form="Runtime"), Field("suspend"), Field("activeDeadlineSeconds"),
        Field("managedBy", REFUSED, EFFECT, "unless it is Trainer's own controller; in a cluster the job is let be")),
    "Runtime": (
        Field("mlPolicy.numNodes"), Field("mlPolicy.torch"), Field("mlPolicy.jax"), Field("mlPolicy.xgboost"),
        Field("mlPolicy.torch.envInjection", NONE, EFFECT, "all steps of a node have the variables, and no others"),
        Field("mlPolicy.mpi", REFUSED, REFUSED), Field("mlPolicy.flux", REFUSED, REFUSED),
        Field("podGroupPolicy", NONE, NONE, "gang scheduling; nodes start together, or with others where they fit"),
        Field("template.metadata", NONE, NONE, "there is no JobSet"), Field("template.spec", form="JobSet")),
    "JobSet": (
        Field("replicatedJobs.name"), Field("replicatedJobs.replicas"), Field("replicatedJobs.dependsOn"),
        Field("replicatedJobs.groupName", NONE, NONE),
        Field("replicatedJobs.template.metadata", NONE, NONE),
        Field("replicatedJobs.template.metadata.labels", why="the step that it is; in a cluster its Jobs' labels"),
        Field("replicatedJobs.template.spec", form="Job"),
        Field("failurePolicy", NONE, NONE), Field("failurePolicy.maxRestarts"),
        Field("successPolicy", NONE, EFFECT, "all steps are to succeed"), Field("startupPolicy"),
        Field("ttlSecondsAfterFinished", EFFECT, NONE), Field("network", NONE, NONE),
        Field("network.publishNotReadyAddresses", NONE, EFFECT),
        Field("volumeClaimPolicies", NONE, REFUSED, "what is mounted of it is a folder of the job"),
        Field("*", NONE, NONE)),
    "Job": (
        Field("template.metadata", NONE, EFFECT), Field("template.spec", form=_POD), Field("backoffLimit"),
        Field("activeDeadlineSeconds"), Field("parallelism"), Field("suspend", NONE, NONE, "the TrainJob's counts"),
        Field("*", NONE, EFFECT)),
    _TEMPLATE: (Field("metadata", NONE, EFFECT, "a server drops it from Sedna's kinds, as their definitions have it"),
                Field("spec", form=_POD)),
    _POD: (
        Field("containers", form="Container"), Field("initContainers", form="Container"), Field("volumes.name"),
        Field("volumes.hostPath", NONE, EFFECT), Field("volumes.hostPath.path"),
        Field("volumes.persistentVolumeClaim", NONE, EFFECT), Field("volumes.persistentVolumeClaim.claimName"),
        Field("volumes.emptyDir", why="a folder of the worker"), Field("volumes.emptyDir.*", NONE, EFFECT),
        Field("volumes.*", NONE, EFFECT, "what is mounted of it is not there"),
        Field("restartPolicy", why="here Never lets a worker of Sedna's jobs fail once; TrainJobs have backoffLimit"),
        Field("terminationGracePeriodSeconds"), Field("priorityClassName"),
        Field("nodeName", REFUSED, EFFECT, "unless it names this machine or, in a fleet's cloud, a robot"),
        Field("*", NONE, EFFECT)),
    "Container": (
        Field("name"), Field("command"), Field("args"), Field("workingDir"), Field("env.name"), Field("env.value"),
        Field("image", NONE, EFFECT, line=IMAGES), Field("imagePullPolicy", NONE, EFFECT, line=IMAGES),
        Field("env.valueFrom.*", NONE, EFFECT, "the variable is not set"),
        Field("env.valueFrom.fieldRef.apiVersion", NONE, EFFECT), Field("env.valueFrom.fieldRef.fieldPath"),
        Field("volumeMounts", NONE, EFFECT), Field("volumeMounts.name"), Field("volumeMounts.mountPath"),
        Field("volumeMounts.subPath"), Field("resources", NONE, EFFECT, line=RESOURCES),
        Field("resources.*.cpu", why="ranks of torchrun, where numProcPerNode is not given", line=RESOURCES),
        Field("resources.*.*gpu*", why="ranks of torchrun, where numProcPerNode is not given", line=RESOURCES),
        Field("terminationMessagePath", why="here of Sedna's learning jobs"), Field("*", NONE, EFFECT)),
    "FederatedLearningJob": (
        Field("aggregationWorker.model"), Field("aggregationWorker.template", form=_TEMPLATE),
        Field("trainingWorkers.dataset"), Field("trainingWorkers.template", form=_TEMPLATE), Field("pretrainedModel"),
        Field("transmitter.s3.aggDataPath"), Field("transmitter.s3.credentialName", NONE, NONE),
        Field("transmitter.ws", NONE, NONE, line="weights go by ws where transmitter.s3 is not given")),
    "IncrementalLearningJob": (
        *_LEARNING, Field("initialModel"), Field("evalSpec.initialEvalModel"), Field("deploySpec.model"),
        Field("deploySpec.trigger"), Field("deploySpec.hardExampleMining"),
        Field("deploySpec.trigger.checkPeriodSeconds", NONE, NONE, "a model is judged once it is evaluated")),
    "LifelongLearningJob": _LEARNING,
    "JointInferenceService": (
        Field("*.model"), Field("*.template", form=_TEMPLATE), Field("edgeWorker.hardExampleMining"),
        Field("*.hpa", NONE, EFFECT)),
    "Dataset": (
        Field("url"), Field("format", why="of samples that are counted"),
        Field("nodeName", NONE, EFFECT, "its workers run on this machine"),
        Field("credentialName", NONE, EFFECT, "loaders have the credentials of who runs them")),
    "Model": (
        Field("url"), Field("format", NONE, NONE), Field("device_soc_versions", NONE, NONE),
        Field("credentialName", NONE, EFFECT, "loaders have the credentials of who runs them")),
}
FORMS = {**FORMS, "TrainingRuntime": FORMS["Runtime"], "ClusterTrainingRuntime": FORMS["Runtime"]}


@functools.lru_cache(1 << 12)
def row(form: str, path: tuple[str, ...]) -> Field | None:
    """The row of a field of a form: the longest that covers it, names before ``*``; None: the table has none."""
    fits = [one for one in FORMS[form] if _fits(one, path[:one.path.count(".") + 1])]
    return max(fits, key=lambda one: (one.path.count("."), -one.path.count("*")), default=None)


def _fits(one: Field, path: tuple[str, ...]) -> bool:
    names = one.path.split(".")
    return len(names) == len(path) and all(map(fnmatchcase, path, names))


@functools.lru_cache(1 << 12)
def divided(form: str, path: tuple[str, ...]) -> bool:
    """Tells whether the table has rows for fields below one."""
    return any(one.path.count(".") >= len(path) and _fits(Field(".".join(one.path.split(".")[:len(path)])), path)
               for one in FORMS[form])


def fields(form: str, value: Any, place: str, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Field]]:
    """Yields the place and the row of each field that is set, as deep as the table tells fields apart.

    Args:
        form: of the table.
        value: of the form, or of a field of it.
        place: of the value, for messages.
        path: of the field within the form.
    """
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from fields(form, one, f"{place}[{number}]", path)
    elif isinstance(value, dict) and value and (not path or divided(form, path)):
        for name, one in value.items():
            yield from _below(form, one, f"{place}.{name}", (*path, name))
    elif path and (found := row(form, path)) is not None:
        yield place, found


def _below(form: str, value: Any, place: str, path: tuple[str, ...]) -> Iterator[tuple[str, Field]]:
    found = row(form, path)
    if found is not None and found.form and _fits(found, path):
        yield from fields(found.form, value, place)
    else:
        yield from fields(form, value, place, path)


def told(kind: str, value: Mapping[str, Any], whose: str = "", cluster: bool = False) -> list[str]:
    """Lists messages about what of a manifest has no effect, or not all that one may expect.

    Args:
        kind: of it.
        value: the manifest.
        whose: it is, as ``"the runtime's "``.
        cluster: in a cluster, not on this machine.
    """
    found = []
    for place, one in fields(kind, value.get("spec") or {}, f"{whose}spec"):
        if not cluster and one.line:
            found.append(one.line)
        elif (one.cluster if cluster else one.here) == NONE:
            found.append(one.line or f"{place} has no effect {'in a cluster' if cluster else 'here'}" + (
                f": {one.why}" if one.why else ""))
    return list(dict.fromkeys(found))


def table() -> str:
    """The table as the docs show it."""
    lines = ["| of | field | on this machine | in a cluster | |", "|---|---|---|---|---|"]
    for form, rows in FORMS.items():
        if form == "Runtime" or form == "ClusterTrainingRuntime":
            continue
        name = {"TrainingRuntime": "runtimes", "Pod": "pods", "Container": "containers", "Template": "pods' templates"
                }.get(form, f"`{form}`")
        for one in rows:
            if not one.form:
                lines.append(f"| {name} | {'other fields' if one.path == '*' else f'`{one.path}`'} | {one.here} | "
                             f"{one.cluster} | {one.why or one.line} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
