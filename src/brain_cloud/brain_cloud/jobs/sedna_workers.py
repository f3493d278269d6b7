# SPDX-License-Identifier: Apache-2.0
"""The workers of Sedna's jobs, with the variables that its manager sets, for this machine."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Mapping, Sequence

from brain_cloud.blobs.inputs import local_path
from brain_cloud.jobs.containers import grace, on_robot, pod_steps
from brain_cloud.jobs.fields import told
from brain_cloud.jobs.fleet import Round
from brain_cloud.jobs.job import MESSAGE
from brain_cloud.jobs.learning import KINDS, LIFELONG, compile_learning, running
from brain_cloud.jobs.manifests import LEARNING_PLAN, Manifest, ttl
from brain_cloud.jobs.plan import BACKOFF, GRACE, READY, Group, Load, Places, Plan, Step, Worker, noted
from brain_cloud.jobs.sedna import BIND, Part, compile_federated, compile_joint, message_path
from brain_cloud.jobs.stages import position
from brain_cloud.jobs.worker_data import Data, given
from brain_edge.schema import FormProblem
from brain_wire.safe_text import quoted

LOADERS = "loader"
KNOWLEDGE = "KB_SERVER is not set: a knowledge base server is not run here"
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
        self.notes = told(job.kind, job.value)
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
        noted(self.notes, *told(kind, found.value, f"the {kind} {name}'s "))
        return found

    def find(self, kind: str, name: str, field: str) -> Mapping[str, Any]:
        """See :data:`brain_cloud.jobs.worker_data.Find`."""
        return self.object(kind, name, field).value

    def _given(self, data: Data, worker: str) -> tuple[str, list[Worker]]:
        """Returns the place of a Dataset or Model for a worker, and the loader that it waits for, if any."""
        here = local_path(data.url)
        to = None if here is not None else str(self.places.folder / "data" / worker / data.role)
        # a model of this machine may be one that is still to be made
        loaders = [Worker(f"{LOADERS}-{worker}-{data.role}", load=Load(data.url, data.sha256 or None, to))
                   ] if data.checked or data.sha256 or here is None else []
        if here is not None:
            return str(here), loaders
        assert to is not None
        return f"{to}/{Path(data.url).name}" if Path(data.url).suffix else to, loaders

    def worker(self, part: Part, index: int, runs: bool = True) -> Worker:
        """Returns a part as a worker.

        Args:
            index: of it in its group.
            runs: it runs now, with its loaders; else it is only checked.
        """
        robot = None if part.template is None else on_robot(part.template, part.place, self.places, self.notes)
        if robot is not None:
            return Worker(part.name, fleet=robot)
        places, loaders = list[tuple[Data, str]](), dict[str, Worker]()
        for one in part.data:
            where, its = self._given(one, part.name)
            places.append((one, where))
            loaders.update({loader.name: loader for loader in its})
        namespace = self.job.namespace
        env = {"NAMESPACE": namespace, **part.env, "WORKER_NAME": f"{part.name}-{self.suffix}",
               "LC_SERVER": self.places.reports, **given(places)}
        if part.listens:
            env[part.listens] = str(self.places.port(part.name))
            env |= {} if part.plan is None else {BIND: "127.0.0.1"}
        if part.asks:
            whom, host, port = part.asks
            env |= {host: "127.0.0.1", port: str(self.places.port(whom))}
        steps, patience = tuple[Step, ...](), GRACE
        if part.before:
            steps = (Step((sys.executable, "-m", "brain_cloud.jobs.rounds", *part.before), (), str(self.places.work)),)
        if part.template is not None:
            paths = {message_path(part.template): str(self.places.folder / "workers" / part.name / MESSAGE)}
            steps += pod_steps(part.template, part.place, part.name, index, self.places, self.notes, env, namespace,
                               paths)
            patience = grace(part.template)
        if runs:
            self._loaders += [one for name, one in loaders.items() if name not in {own.name for own in self._loaders}]
        return Worker(part.name, steps, needs=tuple(loaders), grace=patience)

    def plan(self, *groups: Group) -> Plan:
        """Of all that was made."""
        # what never ends waits for its data for ever, too
        patience = None if groups and all(group.service for group in groups) else BACKOFF
        loaders = [Group(LOADERS, tuple(self._loaders), backoff=patience, jobs=0)] if self._loaders else []
        lives = ttl(self.job)
        return Plan((*loaders, *groups), tuple(dict.fromkeys(self.notes)), ttl=None if lives is None else float(lives))


def _backoff(part: Part) -> int | None:
    """Failures of a worker that are survived, by its pod's ``restartPolicy``: none with Never; of a service any."""
    if part.service:
        return None
    return 0 if ((part.template or {}).get("spec") or {}).get("restartPolicy") == "Never" else BACKOFF


def sedna_plan(job: Manifest, objects: Objects, places: Places, state: Mapping[str, Any]) -> Plan:
    """Plans the workers of a job of Sedna's: of one that learns again and again, those of the round in which it is.

    Args:
        state: of the job.

    Raises:
        FormProblem: it refers to what is not there, or a worker names no command.
    """
    make = Making(job, objects, places)
    if job.kind in KINDS:
        now = position(state, job.spec)
        parts, runs = compile_learning(job.value, make.find, now), running(now)
        name = job.spec["dataset"]["name"]
        if local_path(make.object("Dataset", name, "spec.dataset.name").spec["url"]) is None:
            raise FormProblem(f"spec.dataset.name: the url of the Dataset {name} must be a file of this machine: its "
                              f"lines are counted again and again")
        noted(make.notes, *((KNOWLEDGE,) if job.kind == LIFELONG else ()))
    else:
        whose = {**job.value["metadata"], "uid": make.suffix}
        parts = (compile_federated if job.kind == "FederatedLearningJob" else compile_joint)(
            {**job.value, "metadata": whose}, make.find)
        runs = {part.group for part in parts}
    groups: dict[str, list[Worker]] = {}
    try:
        for part in parts:      # all are made, so that what is wrong with one is told at once
            group = groups.setdefault(part.group, [])
            group.append(make.worker(part, len(group), part.group in runs))
    except FormProblem as problem:
        if job.kind == "FederatedLearningJob" and job.annotation(LEARNING_PLAN) is None:
            raise FormProblem(f"{problem}. Or give the annotation {LEARNING_PLAN}, with which the fleet's own programs "
                              f"train together in place of those of its images: docs/fleet-jobs.md") from None
        raise
    _together(job, make, parts, groups)
    first = {part.group: part for part in reversed(parts)}
    return make.plan(*(Group(name, tuple(workers), backoff=_backoff(first[name]), service=first[name].service,
                             jobs=len(workers), ends_with=first[name].ends_with,
                             after=((first[name].ends_with, READY),) if first[name].ends_with else ())
                       for name, workers in groups.items() if name in runs))


def _together(job: Manifest, make: Making, parts: Sequence[Part], groups: dict[str, list[Worker]]) -> None:
    """Has robots that train in a job with a plan led by their cloud, in place of an aggregator of the job's own.

    Raises:
        FormProblem: others train, too.
    """
    plan = next((part.plan for part in parts if part.plan is not None), None)
    here = [part for part in parts if part.ends_with and groups[part.group][_index(part)].fleet is None]
    if plan is None or len(here) == sum(bool(part.ends_with) for part in parts):
        return
    if here:
        raise FormProblem(f"{here[0].place}.spec.nodeName is missing, and others train on robots of the fleet: the "
                          f"cloud leads those, each by its certificate; name a robot, or none for all")
    (leads,) = (part for part in parts if part.plan is not None)
    start, model = (local_path(leads.data[number].url) for number in (-1, 0))
    if start is None or model is None:
        raise FormProblem("spec.pretrainedModel: the url of its Model must be a path of this machine")
    groups[leads.group] = [Worker(leads.name, fleet=Round({
        **plan, "name": f"{job.value['metadata']['name'][:50]}-{make.suffix}", "start": str(start)}, str(model)))]


def _index(part: Part) -> int:
    """Place of a training part in its group."""
    return int(part.name.rpartition("-")[2])
