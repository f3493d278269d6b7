# SPDX-License-Identifier: Apache-2.0
"""Queue of jobs: so many workers at once, jobs of higher priority first, of one priority those that came first.

A job whose PriorityClass lets it gets its room from jobs of lower priority that run, as in Kubernetes. What is lowest
ends first, of one priority what began last, and no more than is needed.
"""
from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from brain_cloud.jobs.job import QUEUED, RUNNING, Job
from brain_cloud.jobs.kinds import PRIORITIES
from brain_cloud.jobs.manifests import PRIORITY, Manifest, runtime_key
from brain_edge.schema import FormProblem
from brain_wire.safe_text import quoted

# That Kubernetes has of its own.
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class Priority(NamedTuple):
    """Of a job: how important it is, and whether less important ones end for it."""

    value: int
    preempts: bool


def priority(job: Manifest, objects: Mapping[tuple[str, str], Manifest]) -> Priority:
    """Of a job: the class that its label names, or its workers' template.

    A PriorityClass preempts unless its ``preemptionPolicy`` is ``Never``, as in Kubernetes; a WorkloadPriorityClass is
    one of the queue, as in Kueue where nothing else is set up.

    Raises:
        FormProblem: there is no such class.
    """
    name = (job.value["metadata"].get("labels") or {}).get(PRIORITY) or _named(job, objects)
    if name is None:
        classes = [objects[key].value for key in objects if key[0] == "PriorityClass"]
        return next((_of(one) for one in classes if one.get("globalDefault")), Priority(0, True))
    for kind in PRIORITIES:
        if (kind, name) in objects:
            return _of(objects[kind, name].value)
    if name in _SYSTEM:
        return Priority(_SYSTEM[name], True)
    raise FormProblem(f"there is no PriorityClass {quoted(name)}; apply one first or in the same file, or leave the "
                      f"label {PRIORITY} or priorityClassName out")


def _of(its: Mapping[str, Any]) -> Priority:
    return Priority(int(its["value"]), its["kind"] == "PriorityClass" and its.get("preemptionPolicy") != "Never")


def _named(job: Manifest, objects: Mapping[tuple[str, str], Manifest]) -> str | None:
    """The class that any of its pods names."""
    waiting: list[object] = [job.spec]
    if job.kind == "TrainJob" and (key := runtime_key(job)) in objects:
        waiting.append(objects[key].spec)
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if isinstance(one.get("priorityClassName"), str):
                return str(one["priorityClassName"])
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return None


def admitted(jobs: Sequence[Job], slots: int) -> list[Job]:
    """Jobs that may start now.

    Args:
        jobs: all that are known; each has its ``priority`` in its state.
        slots: workers that may run at once. A job that needs more than all of them runs alone.
    """
    used = sum(job.plan.slots for job in jobs if job.phase == RUNNING or job.running)
    found, full = [], False
    for job in _queue(jobs):
        if not _waits(job):
            found.append(job)
            continue
        if full or used + min(job.plan.slots, slots) > slots:
            full = True     # nobody of lower priority slips past: else a large job would wait for ever
            continue
        used += job.plan.slots
        found.append(job)
    return found


def giving_way(jobs: Sequence[Job], slots: int) -> tuple[Job | None, list[Job]]:
    """The first job of the queue, and those that are to end for it: none, where that would not make room enough.

    Args:
        jobs, slots: as for :func:`admitted`; each job has its ``preempts`` in its state, too.
    """
    first = next((job for job in _queue(jobs, ending=True) if _waits(job)), None)
    if first is None or not first.state.get("preempts"):
        return first, []
    going = [job for job in jobs if job.going and _waits(job)]
    missing = min(first.plan.slots, slots) - (slots - sum(job.plan.slots for job in going))
    lower = sorted((job for job in going if _priority(job) < _priority(first)),
                   key=lambda its: (_priority(its), -its.state.get("began", 0.0), -its.record.number))
    if missing <= 0 or sum(job.plan.slots for job in lower) < missing:
        return first, []
    ends: list[Job] = []
    for job in lower:
        if missing > 0:
            ends.append(job)
            missing -= job.plan.slots
    for job in reversed(ends):      # the most important of them may stay where the others make room enough
        if missing + job.plan.slots <= 0:
            ends.remove(job)
            missing += job.plan.slots
    return first, ends


def _queue(jobs: Sequence[Job], ending: bool = False) -> list[Job]:
    """Those that wait, in their order; with ``ending`` also those whose workers are just being ended."""
    return sorted((job for job in jobs if job.phase == QUEUED and (ending or not job.running) and not job.deleted),
                  key=lambda its: (-_priority(its), its.record.number))


def _priority(job: Job) -> int:
    return int(job.state.get("priority", 0))


def _waits(job: Job) -> bool:
    """Tells whether a job needs slots: a service does not, nor one that learns again and again."""
    return bool(job.plan.slots) and job.driver is None
