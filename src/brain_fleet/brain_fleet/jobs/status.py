# SPDX-License-Identifier: Apache-2.0
"""``status`` of each kind of job, from how its workers are."""
from __future__ import annotations

from brain_fleet.jobs.conditions import add_condition, is_true, set_condition
from brain_fleet.jobs.job import DONE, FAILED, RUNNING, SUSPENDED, Job
from brain_fleet.state.events import now


def write_status(job: Job) -> None:
    """Brings the status of a job's record to how it is."""
    {"TrainJob": _train, "FederatedLearningJob": _federated, "JointInferenceService": _service}.get(
        job.record.manifest.kind, _learning)(job)


def _train(job: Job) -> None:
    status, generation = job.record.status, job.record.generation
    if job.phase == SUSPENDED:
        set_condition(status, "Suspended", True, "Suspended", "TrainJob is suspended", generation)
    elif whose := job.state.get("preempted"):
        set_condition(status, "Suspended", True, "Preempted", f"TrainJob has given way to {whose}, whose priority is "
                                                              f"higher", generation)
    elif is_true(status, "Suspended"):
        set_condition(status, "Suspended", False, "Resumed", "TrainJob is resumed", generation)
    if job.over:
        set_condition(status, "Complete" if job.phase == DONE else "Failed", True, job.state["reason"],
                      job.state["message"], generation)
    status["jobsStatus"] = [{"name": group.name, **job.counts(group)} for group in job.plan.groups]


def _sums(job: Job) -> dict[str, int]:
    counts = [job.counts(group) for group in job.plan.groups]
    return {"active": 0 if job.over else sum(one["active"] for one in counts), "failed": sum(
        worker["state"] == "waiting" and worker["attempt"] > 0 for worker in job.state["workers"].values())}


def _began(job: Job) -> None:
    if job.phase == RUNNING:
        job.record.status.setdefault("startTime", now())


def _federated(job: Job) -> None:
    status = job.record.status
    _began(job)
    succeeded = sum(job.counts(group)["succeeded"] for group in job.plan.groups)
    status.update(_sums(job), succeeded=succeeded,
                  phase={DONE: "Succeeded", FAILED: "Failed", RUNNING: "Running"}.get(job.phase, "Pending"))
    if job.over:
        status.setdefault("completionTime", now())
        add_condition(status, False, type="Complete" if job.phase == DONE else "Failed", reason=job.state["reason"],
                      message=job.state["message"])
    elif job.phase == RUNNING:
        add_condition(status, False, type="Training", reason="", message="")


def _service(job: Job) -> None:
    status = job.record.status
    _began(job)
    status.update(_sums(job))
    told = {FAILED: "Failed", RUNNING: "Running"}.get(job.phase, "Pending")
    add_condition(status, type=told, reason=job.state.get("reason", ""), message=job.state.get("message", ""))


def _learning(job: Job) -> None:
    """Its conditions are written by :mod:`brain_fleet.jobs.stages`, one for each step of a stage."""
    _began(job)
