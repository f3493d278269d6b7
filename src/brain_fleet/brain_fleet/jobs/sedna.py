# SPDX-License-Identifier: Apache-2.0
"""Meaning of Sedna's FederatedLearningJob and JointInferenceService, wherever they run: parts, and what each is given.

Pure functions over plain values, as :mod:`.training` is of a TrainJob. The variables by which parts are told of each
other are those that Sedna's global manager gives.
"""
from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Sequence

from brain_fleet.jobs.manifests import SHA256
from brain_fleet.jobs.templates import Unfit

Find = Callable[[str, str, str], Mapping[str, Any]]
"""Finds a Dataset or Model: kind, name, and the field that names it. Raises FormProblem where there is none."""


@dataclass(frozen=True)
class Data:
    """A Dataset or Model that a part is given.

    Attributes:
        kind: Dataset or Model; empty: it is neither, but of the job's output folder.
        role: of it for the part, in names: dataset, model, pretrained ...
        variable: by which the part is told where it is; several of one variable stand in it with ; between them.
        checked: it must be there before the part starts.
        sha256: that it must have; empty: any.
        secret: name of one with credentials; None: none is named.
        inside: path of it below the URL, which is then a folder that the part has as a whole.
    """

    kind: str
    role: str
    variable: str
    url: str
    checked: bool = False
    sha256: str = ""
    secret: str | None = None
    inside: str = ""


@dataclass(frozen=True)
class Part:
    """A worker of a job.

    Attributes:
        name: of it within the job.
        template: of its pod.
        place: of that in the manifest, for messages.
        env: variables that are the same wherever it runs.
        data: that it is given.
        tier: edge or cloud.
        node: the one where it must run, since its data are there; None: any.
        service: it does not end by itself.
        listens: variable of the port that it listens on; empty: it does not.
        asks: the part that it asks, and the variables of that one's host and port.
        scaling: of a horizontal autoscaler; None: there is one of it.
        before: words of a command of :mod:`.rounds` that runs before the worker, where the data are; without a
            template it is all of the work.
    """

    name: str
    template: Mapping[str, Any] | None
    place: str
    env: Mapping[str, str]
    data: tuple[Data, ...]
    tier: str
    node: str | None = None
    service: bool = False
    listens: str = ""
    asks: tuple[str, str, str] | None = None
    scaling: Mapping[str, Any] | None = field(default=None, compare=False)
    before: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """Parts of one kind: the first word of its name."""
        return self.name.partition("-")[0]


def data(find: Find, kind: str, name: str, place: str, role: str, variable: str, checked: bool = False) -> Data:
    """Returns a Dataset or Model as a part is given it; a digest that one names is always checked. Raises FormProblem.

    Args:
        find: see :data:`Find`.
        place: field that names it.
        checked: it must be there before the part starts.
    """
    found = find(kind, name, place)
    digest = (found["metadata"].get("annotations") or {}).get(SHA256, "")
    return Data(kind, role, variable, found["spec"]["url"], checked, digest,
                found["spec"].get("credentialName") or None)


def given(parts: Sequence[tuple[Data, str]]) -> dict[str, str]:
    """Returns the variables that tell a part of its data.

    Args:
        parts: data, and the place of each one's URL for the part.
    """
    found: dict[str, str] = {}
    for one, place in parts:
        path = posixpath.join(place, one.inside) if one.inside else place.rstrip("/") or "/"
        found[one.variable] = f"{found[one.variable]};{path}" if one.variable in found else path
    return found


def mining(spec: Mapping[str, Any]) -> dict[str, str]:
    """Returns the variables of the rule that finds hard examples."""
    rule = spec.get("hardExampleMining") or {}
    return {"HEM_NAME": rule.get("name", ""), "HEM_PARAMETERS": json.dumps(rule.get("parameters") or [])}


def compile_federated(job: Mapping[str, Any], find: Find) -> list[Part]:
    """Compiles a FederatedLearningJob: an aggregator, and a worker for each entry of ``trainingWorkers``.

    Raises:
        FormProblem: it refers to what is not there, or has no worker.
    """
    spec, name = job["spec"], job["metadata"]["name"]
    if not spec["trainingWorkers"]:
        raise Unfit("NoWorkers", "spec.trainingWorkers is empty; give at least one", final=True)
    aggregation = spec["aggregationWorker"]
    model = aggregation["model"]["name"]
    s3 = (spec.get("transmitter") or {}).get("s3")
    common = {"JOB_NAME": name, "PARTICIPANTS_COUNT": str(len(spec["trainingWorkers"])), "MODEL_NAME": model,
              **({"TRANSMITTER": "ws"} if s3 is None else {"TRANSMITTER": "s3", "AGG_DATA_PATH": s3["aggDataPath"]})}
    models = [data(find, "Model", model, "spec.aggregationWorker.model.name", "model", "MODEL_URL")]
    if spec.get("pretrainedModel"):
        models.append(data(find, "Model", spec["pretrainedModel"]["name"], "spec.pretrainedModel.name", "pretrained",
                           "PRETRAINED_MODEL_URL"))
    parts = [Part("aggregation", aggregation["template"], "spec.aggregationWorker.template", common, tuple(models),
                  "cloud", listens="AGG_BIND_PORT")]
    for number, one in enumerate(spec["trainingWorkers"]):
        its, place = one["dataset"]["name"], f"spec.trainingWorkers[{number}]"
        given = data(find, "Dataset", its, f"{place}.dataset.name", "dataset", "TRAIN_DATASET_URL", checked=True)
        parts.append(Part(f"train-{number}", one["template"], f"{place}.template", {**common, "DATASET_NAME": its},
                          (given, *models), "edge", find("Dataset", its, f"{place}.dataset.name")["spec"]["nodeName"],
                          asks=("aggregation", "AGG_IP", "AGG_PORT")))
    return parts


def compile_joint(service: Mapping[str, Any], find: Find) -> list[Part]:
    """Compiles a JointInferenceService: the large network's worker, and the small one's, which asks it.

    Raises:
        FormProblem: as :func:`compile_federated`.
    """
    spec, parts = service["spec"], []
    for tier in ("cloud", "edge"):
        part, place = spec[f"{tier}Worker"], f"spec.{tier}Worker"
        own = mining(part) if tier == "edge" else {}
        model = data(find, "Model", part["model"]["name"], f"{place}.model.name", "model", "MODEL_URL", checked=True)
        parts.append(Part(tier, part["template"], f"{place}.template", {
            "SERVICE_NAME": service["metadata"]["name"], **own}, (model,), tier, service=True, scaling=part.get("hpa"),
            listens="BIG_MODEL_BIND_PORT" if tier == "cloud" else "",
            asks=("cloud", "BIG_MODEL_IP", "BIG_MODEL_PORT") if tier == "edge" else None))
    return parts
