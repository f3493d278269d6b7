# SPDX-License-Identifier: Apache-2.0
"""Plans of jobs on this machine: workers of what a job was compiled to, as processes, and loaders that they wait for.

What a job means is compiled once for all executors (:mod:`.training`, :mod:`.sedna`, :mod:`.learning`); here its steps
and parts get folders, ports and commands of this machine, with the variables that Sedna's manager sets.
"""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Mapping, Sequence

from brain_cloud.blobs.inputs import local_path
from brain_cloud.jobs.fields import told
from brain_cloud.jobs.job import MESSAGE
from brain_cloud.jobs.job_queue import priority
from brain_cloud.jobs.learning import KINDS, LIFELONG, compile_learning, running
from brain_cloud.jobs.manifests import LEARNING_PLAN, Manifest, elastic, runtime_key, ttl
from brain_cloud.jobs.pod_commands import grace, on_robot, pod_steps
from brain_cloud.jobs.sedna import BIND, Part, compile_federated, compile_joint, message_path
from brain_cloud.jobs.stages import position
from brain_cloud.jobs.templates import plain
from brain_cloud.jobs.training import (
    ANCESTOR, INITIALIZERS, NODE, POLICIES, TRAINER, ReplicatedJob, Training, compile_train_job)
from brain_cloud.jobs.worker_data import Data, digest_in, given
from brain_cloud.jobs.workers import (
    BACKOFF, COMPLETE, GRACE, READY, Group, Load, Places, Plan, Round, Step, Worker, noted)
from brain_edge.schema import FormProblem
from brain_wire.safe_text import quoted

Objects = Mapping[tuple[str, str], Manifest]
"""What a job may refer to, by kind and name."""
MOST_WORKERS = 10_000
# What every cluster with the trainer has; one of that name in a manifest is taken in its place.
BUILT_IN: dict[tuple[str, str], dict[str, Any]] = {("ClusterTrainingRuntime", f"{policy}-distributed"): {"spec": {
    "mlPolicy": {"numNodes": 1, policy: {}}, "template": {"spec": {"replicatedJobs": [{
        "name": "node", "template": {"metadata": {"labels": {ANCESTOR: TRAINER}}, "spec": {"template": {"spec": {
            "containers": [{"name": NODE}]}}}}}]}}}} for policy in POLICIES}
TORCH = BUILT_IN["ClusterTrainingRuntime", "torch-distributed"]
FETCH = "fetch"         # of the group that fetches what the runtime has no step for
LOADERS = "loader"      # of the group that fetches what Sedna's workers are given
KNOWLEDGE = "KB_SERVER is not set: a knowledge base server is not run here"


def plan(job: Manifest, objects: Objects, places: Places, state: Mapping[str, Any]) -> Plan:
    """Plans a job by the function of its kind.

    Args:
        job: of any kind that is run.
        objects: what it may refer to.
        places: where its parts are.
        state: of it; a job that learns again and again has its stage there.

    Raises:
        FormProblem: it refers to what is not there, or asks for what cannot be here; names the field.
    """
    return train_plan(job, objects, places) if job.kind == "TrainJob" else sedna_plan(job, objects, places, state)


def examine(job: Manifest, objects: Objects, folder: Path) -> Plan:
    """As :func:`plan`, of a job that does not run; its priority is looked up too. Raises FormProblem."""
    found = plan(job, objects, Places(folder / "job", folder / "volumes"), {})
    priority(job, objects)
    return found


# --- TrainJobs


def train_plan(job: Manifest, objects: Objects, places: Places) -> Plan:
    """Plans the workers of a TrainJob.

    Args:
        job: of the kind TrainJob.
        objects: what it may refer to.
        places: where its parts are.

    Raises:
        FormProblem: it refers to what is not there, or asks for what cannot be here; names the field.
    """
    spec, notes = job.spec, list[str]()
    runtime = {"spec": _runtime(job, objects)}
    training = compile_train_job(job.value, runtime)
    bounds = elastic(job)
    _check_bounds(training, bounds)
    noted(notes, *training.notes, *told("TrainJob", job.value), *told("TrainingRuntime", runtime, "the runtime's "))
    if spec.get("suspend"):
        noted(notes, "it is suspended until it is applied with suspend: false; Kueue, which does that on a cluster, is "
                     "not run here")
    groups, deadlines = [], [float(spec["activeDeadlineSeconds"])] if "activeDeadlineSeconds" in spec else []
    loaders = {step.name: step.role for step in training.steps if step.role in INITIALIZERS}
    if training.fetched:
        groups.append(_fetching(training, places))
    for step in training.steps:
        deadlines += [float(step.job["activeDeadlineSeconds"])] if "activeDeadlineSeconds" in step.job else []
        make = _StepWorkers(job, step, places, notes)
        if step.role in INITIALIZERS:
            groups.append(make.loaders(training.nodes))
        elif step.role == TRAINER:
            groups.append(make.nodes(training, bounds, loaders))
        else:
            groups.append(make.others(step.replicas * (step.job.get("parallelism") or 1)))
    if len({group.name for group in groups}) < len(groups):
        raise FormProblem(f"a replicated job of the runtime is called {FETCH}, as what fetches data here is; give it "
                          f"another name")
    lives = kept if (kept := ttl(job)) is not None else training.jobset.get("ttlSecondsAfterFinished")
    return Plan(tuple(groups), tuple(notes), training.restarts, min(deadlines, default=None), lives)


def _check_bounds(training: Training, bounds: tuple[int, int] | None) -> None:
    if bounds is None:
        return
    if not bounds[0] <= training.nodes <= bounds[1]:
        raise FormProblem(f"spec.trainer.numNodes is {training.nodes}, and the annotation fleet.brain/elastic allows "
                          f"{bounds[0]} to {bounds[1]}; change one of them")
    if training.policy != "torch":
        raise FormProblem("the annotation fleet.brain/elastic is for runtimes with mlPolicy.torch; leave it out")


def _folder(places: Places, node: int, what: str) -> str:
    """Of a node's data or model."""
    return str(places.folder / "nodes" / str(node) / what)


def _fetching(training: Training, places: Places) -> Group:
    """Loaders of what the runtime has no step for."""
    workers = tuple(Worker(f"{FETCH}-{one.role}-{node}", load=Load(
        one.url, one.sha256 or None, _folder(places, node, one.role)))
        for node in range(training.nodes) for one in training.fetched)
    return Group(FETCH, workers, jobs=0)


class _StepWorkers:
    """Makes the group of a step of a TrainJob."""

    def __init__(self, job: Manifest, step: ReplicatedJob, places: Places, notes: list[str]) -> None:
        self._job, self._step, self._places, self._notes = job, step, places, notes
        self._template = step.job["template"]
        self._place = f"the runtime's replicated job {step.name}: template"
        self._backoff = step.job.get("backoffLimit", BACKOFF)
        self._robot = on_robot(self._template, self._place, places, notes)

    def _steps(self, name: str, index: int, env: Mapping[str, str], paths: Mapping[str, str] | None = None,
               main: str | None = None) -> Any:
        return pod_steps(self._template, self._place, name, index, self._places, self._notes, env,
                         self._job.namespace, paths, main)

    def loaders(self, nodes: int) -> Group:
        """A loader for each node."""
        role, what = self._step.role, INITIALIZERS[self._step.role]
        self._not_on_robots("what it fetches is for workers here")
        container = next((one for one in self._template["spec"]["containers"] if one["name"] == role), None)
        if container is None:
            raise FormProblem(f"{self._place} holds no container {role}; name its container so")
        env = plain(container.get("env") or ())
        uri = env.get("STORAGE_URI", "")
        workers = []
        for index in range(nodes):
            to, name = _folder(self._places, index, what), f"{self._step.name}-{index}"
            if container.get("command"):
                steps = self._steps(name, index, {**env, "STORAGE_URI": uri}, {f"/workspace/{what}": to}, role)
                workers.append(Worker(name, steps, grace=grace(self._template)))
                continue
            if not uri:
                raise FormProblem(f"spec.initializer.{what}.storageUri is missing, and the runtime names none; give "
                                  f"it, as file:///data/rooms")
            workers.append(Worker(name, load=Load(uri, digest_in(env, what) or None, to)))
        return Group(self._step.name, tuple(workers), self._step.after, self._backoff)

    def nodes(self, training: Training, bounds: tuple[int, int] | None, loaders: Mapping[str, str]) -> Group:
        """The nodes that train.

        Args:
            loaders: names of the steps that load, with their roles.
        """
        if not any("command" in one or "args" in one for one in self._template["spec"]["containers"]
                   if one["name"] == NODE):
            raise FormProblem("spec.trainer.command is missing, and the runtime has none; what its image would start "
                              "is not known here")
        workers = []
        if training.policy or training.nodes > 1 or training.fetched or loaders:
            self._not_on_robots("nodes that find each other, or have data fetched, are told by variables")
        for index in range(training.nodes if self._robot is None else 0):
            name, paths = f"{self._step.name}-{index}", {
                f"/workspace/{INITIALIZERS[role]}": _folder(self._places, index, INITIALIZERS[role])
                for role in loaders.values()}
            given = {one.variable: self._where(one, index) for one in training.fetched}
            steps = self._steps(name, index, {"JOB_COMPLETION_INDEX": str(index), **given}, paths, NODE)
            needs = (*(f"{loader}-{index}" for loader in loaders),
                     *(f"{FETCH}-{one.role}-{index}" for one in training.fetched))
            workers.append(Worker(name, steps, needs=needs, slots=training.slots, grace=grace(self._template)))
        if self._robot is not None:
            workers.append(Worker(f"{self._step.name}-0", fleet=self._robot))
        # a node waits for its own loader, not for those of the others
        after = tuple(one for one in self._step.after if one[0] not in loaders or one[1] != COMPLETE)
        return Group(self._step.name, tuple(workers), after, self._backoff,
                     together=bool(training.policy) and bounds is None and training.nodes > 1, elastic=bounds,
                     policy=training.policy, procs=training.processes)

    def _where(self, one: Data, node: int) -> str:
        name = one.url.partition("?")[0].rstrip("/").rpartition("/")[2]
        folder = _folder(self._places, node, one.role)
        return f"{folder}/{name}" if "." in name else folder

    def _not_on_robots(self, why: str) -> None:
        """Raises FormProblem where the step's pods name a robot."""
        if self._robot is not None:
            raise FormProblem(f"{self._place}.spec.nodeName names the robot {self._robot.robot}: {why}, and a robot is "
                              f"told nothing but the name of its program; take nodeName away")

    def others(self, count: int) -> Group:
        """Any other job of the runtime."""
        if not 1 <= count <= MOST_WORKERS:
            raise FormProblem(f"{self._place}: {count} workers cannot be; give 1 to {MOST_WORKERS}")
        if count > 1:
            self._not_on_robots("a robot runs a program once")
        names = [f"{self._step.name}-{index}" for index in range(count)]
        workers = tuple(Worker(name, fleet=self._robot) if self._robot is not None else Worker(
            name, self._steps(name, index, {"JOB_COMPLETION_INDEX": str(index)}), grace=grace(self._template))
            for index, name in enumerate(names))
        return Group(self._step.name, workers, self._step.after, self._backoff, jobs=self._step.replicas)


def _runtime(job: Manifest, objects: Objects) -> Mapping[str, Any]:
    kind, name = runtime_key(job)
    if (kind, name) in objects:
        return objects[kind, name].spec
    if (kind, name) in BUILT_IN:
        return BUILT_IN[kind, name]["spec"]
    known = sorted({f"{k} {n}" for k, n in (*objects, *BUILT_IN) if k.endswith("TrainingRuntime")})
    raise FormProblem(f"spec.runtimeRef: there is no {kind} {quoted(name)}; apply it first or in the same file. There "
                      f"are {', '.join(known)}")


# --- jobs of Sedna


class _PartWorkers:
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
        return Plan((*loaders, *groups), tuple(dict.fromkeys(self.notes)), ttl=ttl(self.job))


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
    make = _PartWorkers(job, objects, places)
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


def _together(job: Manifest, make: _PartWorkers, parts: Sequence[Part], groups: dict[str, list[Worker]]) -> None:
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
