# SPDX-License-Identifier: Apache-2.0
"""Sedna's jobs that learn again and again: wait for samples, train, evaluate, deploy, and wait again.

Incremental learning deploys a model where its trigger says that it is better; lifelong learning deploys what it knows
after each evaluation. Both have a worker that infers all the time, which starts again with what was deployed.
"""
from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from brain_fleet.jobs.conditions import add_condition
from brain_fleet.jobs.job import SUCCEEDED, SUSPENDED, Job
from brain_fleet.jobs.loader import local_path
from brain_fleet.jobs.manifests import Manifest
from brain_fleet.jobs.plan import Group, Places, Plan
from brain_fleet.jobs.samples import compared, read_samples, triggered, write_samples
from brain_fleet.jobs.sedna import data, mining
from brain_fleet.jobs.sedna_workers import Making, Objects, backoff
from brain_fleet.schema import FormProblem

TRAIN, EVAL, DEPLOY = "Train", "Eval", "Deploy"
LIFELONG = "LifelongLearningJob"
PERIOD = 60.0       # s between two looks at samples, where the trigger has none
KNOWLEDGE = "KB_SERVER is not set: a knowledge base server is not run here"
_SPECS = {TRAIN: "trainSpec", EVAL: "evalSpec", DEPLOY: "deploySpec"}


def first_stage() -> dict[str, Any]:
    """Of a job that has just been made."""
    return {"name": TRAIN, "running": False, "round": 1, "seen": 0, "checked": None, "deployed": 0, "trained": False,
            "reports": {}, "told": ""}


def learning_plan(job: Manifest, objects: Objects, places: Places, state: dict[str, Any]) -> Plan:
    """The worker that infers, and that of the stage in which the job is.

    Raises:
        FormProblem: it refers to what is not there, or a worker names no command.
    """
    stage = state.setdefault("stage_state", first_stage())
    make, spec = Making(job, objects, places), job.spec
    if not _path(spec["outputDir"]):
        raise FormProblem("spec.outputDir must be a folder of this machine, since no other storage is written to here")
    dataset = make.object("Dataset", spec["dataset"]["name"], "spec.dataset.name")
    if local_path(dataset.spec["url"]) is None:
        raise FormProblem(f"spec.dataset.name: the url of the Dataset {dataset.name} must be a file of this machine: "
                          f"its lines are counted again and again")
    common = {"JOB_NAME": job.value["metadata"]["name"], "LC_SERVER": places.reports}
    if job.kind == LIFELONG:
        make.notes.append(KNOWLEDGE)
    groups = []
    for which in (TRAIN, EVAL):     # both are made, so that what is wrong with one is told at once
        name, needs = f"{which.lower()}-{stage['round']}", list[str]()
        if which == stage["name"] and stage["running"]:
            make.given(data(make.find, "Dataset", spec["dataset"]["name"], "spec.dataset.name", "dataset",
                            "ORIGINAL_DATASET_URL", checked=True), name, needs)
        env = _own(which, make, job, stage, dataset)
        worker = make.worker(name, spec[_SPECS[which]]["template"], f"spec.{_SPECS[which]}.template", {
            **common, "WORKER_NAME": f"{name}-{make.suffix}", **env}, needs)
        if which == stage["name"] and stage["running"]:
            groups.append(Group(which.lower(), (worker,), backoff=backoff(spec[_SPECS[which]]["template"])))
    deploy = spec["deploySpec"]
    output = _path(spec["outputDir"])
    if job.kind == LIFELONG:
        env = {"MODEL_URLS": f"{output}/deploy/index.pkl", "OUTPUT_URL": output}
    else:
        model = _model(make, deploy["model"]["name"], "deploySpec.model")
        env = {**mining(deploy), "MODEL_URL": model, **_hot(deploy, places)}
    infer = make.worker("infer", deploy["template"], "spec.deploySpec.template", {
        **common, "WORKER_NAME": f"inferworker-{make.suffix}", **env}, [])
    groups.append(Group("infer", (infer,), backoff=None, service=True))
    return make.plan(*groups)


def _path(url: str) -> str:
    found = local_path(url)
    return "" if found is None else str(found)


def _model(make: Making, name: str, field: str) -> str:
    found = make.object("Model", name, f"spec.{field}.name").spec["url"]
    if local_path(found) is None:
        raise FormProblem(f"spec.{field}.name: the url of the Model {name} must be a path of this machine, since what "
                          f"is deployed is written there")
    return str(local_path(found))


def _hot(deploy: Any, places: Places) -> dict[str, str]:
    """Variables of a worker that looks for new models itself."""
    if not deploy["model"].get("hotUpdateEnabled"):
        return {}
    return {"MODEL_HOT_UPDATE": "true", "MODEL_HOT_UPDATE_CONFIG": str(places.folder / "hot" / "model_config.json"),
            "MODEL_POLL_PERIOD_SECONDS": str(deploy["model"].get("pollPeriodSeconds", 60))}


def _own(which: str, make: Making, job: Manifest, stage: dict[str, Any], dataset: Manifest) -> dict[str, str]:
    """Variables of the worker that trains or evaluates."""
    output, form = _path(job.spec["outputDir"]), dataset.spec["format"].lower()
    here = f"{output}/{which.lower()}/{stage['round']}"
    data = f"{output}/data/{stage['round']}/{which.lower()}.{form}"
    original = _path(dataset.spec["url"])
    found = {"ORIGINAL_DATASET_URL": original, "TRAIN_DATASET_URL" if which == TRAIN else "TEST_DATASET_URL": data}
    if job.kind == LIFELONG:
        found["OUTPUT_URL"] = here if which == TRAIN else f"{output}/deploy"
        if which == TRAIN:
            found["HAS_COMPLETED_INITIAL_TRAINING"] = "true" if stage["trained"] else "false"
        else:
            found["MODEL_URLS"] = _trained(job, stage)
        return found
    spec = job.spec
    base = _model(make, spec["initialModel"]["name"], "initialModel")
    deployed = _model(make, spec["deploySpec"]["model"]["name"], "deploySpec.model")
    if which == TRAIN:
        return {**found, "BASE_MODEL_URL": deployed if stage["deployed"] else base, "MODEL_URL": here}
    old = deployed
    if "initialEvalModel" in spec["evalSpec"] and not stage["deployed"]:
        old = _model(make, spec["evalSpec"]["initialEvalModel"]["name"], "evalSpec.initialEvalModel")
    return {**found, "MODEL_URLS": f"{_trained(job, stage)};{old}"}


def _trained(job: Manifest, stage: dict[str, Any]) -> str:
    """Finds the model that was trained last: as its worker said, or the one file in its folder, or the folder."""
    folder = Path(_path(job.spec["outputDir"]), "train", str(stage["round"]))
    said = [one.get("url") for one in stage["reports"].get(TRAIN, ()) if isinstance(one, dict)]
    for url in said:
        if isinstance(url, str) and (path := local_path(url)) is not None:
            inside = Path(os.path.normpath(folder / path))
            # no worker names another's file; os.path.exists raises nothing, however long the name is
            if inside.is_relative_to(folder) and os.path.exists(inside):
                return str(inside)
    files = [one for one in sorted(folder.glob("*")) if one.is_file()] if folder.is_dir() else []
    return str(files[0] if len(files) == 1 else folder)


class Stages:
    """Drives one job through its stages.

    Args:
        job: of it.
        replan: makes its plan anew, from its state.
    """

    def __init__(self, job: Job, replan: Any) -> None:
        self._job, self._replan = job, replan

    @property
    def _stage(self) -> dict[str, Any]:
        return dict.setdefault(self._job.state, "stage_state", first_stage())

    def report(self, kind: str, results: list[Any]) -> None:
        """A worker says what came of it: a list of models, each with ``url`` and ``metrics``."""
        which = {"train": TRAIN, "eval": EVAL}.get(kind)
        if which is not None and which == self._stage["name"]:
            self._stage["reports"][which] = results[:16]

    def advance(self, now: float) -> None:
        """Looks at how far it is, and does what is next."""
        job, stage = self._job, self._stage
        if job.deleted or job.phase == SUSPENDED or job.record.manifest.spec.get("suspend"):
            return
        job.state["stage"] = stage["name"]
        ending = job.state.get("ending")
        if ending is not None and ending["reason"] == "BackoffLimitExceeded":
            del job.state["ending"]
            self._condition("Failed", ending["message"])
            self._next(TRAIN, now, another=True)
        elif not stage["running"] and stage["name"] == TRAIN:
            self._condition("Waiting")
            period = job.record.manifest.spec["trainSpec"]["trigger"].get("checkPeriodSeconds", PERIOD)
            if stage["checked"] is None or now - stage["checked"] >= period:
                stage["checked"] = now
                try:
                    self._train()
                except (FormProblem, OSError) as problem:
                    self._once(f"waits for its samples: {problem}")
        elif stage["running"] and self._is_done(stage["name"].lower()):
            self._condition("Completed")
            if stage["name"] == TRAIN:
                self._next(EVAL, now)
            else:
                try:
                    self._deploy()
                except OSError as problem:
                    self._condition("Failed", str(problem))
                    job.tell(f"what was trained is not deployed: {problem}")
                self._next(TRAIN, now, another=True)

    def _is_done(self, stage: str) -> bool:
        """Checks whether all workers of a stage have succeeded; what was not planned is not done."""
        workers = [worker for group in self._job.plan.groups if group.name == stage for worker in group.workers]
        return bool(workers) and all(self._job.worker_state(worker.name) == SUCCEEDED for worker in workers)

    def _train(self) -> None:
        job, stage = self._job, self._stage
        spec = job.record.manifest.spec
        dataset = next(one for one in job.record.uses if one.kind == "Dataset")
        path = local_path(dataset.spec["url"])
        assert path is not None     # else it would have been refused
        header, lines = read_samples(path, dataset.spec["format"])
        if len(lines) < stage["seen"]:
            stage["seen"] = 0       # another list
        new = lines[stage["seen"]:]
        if not new or not triggered(spec["trainSpec"]["trigger"], {"num_of_samples": len(new)}):
            return
        count = round(len(new) * spec["dataset"]["trainProb"])
        folder = Path(_path(spec["outputDir"]), "data", str(stage["round"]))
        form = dataset.spec["format"].lower()
        write_samples(folder / f"train.{form}", header, new[:count])
        write_samples(folder / f"eval.{form}", header, new[count:])
        Path(_path(spec["outputDir"]), "train", str(stage["round"])).mkdir(parents=True, exist_ok=True)
        stage["seen"] = len(lines)
        job.tell(f"trains for the {stage['round']}. time, on {count} new samples")
        self._next(TRAIN, 0.0)

    def _next(self, which: str, now: float, another: bool = False) -> None:
        """Goes to a stage: with ``another`` to the wait before the next round, else its worker runs."""
        stage = self._stage
        stage.update(name=which, running=not another)
        if another:
            stage.update(round=stage["round"] + 1, reports={}, checked=now)
        for group in ("train", "eval"):
            self._job.state["groups"].pop(group, None)
        self._job.state["stage"] = which
        self._replan()
        self._condition("Waiting" if another else "Running")

    def _deploy(self) -> None:
        job, stage = self._job, self._stage
        manifest = job.record.manifest
        stage.update(name=DEPLOY, trained=True)
        if manifest.kind == LIFELONG:
            stage["deployed"] += 1
            self._condition("Completed")
            job.tell(f"what it knows after the {stage['round']}. time is deployed")
            job.restart_worker("infer")
            return
        deploy = manifest.spec["deploySpec"]
        reports = [one.get("metrics") for one in stage["reports"].get(EVAL, ()) if isinstance(one, dict)]
        metrics = [one if isinstance(one, dict) else {} for one in reports] + [{}, {}]
        if not triggered(deploy["trigger"], compared(metrics[0], metrics[1])):
            self._condition("Completed", "the trigger does not ask for it")
            job.tell(f"what was trained is not deployed: {deploy['trigger']['condition']['metric']} does not ask for it"
                     if reports else "what was trained is not deployed: its eval worker reported no metrics")
            return
        model = next(one for one in job.record.uses if one.kind == "Model" and one.name == manifest.near(
            deploy["model"]["name"]))
        target = local_path(model.spec["url"])
        assert target is not None   # else it would have been refused
        _put(Path(_trained(manifest, stage)), target)
        stage["deployed"] += 1
        if deploy["model"].get("hotUpdateEnabled"):
            config = job.places.folder / "hot" / "model_config.json"
            write_samples(config, None, [json.dumps({"model_config": {
                "model_path": str(target), "model_update_time": str(stage["deployed"])}})])
        else:
            job.restart_worker("infer")
        self._condition("Completed")
        job.tell(f"what was trained for the {stage['round']}. time is deployed")

    def _condition(self, type_: str, message: str = "") -> None:
        if type_ == "Running" and self._stage["name"] != DEPLOY:
            for before in ("Ready", "Starting"):
                add_condition(self._job.record.status, stage=self._stage["name"], type=before, reason="", message="")
        add_condition(self._job.record.status, stage=self._stage["name"], type=type_, reason="", message=message)

    def _once(self, text: str) -> None:
        """Tells what would be told again and again."""
        if self._stage["told"] != text:
            self._stage["told"] = text
            self._job.tell(text)


def _put(source: Path, target: Path) -> None:
    """Puts a file or folder in another's place; who opens it has the old one or the new one. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new, old = target.with_name(f".{target.name}.new"), target.with_name(f".{target.name}.old")
    for one in (new, old):
        if one.is_dir():
            shutil.rmtree(one)
        else:
            one.unlink(missing_ok=True)
    if not source.is_dir():
        shutil.copy(source, new)
    else:
        shutil.copytree(source, new)
    if target.is_dir():
        target.rename(old)
    new.replace(target)
    if old.is_dir():
        shutil.rmtree(old)
