# SPDX-License-Identifier: Apache-2.0
"""The status of a TrainJob, from the Jobs below it: conditions and counts as Kubeflow's controller writes them."""
from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Mapping

from brain_fleet.cluster import conditions
from brain_fleet.cluster.kinds import CLUSTER_RUNTIME, JOB, RUNTIME, STEP, Kind
from brain_fleet.cluster.plans import NO_SETTINGS, Below, Child, Plan, Settings, job_state, pods_of
from brain_fleet.jobs.templates import Unfit
from brain_fleet.cluster.trainjob import ATTEMPT, children

ENDED = ("Complete", "Failed")
RESTARTED = "Restarted"     # condition; its reason tells how often


def runtime_of(job: Mapping[str, Any]) -> tuple[Kind, str]:
    """The runtime that a job refers to.

    Raises:
        Unfit: it is of a kind that nobody here knows.
    """
    ref = job["spec"]["runtimeRef"]
    kind = {one.kind: one for one in (RUNTIME, CLUSTER_RUNTIME)}.get(ref.get("kind", CLUSTER_RUNTIME.kind))
    if kind is None or ref.get("apiGroup", kind.group) != kind.group:
        raise Unfit("TrainingRuntimeNotSupported", f"runtimeRef names a {ref.get('kind')} of {ref.get('apiGroup')}; "
                    f"there are {RUNTIME.kind} and {CLUSTER_RUNTIME.kind} of {RUNTIME.group}", final=True)
    return kind, ref["name"]


def plan(below: Below, settings: Settings) -> Plan:
    """Plans a TrainJob as it is now."""
    job = below.resource
    old = list((job.get("status") or NO_SETTINGS).get("conditions") or ())
    if conditions.holds(old, *ENDED):
        return Plan([], dict(job.get("status") or NO_SETTINGS), over=True)
    suspended = bool(job["spec"].get("suspend"))
    attempt = _attempt(old)
    try:
        runtime = below.need(*runtime_of(job))
        wanted = children(job, runtime, settings, attempt)
    except Unfit as problem:
        return stopped(below, problem)
    stale = tuple(name for name, one in below.jobs.items()
                  if int((one["metadata"].get("labels") or NO_SETTINGS).get(ATTEMPT, attempt)) != attempt)
    below = replace(below, jobs={name: one for name, one in below.jobs.items() if name not in stale})
    old = [one for one in old if one.get("type") != "Blocked"]
    status: dict[str, Any] = {"conditions": _suspended(below, old, suspended), "jobsStatus": _counts(wanted, below)}
    end = _end(below, wanted)
    deleted: tuple[str, ...] = stale
    if end is not None and end[2] == "FailedJobs" and attempt < _restarts(runtime):
        status["conditions"] = conditions.with_condition(status["conditions"], conditions.condition(
            RESTARTED, True, f"Attempt{attempt + 1}", f"{end[3]}; the whole job starts again, as failurePolicy has it",
            below.now, job["metadata"].get("generation", 0)))
        return Plan(wanted, status, deleted=stale, suspended=suspended)
    if end is not None:
        status["conditions"] = conditions.with_condition(status["conditions"], conditions.condition(
            *end, now=below.now, generation=job["metadata"].get("generation", 0)))
        # Others would wait for one that is dead, or are no longer asked for.
        deleted += tuple(name for name, one in below.jobs.items() if job_state(one) not in ENDED)
    return Plan(wanted, status, over=end is not None, deleted=deleted, suspended=suspended)


def _attempt(old: list[Mapping[str, Any]]) -> int:
    """Number of times that the whole job was started again."""
    found = re.fullmatch(r"Attempt(\d{1,6})", str((conditions.find(old, RESTARTED) or NO_SETTINGS).get("reason")))
    return int(found[1]) if found else 0


def _restarts(runtime: Mapping[str, Any]) -> int:
    inner = runtime["spec"]["template"].get("spec") or NO_SETTINGS
    return (inner.get("failurePolicy") or NO_SETTINGS).get("maxRestarts") or 0


def stopped(below: Below, problem: Unfit) -> Plan:
    """A job that cannot be run as it is: blocked until it can, or failed where no change would help."""
    job, kind = below.resource, "Failed" if problem.final else "Blocked"
    old = [one for one in (job.get("status") or NO_SETTINGS).get("conditions") or ()
           if one.get("type") != "Blocked" or kind == "Blocked"]
    new = conditions.with_condition(old, conditions.condition(
        kind, True, problem.reason, str(problem), below.now, job["metadata"].get("generation", 0)))
    return Plan([], {**(job.get("status") or NO_SETTINGS), "conditions": new}, over=True)


def _suspended(below: Below, old: list[Mapping[str, Any]], suspended: bool) -> list[dict[str, Any]]:
    if not suspended and not conditions.holds(old, "Suspended"):
        return [dict(one) for one in old]
    reason, message = ("Suspended", "TrainJob is suspended") if suspended else ("Resumed", "TrainJob is resumed")
    return conditions.with_condition(old, conditions.condition(
        "Suspended", suspended, reason, message, below.now, below.resource["metadata"].get("generation", 0)))


def _counts(wanted: list[Child], below: Below) -> list[dict[str, Any]]:
    """Counts the Jobs of each step by their state."""
    found: dict[str, dict[str, Any]] = {}
    for child in wanted:
        if child.kind != JOB:
            continue
        step = child.body["metadata"]["labels"][STEP]
        count = found.setdefault(step, {"name": step, "ready": 0, "succeeded": 0, "failed": 0, "active": 0,
                                        "suspended": 0})
        job = below.jobs.get(child.name)
        if job is None:
            continue
        state, (active, ready, succeeded, _) = job_state(job), pods_of(job)
        if state == "Active":
            count["active"] += bool(active)
            count["ready"] += ready + succeeded >= int((job.get("spec") or {}).get("parallelism") or 1)
        else:
            count[{"Complete": "succeeded", "Failed": "failed", "Suspended": "suspended"}[state]] += 1
    return list(found.values())


def _end(below: Below, wanted: list[Child]) -> tuple[str, bool, str, str] | None:
    """The condition with which a job ends; None: it has not."""
    jobs = {child.name: below.jobs.get(child.name) for child in wanted if child.kind == JOB}
    failed = next((name for name, one in jobs.items() if one is not None and job_state(one) == "Failed"), None)
    if failed is not None:
        return "Failed", True, "FailedJobs", f"job {failed} failed: {_why(jobs[failed])}"
    runtime = below.need(*runtime_of(below.resource))
    policy = (runtime["spec"]["template"].get("spec") or NO_SETTINGS).get("successPolicy") or NO_SETTINGS
    targets = policy.get("targetReplicatedJobs") or ()
    counted = [below.jobs.get(child.name) for child in wanted if child.kind == JOB and (
        not targets or child.body["metadata"]["labels"][STEP] in targets)]
    done = [one is not None and job_state(one) == "Complete" for one in counted]
    if done and (any(done) if policy.get("operator") == "Any" else all(done)):
        return "Complete", True, "AllJobsCompleted", "the jobs below it have completed"
    return _late(below)


def _late(below: Below) -> tuple[str, bool, str, str] | None:
    job = below.resource
    limit = job["spec"].get("activeDeadlineSeconds")
    if not limit or job["spec"].get("suspend"):
        return None
    resumed = conditions.find((job.get("status") or NO_SETTINGS).get("conditions") or (), "Suspended")
    began = conditions.seconds(resumed["lastTransitionTime"] if resumed is not None and resumed["status"] == "False"
                               else job["metadata"].get("creationTimestamp"))
    if began is None or below.now <= began + limit:
        return None
    return "Failed", True, "DeadlineExceeded", "TrainJob exceeded its active deadline"


def _why(job: Any) -> str:
    one = conditions.find((job.get("status") or NO_SETTINGS).get("conditions") or (), "Failed") or NO_SETTINGS
    return f"{one.get('message') or one.get('reason') or 'no reason is given'}; see `kubectl logs`"
