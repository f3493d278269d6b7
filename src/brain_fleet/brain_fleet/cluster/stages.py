# SPDX-License-Identifier: Apache-2.0
"""Sedna's IncrementalLearningJob and LifelongLearningJob: rounds of training, evaluation and deployment.

Where a job is stands in its newest condition, as Sedna writes it, so that an operator that starts anew goes on there:
``stage`` is Train, Eval or Deploy, ``type`` Waiting, Ready, Starting, Running, Completed or Failed, and ``data`` holds
the round. Training begins when the Dataset has as many more samples as the trigger asks: by what a Job on its node has
counted (:mod:`.counting`), else by its ``status.numberOfSamples``. A model is deployed when the metric that the
evaluating container has left in its termination message is as the trigger asks.
"""
from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Mapping, Sequence

from brain_fleet.cluster.counting import SAMPLES, counted, counter_of, job as counting_job
from brain_fleet.cluster.kinds import BY_KIND, DATASET, INCREMENTAL, MODEL
from brain_fleet.cluster.plans import NO_SETTINGS, Below, Child, Plan, Settings, job_state, pods_of
from brain_fleet.cluster.sedna import (blocked, data_of, deployment, heard, suspended, unblocked, worker_job,
                                       worker_template)
from brain_fleet.cluster.storage import Source, of_resource
from brain_fleet.jobs.samples import fires, in_hours, metric
from brain_fleet.jobs.templates import Unfit
from brain_wire.safe_text import quoted

STAGES = ("Train", "Eval", "Deploy")
STEPS = ("Waiting", "Ready", "Starting", "Running", "Completed", "Failed")
KEPT = 30           # conditions, of which each round adds a dozen
WHOLE = 2**53       # of what a status may hold


@dataclass(frozen=True)
class Where:
    """Position of a learning job in its rounds.

    Attributes:
        stage, step: see the module.
        round: counted from 1.
        samples: that the data set had when it was last trained.
        counted: that it had when they were last counted; None: nobody has.
        deployed: round whose model runs; 0: none yet.
        why: of the last step.
    """

    stage: str = "Train"
    step: str = ""
    round: int = 1
    samples: int = 0
    deployed: int = 0
    why: str = ""
    counted: int | None = None

    @property
    def data(self) -> str:
        """As it is kept in a condition."""
        counted = {} if self.counted is None else {"counted": self.counted}
        return json.dumps({"round": self.round, "samples": self.samples, "deployed": self.deployed, **counted})


def where(conditions: Sequence[Mapping[str, Any]]) -> Where:
    """Reads the position of a job from its newest condition; the beginning where that cannot be read."""
    last = conditions[-1] if conditions else NO_SETTINGS
    if last.get("stage") not in STAGES or last.get("type") not in STEPS:
        return Where()
    try:
        data = json.loads(last.get("data") or "{}")
        counts = {name: data.get(name, least) for name, least in (("round", 1), ("samples", 0), ("deployed", 0))}
        if "counted" in data:
            counts["counted"] = data["counted"]
    except (ValueError, AttributeError, RecursionError):
        return Where()
    if not all(type(count) is int and 0 <= count < WHOLE for count in counts.values()):
        return Where()
    return Where(last["stage"], last["type"], why=last.get("message", ""), **counts)


def learning(below: Below, settings: Settings) -> Plan:
    """Plans an IncrementalLearningJob or LifelongLearningJob as it is now."""
    job = below.resource
    status = dict(job.get("status") or NO_SETTINGS)
    conditions = unblocked(list(status.get("conditions") or ()))
    now = where(conditions)
    try:
        for _ in range(len(STAGES) * len(STEPS)):       # each step at most once
            new = _step(now, below)
            if new is None:
                break
            if (new.stage, new.step, new.why, new.counted) != (now.stage, now.step, now.why, now.counted):
                if conditions and (new.stage, new.step) == (now.stage, now.step):
                    conditions.pop()        # the same again, for another reason
                conditions.append(heard(below, new.step, f"{new.stage}{new.step}", new.why, stage=new.stage,
                                        data=new.data))
            now = new
        children = _children(now, below, settings)
    except Unfit as problem:
        return blocked(below, problem, stage=now.stage, data=now.data)
    status |= {"conditions": conditions[-KEPT:]}
    if conditions:
        status["startTime"] = status.get("startTime") or conditions[0]["lastHeartbeatTime"]
    # What a round has left behind can be looked at until the next one trains.
    waiting = (now.stage, now.step) == ("Train", "Waiting")
    return Plan(children, status, suspended=suspended(job), tidy=not waiting,
                left=counted(below, now.counted)[1] if waiting else counter_of(below))


def _step(now: Where, below: Below) -> Where | None:
    """Returns the next position of a job; None: nothing has changed."""
    if now.step == "":
        return replace(now, step="Waiting", why=f"round {now.round}")
    if now.step == "Waiting":
        return _waiting(now, below)
    if now.step == "Completed":
        if now.stage == "Deploy":
            return replace(now, stage="Train", step="Waiting", round=now.round + 1, why=f"round {now.round + 1}")
        return replace(now, stage=STAGES[STAGES.index(now.stage) + 1], step="Waiting", why=f"round {now.round}")
    if now.step == "Failed":
        return replace(now, stage="Train", step="Waiting", round=now.round + 1,
                       why=f"round {now.round} failed: {now.why}"[:300])
    if now.stage == "Deploy":
        return _deploying(now, below)
    name = _worker(below, now.stage, now.round)
    job = below.jobs.get(name)
    if job is None:
        return replace(now, step="Starting", why=f"job {name}") if now.step != "Starting" else None
    state = job_state(job)
    if state in ("Complete", "Failed"):
        return replace(now, step="Completed" if state == "Complete" else "Failed",
                       why=f"job {name} {'has completed' if state == 'Complete' else 'failed; see `kubectl logs`'}")
    step = "Running" if pods_of(job)[0] else "Starting"
    return replace(now, step=step, why=f"job {name}") if step != now.step else None


def _waiting(now: Where, below: Below) -> Where | None:
    spec, clock = below.resource["spec"], datetime.fromtimestamp(below.now, timezone.utc)
    if now.stage == "Eval":
        return replace(now, step="Ready", why="the model of this round is evaluated")
    if now.stage == "Train":
        trigger = spec["trainSpec"]["trigger"]
        dataset = below.need(DATASET, spec["dataset"]["name"])
        new, _ = counted(below, now.counted)
        if new is not None:
            now = replace(now, counted=new, why="")     # so that it is written, whatever is said of it
        there = int((dataset.get("status") or NO_SETTINGS).get("numberOfSamples") or 0
                    ) if now.counted is None else now.counted
        if trigger["condition"]["metric"] != SAMPLES:
            raise Unfit("MetricUnknown", f"training is triggered by {quoted(trigger['condition']['metric'])}, and the "
                                         f"operator knows {SAMPLES}")
        grown = there - now.samples
        if not in_hours(trigger.get("timer"), clock):
            return _told(now, "waiting for its hours")
        if not fires(trigger["condition"], {SAMPLES: grown}):
            return _told(now, f"{grown} new samples, and training begins with {trigger['condition']['operator']} "
                              f"{trigger['condition']['threshold']:g}")
        return replace(now, step="Ready", samples=there, why=f"{grown} new samples")
    trigger = (spec["deploySpec"].get("trigger") or NO_SETTINGS)
    if not trigger:
        return replace(now, step="Ready", why="every model is deployed")
    if not in_hours(trigger.get("timer"), clock):
        return _told(now, "waiting for its hours")
    name = trigger["condition"]["metric"]
    metrics = said(below.said.get(_worker(below, "Eval", now.round), ""))
    found = metric(name, metrics)
    if found is None:
        return _told(now, f"the evaluation has said no {name}: its container writes {{\"{name}\": 0.1}} to "
                          f"/dev/termination-log")
    if fires(trigger["condition"], metrics):
        return replace(now, step="Ready", why=f"{name} is {found:g}")
    return replace(now, step="Completed", why=(
        f"the model of round {now.round} is not deployed: {name} is {found:g}, and must be "
        f"{trigger['condition']['operator']} {trigger['condition']['threshold']:g}"))


def _told(now: Where, why: str) -> Where | None:
    """Still waiting, and for what."""
    return None if why == now.why else replace(now, why=why)


def _deploying(now: Where, below: Below) -> Where | None:
    if now.deployed != now.round:
        return replace(now, step="Starting", deployed=now.round, why=f"deployment {_worker(below, 'Deploy', 0)}")
    found = below.deployments.get(_worker(below, "Deploy", 0)) or NO_SETTINGS
    status = found.get("status") or NO_SETTINGS
    new = (found.get("metadata") or NO_SETTINGS).get("generation", 0) <= status.get("observedGeneration", -1)
    runs = (((found.get("spec") or NO_SETTINGS).get("template") or NO_SETTINGS).get("metadata") or NO_SETTINGS)
    if (runs.get("annotations") or NO_SETTINGS).get("fleet.brain/round") == str(now.round) and new and (
            status.get("updatedReplicas") and status.get("availableReplicas")):
        return replace(now, step="Completed", why=f"the model of round {now.round} is deployed")
    return None


def said(message: str) -> Mapping[str, Any]:
    """Metrics that a container has left behind; none where that cannot be read."""
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        return NO_SETTINGS
    return found if isinstance(found, dict) else NO_SETTINGS


def _worker(below: Below, stage: str, number: int) -> str:
    name = below.resource["metadata"]["name"]
    return f"{name}-infer" if stage == "Deploy" else f"{name}-{stage.lower()}-{number}"


def _output(below: Below, number: int) -> str:
    return posixpath.join(below.resource["spec"]["outputDir"], below.resource["metadata"]["name"], f"round-{number}")


def _children(now: Where, below: Below, settings: Settings) -> list[Child]:
    """The jobs of this round that have begun, and what is deployed."""
    job = below.resource
    kind, spec = BY_KIND[job["kind"]], job["spec"]
    dataset = below.need(DATASET, spec["dataset"]["name"])
    node = dataset["spec"]["nodeName"]
    env = {"NAMESPACE": job["metadata"]["namespace"], "JOB_NAME": job["metadata"]["name"]}
    begun = [stage for stage in ("Train", "Eval") if STAGES.index(now.stage) > STAGES.index(stage)
             or now.stage == stage and now.step in ("Ready", "Starting", "Running", "Completed")]
    found: list[Child] = []
    if (now.stage, now.step) == ("Train", "Waiting"):
        counter = counting_job(kind, job, dataset, now.counted, settings)
        found += [counter] if counter is not None else []
    for stage in begun:
        name = _worker(below, stage, now.round)
        sources, own = (_to_train if stage == "Train" else _to_evaluate)(now, below)
        found.append(worker_job(
            kind, job, stage.lower(), name, spec[f"{stage.lower()}Spec"]["template"],
            [*sources, data_of(dataset, "ORIGINAL_DATASET_URL")], {**env, **own, "WORKER_NAME": name}, "edge", node,
            settings))
    if now.deployed:
        name = _worker(below, "Deploy", 0)
        model = Source("model", _output(below, now.deployed), "MODEL_URL" if kind == INCREMENTAL else "MODEL_URLS")
        mining = spec["deploySpec"].get("hardExampleMining")
        own = {"OUTPUT_URL": spec["outputDir"]} if mining is None else {
            "HEM_NAME": mining["name"], "HEM_PARAMETERS": json.dumps(mining.get("parameters") or [])}
        template = worker_template(kind, job, "infer", name, spec["deploySpec"]["template"], [model], {
            **env, **own, "WORKER_NAME": name}, "edge", node, settings, "Always")
        template["metadata"].setdefault("annotations", {})["fleet.brain/round"] = str(now.deployed)
        found.append(deployment(kind, job, "infer", name, template))
    return found


def _to_train(now: Where, below: Below) -> tuple[list[Source], dict[str, Any]]:
    spec = below.resource["spec"]
    data = data_of(below.need(DATASET, spec["dataset"]["name"]), "TRAIN_DATASET_URL")
    if below.resource["kind"] != INCREMENTAL.kind:
        return [data, Source("output", _output(below, now.round), "OUTPUT_URL")], {
            "HAS_COMPLETED_INITIAL_TRAINING": str(now.deployed > 0).lower()}
    base = Source("base", _output(below, now.deployed), "BASE_MODEL_URL") if now.deployed else of_resource(
        below.need(MODEL, spec["initialModel"]["name"]), "base", "BASE_MODEL_URL", checked=True)
    return [data, base, Source("output", _output(below, now.round), "MODEL_URL")], {}


def _to_evaluate(now: Where, below: Below) -> tuple[list[Source], dict[str, Any]]:
    spec = below.resource["spec"]
    data = data_of(below.need(DATASET, spec["dataset"]["name"]), "TEST_DATASET_URL")
    new = Source("output", _output(below, now.round), "OUTPUT_URL")
    models = [new.path]
    found = [data, new]
    if below.resource["kind"] == INCREMENTAL.kind:     # the new one against that which runs
        old = Source("old", _output(below, now.deployed), "OLD_MODEL_URL") if now.deployed else of_resource(
            below.need(MODEL, spec["deploySpec"]["model"]["name"]), "old", "OLD_MODEL_URL", checked=False)
        found.append(old)
        models.append(old.path)
    return found, {"MODEL_URLS": ";".join(models)}
