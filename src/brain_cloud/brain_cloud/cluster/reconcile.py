# SPDX-License-Identifier: Apache-2.0
"""Brings about at the API what a resource asks for. It may be done again at any time, and then changes nothing.

What is below a resource has names that follow from its own, so an operator that was killed between two requests finds
what it has made, and goes on.
"""
from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from brain_cloud.cluster import kept
from brain_cloud.cluster.api import Api, ApiProblem
from brain_cloud.cluster.kinds import (
    BY_KIND, DATASET, DEPLOYMENT, FEDERATED, INCREMENTAL, JOB, JOINT, LIFELONG, MODEL, PLAN, POD, REVISION, SCALER,
    TRAIN_JOB, Kind, owner_labels)
from brain_cloud.cluster.plans import NO_SETTINGS, Below, Child, Plan, Settings, job_state, met
from brain_cloud.cluster.sedna import blocked, federated, joint
from brain_cloud.cluster.stages import learning
from brain_cloud.cluster.trainjob import ENDED, plan as train, runtime_of, stopped
from brain_cloud.jobs import fields
from brain_cloud.jobs.manifests import CONTROLLER, LEARNING_PLAN
from brain_cloud.jobs.templates import LABEL, Unfit, fitting

PLANS: Mapping[str, Callable[[Below, Settings], Plan]] = {
    TRAIN_JOB.kind: train, FEDERATED.kind: federated, JOINT.kind: joint, INCREMENTAL.kind: learning,
    LIFELONG.kind: learning}
DEPLOYS = (JOINT, INCREMENTAL, LIFELONG)
TOLD = 5        # events of one change


@dataclass(frozen=True)
class Told:
    """Event that is reported about a resource.

    Attributes:
        warning: whether somebody has to do something.
        reason: in CamelCase.
        message: in one line.
    """

    warning: bool
    reason: str
    message: str


class Reconciler:
    """Brings resources about; of one resource at a time, from any thread.

    Args:
        api: of the cluster.
        settings: of the operator.
        clock: s since 1970.
    """

    def __init__(self, api: Api, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._api, self._settings, self._clock = api, settings, clock
        self._locks: dict[tuple[str, str, str], threading.Lock] = {}
        self._lock = threading.Lock()

    def __call__(self, kind: Kind, namespace: str, name: str) -> tuple[Mapping[str, Any] | None, list[Told]]:
        """Brings a resource about as it is now; returns it, and what is to be told about it.

        Raises:
            ApiProblem: the API was not reached, or refuses; it is to be tried again.
        """
        with self._lock:
            lock = self._locks.setdefault((kind.kind, namespace, name), threading.Lock())
        with lock:
            resource = self._api.get(kind, namespace, name)
            if resource is None or resource["metadata"].get("deletionTimestamp") or not ours(kind, resource):
                return resource, []
            return resource, self._bring(kind, resource)

    def ended(self, kind: Kind, namespace: str, name: str) -> bool:
        """Deletes the workers below a resource that is being deleted; whether none is left.

        Its own name is free only then, so that another of its name does not find them.
        """
        resource = self._api.get(kind, namespace, name)
        if resource is None or len(name) > LABEL:       # then nothing was ever made below it
            return True
        kinds = (JOB, DEPLOYMENT) if kind in DEPLOYS else (JOB,)
        left = [(below, one) for below in kinds for one in self._below(kind, resource, below).values()]
        for below, one in left:
            if not one["metadata"].get("deletionTimestamp"):
                self._api.delete(below, namespace, one["metadata"]["name"], one["metadata"]["uid"])
        if left and any(self._below(kind, resource, below) for below in kinds):
            return False
        with self._lock:
            self._locks.pop((kind.kind, namespace, name), None)
        return True

    def _below(self, kind: Kind, resource: Mapping[str, Any], below: Kind) -> dict[str, dict[str, Any]]:
        about = resource["metadata"]
        found = self._api.listed(below, about["namespace"], owner_labels(kind, about["name"]))
        return {one["metadata"]["name"]: one for one in found if _is_owner(resource, one)}

    def _bring(self, kind: Kind, resource: Mapping[str, Any]) -> list[Told]:
        about = resource["metadata"]
        try:    # its name is a label of what is below it
            fitting(about["name"], "what is below it")
        except Unfit as problem:
            plan = _stopped(kind, Below(resource, now=self._clock()), problem)
            return self._write_status(kind, resource, plan.status)
        revisions = self._below(kind, resource, REVISION)
        last = kept.newest(revisions.values())
        below = Below(resource, self._below(kind, resource, JOB), self._below(kind, resource, DEPLOYMENT)
                      if kind in DEPLOYS else {}, self._clock(), self._found(kind, resource, last),
                      self._said(kind, resource))
        plan = PLANS[kind.kind](below, self._settings)
        try:
            self._keep(kind, below, plan, revisions, last)
            self._make(kind, below, plan)
        except Unfit as problem:
            plan = _stopped(kind, below, problem)
        except ApiProblem as problem:
            if problem.status not in (400, 403, 422):       # 403: a quota, too
                raise
            plan = _stopped(kind, below, Unfit("Refused", f"the cluster refuses what is below it: {problem}"))
        told = [] if below.jobs or revisions or plan.over or plan.suspended else [
            Told(True, "NotDone", what) for what in not_done(kind, below)]
        for name in plan.deleted:
            self._api.delete(JOB, about["namespace"], name, below.jobs[name]["metadata"]["uid"])
        told += self._write_status(kind, resource, plan.status)
        for name in plan.left:
            self._api.delete(JOB, about["namespace"], name, below.jobs[name]["metadata"]["uid"])
        return told

    def _found(self, kind: Kind, resource: Mapping[str, Any], last: Mapping[str, Any] | None
               ) -> dict[tuple[str, str], Mapping[str, Any] | None]:
        namespace = resource["metadata"]["namespace"]
        return kept.found(kind, references(resource), kept.objects(last), lambda that, name: self._api.get(
            that, namespace if that.namespaced else None, name))

    def _keep(self, kind: Kind, below: Below, plan: Plan, revisions: Mapping[str, Mapping[str, Any]],
              last: Mapping[str, Any] | None) -> None:
        """Keeps what a job refers to, before anything below it is made; revisions of before go."""
        if plan.over or plan.suspended or not plan.children:
            return
        new = kept.revised(kind, below.resource, below.found, last)
        if new is not None:
            last = self._api.apply(REVISION, new)
        for name, one in revisions.items():
            if last is not None and name != last["metadata"]["name"] and not one["metadata"].get("deletionTimestamp"):
                self._api.delete(REVISION, below.resource["metadata"]["namespace"], name, one["metadata"]["uid"])

    def _said(self, kind: Kind, resource: Mapping[str, Any]) -> dict[str, str]:
        """Reads the termination messages of a job's containers that have succeeded, by Job."""
        if kind not in (INCREMENTAL, LIFELONG) and (kind != FEDERATED or LEARNING_PLAN not in (
                resource["metadata"].get("annotations") or NO_SETTINGS)):
            return {}
        about, found = resource["metadata"], dict[str, str]()
        for pod in self._api.listed(POD, about["namespace"], owner_labels(kind, about["name"])):
            job = (pod["metadata"].get("labels") or NO_SETTINGS).get("batch.kubernetes.io/job-name")
            for one in (pod.get("status") or NO_SETTINGS).get("containerStatuses") or ():
                ended = (one.get("state") or NO_SETTINGS).get("terminated") or NO_SETTINGS
                if job and ended.get("exitCode") == 0:
                    found[job] = found.get(job) or str(ended.get("message") or "")[:4096]
        return found

    def _make(self, kind: Kind, below: Below, plan: Plan) -> None:
        """Makes what is not there, changes what is otherwise, and deletes what is not asked for any more."""
        if plan.over:
            return
        namespace = below.resource["metadata"]["namespace"]
        for child in plan.children:
            if child.kind == JOB:
                self._make_job(kind, below, plan, child)
                continue
            self._free(below.resource, child)
            self._api.apply(child.kind, child.body)
        wanted = {(child.kind.kind, child.name) for child in plan.children} | {(JOB.kind, name) for name in plan.left}
        for what, there in ((JOB, below.jobs), (DEPLOYMENT, below.deployments),
                            (SCALER, self._below(kind, below.resource, SCALER) if kind == JOINT else {})):
            for name, one in there.items():
                if (what.kind, name) not in wanted and (plan.tidy or what != JOB) and not one["metadata"].get(
                        "deletionTimestamp"):
                    self._api.delete(what, namespace, name, one["metadata"]["uid"])

    def _make_job(self, kind: Kind, below: Below, plan: Plan, child: Child) -> None:
        there, namespace = below.jobs.get(child.name), below.resource["metadata"]["namespace"]
        if there is None:
            if met(child, below.jobs):
                self._free(below.resource, child)
                self._api.apply(JOB, child.body)
            return
        if there["metadata"].get("deletionTimestamp") or job_state(there) in ENDED:
            return
        made_from = (there["metadata"].get("annotations") or NO_SETTINGS).get(PLAN)
        # A pod's template cannot be changed within a Job. What Kubeflow has begun it goes on with, so that a runtime
        # can be changed while jobs run; a worker of Sedna's kinds is made anew.
        if made_from != child.body["metadata"]["annotations"][PLAN] and (kind != TRAIN_JOB or plan.suspended):
            self._api.delete(JOB, namespace, child.name, there["metadata"]["uid"])
        elif bool(there["spec"].get("suspend")) != plan.suspended:
            self._api.merge(JOB, namespace, child.name, {"spec": {"suspend": plan.suspended}})

    def _free(self, owner: Mapping[str, Any], child: Child) -> None:
        """Raises Unfit where an object of that name is somebody else's."""
        there = self._api.get(child.kind, owner["metadata"]["namespace"], child.name)
        if there is not None and not _is_owner(owner, there):
            raise Unfit("NameTaken", f"{child.kind.kind} {child.name} is there already and belongs to another; delete "
                                     f"that, or give this one another name")

    def _write_status(self, kind: Kind, resource: Mapping[str, Any], status: Mapping[str, Any]) -> list[Told]:
        old = resource.get("status") or {}
        if status == old:
            return []
        patch = {**{name: None for name in old if name not in status}, **status}
        about = resource["metadata"]
        try:
            self._api.merge(kind, about["namespace"], about["name"], {"status": patch}, "status")
        except ApiProblem as problem:
            if problem.status != 404:       # deleted meanwhile
                raise
        before = list(old.get("conditions") or ())
        new = [one for one in status.get("conditions") or () if one not in before]
        return [Told(one["type"] in ("Failed", "Blocked") and one["status"] == "True", one.get("reason") or one["type"],
                     one.get("message") or one["type"]) for one in new[-TOLD:]]


def not_done(kind: Kind, below: Below) -> list[str]:
    """Lists fields that a resource, or one that it refers to, sets and that have no effect in a cluster."""
    found = fields.told(kind.kind, below.resource, cluster=True)
    for (that, name), one in below.found.items():
        whose = "the runtime's " if kind == TRAIN_JOB else f"the {that} {name}'s "
        found += fields.told(that, one or NO_SETTINGS, whose, cluster=True)
    return found


def _stopped(kind: Kind, below: Below, problem: Unfit) -> Plan:
    """A resource that cannot be run as it is."""
    return stopped(below, problem) if kind == TRAIN_JOB else blocked(below, problem, **_stage(below.resource))


def ours(kind: Kind, resource: Mapping[str, Any]) -> bool:
    """Tells whether this operator manages a resource, and no other controller that it names."""
    return kind != TRAIN_JOB or resource["spec"].get("managedBy", CONTROLLER) == CONTROLLER


def references(resource: Mapping[str, Any]) -> list[tuple[Kind, str]]:
    """The resources that a job refers to."""
    kind, spec = BY_KIND[resource["kind"]], resource["spec"]
    if kind == TRAIN_JOB:
        try:
            return [runtime_of(resource)]
        except Unfit:       # the plan says so
            return []
    if kind == FEDERATED:
        models = [spec["aggregationWorker"]["model"], spec.get("pretrainedModel")]
        datasets = [one["dataset"] for one in spec["trainingWorkers"]]
    elif kind == JOINT:
        models, datasets = [spec["edgeWorker"]["model"], spec["cloudWorker"]["model"]], []
    else:
        models = [spec.get("initialModel"), spec["deploySpec"].get("model"), spec["evalSpec"].get("initialEvalModel")]
        datasets = [spec["dataset"]]
    return [*((MODEL, one["name"]) for one in models if one), *((DATASET, one["name"]) for one in datasets)]


def _is_owner(owner: Mapping[str, Any], one: Mapping[str, Any]) -> bool:
    return any(that.get("uid") == owner["metadata"]["uid"] for that in one["metadata"].get("ownerReferences") or ())


def _stage(resource: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a condition of a learning job has beside those of the others."""
    if resource["kind"] not in (INCREMENTAL.kind, LIFELONG.kind):
        return {}
    last = ((resource.get("status") or NO_SETTINGS).get("conditions") or [{}])[-1]
    return {"stage": last.get("stage", "Train"), "data": last.get("data", "{}")}
