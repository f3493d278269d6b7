# SPDX-License-Identifier: Apache-2.0
"""A served API and an operator as a process that runs against it, for tests; here the cluster's part is played."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import yaml
from served_api import ADMIN, ServedApi

from brain_cloud.cluster.api import Api
from brain_cloud.cluster.kinds import EVENT, JOB, POD, STEP, Kind, owner_labels
from brain_cloud.jobs.status import stamp

DEPLOY = Path(__file__).resolve().parents[4] / "deploy" / "operator"
PATIENCE = 240.0     # s; only ends a hang
GROUPS = ("trainer.kubeflow.org", "sedna.io", "fleet.brain")
SPACE = "brain-fleet"


def definitions() -> list[dict[str, Any]]:
    """Our own kinds, as they are deployed."""
    found = []
    for one in yaml.safe_load_all((DEPLOY / "definitions.yaml").read_text()):
        spec, (version,) = one["spec"], one["spec"]["versions"]
        found.append({"group": spec["group"], "version": version["name"], "scope": spec["scope"],
                      "plural": spec["names"]["plural"], "kind": spec["names"]["kind"], "status": True,
                      "schema": version["schema"]["openAPIV3Schema"]})
    return found


class Cluster:
    """A served API with the deployed rights, or a real one, and an operator that can be killed."""

    def __init__(self, folder: Path, groups: tuple[str, ...] = GROUPS, api: Any = None) -> None:
        self.folder = folder
        self.api = api or ServedApi(DEPLOY / "rbac.yaml", groups, definitions())
        self.config = self.api.kubeconfig(folder / "kubeconfig")
        self.admin = Api(self.api.kubeconfig(folder / "admin", ADMIN))
        self.log = folder / "operator.log"
        self._running: subprocess.Popen[bytes] | None = None

    def start(self, *words: str) -> None:
        others = ("BRAIN_CLOUD", "BRAIN_FLEET_SECURITY", "KUBECONFIG")
        kept = {key: value for key, value in os.environ.items() if key not in others}
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                [sys.executable, "-m", "brain_cloud.cluster.run_operator", "--kubeconfig", str(self.config), *words],
                stdout=log, stderr=log, env=kept)

    def end(self, how: int = signal.SIGKILL) -> int:
        assert self._running is not None
        process, self._running = self._running, None
        process.send_signal(how)
        return process.wait(PATIENCE)

    def ends(self) -> int:
        """Waits until it ends by itself; its status."""
        assert self._running is not None
        status = self._running.wait(PATIENCE)
        self._running = None
        return status

    def run(self, *words: str) -> tuple[int, str]:
        """An operator that cannot run: its status, and what it says."""
        done = subprocess.run([sys.executable, "-m", "brain_cloud.cluster.run_operator", "--kubeconfig",
                               str(self.config), *words], capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stderr

    def until(self, what: Callable[[], Any]) -> Any:
        """What ``what`` returns, as soon as that is something."""
        end = time.monotonic() + PATIENCE
        while not (found := what()):
            assert time.monotonic() < end, f"it never came about:\n{self.log.read_text()}"
            time.sleep(0.05)
        return found

    def make(self, kind: Kind, one: dict[str, Any], space: str | None = "default") -> dict[str, Any]:
        """What a person does with ``kubectl apply``; the status is theirs too, who write it."""
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **one}
        body["metadata"] = {**body["metadata"], **({"namespace": space} if space else {})}
        made = self.admin._ask("PATCH", kind.path(space, one["metadata"]["name"]), {
            "fieldManager": "kubectl", "force": "true"}, body, "application/apply-patch+yaml")
        if "status" in one:
            self.admin.merge(kind, space, one["metadata"]["name"], {"status": one["status"]}, "status")
        return made

    def get(self, kind: Kind, name: str, space: str = "default") -> dict[str, Any] | None:
        return self.admin.get(kind, space if kind.namespaced else None, name)

    def status(self, kind: Kind, name: str, space: str = "default") -> dict[str, Any]:
        return (self.get(kind, name, space) or {}).get("status") or {}

    def until_condition(self, kind: Kind, name: str, wanted: str, space: str = "default") -> dict[str, Any]:
        """The condition of a type, once it is true."""
        return self.until(lambda: next((one for one in self.status(kind, name, space).get("conditions") or () if (
            one["type"], one["status"]) == (wanted, "True")), None))

    def below(self, kind: Kind, name: str, what: Kind = JOB) -> dict[str, dict[str, Any]]:
        """Objects below a resource, by their step."""
        found = self.admin.listed(what, "default", owner_labels(kind, name))
        return {one["metadata"]["labels"][STEP]: one for one in found}

    def until_jobs(self, kind: Kind, name: str, *steps: str) -> dict[str, dict[str, Any]]:
        return self.until(lambda: (found := self.below(kind, name)).keys() == {*steps} and found)

    def job(self, name: str, **status: Any) -> None:
        """What the cluster's job controller writes."""
        self.admin.merge(JOB, "default", name, {"status": status}, "status")

    def finish(self, name: str, how: str = "Complete", **more: Any) -> None:
        now = stamp(time.time())
        about = {"status": "True", "lastProbeTime": now, "lastTransitionTime": now, "reason": "BackoffLimitExceeded",
                 "message": "it is over", **more}
        before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[how]      # as a server asks for
        self.job(name, active=0, ready=0, startTime=now, **({"succeeded": 1, "completionTime": now} if (
            how == "Complete") else {"failed": 1}), conditions=[{"type": one, **about} for one in (before, how)])

    def says(self, kind: Kind, job: str, step: str, message: str) -> None:
        """What a node writes of a worker that has ended well."""
        self.make(POD, {"metadata": {"name": f"{job}-abcde", "labels": {
            "batch.kubernetes.io/job-name": job, **owner_labels(kind, job.rpartition(f"-{step}")[0], step)}},
            "spec": {"containers": [{"name": "worker", "image": "any"}]}, "status": {"containerStatuses": [{
                "name": "worker", "ready": False, "restartCount": 0, "image": "any", "imageID": "", "state": {
                    "terminated": {"exitCode": 0, "message": message}}}]}})

    def delete(self, kind: Kind, name: str, space: str = "default") -> None:
        one = self.get(kind, name, space)
        assert one is not None
        self.admin.delete(kind, space, name, one["metadata"]["uid"])

    def events(self, name: str) -> list[tuple[str, str]]:
        """Type and reason of what was told about an object, oldest first."""
        found = [one for one in self.admin.listed(EVENT, None) if one["involvedObject"]["name"] == name]
        return [(one["type"], one["reason"]) for one in sorted(found, key=lambda one: one["eventTime"])]

    def close(self) -> None:
        if self._running is not None:
            self.end()
        self.api.close()
