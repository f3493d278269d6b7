# SPDX-License-Identifier: Apache-2.0
"""A job of this machine as :mod:`.status` has it: groups of processes as the Jobs that a cluster would have."""
from __future__ import annotations

import time

from brain_cloud.jobs.job import DONE, FAILED, LEFT, MESSAGE, RUNNING, SUCCEEDED, SUSPENDED, WAITING, Job
from brain_cloud.jobs.samples import left_behind, told_progress
from brain_cloud.jobs.sedna import AGGREGATION
from brain_cloud.jobs.status import Batch, Seen, federated_status, joint_status, learning_status, train_status
from brain_cloud.jobs.workers import Group, Worker

STATUS = {"FederatedLearningJob": federated_status, "JointInferenceService": joint_status}


def write_status(job: Job) -> None:
    """Brings the status of a job's record to how it is."""
    old, seen, now = job.record.status, see(job), time.time()
    kind = job.record.manifest.kind
    job.record.status = (train_status(old, seen, now, job.record.generation) if kind == "TrainJob"
                         else STATUS.get(kind, learning_status)(old, seen, now))


def see(job: Job) -> Seen:
    """Looks at a job."""
    suspended = None
    if job.phase == SUSPENDED:
        suspended = "Suspended", f"{job.record.manifest.kind} is suspended"
    elif whose := job.state.get("preempted"):
        suspended = "Preempted", f"{job.record.manifest.kind} has given way to {whose}, whose priority is higher"
    end = ("Complete" if job.phase == DONE else "Failed", job.state["reason"], job.state["message"]
           ) if job.over else None
    restarts = (job.state["restarts"], job.state.get("restarted", "a step has failed")) if job.state.get(
        "restarts") else None
    return Seen([batch for group in job.plan.groups for batch in _batches(job, group)], suspended, restarts, end,
                job.phase == RUNNING or job.over, _told(job))


def _told(job: Job) -> str:
    """Line of the fleet's own aggregator about how far the job is; empty: it has none, or has not begun."""
    if all(not group.ends_with for group in job.plan.groups):
        return ""
    return told_progress(left_behind(job.folder(AGGREGATION) / MESSAGE))


def _batches(job: Job, group: Group) -> list[Batch]:
    """A batch for each Job that a cluster would make of a group."""
    size = len(group.workers) // group.jobs if group.jobs else 0
    return [_batch(job, group, group.workers[first:first + size]) for first in range(
        0, len(group.workers) if size else 0, size or 1)]


def _batch(job: Job, group: Group, workers: tuple[Worker, ...]) -> Batch:
    states = [job.worker_state(worker.name) for worker in workers]
    attempts = [job.state["workers"].get(worker.name, {}).get("attempt", 0) for worker in workers]
    name = group.name if group.jobs == 1 else workers[0].name if len(workers) == 1 else group.name
    done, runs = states.count(SUCCEEDED) + states.count(LEFT), states.count(RUNNING)
    state = "Active"
    if done == len(states):
        state = "Complete"
    elif job.phase == SUSPENDED or "preempted" in job.state:
        state = "Suspended"
    elif job.phase == FAILED and job.has_failed(group):
        state = "Failed"
    elif job.phase not in (RUNNING, FAILED):
        state = ""      # it waits in the queue
    waiting = states.count(WAITING) if job.phase == RUNNING else 0
    failed = sum(state == WAITING and attempt > 0 for state, attempt in zip(states, attempts))
    return Batch(name, state, len(states), runs + waiting, runs, done, failed)
