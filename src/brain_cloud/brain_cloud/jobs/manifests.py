# SPDX-License-Identifier: Apache-2.0
"""Job manifests as people write them: checked against their schemas, and by the rules that schemas cannot say."""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from brain_cloud.jobs.kinds import JOBS, RUNTIME, check_kind, kinds
from brain_cloud.jobs.samples import check_metric
from brain_cloud.jobs.training import runtime_ref
from brain_cloud.jobs.worker_data import SHA256
from brain_edge.schema import FormProblem, check_plain
from brain_wire.safe_text import quoted

NAMESPACE = "default"
DEEPEST = 40
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+")
_TIME = re.compile(r"([01]?\d|2[0-4]):[0-5]\d")
OPERATORS = ("gt", ">", "ge", ">=", "eq", "=", "==", "ne", "!=", "le", "<=", "lt", "<")
ELASTIC = "fleet.brain/elastic"     # annotation of a TrainJob: MIN:MAX nodes
TTL = "fleet.brain/ttl-seconds-after-finished"
SUSPEND = "fleet.brain/suspend"     # annotation of Sedna's kinds
LEARNING_PLAN = "fleet.brain/learning-plan"     # annotation of a FederatedLearningJob: what is learned, and how
CONTROLLER = "trainer.kubeflow.org/trainjob-controller"     # in managedBy: whose jobs are run
PRIORITY = "kueue.x-k8s.io/priority-class"      # label


@dataclass(frozen=True)
class Manifest:
    """A document.

    Attributes:
        kind: of it.
        name: with its namespace before it, ``lab/train``, where that is not ``default``.
        value: all of it.
    """

    kind: str
    name: str
    value: Mapping[str, Any]

    @property
    def job(self) -> bool:
        """True where it is run, and not only referred to."""
        return self.kind in JOBS

    @property
    def spec(self) -> Mapping[str, Any]:
        """Specification of what is wanted; empty where there is none."""
        return dict(self.value.get("spec") or {})

    @property
    def namespace(self) -> str:
        """Of it."""
        return str(self.value["metadata"].get("namespace", NAMESPACE))

    @property
    def suspended(self) -> bool:
        """True where it is to wait: by its field, or by the annotation of kinds that have none."""
        return bool(self.spec.get("suspend")) if self.kind == "TrainJob" else self.annotation(SUSPEND) == "true"

    def near(self, name: str) -> str:
        """The full name of another object of the same namespace."""
        return full_name(name, self.namespace)

    def annotation(self, name: str) -> str | None:
        """One of it."""
        return (self.value["metadata"].get("annotations") or {}).get(name)

    def to_dict(self) -> dict[str, Any]:
        """As it was written."""
        return dict(self.value)


def full_name(name: str, namespace: str) -> str:
    """Of an object in a namespace."""
    return name if namespace == NAMESPACE else f"{namespace}/{name}"


def runtime_key(job: Manifest) -> tuple[str, str]:
    """Returns kind and full name of the runtime of a TrainJob."""
    kind, name = runtime_ref(job.spec)
    return kind, job.near(name) if kind == RUNTIME else name


def manifest(value: Any) -> Manifest:
    """A manifest from plain values.

    Raises:
        FormProblem: an unknown field, kind or version, or a value that does not fit; names the field.
    """
    check_plain(value, deepest=DEEPEST)
    _sexagesimal(value)
    check_kind(value)
    about = value["metadata"]
    namespaced = kinds()[value["kind"]]["namespaced"]
    if not namespaced and "namespace" in about:
        raise FormProblem(f"metadata.namespace: a {value['kind']} is of no namespace; leave it out")
    found = Manifest(value["kind"], full_name(about["name"], about.get("namespace", NAMESPACE)), value)
    _check_names(value, "")
    _RULES.get(found.kind, lambda one: None)(found)
    return found


def _sexagesimal(value: Any) -> None:
    """YAML 1.1 reads 24:00 as 24 x 60; whoever writes a time of day in a trigger means that."""
    spec = value.get("spec") if isinstance(value, dict) else None
    for part in ("trainSpec", "deploySpec"):
        timer: Any = spec
        for name in (part, "trigger", "timer"):
            timer = timer.get(name) if isinstance(timer, dict) else None
        for end in ("start", "end") if isinstance(timer, dict) else ():
            minutes = timer.get(end)
            if isinstance(minutes, int) and not isinstance(minutes, bool) and 0 <= minutes <= 24 * 60:
                timer[end] = f"{minutes // 60:02}:{minutes % 60:02}"


def _check_names(value: Any, place: str) -> None:
    """Names stand once in lists whose items have names, as the definitions ask of them."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_names(item, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        names = [item["name"] for item in value if isinstance(item, dict) and isinstance(item.get("name"), str)]
        for name in names:
            if names.count(name) > 1 and not place.endswith((".ports", ".tolerations", ".options")):
                raise FormProblem(f"{place}: the name {quoted(name)} stands twice; take one away")
        for number, item in enumerate(value):
            _check_names(item, f"{place}[{number}]")


def _train_job(job: Manifest) -> None:
    spec = job.spec
    for which in ("dataset", "model"):
        uri = (spec.get("initializer") or {}).get(which, {}).get("storageUri", "")
        if uri and not _URI.fullmatch(uri):
            raise FormProblem(f"spec.initializer.{which}.storageUri must be SCHEME://..., as file:///data/rooms, but "
                              f"is {quoted(uri)}")
    if spec.get("managedBy", CONTROLLER) != CONTROLLER:
        raise FormProblem("spec.managedBy gives the job to another controller, and this runner is none; leave it out")
    trainer = spec.get("trainer") or {}
    if trainer.get("numProcPerNode", 1) < 1:
        raise FormProblem(f"spec.trainer.numProcPerNode must be at least 1, not {trainer['numProcPerNode']}")
    runtime_ref(spec)
    elastic(job)
    ttl(job)


def elastic(job: Manifest) -> tuple[int, int] | None:
    """Least and most nodes of a job that may grow and shrink. Raises FormProblem."""
    text = job.annotation(ELASTIC)
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,4}):(\d{1,4})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise FormProblem(f"metadata.annotations: {ELASTIC} must be the least and the most nodes, as \"1:4\", but is "
                          f"{quoted(text)}")
    return int(found[1]), int(found[2])


def ttl(job: Manifest) -> int | None:
    """Seconds after which a finished job is deleted; None: never. Raises FormProblem."""
    text = job.annotation(TTL)
    if text is not None and not re.fullmatch(r"\d{1,9}", text):
        raise FormProblem(f"metadata.annotations: {TTL} must be a number of seconds in quotes, but is {quoted(text)}")
    return None if text is None else int(text)


def _learning_job(job: Manifest) -> None:
    spec = job.spec
    if not 0.0 <= spec["dataset"]["trainProb"] <= 1.0:
        raise FormProblem(f"spec.dataset.trainProb must be between 0 and 1, not {spec['dataset']['trainProb']:g}")
    check_metric(spec["trainSpec"]["trigger"]["condition"]["metric"])
    for part in ("trainSpec", "deploySpec"):
        trigger = spec[part].get("trigger")
        if trigger is None:
            continue
        place = f"spec.{part}.trigger"
        if trigger.get("checkPeriodSeconds", 60) < 1:
            raise FormProblem(f"{place}.checkPeriodSeconds must be at least 1, not {trigger['checkPeriodSeconds']}")
        if trigger["condition"]["operator"] not in OPERATORS:
            raise FormProblem(f"{place}.condition.operator must be one of {' '.join(OPERATORS)}, but is "
                              f"{quoted(trigger['condition']['operator'])}")
        for end in ("start", "end") if "timer" in trigger else ():
            if not _TIME.fullmatch(trigger["timer"][end]):
                raise FormProblem(f"{place}.timer.{end} must be a time of day, as \"02:00\", but is "
                                  f"{quoted(trigger['timer'][end])}")


def _data(found: Manifest) -> None:
    digest = found.annotation(SHA256)
    if digest is not None and not re.fullmatch("[0-9a-f]{64}", digest):
        raise FormProblem(f"metadata.annotations: {SHA256} must be 64 hexadecimal digits, as `brain jobs digest PATH` "
                          f"prints them, but is {quoted(digest)}")


_RULES: dict[str, Callable[[Manifest], None]] = {
    "TrainJob": _train_job, "IncrementalLearningJob": _learning_job, "LifelongLearningJob": _learning_job,
    "Dataset": _data, "Model": _data}


def read(value: Any) -> Any:
    """A document of a file: a job manifest, or a resource of robots (:func:`brain_edge.state.manifests.resource`)."""
    from brain_edge.state.manifests import resource

    from brain_cloud.jobs.kinds import is_job_manifest

    return manifest(value) if is_job_manifest(value) else resource(value)
