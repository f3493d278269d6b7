# SPDX-License-Identifier: Apache-2.0
"""Meaning of Sedna's FederatedLearningJob and JointInferenceService, wherever they run: parts, and what each is given.

A FederatedLearningJob with a plan is the fleet's own round (:mod:`brain_cloud.federated`): its aggregator and its
workers are the fleet's. One without brings programs of its own, which find each other and average by themselves.
Pure functions over plain values, as :mod:`.training` is of a TrainJob. The variables by which parts are told of each
other are those that Sedna's global manager gives.
"""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from brain_cloud.jobs.manifests import LEARNING_PLAN
from brain_cloud.jobs.templates import Unfit
from brain_cloud.jobs.worker_data import Data, Find, data
from brain_edge.schema import FormProblem
from brain_wire.safe_text import quoted

AGGREGATION, TRAIN = "aggregation", "train"     # groups of a FederatedLearningJob's parts
TERMINATION = "/dev/termination-log"        # where a container leaves its message, if it names no other path
BIND = "AGG_BIND_IP"    # variable of the address at which the fleet's own aggregator listens


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
        plan: of what all parts learn together, whose aggregator this is; None: none.
        ends_with: group with whose success it is done; empty: it ends by itself.
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
    plan: Mapping[str, Any] | None = field(default=None, compare=False)
    ends_with: str = ""
    before: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """Parts of one kind: the first word of its name."""
        return self.name.partition("-")[0]


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
    plan, place = round_plan(job), "spec.aggregationWorker.template"
    template = aggregation["template"] if plan is None else _own(aggregation["template"], place, [
        "brain_cloud.processes.run_aggregator", "--plan", json.dumps(plan), "--start", f"$({models[-1].variable})",
        "--model", "$(MODEL_URL)", "--folder", f"$(MODEL_URL).{job['metadata'].get('uid') or name}.rounds", "--listen",
        f"tcp/$({BIND}):$(AGG_BIND_PORT)", "--message", message_path(aggregation["template"])])
    if plan is not None and "://" in models[0].url.removeprefix("file://"):
        raise Unfit("UrlUnfit", f"spec.aggregationWorker.model.name: the url of the Model {model} is "
                                f"{quoted(models[0].url)}, and must be a path, since the weights are written there")
    parts = [Part(AGGREGATION, template, place, common, tuple(models), "cloud", listens="AGG_BIND_PORT", plan=plan)]
    for number, one in enumerate(spec["trainingWorkers"]):
        its, place = one["dataset"]["name"], f"spec.trainingWorkers[{number}]"
        given = data(find, "Dataset", its, f"{place}.dataset.name", "dataset", "TRAIN_DATASET_URL", checked=True)
        template = one["template"] if plan is None else _own(one["template"], f"{place}.template", [
            "brain_cloud.processes.run_learn", "--learner", plan["learner"], "--name", f"{TRAIN}_{number}", "--data",
            "$(TRAIN_DATASET_URL)", "--cloud", "tcp/$(AGG_IP):$(AGG_PORT)"])
        parts.append(Part(f"{TRAIN}-{number}", template, f"{place}.template", {**common, "DATASET_NAME": its},
                          (given, *models), "edge", find("Dataset", its, f"{place}.dataset.name")["spec"]["nodeName"],
                          asks=(AGGREGATION, "AGG_IP", "AGG_PORT"), ends_with="" if plan is None else AGGREGATION))
    return parts


def round_plan(job: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the plan of the fleet's round that a FederatedLearningJob is; None: it brings programs of its own.

    ``start`` is empty in it: the weights are those of ``pretrainedModel``, or of the aggregator's own model.

    Raises:
        FormProblem: the annotation is no plan.
    """
    text = (job["metadata"].get("annotations") or {}).get(LEARNING_PLAN)
    if text is None:
        return None
    if (job["spec"].get("transmitter") or {}).get("s3") is not None:
        raise Unfit("TransmitterUnfit", f"spec.transmitter.s3: with {LEARNING_PLAN} weights travel as the fleet's do; "
                                        f"leave it out", final=True)
    from brain_runtime.yaml_text import YamlProblem, parse

    from brain_cloud.federated.plan import plan  # numpy, for who learns only

    place, workers = f"metadata.annotations: {LEARNING_PLAN}", len(job["spec"]["trainingWorkers"])
    try:
        said = parse(text)
        if not isinstance(said, dict):
            raise FormProblem("must be a plan's fields, as \"{learner: vision, strategy: FedAvg, rounds: 20}\"")
        for name in ("name", "start"):
            if name in said:
                raise FormProblem(f"{name} is the job's; leave it out")
        whole = said.get("fraction", 1) == 1 and said.get("strategy") != "FedAsync"
        found = {**({"least": workers, "gather_s": 0} if whole else {}), **said, "name": job["metadata"]["name"]}
        plan({**found, "start": "-"})
    except (FormProblem, YamlProblem) as problem:
        raise Unfit("PlanUnfit", f"{place}: {problem}", final=True) from None
    return {**found, "start": "-"}


def message_path(template: Mapping[str, Any]) -> str:
    """The path of a pod's termination message within its first container."""
    said = ((template.get("spec") or {}).get("containers") or [{}])[0]
    return str(said.get("terminationMessagePath", TERMINATION))


def _own(template: Mapping[str, Any], place: str, words: Sequence[str]) -> dict[str, Any]:
    """A pod's template whose first container runs a module of ours. Raises Unfit where it names a command itself."""
    spec = template.get("spec") or {}
    first, *others = spec.get("containers") or [{"name": "worker"}]
    for name in ("command", "args"):
        if first.get(name):
            raise Unfit("CommandUnfit", f"{place}.spec.containers[0].{name}: with {LEARNING_PLAN} the fleet's own "
                                        f"programs run; take it away, or that annotation", final=True)
    return {**template, "spec": {**spec, "containers": [{**first, "command": ["python3", "-m", *words]}, *others]}}


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
