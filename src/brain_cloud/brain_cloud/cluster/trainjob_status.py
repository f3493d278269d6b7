# SPDX-License-Identifier: Apache-2.0
"""The status of a TrainJob, from the Jobs below it: conditions and counts as Kubeflow's controller writes them."""
from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Mapping

from brain_cloud.cluster.kinds import CLUSTER_RUNTIME, JOB, RUNTIME, STEP, Kind
from brain_cloud.cluster.plans import NO_SETTINGS, Below, Child, Plan, Settings, batch, job_state
from brain_cloud.cluster.trainjob import ATTEMPT, children
from brain_cloud.jobs import conditions
from brain_cloud.jobs.status import RESTARTED, Seen, train_status
from brain_cloud.jobs.templates import Unfit
from brain_cloud.jobs.training import runtime_ref

ENDED = ("Complete", "Failed")


def runtime_of(job: Mapping[str, Any]) -> tuple[Kind, str]:
    """The runtime that a job refers to.

    Raises:
        Unfit: it is of a kind that nobody here knows.
    """
    kind, name = runtime_ref(job["spec"])
    return {one.kind: one for one in (RUNTIME, CLUSTER_RUNTIME)}[kind], name


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
    end = _end(below, wanted, runtime)
    again = end is not None and end[1] == "FailedJobs" and attempt < _restarts(runtime)
    seen = Seen([batch(child.body["metadata"]["labels"][STEP], below.jobs.get(child.name)) for child in wanted
                 if child.kind == JOB], ("Suspended", "TrainJob is suspended") if suspended else None)
    if end is not None:
        seen = replace(seen, restarts=(attempt + 1, end[2])) if again else replace(seen, end=end)
    status = train_status(job.get("status") or NO_SETTINGS, seen, below.now, job["metadata"].get("generation", 0))
    deleted: tuple[str, ...] = stale
    if seen.end is not None:
        # Others would wait for one that is dead, or are no longer asked for.
        deleted += tuple(name for name, one in below.jobs.items() if job_state(one) not in ENDED)
    return Plan(wanted, status, over=seen.end is not None, deleted=deleted, suspended=suspended)


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


def _end(below: Below, wanted: list[Child], runtime: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Complete or Failed, the reason and the message with which a job ends; None: it has not."""
    jobs = {child.name: below.jobs.get(child.name) for child in wanted if child.kind == JOB}
    failed = next((name for name, one in jobs.items() if one is not None and job_state(one) == "Failed"), None)
    if failed is not None:
        return "Failed", "FailedJobs", f"job {failed} failed: {_why(jobs[failed])}"
    policy = (runtime["spec"]["template"].get("spec") or NO_SETTINGS).get("successPolicy") or NO_SETTINGS
    targets = policy.get("targetReplicatedJobs") or ()
    counted = [below.jobs.get(child.name) for child in wanted if child.kind == JOB and (
        not targets or child.body["metadata"]["labels"][STEP] in targets)]
    done = [one is not None and job_state(one) == "Complete" for one in counted]
    if done and (any(done) if policy.get("operator") == "Any" else all(done)):
        return "Complete", "AllJobsCompleted", "the jobs below it have completed"
    return _late(below)


def _late(below: Below) -> tuple[str, str, str] | None:
    job = below.resource
    limit = job["spec"].get("activeDeadlineSeconds")
    if not limit or job["spec"].get("suspend"):
        return None
    resumed = conditions.find((job.get("status") or NO_SETTINGS).get("conditions") or (), "Suspended")
    began = conditions.seconds(resumed["lastTransitionTime"] if resumed is not None and resumed["status"] == "False"
                               else job["metadata"].get("creationTimestamp"))
    if began is None or below.now <= began + limit:
        return None
    return "Failed", "DeadlineExceeded", "TrainJob exceeded its active deadline"


def _why(job: Any) -> str:
    one = conditions.find((job.get("status") or NO_SETTINGS).get("conditions") or (), "Failed") or NO_SETTINGS
    return f"{one.get('message') or one.get('reason') or 'no reason is given'}; see `kubectl logs`"
