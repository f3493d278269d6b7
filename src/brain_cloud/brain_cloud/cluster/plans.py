# SPDX-License-Identifier: Apache-2.0
"""Plans of resources: objects below one, and the status that it then has. Plain values, without a cluster."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping

from brain_cloud.cluster.kinds import Kind
from brain_cloud.jobs.status import Batch
from brain_cloud.jobs.templates import Unfit

NO_SETTINGS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Settings:
    """Of an operator.

    Attributes:
        image: with this package, in which the data gate runs.
    """

    image: str = "brain-operator:latest"


@dataclass(frozen=True)
class Child:
    """An object below a resource.

    Attributes:
        kind, body: of it.
        after: names of jobs below, and whether each must be complete or only ready, before this one is made.
    """

    kind: Kind
    body: dict[str, Any]
    after: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Of the object."""
        return self.body["metadata"]["name"]


@dataclass(frozen=True)
class Below:
    """Observed state of a resource: the resource, objects below it, and those that it refers to.

    Attributes:
        resource: as the API gives it.
        jobs, deployments: below it, by name.
        now: s since 1970.
        found: resources that it refers to, by kind and name; None: there is none.
        said: what the workers of a job said at their end, by the job's name.
    """

    resource: Mapping[str, Any]
    jobs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    deployments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    now: float = 0.0
    found: Mapping[tuple[str, str], Mapping[str, Any] | None] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)

    def need(self, kind: Kind, name: str) -> Mapping[str, Any]:
        """A resource that this one refers to.

        Raises:
            Unfit: there is none.
        """
        one = self.found.get((kind.kind, name))
        if one is None:
            where = f" in namespace {self.resource['metadata']['namespace']}" if kind.namespaced else ""
            raise Unfit(f"{kind.kind}NotFound", f"there is no {kind.kind} {name}{where}; `kubectl get {kind.plural}` "
                                                f"shows which there are")
        return one


@dataclass(frozen=True)
class Plan:
    """Desired state of a resource: the objects below it, and its status.

    Attributes:
        children: objects that are to be there; others below the resource are deleted.
        status: the resource's.
        over: whether it has ended, and its objects stay as they are.
        deleted: names of jobs that are deleted although they have not ended.
        left: names of jobs that are deleted once the status is written, and not before: it holds what they said.
        suspended: whether its jobs are.
        tidy: whether jobs that are not asked for any more are deleted.
    """

    children: list[Child]
    status: dict[str, Any]
    over: bool = False
    deleted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    suspended: bool = False
    tidy: bool = True


def batch(step: str, job: Mapping[str, Any] | None) -> Batch:
    """A Job below a resource as a status has it; None: it is not there."""
    if job is None:
        return Batch(step)
    return Batch(step, job_state(job), int((job.get("spec") or {}).get("parallelism") or 1), *pods_of(job))


def job_state(job: Mapping[str, Any]) -> str:
    """``Complete``, ``Failed``, ``Suspended`` or ``Active``."""
    for one in (job.get("status") or {}).get("conditions") or ():
        if one.get("status") == "True" and one.get("type") in ("Complete", "Failed"):
            return one["type"]
    return "Suspended" if (job.get("spec") or {}).get("suspend") else "Active"


def pods_of(job: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Returns the numbers of active, ready, succeeded and failed pods of a job."""
    status = job.get("status") or {}
    names = ("active", "ready", "succeeded", "failed")
    active, ready, succeeded, failed = (int(status.get(name) or 0) for name in names)
    return active, ready, succeeded, failed


def met(child: Child, jobs: Mapping[str, Mapping[str, Any]]) -> bool:
    """Checks whether the dependencies of a job are met: the jobs before it are ready or complete, as it asks."""
    for name, wanted in child.after:
        job = jobs.get(name)
        if job is None:
            return False
        state, (_, ready, succeeded, _) = job_state(job), pods_of(job)
        pods = int((job.get("spec") or {}).get("parallelism") or 1)
        if state != "Complete" and (wanted == "Complete" or ready + succeeded < pods):
            return False
    return True
