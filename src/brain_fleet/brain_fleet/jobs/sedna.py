# SPDX-License-Identifier: Apache-2.0
"""The workers of Sedna's jobs, with the variables that its manager sets, for this machine."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping

from brain_fleet.jobs.containers import grace, pod_steps
from brain_fleet.jobs.loader import local_path
from brain_fleet.jobs.manifests import SHA256, Manifest, ttl
from brain_fleet.jobs.plan import BACKOFF, Group, Load, Places, Plan, Worker, noted
from brain_fleet.schema import FormProblem
from brain_wire.safe_text import quoted

LOADERS = "loader"
Objects = Mapping[tuple[str, str], Manifest]


class Making:
    """Makes workers of one job, and the loaders that they wait for.

    Args:
        job: of it.
        objects: the Datasets and Models that it may refer to.
        places: where its parts are.
    """

    def __init__(self, job: Manifest, objects: Objects, places: Places) -> None:
        self.job, self.places = job, places
        self.notes: list[str] = []
        self._objects = objects
        self._loaders: list[Worker] = []

    @property
    def suffix(self) -> str:
        """That makes names of workers differ between jobs."""
        return self.places.folder.name[-5:]

    def object(self, kind: str, name: str, field: str) -> Manifest:
        """A Dataset or Model. Raises FormProblem where there is none."""
        found = self._objects.get((kind, self.job.near(name)))
        if found is None:
            raise FormProblem(f"{field}: there is no {kind} {quoted(name)}; apply it first or in the same file")
        if found.spec.get("credentialName"):
            noted(self.notes, "credentialName has no effect here: loaders have the credentials of who runs them")
        return found

    def data(self, kind: str, name: str, field: str, worker: str, needs: list[str], at: str) -> str:
        """Returns the path of a Dataset or Model for a worker, which waits for its loader.

        Args:
            kind, name, field: of what is referred to, and where.
            worker: that needs it.
            needs: of the worker; its loader is added.
            at: what it is to the worker, for the loader's name.
        """
        found = self.object(kind, name, field)
        uri, digest = found.spec["url"], found.annotation(SHA256)
        here = local_path(uri)
        to = None if here is not None else str(self.places.folder / "data" / worker / at)
        # a model of this machine may be one that is still to be made
        if kind == "Dataset" or digest or here is None:
            loader = f"{LOADERS}-{worker}-{at}"
            self._loaders.append(Worker(loader, load=Load(uri, digest, to)))
            needs.append(loader)
        if here is not None:
            return str(here)
        assert to is not None
        return f"{to}/{Path(uri).name}" if Path(uri).suffix else to

    def worker(self, name: str, template: Mapping[str, Any], place: str, env: Mapping[str, str], needs: list[str],
               index: int = 0) -> Worker:
        """A worker of a pod's template."""
        namespace = self.job.namespace
        steps = pod_steps(template, place, name, index, self.places, self.notes, {"NAMESPACE": namespace, **env},
                          namespace)
        return Worker(name, steps, needs=tuple(needs), grace=grace(template))

    def plan(self, *groups: Group) -> Plan:
        """Of all that was made."""
        loaders = [Group(LOADERS, tuple(self._loaders))] if self._loaders else []
        lives = ttl(self.job)
        return Plan((*loaders, *groups), tuple(dict.fromkeys(self.notes)), ttl=None if lives is None else float(lives))


def backoff(template: Mapping[str, Any]) -> int:
    """Failures of a worker that are survived, by its pod's ``restartPolicy``: none with Never."""
    return 0 if (template.get("spec") or {}).get("restartPolicy") == "Never" else BACKOFF


def mining(spec: Mapping[str, Any]) -> dict[str, str]:
    """Variables of the rule that finds hard examples."""
    rule = spec.get("hardExampleMining") or {}
    return {"HEM_NAME": rule.get("name", ""), "HEM_PARAMETERS": json.dumps(rule.get("parameters") or [])}


def federated_plan(job: Manifest, objects: Objects, places: Places) -> Plan:
    """An aggregator, and a worker for each entry of ``trainingWorkers``.

    Raises:
        FormProblem: it refers to what is not there, or a worker names no command.
    """
    make, spec = Making(job, objects, places), job.spec
    port = str(places.port("aggregator"))
    count = str(len(spec["trainingWorkers"]))
    if count == "0":
        raise FormProblem("spec.trainingWorkers is empty; give at least one")
    transmitter = {"TRANSMITTER": "ws"}
    if "s3" in (spec.get("transmitter") or {}):
        transmitter = {"TRANSMITTER": "s3", "AGG_DATA_PATH": spec["transmitter"]["s3"]["aggDataPath"]}
    model = spec["aggregationWorker"]["model"]["name"]

    def models(worker: str, needs: list[str]) -> dict[str, str]:
        found = {"MODEL_URL": make.data("Model", model, "spec.aggregationWorker.model.name", worker, needs, "model")}
        if "pretrainedModel" in spec:
            found["PRETRAINED_MODEL_URL"] = make.data("Model", spec["pretrainedModel"]["name"],
                                                      "spec.pretrainedModel.name", worker, needs, "pretrained")
        return found

    common = {"JOB_NAME": job.value["metadata"]["name"], "PARTICIPANTS_COUNT": count, **transmitter}
    needs: list[str] = []
    template = spec["aggregationWorker"]["template"]
    aggregator = make.worker("aggregator", template, "spec.aggregationWorker.template", {
        **common, "WORKER_NAME": f"aggworker-{make.suffix}", "AGG_BIND_PORT": port,
        **models("aggregator", needs)}, needs)
    workers = []
    for index, one in enumerate(spec["trainingWorkers"]):
        name, needs = f"train-{index}", []
        place = f"spec.trainingWorkers[{index}]"
        data = make.data("Dataset", one["dataset"]["name"], f"{place}.dataset.name", name, needs, "dataset")
        workers.append(make.worker(name, one["template"], f"{place}.template", {
            **common, "WORKER_NAME": f"trainworker-{index}-{make.suffix}", "AGG_IP": "127.0.0.1", "AGG_PORT": port,
            "LC_SERVER": places.reports, "MODEL_NAME": model, "DATASET_NAME": one["dataset"]["name"],
            "TRAIN_DATASET_URL": data, **models(name, needs)}, needs, index))
    policy = min(backoff(one["template"]) for one in spec["trainingWorkers"])
    return make.plan(Group("aggregation", (aggregator,), backoff=backoff(template)),
                     Group("train", tuple(workers), backoff=policy))


def joint_plan(job: Manifest, objects: Objects, places: Places) -> Plan:
    """The large network's worker, and the small one's, which asks it.

    Raises:
        FormProblem: as :func:`federated_plan`.
    """
    make, spec = Making(job, objects, places), job.spec
    port = str(places.port("big model"))
    groups = []
    for which, own in (("cloud", {"BIG_MODEL_BIND_PORT": port}), ("edge", {
            "BIG_MODEL_IP": "127.0.0.1", "BIG_MODEL_PORT": port, "LC_SERVER": places.reports,
            **mining(spec["edgeWorker"])})):
        part, needs = spec[f"{which}Worker"], list[str]()
        model = make.data("Model", part["model"]["name"], f"spec.{which}Worker.model.name", which, needs, "model")
        groups.append(Group(which, (make.worker(which, part["template"], f"spec.{which}Worker.template", {
            "SERVICE_NAME": job.value["metadata"]["name"], "WORKER_NAME": f"{which}worker-{make.suffix}",
            "MODEL_URL": model, **own}, needs),), backoff=None, service=True))
    return make.plan(*groups)
