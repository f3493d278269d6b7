# SPDX-License-Identifier: Apache-2.0
"""Dispatch of each job to the function that plans its kind."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from brain_cloud.jobs.job_queue import priority
from brain_cloud.jobs.manifests import Manifest
from brain_cloud.jobs.plan import Places, Plan
from brain_cloud.jobs.sedna_workers import sedna_plan
from brain_cloud.jobs.trainjob import train_plan
from brain_edge.schema import FormProblem


def plan(job: Manifest, objects: Mapping[tuple[str, str], Manifest], places: Places, state: dict[str, Any]) -> Plan:
    """Plans a job by the function of its kind, and checks the names and dependencies of its groups.

    Args:
        job: of any kind that is run.
        objects: what it may refer to, by kind and name.
        places: where its parts are.
        state: of it; a job that learns again and again has its stage there.

    Raises:
        FormProblem: it refers to what is not there, or asks for what cannot be here; names the field.
    """
    found = (train_plan(job, objects, places) if job.kind == "TrainJob"
             else sedna_plan(job, objects, places, state))
    names = [group.name for group in found.groups]
    for number, group in enumerate(found.groups):
        for before, _ in group.after:
            if before not in names[:number]:
                raise FormProblem(f"the runtime's replicated job {group.name} depends on {before}, which does not "
                                  f"stand before it; put it there, or take the dependency away")
    if len(set(names)) < len(names):
        raise FormProblem("two replicated jobs of the runtime have one name; give another to one")
    return found


def examine(job: Manifest, objects: Mapping[tuple[str, str], Manifest], folder: Path) -> Plan:
    """As :func:`plan`, of a job that does not run; its priority is looked up too. Raises FormProblem."""
    found = plan(job, objects, Places(folder / "job", folder / "volumes"), {})
    priority(job, objects)
    return found
