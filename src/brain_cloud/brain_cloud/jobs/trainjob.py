# SPDX-License-Identifier: Apache-2.0
"""Workers of a TrainJob on this machine: processes of the steps that :mod:`.training` compiles it to."""
from __future__ import annotations

from typing import Any, Mapping

from brain_cloud.jobs.containers import grace, on_robot, pod_steps
from brain_cloud.jobs.fields import told
from brain_cloud.jobs.manifests import Manifest, elastic, runtime_key, ttl
from brain_cloud.jobs.plan import BACKOFF, COMPLETE, Group, Load, Places, Plan, Worker, noted
from brain_cloud.jobs.templates import plain
from brain_cloud.jobs.training import ANCESTOR, INITIALIZERS, NODE, POLICIES, TRAINER, Step, Training, compile_train_job
from brain_cloud.jobs.worker_data import Data, digest_in
from brain_edge.schema import FormProblem
from brain_wire.safe_text import quoted

MOST_WORKERS = 10_000
# What every cluster with the trainer has; one of that name in a manifest is taken in its place.
BUILT_IN: dict[tuple[str, str], dict[str, Any]] = {("ClusterTrainingRuntime", f"{policy}-distributed"): {"spec": {
    "mlPolicy": {"numNodes": 1, policy: {}}, "template": {"spec": {"replicatedJobs": [{
        "name": "node", "template": {"metadata": {"labels": {ANCESTOR: TRAINER}}, "spec": {"template": {"spec": {
            "containers": [{"name": NODE}]}}}}}]}}}} for policy in POLICIES}
TORCH = BUILT_IN["ClusterTrainingRuntime", "torch-distributed"]
FETCH = "fetch"         # of the group that fetches what the runtime has no step for


def train_plan(job: Manifest, objects: Mapping[tuple[str, str], Manifest], places: Places) -> Plan:
    """Plans the workers of a TrainJob.

    Args:
        job: of the kind TrainJob.
        objects: what it may refer to, by kind and name.
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
        make = _Making(job, step, places, notes)
        if step.role in INITIALIZERS:
            groups.append(make.loaders(training.nodes))
        elif step.role == TRAINER:
            groups.append(make.nodes(training, bounds, loaders))
        else:
            groups.append(make.others(step.replicas * (step.job.get("parallelism") or 1)))
    kept = ttl(job)
    lives = training.jobset.get("ttlSecondsAfterFinished") if kept is None else kept
    return Plan(tuple(groups), tuple(notes), training.restarts, min(deadlines, default=None),
                None if lives is None else float(lives))


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


class _Making:
    """Makes the group of a step."""

    def __init__(self, job: Manifest, step: Step, places: Places, notes: list[str]) -> None:
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


def _runtime(job: Manifest, objects: Mapping[tuple[str, str], Manifest]) -> Mapping[str, Any]:
    kind, name = runtime_key(job)
    if (kind, name) in objects:
        return objects[kind, name].spec
    if (kind, name) in BUILT_IN:
        return BUILT_IN[kind, name]["spec"]
    known = sorted({f"{k} {n}" for k, n in (*objects, *BUILT_IN) if k.endswith("TrainingRuntime")})
    raise FormProblem(f"spec.runtimeRef: there is no {kind} {quoted(name)}; apply it first or in the same file. There "
                      f"are {', '.join(known)}")
