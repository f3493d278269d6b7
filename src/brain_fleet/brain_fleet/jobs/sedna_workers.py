# SPDX-License-Identifier: Apache-2.0
"""The workers of Sedna's jobs, with the variables that its manager sets, for this machine."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from brain_fleet.jobs.containers import grace, pod_steps
from brain_fleet.jobs.loader import local_path
from brain_fleet.jobs.manifests import Manifest, ttl
from brain_fleet.jobs.plan import BACKOFF, Group, Load, Places, Plan, Worker, noted
from brain_fleet.jobs.sedna import Data, compile_federated, compile_joint
from brain_fleet.schema import FormProblem
from brain_wire.safe_text import quoted

LOADERS = "loader"
Objects = Mapping[tuple[str, str], Manifest]


class Making:
    """Makes workers of one job, and the loaders that they wait for.

    Args:
        job: of it.
        objects: the Datasets and Models that it may refer to.
        places: where its parts are.
    """

    def __init__(self, job: Manifest, objects: Objects, places: Places) -> None:
        self.job, self.places = job, places
        self.notes: list[str] = []
        self._objects = objects
        self._loaders: list[Worker] = []

    @property
    def suffix(self) -> str:
        """That makes names of workers differ between jobs."""
        return self.places.folder.name[-5:]

    def object(self, kind: str, name: str, field: str) -> Manifest:
        """A Dataset or Model. Raises FormProblem where there is none."""
        found = self._objects.get((kind, self.job.near(name)))
        if found is None:
            raise FormProblem(f"{field}: there is no {kind} {quoted(name)}; apply it first or in the same file")
        if found.spec.get("credentialName"):
            noted(self.notes, "credentialName has no effect here: loaders have the credentials of who runs them")
        return found

    def find(self, kind: str, name: str, field: str) -> Mapping[str, Any]:
        """See :data:`brain_fleet.jobs.sedna.Find`."""
        return self.object(kind, name, field).value

    def given(self, data: Data, worker: str, needs: list[str]) -> str:
        """Returns the place of a Dataset or Model for a worker, which waits for its loader.

        Args:
            worker: that needs it.
            needs: of the worker; its loader is added.
        """
        here = local_path(data.url)
        to = None if here is not None else str(self.places.folder / "data" / worker / data.role)
        # a model of this machine may be one that is still to be made
        if data.checked or data.sha256 or here is None:
            loader = f"{LOADERS}-{worker}-{data.role}"
            self._loaders.append(Worker(loader, load=Load(data.url, data.sha256 or None, to)))
            needs.append(loader)
        if here is not None:
            return str(here)
        assert to is not None
        return f"{to}/{Path(data.url).name}" if Path(data.url).suffix else to

    def worker(self, name: str, template: Mapping[str, Any], place: str, env: Mapping[str, str], needs: list[str],
               index: int = 0) -> Worker:
        """A worker of a pod's template."""
        namespace = self.job.namespace
        steps = pod_steps(template, place, name, index, self.places, self.notes, {"NAMESPACE": namespace, **env},
                          namespace)
        return Worker(name, steps, needs=tuple(needs), grace=grace(template))

    def plan(self, *groups: Group) -> Plan:
        """Of all that was made."""
        # what never ends waits for its data for ever, too
        patience = None if groups and all(group.service for group in groups) else BACKOFF
        loaders = [Group(LOADERS, tuple(self._loaders), backoff=patience)] if self._loaders else []
        lives = ttl(self.job)
        return Plan((*loaders, *groups), tuple(dict.fromkeys(self.notes)), ttl=None if lives is None else float(lives))


def backoff(template: Mapping[str, Any]) -> int:
    """Failures of a worker that are survived, by its pod's ``restartPolicy``: none with Never."""
    return 0 if (template.get("spec") or {}).get("restartPolicy") == "Never" else BACKOFF


def sedna_plan(job: Manifest, objects: Objects, places: Places) -> Plan:
    """Plans the workers of a FederatedLearningJob or a JointInferenceService.

    Raises:
        FormProblem: it refers to what is not there, or a worker names no command.
    """
    make = Making(job, objects, places)
    parts = (compile_federated if job.kind == "FederatedLearningJob" else compile_joint)(job.value, make.find)
    groups: dict[str, list[Worker]] = {}
    for part in parts:
        needs, group = list[str](), groups.setdefault(part.name.partition("-")[0], [])
        env = {**part.env, "WORKER_NAME": f"{part.name}-{make.suffix}",
               **{one.variable: make.given(one, part.name, needs) for one in part.data}}
        if part.listens:
            env[part.listens] = str(places.port(part.name))
        if part.asks:
            whom, host, port = part.asks
            env |= {host: "127.0.0.1", port: str(places.port(whom)), "LC_SERVER": places.reports}
        group.append(make.worker(part.name, part.template, part.place, env, needs, len(group)))
    services = {part.name.partition("-")[0] for part in parts if part.service}
    policy = {part.name.partition("-")[0]: backoff(part.template) for part in reversed(parts)}
    return make.plan(*(Group(name, tuple(workers), backoff=None if name in services else policy[name],
                             service=name in services) for name, workers in groups.items()))
