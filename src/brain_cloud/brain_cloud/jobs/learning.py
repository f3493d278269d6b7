# SPDX-License-Identifier: Apache-2.0
"""Meaning of Sedna's IncrementalLearningJob and LifelongLearningJob, wherever they run: rounds, and a round's workers.

A round trains when there are enough new samples, evaluates, and deploys where the trigger says so; a worker that infers
runs all the time. Pure functions over plain values: :func:`step` says what is next, :func:`compile_learning` what each
worker is given, with the variables of Sedna's global manager. The runner of this machine (:mod:`.stages`) and the
operator of a cluster (:mod:`brain_cloud.cluster.stages`) see samples and workers each in its own way, and no more.

A job's position stands in its newest condition, as Sedna writes it: ``stage`` is Train, Eval or Deploy, ``type``
Waiting, Ready, Starting, Running, Completed or Failed, and ``data`` holds the round. Who starts anew goes on there.
"""
from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Callable, Iterator, Mapping, Sequence

from brain_cloud.jobs.samples import FORMATS, check_metric, fires, in_hours, metric
from brain_cloud.jobs.sedna import Part, mining
from brain_cloud.jobs.templates import Unfit
from brain_cloud.jobs.worker_data import Data, Find, data
from brain_wire.safe_text import quoted

TRAIN, EVAL, DEPLOY = STAGES = ("Train", "Eval", "Deploy")
WAITING, READY, STARTING, RUNNING, COMPLETED, FAILED = STEPS = (
    "Waiting", "Ready", "Starting", "Running", "Completed", "Failed")
INCREMENTAL, LIFELONG = KINDS = ("IncrementalLearningJob", "LifelongLearningJob")
WORKERS = {TRAIN: "train", EVAL: "eval", DEPLOY: "put"}     # of the stages, by the first word of their names
INFER = "infer"
KEPT = 30           # conditions, of which each round adds a dozen
WHOLE = 2**53       # of what a status may hold
LONGEST = 1024      # characters of a path in one
HOT = "hot/model_config.json"       # below the output folder: what a worker that looks for new models is told
PERIOD = 60         # s between two looks at samples, where the trigger has none


@dataclass(frozen=True)
class Where:
    """Position of a job in its rounds.

    Attributes:
        stage, step: see the module.
        round: counted from 1.
        samples: that the data set had when it was last trained.
        since: that it had when it was trained before that: this round learns from those between.
        counted: that it had when they were last counted; None: nobody counts them.
        deployed: round whose model is deployed; 0: none yet.
        model: that this round has trained, below the output folder; empty: all of the round's folder.
        folder: of this round, below the output folder; empty: ``train/ROUND``.
        runs: what is deployed, below the output folder; empty: it lies where Sedna has it.
        why: of the last step.
    """

    stage: str = TRAIN
    step: str = ""
    round: int = 1
    samples: int = 0
    deployed: int = 0
    why: str = ""
    counted: int | None = None
    since: int = 0
    model: str = ""
    folder: str = ""
    runs: str = ""

    @property
    def home(self) -> str:
        """Folder of this round, below the output folder."""
        return self.folder or f"train/{self.round}"

    @property
    def trained(self) -> str:
        """Model of this round, below the output folder."""
        return self.model or self.home

    @property
    def data(self) -> str:
        """As it is kept in a condition."""
        more = {name: value for name in ("counted", "model", "folder", "runs") if (value := getattr(self, name))
                not in (None, "")}
        return json.dumps({"round": self.round, "samples": self.samples, "deployed": self.deployed,
                           "since": self.since, **more})

    @property
    def condition(self) -> dict[str, Any]:
        """Fields of the condition in which it stands, but for times."""
        return {"type": self.step, "status": "True", "reason": f"{self.stage}{self.step}", "message": self.why[:1000],
                "stage": self.stage, "data": self.data}


def where(conditions: Sequence[Mapping[str, Any]], job: str = "") -> Where:
    """Reads the position of a job from its newest condition; the beginning where that cannot be read.

    Args:
        job: its name. An operator of an older version put a round's files into ``JOB/round-ROUND``; a round that had
            begun so is ended so.
    """
    last = conditions[-1] if conditions else {}
    if last.get("stage") not in STAGES or last.get("type") not in STEPS:
        return Where()
    try:
        kept = json.loads(last.get("data") or "{}")
        counts = {name: kept.get(name, least) for name, least in (
            ("round", 1), ("samples", 0), ("deployed", 0), ("since", 0))}
        counts |= {"counted": kept["counted"]} if "counted" in kept else {}
        paths = {name: kept.get(name, "") for name in ("model", "folder", "runs")}
    except (ValueError, AttributeError, RecursionError):
        return Where()
    if not all(type(count) is int and 0 <= count < WHOLE for count in counts.values()) or not all(
            map(_is_below, paths.values())):
        return Where()
    found = Where(last["stage"], last["type"], why=last.get("message", ""), **counts, **paths)
    if "round" in kept and "since" not in kept and _is_below(job):
        begun = (found.stage, found.step) not in ((TRAIN, ""), (TRAIN, WAITING))
        found = replace(found, folder=f"{job}/round-{found.round}" if begun else "",
                        runs=f"{job}/round-{found.deployed}" if found.deployed else "")
    return found


def _is_below(path: Any) -> bool:
    """Tells whether a path leads to something below a folder, or is empty."""
    return isinstance(path, str) and (not path or len(path) <= LONGEST and posixpath.normpath(path) == path
                                      and not path.startswith(("/", "..")))


def written(conditions: Sequence[Mapping[str, Any]], before: Where, now: Where, stamp: str) -> list[dict[str, Any]]:
    """Returns conditions with a new position as the newest; the same again, for another reason, takes the last's place.

    Args:
        stamp: time of now, as the API writes it.
    """
    found = [dict(one) for one in conditions]
    if found and (now.stage, now.step) == (before.stage, before.step):
        found.pop()
    return [*found, {**now.condition, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}][-KEPT:]


@dataclass(frozen=True)
class Seen:
    """A job as an executor sees it.

    Attributes:
        time: of day, for a trigger's hours.
        samples: of the data set; None: nobody knows now.
        counted: another number, that whoever counts for the job has found; None: none.
        worker: of this stage: empty (there is none), Starting, Running, Complete or Failed.
        why: what of it, for people.
        made: what it has trained, below the output folder; empty: all of the round's folder.
        metrics: that the evaluation has told; None: that is not known yet.
        deployed: what is deployed runs.
    """

    time: datetime
    samples: int | None = None
    counted: int | None = None
    worker: str = ""
    why: str = ""
    made: str = ""
    metrics: Mapping[str, Any] | None = None
    deployed: bool = False


def steps(now: Where, spec: Mapping[str, Any], see: Callable[[Where], Seen]) -> Iterator[Where]:
    """Yields the next positions of a job, until nothing more has happened. Raises Unfit.

    Args:
        spec: of the job.
        see: looks at a job that is at a position.
    """
    for _ in range(len(STAGES) * len(STEPS)):       # each step at most once
        new = step(now, spec, see(now))
        if new is None:
            return
        yield new
        now = new


def step(now: Where, spec: Mapping[str, Any], seen: Seen) -> Where | None:
    """Returns the next position of a job; None: nothing has happened.

    Raises:
        Unfit: its trigger cannot be followed.
    """
    if now.step == "":
        return replace(now, step=WAITING, why=f"round {now.round}")
    if now.step == WAITING:
        return {TRAIN: _to_train, EVAL: _to_evaluate, DEPLOY: _to_deploy}[now.stage](now, spec, seen)
    if now.step == FAILED or (now.stage, now.step) == (DEPLOY, COMPLETED):
        why = f"round {now.round} failed: {now.why}"[:300] if now.step == FAILED else f"round {now.round + 1}"
        return replace(now, stage=TRAIN, step=WAITING, round=now.round + 1, why=why, model="", folder="")
    if now.step == COMPLETED:
        return replace(now, stage=STAGES[STAGES.index(now.stage) + 1], step=WAITING, why=f"round {now.round}")
    if now.stage == DEPLOY and now.deployed == now.round:
        why = f"the model of round {now.round} is deployed"
        return replace(now, step=COMPLETED, why=why) if seen.deployed else None
    if seen.worker == "Failed":
        return replace(now, step=FAILED, why=seen.why)
    if seen.worker == "Complete" and now.step == RUNNING:
        if now.stage == DEPLOY:
            return replace(now, deployed=now.round, runs=now.folder, why=seen.why)
        return replace(now, step=COMPLETED, why=seen.why, model=seen.made if now.stage == TRAIN else now.model)
    new = RUNNING if seen.worker in (RUNNING, "Complete") else STARTING
    return replace(now, step=new, why=seen.why) if new != now.step else None


def _to_train(now: Where, spec: Mapping[str, Any], seen: Seen) -> Where | None:
    trigger = spec["trainSpec"]["trigger"]
    check_metric(trigger["condition"]["metric"])
    if seen.counted is not None:
        now = replace(now, counted=seen.counted, why="")    # so that it is written, whatever is said of it
    there = seen.samples if now.counted is None else now.counted
    if there is None:
        return None
    if there < now.samples:     # another list
        now = replace(now, samples=0, why="")
    new, asked = there - now.samples, f"{trigger['condition']['operator']} {trigger['condition']['threshold']:g}"
    if not in_hours(trigger.get("timer"), seen.time):
        return _told(now, "waiting for its hours")
    if new < 1 or not fires(trigger["condition"], {trigger["condition"]["metric"]: new}):
        return _told(now, f"{new} new samples, and training begins with {asked}")
    return replace(now, step=READY, samples=there, since=now.samples, why=f"{new} new samples")


def _to_evaluate(now: Where, spec: Mapping[str, Any], seen: Seen) -> Where:
    return replace(now, step=READY, why="the model of this round is evaluated")


def _to_deploy(now: Where, spec: Mapping[str, Any], seen: Seen) -> Where | None:
    trigger = spec["deploySpec"].get("trigger")
    if not trigger:
        return replace(now, step=READY, why="every model is deployed")
    condition, name = trigger["condition"], trigger["condition"]["metric"]
    asked = (f"the evaluation has said no {name}: it reports metrics to $LC_SERVER, where that is set, or its "
             f"container writes {{\"{name}\": 0.1}} to /dev/termination-log")
    if seen.metrics is None:
        return _told(now, asked)
    found, not_so = metric(name, seen.metrics), f"the model of round {now.round} is not deployed: "
    if found is None:
        return replace(now, step=COMPLETED, why=not_so + asked)
    if not fires(condition, seen.metrics):
        return replace(now, step=COMPLETED, why=f"{not_so}{name} is {found:g}, and must be {condition['operator']} "
                                                f"{condition['threshold']:g}")
    if not in_hours(trigger.get("timer"), seen.time):
        return _told(now, "waiting for its hours")
    return replace(now, step=READY, why=f"{name} is {found:g}")


def _told(now: Where, why: str) -> Where | None:
    """Still waiting, and for what."""
    return None if why == now.why else replace(now, why=why)


def is_counted(dataset: Mapping[str, Any]) -> bool:
    """Tells whether the samples of a Dataset are lines of a file that its node has."""
    spec = dataset["spec"]
    return "://" not in spec["url"].removeprefix("file://") and spec["format"].lower() in FORMATS


def compile_learning(job: Mapping[str, Any], find: Find, now: Where) -> list[Part]:
    """Compiles a job at a position: what trains, evaluates and puts a model in its place, and what infers.

    Args:
        job: manifest.
        find: of Datasets and Models.

    Raises:
        FormProblem: it refers to what is not there, or cannot be run anywhere.
    """
    return _Compiling(job, find, now).parts()


class _Compiling:
    def __init__(self, job: Mapping[str, Any], find: Find, now: Where) -> None:
        self._spec, self._find, self._now = job["spec"], find, now
        self._incremental = job["kind"] == INCREMENTAL
        self._env = {"JOB_NAME": job["metadata"]["name"]}
        self._out = _path(self._spec["outputDir"], "spec.outputDir").rstrip("/")
        its = self._spec["dataset"]["name"]
        self._dataset = find("Dataset", its, "spec.dataset.name")
        self._original = data(find, "Dataset", its, "spec.dataset.name", "dataset", "ORIGINAL_DATASET_URL", True)
        # A round that was begun by an older version has all samples.
        self._divided = is_counted(self._dataset) and not now.folder
        self._hot = self._incremental and is_hot(self._spec)

    def parts(self) -> list[Part]:
        """All of them; which of them run now, the position says."""
        put = [self._put()] if self._incremental and not self._now.folder else []
        return [self._train(), self._eval(), *put, self._infer()]

    def _part(self, stage: str, field: str, env: Mapping[str, str], given: Sequence[Data], before: Sequence[str] = (),
              service: bool = False) -> Part:
        name = INFER if service else f"{WORKERS[stage]}-{self._now.round}"
        template = self._spec[field]["template"] if field else None
        return Part(name, template, f"spec.{field}.template", {**self._env, **env}, tuple(given), "edge",
                    self._dataset["spec"]["nodeName"], service=service, before=tuple(before))

    def _below(self, variable: str, path: str, role: str = "output") -> Data:
        """Something below the output folder, which every worker of the job has."""
        return Data(role, variable, f"{self._out}/", inside=path)

    def _samples(self, which: str) -> Data:
        """The list that is trained or evaluated on."""
        variable = "TRAIN_DATASET_URL" if which == "train" else "TEST_DATASET_URL"
        if not self._divided:
            return data(self._find, "Dataset", self._spec["dataset"]["name"], "spec.dataset.name", "dataset", variable,
                        True)
        return self._below(variable, f"data/{self._now.round}/{which}.{self._dataset['spec']['format'].lower()}")

    def _deployed(self, role: str, variable: str) -> Data:
        """The model that is deployed; it lies in the place of the Model that ``deploySpec`` names."""
        target = self._target()
        return self._below(variable, self._now.runs, role) if self._now.runs else Data(role, variable, target)

    def _target(self) -> str:
        name, place = self._spec["deploySpec"]["model"]["name"], "spec.deploySpec.model.name"
        return _path(self._find("Model", name, place)["spec"]["url"], place).rstrip("/")

    def _train(self) -> Part:
        words = ["begin", f"{self._out}/{self._now.home}"]
        if self._divided:
            spec = self._dataset["spec"]
            words += ["--split", spec["url"].removeprefix("file://"), spec["format"].lower(), str(self._now.since),
                      str(self._now.samples), str(self._spec["dataset"]["trainProb"]),
                      f"{self._out}/data/{self._now.round}"]
        given, env = [self._samples("train"), self._original], dict[str, str]()
        if self._incremental:
            base = self._deployed("base", "BASE_MODEL_URL") if self._now.deployed else data(
                self._find, "Model", self._spec["initialModel"]["name"], "spec.initialModel.name", "base",
                "BASE_MODEL_URL", True)
            given += [base, self._below("MODEL_URL", self._now.home)]
        else:
            given.append(self._below("OUTPUT_URL", self._now.home))
            env["HAS_COMPLETED_INITIAL_TRAINING"] = str(self._now.deployed > 0).lower()
        return self._part(TRAIN, "trainSpec", env, given, words)

    def _eval(self) -> Part:
        given = [self._samples("eval"), self._original, self._below("MODEL_URLS", self._now.trained)]
        first = self._spec["evalSpec"].get("initialEvalModel")
        if not self._incremental:
            given.append(self._below("OUTPUT_URL", self._now.folder or "deploy"))
        elif first and not self._now.deployed:
            given.append(data(self._find, "Model", first["name"], "spec.evalSpec.initialEvalModel.name", "old",
                              "MODEL_URLS"))
        else:       # the new one against that which runs
            given.append(self._deployed("old", "MODEL_URLS"))
        return self._part(EVAL, "evalSpec", {}, given)

    def _put(self) -> Part:
        """Puts what was trained in the deployed model's place."""
        folder, name = posixpath.split(self._target())
        words = ["put", f"{self._out}/{self._now.trained}", self._target()]
        words += ["--hot", f"{self._out}/{HOT}", "--round", str(self._now.round)] if self._hot else []
        return self._part(DEPLOY, "", {}, [self._below("NEW_MODEL_URL", self._now.trained), Data(
            "deployed", "MODEL_URL", f"{folder.rstrip('/')}/", inside=name)], words)

    def _infer(self) -> Part:
        deploy = self._spec["deploySpec"]
        if not self._incremental:
            return self._part("", "deploySpec", {}, [
                self._below("MODEL_URLS", self._now.runs or "deploy/index.pkl"), self._below("OUTPUT_URL", "")],
                service=True)
        env, given = mining(deploy), [self._deployed("model", "MODEL_URL")]
        if self._hot:
            env |= {"MODEL_HOT_UPDATE": "true",
                    "MODEL_POLL_PERIOD_SECONDS": str(deploy["model"].get("pollPeriodSeconds", 60))}
            given.append(self._below("MODEL_HOT_UPDATE_CONFIG", HOT))
        return self._part("", "deploySpec", env, given, service=True)


def _path(url: str, field: str) -> str:
    """A path of the node. Raises Unfit where a URL is elsewhere: what is made is written there."""
    path = url.removeprefix("file://")
    if "://" in path or not path.strip("/"):
        raise Unfit("UrlUnfit", f"{field}: {quoted(url)} must be a path, since a worker writes there; give a folder of "
                                f"the node that has the data")
    return path


def is_hot(spec: Mapping[str, Any]) -> bool:
    """Tells whether the worker that infers looks for new models itself, and is not started again."""
    return bool((spec["deploySpec"].get("model") or {}).get("hotUpdateEnabled"))


def running(now: Where) -> set[str]:
    """Returns the first words of the names of those that run at a position."""
    going = now.step in (STARTING, RUNNING) and not (now.stage == DEPLOY and now.deployed == now.round)
    return {INFER, WORKERS[now.stage]} if going else {INFER}
