# SPDX-License-Identifier: Apache-2.0
"""What tests of the local runner share: manifests, a runner in this process, and waiting."""
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Callable

from brain_cloud.jobs.kinds import kinds
from brain_cloud.jobs.manifests import manifest
from brain_cloud.jobs.runner import Runner
from brain_edge.schema import check
from brain_runtime.yaml_text import parse

PATIENCE = 240.0        # s: processes start slowly where others use the cores
PLAIN = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: plain}
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {backoffLimit: 2, template: {spec: {terminationGracePeriodSeconds: 20, containers: [{name: node}]}}}
"""
LOADED = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: loaded}
spec:
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec: {backoffLimit: 0, template: {spec: {containers: [{name: dataset-initializer}]}}}
      - name: node
        dependsOn: [{name: dataset-initializer, status: Complete}]
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node}]}}}
"""


def job(name: str, code: str = "", runtime: str = "plain", **more: Any) -> dict[str, Any]:
    """A TrainJob whose nodes run some Python."""
    labels, trainer = more.pop("labels", {}), more.pop("trainer", {})
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": name, "labels": labels}, "spec": {
                "runtimeRef": {"name": runtime}, "trainer": {"command": ["python3", "-c", code], **trainer}, **more}}


def until(what: Callable[[], Any], told: Callable[[], Any] = lambda: "") -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end, told()
        time.sleep(0.05)
    return found


class Jobs:
    """A runner in this process."""

    def __init__(self, folder: Path, slots: int = 8) -> None:
        self.runner = Runner(folder, slots)

    def apply(self, *values: Any) -> list[dict[str, Any]]:
        values = tuple(parse(value) if isinstance(value, str) else value for value in values)
        return self.runner.apply([manifest(value) for value in values])

    def one(self, name: str) -> dict[str, Any]:
        return self.runner.jobs(name=name)[0]

    def phase(self, name: str, phase: str) -> dict[str, Any]:
        def there() -> bool:
            now = self.one(name)["phase"]
            assert now == phase or now not in ("Complete", "Failed"), (self.one(name), self.runner.logs(name))
            return bool(now == phase)

        until(there, lambda: (self.one(name), self.runner.logs(name)))
        return self.one(name)

    def said(self, name: str) -> str:
        found = self.runner.logs(name)
        return "\n".join([*(one["text"] for one in found["events"]), *found["logs"].values()])

    def pids(self, name: str) -> list[int]:
        return [worker["pid"] for worker in self.one(name)["workers"] if worker["pid"]]


def left(folder: Path) -> list[str]:
    """Processes that run in a folder, or were told of it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(folder) in str((entry / "cwd").resolve()) or str(folder) in (entry / "cmdline").read_text():
                    found.append((entry / "cmdline").read_text())
            except OSError:
                continue    # it has just ended
    return found


def conditions(one: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {found["type"]: (found["status"], found["reason"]) for found in one["status"].get("conditions", ())}


def check_status(one: dict[str, Any]) -> None:
    """A status is what the definition of the kind has."""
    check(one["status"], kinds()[one["kind"]]["schema"]["properties"]["status"], "status")


def pod(code: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "worker", "image": "i", "command": ["python3", "-c", code]}]}}


def sedna(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "sedna.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
