# SPDX-License-Identifier: Apache-2.0
"""Who runs next: so many workers at once, jobs of higher priority first, of one priority those that came first."""
from __future__ import annotations

from typing import Mapping, Sequence

from brain_fleet.jobs.job import QUEUED, RUNNING, Job
from brain_fleet.jobs.kinds import PRIORITIES
from brain_fleet.jobs.manifests import PRIORITY, Manifest
from brain_fleet.schema import FormProblem
from brain_wire.shown import quoted

# That Kubernetes has of its own.
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def priority(job: Manifest, objects: Mapping[tuple[str, str], Manifest]) -> int:
    """Of a job: the class that its label names, or its workers' template.

    Raises:
        FormProblem: there is no such class.
    """
    name = (job.value["metadata"].get("labels") or {}).get(PRIORITY) or _named(job, objects)
    if name is None:
        classes = [objects[key].value for key in objects if key[0] == "PriorityClass"]
        return next((int(one["value"]) for one in classes if one.get("globalDefault")), 0)
    for kind in PRIORITIES:
        if (kind, name) in objects:
            return int(objects[kind, name].value["value"])
    if name in _SYSTEM:
        return _SYSTEM[name]
    raise FormProblem(f"there is no PriorityClass {quoted(name)}; apply one first or in the same file, or leave the "
                      f"label {PRIORITY} or priorityClassName out")


def _named(job: Manifest, objects: Mapping[tuple[str, str], Manifest]) -> str | None:
    """The class that any of its pods names."""
    waiting: list[object] = [job.spec]
    ref = job.spec.get("runtimeRef")
    if ref is not None:
        kind = ref.get("kind", "ClusterTrainingRuntime")
        name = job.near(ref["name"]) if kind == "TrainingRuntime" else ref["name"]
        if (kind, name) in objects:
            waiting.append(objects[kind, name].spec)
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
    for job in sorted((job for job in jobs if job.phase == QUEUED and not job.running and not job.deleted),
                      key=lambda its: (-its.state.get("priority", 0), its.record.number)):
        needs = min(job.plan.slots, slots)
        if not needs or job.driver is not None:     # a service, or one that learns again and again
            found.append(job)
            continue
        if full or used + needs > slots:
            full = True     # nobody of lower priority slips past: else a large job would wait for ever
            continue
        used += job.plan.slots
        found.append(job)
    return found
