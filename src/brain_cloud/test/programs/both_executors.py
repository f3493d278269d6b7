# SPDX-License-Identifier: Apache-2.0
"""TrainJobs and runtimes as plain values, and what each of the two executors makes of them."""
from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from brain_cloud.jobs.local_plan import TORCH, train_plan
from brain_cloud.jobs.manifests import manifest
from brain_cloud.jobs.workers import Places, Plan

PLACES = Places(Path("/srv/job"), Path("/srv/volumes"))


def job(**trainer: Any) -> dict[str, Any]:
    more = trainer.pop("_spec", {})
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": "t", "uid": "u1", "namespace": "default"},
            "spec": {"runtimeRef": {"name": "rt"}, "trainer": {"command": ["true"], **trainer}, **more}}


def runtime(policy: Any = None, steps: Any = (), **extra: Any) -> dict[str, Any]:
    spec = copy.deepcopy(TORCH["spec"])
    if policy is not None:
        spec["mlPolicy"] = policy
    inner: Any = spec["template"]
    inner["spec"].update(extra)
    inner["spec"]["replicatedJobs"][:0] = steps
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime", "metadata": {"name": "rt"},
            "spec": spec}


def step(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "template": {"spec": {"template": {"spec": {"containers": [
        {"name": name, "image": "i", "command": ["true"]}]}}}}, **more}


def local(its: dict[str, Any], of: dict[str, Any]) -> Plan:
    one, that = manifest(copy.deepcopy(its)), manifest(copy.deepcopy(of))
    return train_plan(one, {(that.kind, that.name): that}, PLACES)


def cluster(its: dict[str, Any], of: dict[str, Any]) -> list[dict[str, Any]]:
    """The Jobs below it."""
    pytest.importorskip("kopf")
    pytest.importorskip("kubernetes")
    from brain_cloud.cluster.kinds import JOB
    from brain_cloud.cluster.plans import Settings
    from brain_cloud.cluster.trainjob import children
    from brain_cloud.jobs.training import compile_train_job

    return [one.body for one in children(copy.deepcopy(its), compile_train_job(its, of), Settings()) if one.kind == JOB]
