# SPDX-License-Identifier: Apache-2.0
"""Rounds of Sedna's learning jobs in a cluster: what :mod:`brain_cloud.jobs.learning` asks, of Jobs and Deployments.

Samples are those that a Job on the Dataset's node has counted (:mod:`.counting`), else its ``status.numberOfSamples``;
what a worker has told is in its container's termination message.
"""
from __future__ import annotations

from datetime import datetime, timezone

from brain_cloud.cluster.counting import counted, counter_of, job as counting_job
from brain_cloud.cluster.kinds import BY_KIND, DATASET, INCREMENTAL
from brain_cloud.cluster.plans import NO_SETTINGS, Below, Child, Plan, Settings, job_state, pods_of
from brain_cloud.cluster.sedna import blocked, deployment, find_in, part_job, part_template, suspended
from brain_cloud.jobs.learning import (
    COMPLETED, DEPLOY, EVAL, INFER, READY, RUNNING, STAGES, STARTING, TRAIN, WAITING, WORKERS, Seen, Where,
    compile_learning, is_counted, is_hot, steps, where, written)
from brain_cloud.jobs.samples import said, told_metrics, told_path
from brain_cloud.jobs.status import Seen as Workers, learning_status, stamp, unblocked
from brain_cloud.jobs.templates import Unfit

ROUND = "fleet.brain/round"     # annotation of the pods that infer: they start again with each model


def learning(below: Below, settings: Settings) -> Plan:
    """Plans an IncrementalLearningJob or LifelongLearningJob as it is now."""
    job = below.resource
    status = job.get("status") or NO_SETTINGS
    conditions = unblocked(status.get("conditions") or ())
    now = where(conditions, job["metadata"]["name"])
    try:
        for new in steps(now, job["spec"], lambda at: _see(at, below)):
            conditions = written(conditions, now, new, stamp(below.now))
            now = new
        children = _children(now, below, settings)
    except Unfit as problem:
        return blocked(below, problem, stage=now.stage, data=now.data)
    status = {**learning_status(status, Workers([]), below.now), "conditions": conditions}
    # What a round has left behind can be looked at until the next one trains.
    waiting = (now.stage, now.step) == (TRAIN, WAITING)
    return Plan(children, status, suspended=suspended(job), tidy=not waiting,
                left=counted(below, now.counted)[1] if waiting else counter_of(below))


def _see(now: Where, below: Below) -> Seen:
    """See :class:`brain_cloud.jobs.learning.Seen`."""
    job, time = below.resource, datetime.fromtimestamp(below.now, timezone.utc)
    if (now.stage, now.step) == (TRAIN, WAITING):
        dataset = below.need(DATASET, job["spec"]["dataset"]["name"])
        there = (dataset.get("status") or NO_SETTINGS).get("numberOfSamples")
        return Seen(time, None if there is None else int(there), counted(below, now.counted)[0])
    if (now.stage, now.step) == (DEPLOY, WAITING):
        told = below.said.get(_name(below, EVAL, now.round))
        return Seen(time, metrics=None if told is None else told_metrics(said(told)))
    if now.stage == DEPLOY and (job["kind"] != INCREMENTAL.kind or now.folder):     # there is nothing to put anywhere
        return Seen(time, worker="Complete", why=f"deployment {_infer(below)}", deployed=_is_deployed(now, below))
    name = _name(below, now.stage, now.round)
    its = below.jobs.get(name)
    if its is None:
        return Seen(time, worker=STARTING, why=f"job {name}", deployed=_is_deployed(now, below))
    state, pods = job_state(its), pods_of(its)
    # Pods that have ended are no more active, and counted a moment later; then the Job is over.
    uncounted = (its.get("status") or NO_SETTINGS).get("uncountedTerminatedPods") or NO_SETTINGS
    begun = any(pods) or any(uncounted.values())
    worker, why = {"Complete": ("Complete", f"job {name} has completed"),
                   "Failed": ("Failed", f"job {name} failed; see `kubectl logs`")}.get(
                       state, (RUNNING if begun else STARTING, f"job {name}"))
    made = told_path(said(below.said.get(name, "")), f"{job['spec']['outputDir'].rstrip('/')}/{now.home}")
    return Seen(time, worker=worker, why=why, made=f"{now.home}/{made}" if made else "",
                deployed=_is_deployed(now, below))


def _name(below: Below, stage: str, number: int) -> str:
    return f"{below.resource['metadata']['name']}-{WORKERS[stage]}-{number}"


def _infer(below: Below) -> str:
    return f"{below.resource['metadata']['name']}-{INFER}"


def _shown(now: Where, below: Below) -> str:
    """The round that pods which infer are marked with: they start again with each, but where they look themselves."""
    return "0" if is_hot(below.resource["spec"]) and not now.runs else str(now.deployed)


def _is_deployed(now: Where, below: Below) -> bool:
    """Tells whether what is deployed runs."""
    found = below.deployments.get(_infer(below)) or NO_SETTINGS
    status = found.get("status") or NO_SETTINGS
    new = (found.get("metadata") or NO_SETTINGS).get("generation", 0) <= status.get("observedGeneration", -1)
    runs = (((found.get("spec") or NO_SETTINGS).get("template") or NO_SETTINGS).get("metadata") or NO_SETTINGS)
    return (runs.get("annotations") or NO_SETTINGS).get(ROUND) == _shown(now, below) and new and bool(
        status.get("updatedReplicas") and status.get("availableReplicas"))


def _begun(now: Where) -> set[str]:
    """First words of the names of those of this round that have begun."""
    at = STAGES.index(now.stage)
    return {WORKERS[stage] for number, stage in enumerate(STAGES) if at > number or at == number and now.step in (
        READY, STARTING, RUNNING, COMPLETED)}


def _children(now: Where, below: Below, settings: Settings) -> list[Child]:
    """The Jobs of this round that have begun, and what infers."""
    job, begun = below.resource, _begun(now)
    kind, found = BY_KIND[job["kind"]], list[Child]()
    dataset = below.need(DATASET, job["spec"]["dataset"]["name"])
    if (now.stage, now.step) == (TRAIN, WAITING) and is_counted(dataset):
        found.append(counting_job(kind, job, dataset, now.counted, settings))
    for part in compile_learning(job, find_in(below), now):
        if part.group in begun:
            found.append(part_job(kind, job, part, part.group, settings))
        elif part.service:
            template = part_template(kind, job, part, INFER, settings, "Always")
            template["metadata"].setdefault("annotations", {})[ROUND] = _shown(now, below)
            found.append(deployment(kind, job, INFER, _infer(below), template))
    return found
